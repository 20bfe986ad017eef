"""A release described for other people's tools: Data Package v2 and Croissant 1.1, derived from the manifest."""

from __future__ import annotations

import re
from typing import Any

from hazeglass.bundle.manifest import Manifest

__all__ = ["croissant", "datapackage"]

_MOMENT_FIELDS = {
    "stage": ("integer", "sc:Integer", "Stage number, from 1."),
    "left": ("string", "sc:Text", "A column."),
    "left_power": ("integer", "sc:Integer", "Which function of it: 1 itself, 2 and 3 its Hermite square and cube."),
    "right": ("string", "sc:Text", "A second column; missing for the mean of the first."),
    "right_power": ("integer", "sc:Integer", "Which function of the second column."),
    "value": (
        "number",
        "sc:Float",
        "Noisy mean, or noisy mean of the product of the two columns, on the stage's scale.",
    ),
    "noise_sd": ("number", "sc:Float", "Standard deviation of the noise in value."),
}


def datapackage(manifest: Manifest) -> dict[str, Any]:
    """datapackage.json: one tabular resource per part."""
    return {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": _slug(manifest.title),
        "title": manifest.title,
        "description": _description(manifest),
        "created": manifest.created,
        "resources": [
            {
                "name": _slug(part.path.removesuffix(".parquet")),
                "type": "table",
                "path": part.path,
                "format": "parquet",
                "mediatype": "application/vnd.apache.parquet",
                "bytes": part.bytes,
                "hash": f"sha256:{part.sha256}",
                "schema": {
                    "fields": [
                        {"name": name, "type": kind, "description": text}
                        for name, kind, _, text in _fields(manifest, part.path)
                    ]
                },
            }
            for part in manifest.files
        ],
    }


def croissant(manifest: Manifest) -> dict[str, Any]:
    """croissant.json: every part as a file, and one record set for the moments or the rows."""
    tables = sorted({_table_of(part.path) for part in manifest.files})
    return {
        "@context": _CROISSANT_CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": _slug(manifest.title),
        "description": _description(manifest),
        "datePublished": manifest.created,
        "version": "1.0.0",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": part.path,
                "name": part.path,
                "contentUrl": part.path,
                "encodingFormat": "application/x-parquet",
                "sha256": part.sha256,
            }
            for part in manifest.files
        ],
        "recordSet": [_record_set(manifest, table) for table in tables],
    }


def _record_set(manifest: Manifest, table: str) -> dict[str, Any]:
    """The records of the moments, or of the rows (described by their first part; all parts have the same columns)."""
    first = next(part.path for part in manifest.files if _table_of(part.path) == table)
    return {
        "@type": "cr:RecordSet",
        "@id": table,
        "name": table,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{table}/{_slug(name)}-{k}",
                "name": f"{table}/{_slug(name)}-{k}",
                "description": f"{name}: {text}",
                "dataType": kind,
                "source": {"fileObject": {"@id": first}, "extract": {"column": name}},
            }
            for k, (name, _, kind, text) in enumerate(_fields(manifest, first))
        ],
    }


def _table_of(path: str) -> str:
    return "moments" if path == "moments.parquet" else "rows"


def _fields(manifest: Manifest, path: str) -> list[tuple[str, str, str, str]]:
    """Name, Data Package type, Croissant type and description of every column of a part."""
    if _table_of(path) == "moments":
        return [(name, *about) for name, about in _MOMENT_FIELDS.items()]
    return [
        (column.name, "number", "sc:Float", f"{column.label}; public bounds {column.lower:g} to {column.upper:g}")
        for column in manifest.columns
    ]


def _description(manifest: Manifest) -> str:
    if manifest.simulation:
        return f"SIMULATION, not a private release: {manifest.title}"
    return (
        f"{manifest.title}: a {manifest.form} release of {manifest.n} rows that protects {manifest.unit.in_words} with "
        f"{manifest.mu:.6g}-Gaussian differential privacy (epsilon {manifest.epsilon:.4g} at delta "
        f"{manifest.delta:g}). Values carry noise; release.json states how much."
    )


def _slug(text: str) -> str:
    """Letters, digits, dots and dashes only, as both formats want for names."""
    return re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.") or "release"


_CROISSANT_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
