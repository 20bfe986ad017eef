"""What follows from release.json: the statement for people, and entries for catalogues of other people.

Every release holds the statement, Data Package v2 and Croissant 1.1. Nothing in these files is new, so a reader derives
them again and refuses any that differ. Entries for the OpenDP Deployments Registry and DCAT are made when asked for.
What these want and a plan need not say (curator, intended use, region, ...) comes from the plan's [publication]; where
it says nothing the registry's entry has a blank for the publisher to fill in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hazeglass.bundle.columns import Column
from hazeglass.bundle.manifest import Manifest, Publication
from hazeglass.guarantee.gdp import explain
from hazeglass.present.statement import statement, summary_html

DERIVED = ("croissant.json", "datapackage.json", "statement.html")

BLANK = "TO FILL IN"
_PRODUCTS = {"table": "Noisy rows", "moments": "Summary statistics", "synthetic": "Synthetic data"}
_LEVELS = {
    "entry": "Cell-level",
    "readings": "Several cells of one column",
    "record": "Record-level",
    "person": "Person-level",
    "column": "Column-level",
}
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


def _datapackage(manifest: Manifest) -> dict[str, Any]:
    """One tabular resource per part."""
    said, categories = manifest.publication or Publication(), _categories(manifest)
    terms = {
        "licenses": said.licence and [{"title": said.licence}],
        "contributors": said.curator and [{"title": said.curator, "roles": ["publisher"]}],
        "homepage": said.address,
    }
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
        **_given(terms),
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


def _given(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the plan's [publication] does say."""
    return {key: value for key, value in entry.items() if value}


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
        **_given(known),
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


def _slug(text: str, also: str = ".-") -> str:
    """Letters, digits, dashes and what else may stand in a name: dots in both formats, and none in the registry."""
    return re.sub(f"[^a-z0-9{also}]+", "-", text.lower()).strip("-.") or "release"


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


# --------------------------------------------------------------------------------------- entries for others to publish


def missing_words(manifest: Manifest) -> list[str]:
    """The keys of [publication] that an entry lacks."""
    said = manifest.publication or Publication()
    return [key for key, value in vars(said).items() if value is None]


def registry_entry(manifest: Manifest) -> dict[str, Any]:
    """An entry of the third tier, as its YAML files have it."""
    said, words = manifest.publication or Publication(), explain(manifest.guarantee, manifest.unit, manifest.delta)
    unit = manifest.unit
    return {
        "url_slug": _slug(manifest.title, ""),
        "deployment": {
            "basic": {
                "name": manifest.title,
                "data_curators": [{"data_curator_name": said.curator or BLANK, "data_curator_type": BLANK}],
                "description": _contents(manifest),
                "intended_use": said.intended_use or BLANK,
                "data_product_type": _PRODUCTS[manifest.form],
                "data_product_region": said.region or BLANK,
                "data_product_sector": said.sector or BLANK,
                "publication_date": manifest.created[:10],
            },
            "dp_variant": {
                "variant_name": "Gaussian DP",
                "data_domain": f"Tables of {len(manifest.columns)} columns with public bounds.",
                "unprotected_quantities": words.not_promised[2],
            },
            "privacy_loss": {
                "privacy_unit": _LEVELS[unit.name],
                "privacy_unit_details": (
                    f"Protected is {unit.in_words}: neighbouring tables differ in one of them, replaced by any other."
                ),
                "privacy_parameters": {"epsilon": float(f"{manifest.epsilon:.12g}"), "delta": manifest.delta},
                "privacy_parameters_details": (
                    f"mu = {manifest.mu:.6g} in Gaussian differential privacy; epsilon is what that means at delta. "
                    f"{words.promise[1]}"
                ),
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The publisher holds the rows; only the release leaves.",
                "actors": f"- Curator: {said.curator or BLANK}\n- Data users: whoever gets the release",
                "release_type": "One release",
                "release_type_details": _accounting(manifest),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Whatever is computed from the release, synthetic rows among it.",
                "composition": f"{_accounting(manifest)} Promises of mu compose to the root of the sum of squares.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": (
                    "Cells are moved into public bounds that were chosen without looking at the data."
                ),
                "mechanisms": (
                    f"hazeglass {manifest.versions['hazeglass']}: exact integer Gaussian noise on a lattice, from the "
                    f"operating system's randomness; the sampler adds at most {manifest.delta_slack:.2g} to delta."
                ),
                "justification": said.justification or BLANK,
            },
            "administrative": {
                "sources": f"- {said.address or BLANK}",
                "notes": f"Licence: {said.licence or BLANK}. Questions: {said.contact or BLANK}.",
                "status": "Draft",
                "registry_authors": [said.contact or BLANK],
                "tier": 3,
            },
        },
    }


def dcat_entry(manifest: Manifest) -> dict[str, Any]:
    """The release as a dcat:Dataset in JSON-LD (DCAT 3), every part a distribution."""
    said, words = manifest.publication or Publication(), explain(manifest.guarantee, manifest.unit, manifest.delta)
    base = (said.address or "").rstrip("/")
    optional = {
        "dct:publisher": said.curator and {"@type": "foaf:Agent", "foaf:name": said.curator},
        "dcat:contactPoint": said.contact and {"@type": "vcard:Kind", "vcard:fn": said.contact},
        "dct:spatial": said.region,
        "dct:license": said.licence,
        "dcat:theme": said.sector,
        "dcat:landingPage": base,
    }
    return {
        "@context": {
            "dcat": "http://www.w3.org/ns/dcat#",
            "dct": "http://purl.org/dc/terms/",
            "foaf": "http://xmlns.com/foaf/0.1/",
            "spdx": "http://spdx.org/rdf/terms#",
            "vcard": "http://www.w3.org/2006/vcard/ns#",
        },
        "@type": "dcat:Dataset",
        "dct:title": manifest.title,
        "dct:description": _contents(manifest),
        "dct:issued": manifest.created,
        "dct:accessRights": " ".join(words.promise),
        **_given(optional),
        "dcat:distribution": [
            {
                "@type": "dcat:Distribution",
                "dct:title": part.path,
                "dcat:downloadURL": f"{base}/{part.path}" if base else part.path,
                "dcat:mediaType": "application/vnd.apache.parquet",
                "dcat:byteSize": part.bytes,
                "spdx:checksum": {"spdx:algorithm": "spdx:checksumAlgorithm_sha256", "spdx:checksumValue": part.sha256},
            }
            for part in manifest.files
        ],
    }


def _contents(manifest: Manifest) -> str:
    named = ", ".join(manifest.names[:20]) + (" and others" if len(manifest.names) > 20 else "")
    return f"A {manifest.form} release of {manifest.n:,} rows and {len(manifest.columns)} columns: {named}."


def _accounting(manifest: Manifest) -> str:
    if manifest.ledger is None:
        return "No ledger was kept, so other releases of the same rows are not known here."
    return (
        f"Charged to the budget that a ledger keeps for {manifest.ledger.dataset!r}, as event {manifest.ledger.event}."
    )
