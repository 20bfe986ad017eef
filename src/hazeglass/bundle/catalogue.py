"""What follows from release.json: the statement for people, Data Package v2 and Croissant 1.1 for other tools.

Nothing in these files is new, so a reader derives them again and refuses any that differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hazeglass._version import __version__
from hazeglass.bundle.columns import Column
from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.registry import Publication
from hazeglass.bundle.sign import Signature
from hazeglass.errors import BundleError, HazeglassWarning, warn
from hazeglass.guarantee.gdp import explain
from hazeglass.present.statement import statement, summary_html

_FIRST_OF_FORMAT = [0, 3]
DERIVED = ("croissant.json", "datapackage.json", "statement.html")

# Name, Data Package type and description of a column.
Field = tuple[str, str, str]
_CROISSANT_TYPES = {"integer": "sc:Integer", "string": "sc:Text", "number": "sc:Float"}
_MOMENT_FIELDS: list[Field] = [
    ("stage", "integer", "Stage number, from 1."),
    ("left", "string", "A column."),
    ("left_power", "integer", "Which function of it: 1 itself, or the first, second or third cosine of its rank."),
    ("right", "string", "A second column; missing for the mean of the first."),
    ("right_power", "integer", "Which function of the second column."),
    ("value", "number", "Noisy mean, or noisy mean of the product of the two columns, on the stage's scale."),
    ("noise_sd", "number", "Standard deviation of the noise in value."),
    ("map", "number", "Entry of the matrix that rows were multiplied by before they were clipped; 0 for means."),
]
_MARGINAL_FIELDS: list[Field] = [
    ("round", "integer", "Round of counting, from 1."),
    ("column", "string", "A column."),
    ("lower", "number", "Where the leaf begins, on the scale where the public bounds are -1 and 1."),
    ("upper", "number", "Where it ends; both are 0 in the row that counts missing cells."),
    ("count", "integer", "Noisy number of cells in the leaf."),
]


class Described:
    """How a release shows itself to people."""

    manifest: Manifest

    def statement(self) -> str:
        """statement.html; a notebook shows it as a page."""
        return statement(self.manifest)

    def __repr__(self) -> str:
        made, seeded = self.manifest, " (a simulation)" if self.manifest.simulation else ""
        promise = f"protects {made.unit.name}, epsilon = {made.epsilon:.4g} at delta = {made.delta:g}"
        return (
            f"<Release: {made.title!r}, {made.form}, {made.n:,} rows, {len(made.columns)} columns, {promise}{seeded}>"
        )

    def _repr_html_(self) -> str:
        return summary_html(self.manifest, repr(self))


def derived(manifest: Manifest) -> Iterator[tuple[str, Iterable[str]]]:
    """Name and text, in pieces, of every file that follows from the manifest."""
    yield "croissant.json", json_pieces(_croissant(manifest))
    yield "datapackage.json", json_pieces(_datapackage(manifest))
    yield "statement.html", [statement(manifest)]


def json_pieces(document: Mapping[str, Any]) -> Iterator[str]:
    """The text of a JSON file; NaN and infinity are refused rather than written as something JSON does not have."""
    yield from json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False).iterencode(document)
    yield "\n"


def check_derived(folder: Path, manifest: Manifest, signature: Signature) -> tuple[str, ...]:
    """Refuse a file that does not follow from release.json; returns those that this version cannot judge.

    release.json itself is written in one way only: spaces, escapes and digits that a parser drops could hold a message,
    or mean something else to another one.
    """
    if not _says(folder / "release.json", json_pieces(manifest.to_json())):
        raise BundleError("release.json is not written as hazeglass writes it. Ask the publisher for a new copy.")
    made_by = manifest.versions["hazeglass"]
    if [int(number) for number in re.findall("[0-9]+", made_by)[:2]] < _FIRST_OF_FORMAT:
        raise BundleError(
            f"release.json says that hazeglass {made_by} made it, which writes another format. Do not rely on it."
        )
    if made_by != __version__:
        signed = (
            "whoever signed the release vouches for them" if signature == "valid" else "anyone may have written them"
        )
        warn(
            f"the release was made by hazeglass {made_by} and this is {__version__}: {', '.join(DERIVED)} may be "
            f"worded differently and were not compared with release.json, so what they state is not checked; {signed}. "
            "Rely on release.json.",
            HazeglassWarning,
        )
        return DERIVED
    try:
        for name, pieces in derived(manifest):
            if not _says(folder / name, pieces):
                raise BundleError(f"{name} does not follow from release.json: it was replaced. Do not rely on it.")
    except ArithmeticError:
        raise BundleError("release.json holds numbers that no statement can be made of. Ask for a new copy.") from None
    return ()


def _says(path: Path, pieces: Iterable[str]) -> bool:
    """Whether a file holds just this text. It is made only as far as the two agree, however long it would become."""
    with path.open("rb") as file:
        for piece in pieces:
            expected = piece.encode()
            if file.read(len(expected)) != expected:
                return False
        return not file.read(1)


def _datapackage(manifest: Manifest) -> dict[str, Any]:
    """One tabular resource per part."""
    categories = _categories(manifest)
    schemas = {
        table: {
            "fields": [
                {"name": n, "type": kind, "description": text, **(categories.get(n, {}) if table == "rows" else {})}
                for n, kind, text in fields
            ]
        }
        for table, fields in _tables(manifest).items()
    }
    return {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": _slug(manifest.title),
        "title": manifest.title,
        "description": _description(manifest),
        "created": manifest.created,
        **_terms(manifest),
        "resources": [
            {
                "name": _slug(part.path.removesuffix(".parquet")),
                "type": "table",
                "path": part.path,
                "format": "parquet",
                "mediatype": "application/vnd.apache.parquet",
                "bytes": part.bytes,
                "hash": f"sha256:{part.sha256}",
                "schema": schemas[_table_of(part.path)],
            }
            for part in manifest.files
        ],
    }


def _terms(manifest: Manifest) -> dict[str, Any]:
    said = manifest.publication or Publication()
    found: dict[str, Any] = {}
    if said.licence:
        found["licenses"] = [{"title": said.licence}]
    if said.curator:
        found["contributors"] = [{"title": said.curator, "roles": ["publisher"]}]
    return {**found, **({"homepage": said.address} if said.address else {})}


def _croissant(manifest: Manifest) -> dict[str, Any]:
    """Every part as a file, and one record set for the moments or the rows."""
    return {
        "@context": _CROISSANT_CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": _slug(manifest.title),
        "description": _description(manifest),
        "datePublished": manifest.created,
        **_responsible(manifest),
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
        "recordSet": [_record_set(manifest, table, fields) for table, fields in sorted(_tables(manifest).items())],
    }


def _responsible(manifest: Manifest) -> dict[str, Any]:
    """Croissant's fields for responsible use (RAI 1.0), and who publishes under which terms where the plan says so."""
    said, words = manifest.publication or Publication(), explain(manifest.guarantee, manifest.unit, manifest.delta)
    known = {
        "license": said.licence,
        "creator": said.curator and {"@type": "sc:Organization", "name": said.curator},
        "url": said.address,
        "rai:dataUseCases": said.intended_use,
    }
    promise = () if manifest.simulation else words.promise
    return {
        **{key: value for key, value in known.items() if value},
        "rai:personalSensitiveInformation": " ".join(promise) or "A simulation: nothing is promised.",
        "rai:dataLimitations": "Values carry noise of the size that release.json states. "
        + " ".join(words.not_promised),
        "rai:dataManipulationProtocol": "Cells were moved into public bounds, and noise was added by hazeglass.",
    }


