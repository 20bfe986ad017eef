"""Entries for catalogues of other people, made from release.json: the OpenDP Deployments Registry, and DCAT.

What a registry asks for and a plan need not say (curator, intended use, region, ...) comes from the plan's
[publication]; where it says nothing the entry has a blank for the publisher to fill in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hazeglass.errors import InputError
from hazeglass.guarantee.gdp import explain

if TYPE_CHECKING:
    from hazeglass.bundle.manifest import Manifest

BLANK = "TO FILL IN"
_ADDRESS = re.compile(r"https?://[^\s\x00-\x20\x7f]+", re.IGNORECASE)
_PRODUCTS = {"table": "Noisy rows", "moments": "Summary statistics", "synthetic": "Synthetic data"}
_LEVELS = {
    "entry": "Cell-level",
    "readings": "Several cells of one column",
    "record": "Record-level",
    "person": "Person-level",
    "column": "Column-level",
}


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What a publisher may say of a publication beside its promise; readers, catalogues and registries ask for it."""

    curator: str | None = None
    contact: str | None = None
    intended_use: str | None = None
    region: str | None = None
    sector: str | None = None
    licence: str | None = None
    justification: str | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        """Catalogues make a link of the address, and some links are programs."""
        if isinstance(self.address, str) and not _ADDRESS.fullmatch(self.address):
            raise InputError("the address of a publication must begin with https:// or http:// and have no spaces.")


def missing_words(manifest: Manifest) -> list[str]:
    """The keys of [publication] that an entry lacks."""
    said = manifest.publication or Publication()
    return [key for key, value in vars(said).items() if value is None]


def registry_entry(manifest: Manifest) -> dict[str, Any]:
    """An entry of the third tier, as its YAML files have it."""
    said, words = manifest.publication or Publication(), explain(manifest.guarantee, manifest.unit, manifest.delta)
    unit = manifest.unit
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", manifest.title.lower()).strip("-") or "release",
        "deployment": {
            "basic": {
                "name": manifest.title,
                "data_curators": [{"data_curator_name": said.curator or BLANK, "data_curator_type": BLANK}],
                "description": _description(manifest),
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
    said = manifest.publication or Publication()
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    base = (said.address or "").rstrip("/")
    optional = {
        "dct:publisher": said.curator and {"@type": "foaf:Agent", "foaf:name": said.curator},
        "dcat:contactPoint": said.contact and {"@type": "vcard:Kind", "vcard:fn": said.contact},
        "dct:spatial": said.region,
        "dct:license": said.licence,
        "dcat:theme": said.sector,
        "dcat:landingPage": base or None,
        "dct:accrualPeriodicity": None,
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
        "dct:description": _description(manifest),
        "dct:issued": manifest.created,
        "dct:accessRights": " ".join(words.promise),
        **{key: value for key, value in optional.items() if value},
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


def _description(manifest: Manifest) -> str:
    named = ", ".join(manifest.names[:20]) + (" and others" if len(manifest.names) > 20 else "")
    return f"A {manifest.form} release of {manifest.n:,} rows and {len(manifest.columns)} columns: {named}."


def _accounting(manifest: Manifest) -> str:
    if manifest.ledger is None:
        return "No ledger was kept, so other releases of the same rows are not known here."
    return (
        f"Charged to the budget that a ledger keeps for {manifest.ledger.dataset!r}, as event {manifest.ledger.event}."
    )


def yaml_text(value: Mapping[str, Any]) -> str:
    """A document of mappings, lists, text and numbers as YAML; text is written as JSON has it, which YAML reads."""
    return "\n".join(_lines(value, 0)) + "\n"


def printable(document: str) -> str:
    """The same document of JSON or YAML, in which what a terminal would obey is written as an escape.

    Such characters stand in its strings alone.
    """
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in document)


def _lines(value: Any, depth: int) -> Iterator[str]:
    space = "  " * depth
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield f"{space}{key}:"
            yield from _lines(inner, depth + 1)
        elif isinstance(inner, list):
            yield f"{space}{key}:"
            for entry in inner:
                yield f"{space}  - {json.dumps(entry, ensure_ascii=False)}"
        elif isinstance(inner, float):  # 1e-06 would be a word to older readers
            number = repr(inner)
            yield f"{space}{key}: {number if '.' in number else number.replace('e', '.0e')}"
        else:
            yield f"{space}{key}: {json.dumps(inner, ensure_ascii=False)}"
