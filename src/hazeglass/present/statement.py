"""statement.html: one page for the person who must approve a release."""

from __future__ import annotations

from hazeglass.bundle.manifest import Manifest
from hazeglass.guarantee.explain import explain
from hazeglass.present.pages import render

__all__ = ["statement"]

FORMS = {
    "table": "every row, with noise added to every cell",
    "moments": "noisy means and noisy means of products of columns; no rows",
    "synthetic": "made-up rows drawn from noisy moments; no real row",
}


def statement(manifest: Manifest) -> str:
    """The page as HTML text."""
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    return render("statement.html", manifest=manifest, words=words, what=FORMS[manifest.form])