def _record_set(manifest: Manifest, table: str, fields: list[Field]) -> dict[str, Any]:
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
                "dataType": _CROISSANT_TYPES[kind],
                "source": {"fileObject": {"@id": first}, "extract": {"column": name}},
            }
            for k, (name, kind, text) in enumerate(fields)
        ],
    }


def _table_of(path: str) -> str:
    return path.removesuffix(".parquet") if path in ("marginals.parquet", "moments.parquet") else "rows"


def _tables(manifest: Manifest) -> dict[str, list[Field]]:
    """The columns of the moments, and of the rows, as far as the release has parts of them."""
    categories = _categories(manifest)
    rows = [
        (column.name, "integer" if column.name in categories else "number", _said_of(column))
        for column in manifest.columns
    ]
    fields = {"marginals": _MARGINAL_FIELDS, "moments": _MOMENT_FIELDS, "rows": rows}
    return {table: fields[table] for table in {_table_of(part.path) for part in manifest.files}}


def _said_of(column: Column) -> str:
    """The meaning of a column's released cells, in words."""
    if not column.levels:
        return f"{column.label}; public bounds {column.lower:.15g} to {column.upper:.15g}"
    words = ", ".join(f"{number} {level}" for number, level in enumerate(column.levels))
    missing = f", {len(column.levels)} missing" if column.response is not None else ""
    return f"{column.label}; {column.kind}, the number of a public level: {words}{missing}"


def _categories(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """The levels of the columns of rows in which every cell is the number of one; noise on numbers leaves others."""
    found = {}
    for column in manifest.columns:
        if column.levels and (manifest.form == "synthetic" or column.response is not None):
            labels = [*column.levels, *(["(missing)"] if column.response is not None else [])]
            listed = [{"value": number, "label": label} for number, label in enumerate(labels)]
            found[column.name] = {"categories": listed, "categoriesOrdered": column.ordered}
    return found


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


_CROISSANT_WORDS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)
_CROISSANT_CONTEXT = dict(
    sorted(
        {
            "@language": "en",
            "@vocab": "https://schema.org/",
            "conformsTo": "dct:conformsTo",
            "cr": "http://mlcommons.org/croissant/",
            "data": {"@id": "cr:data", "@type": "@json"},
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
            "dct": "http://purl.org/dc/terms/",
            "examples": {"@id": "cr:examples", "@type": "@json"},
            "rai": "http://mlcommons.org/croissant/RAI/",
            "sc": "https://schema.org/",
            **{word: f"cr:{word}" for word in _CROISSANT_WORDS.split()},
        }.items()
    )
)
