"""Proteins in single cells (Sachs et al. 2005), with the three graphs that were published for them."""

from __future__ import annotations

from pathlib import Path

from hazeglass.datasets.catalogue import entry
from hazeglass.datasets.dataset import Dataset, Edges
from hazeglass.datasets.files import numbers, read_table

__all__ = ["load_cell_signalling"]


def _edges(text: str) -> Edges:
    return frozenset(frozenset(pair.split("-")) for pair in text.split())


TRUTHS = {
    # the structure of sachs.bif in the bnlearn repository
    "bnlearn17": _edges(
        "Erk-Akt PKA-Akt Mek-Erk PKA-Erk PKA-Jnk PKC-Jnk PKA-Mek PKC-Mek Raf-Mek PKA-P38 PKC-P38 PIP3-PIP2 Plcg-PIP2 "
        "Plcg-PIP3 PKC-PKA PKA-Raf PKC-Raf"
    ),
    # the graph the Causal Discovery Toolbox ships
    "cdt18": _edges(
        "PIP2-PKC Plcg-PIP2 PIP3-Plcg PIP2-PIP3 Plcg-PKC PKC-Jnk PKC-P38 PKA-P38 PKC-Raf PKA-Raf Raf-Mek Mek-Erk "
        "PKC-Mek PKA-Akt PIP3-Akt PKA-Mek PKA-Erk PKA-Jnk"
    ),
    # those 18 and Erk-Akt: the set in an earlier public script of the paper's first author
    "undirected19": _edges(
        "Raf-Mek Raf-PKA Raf-PKC Mek-Erk Mek-PKA Mek-PKC Plcg-PIP2 Plcg-PIP3 Plcg-PKC PIP2-PIP3 PIP2-PKC PIP3-Akt "
        "Erk-Akt Erk-PKA Akt-PKA PKA-P38 PKA-Jnk PKC-P38 PKC-Jnk"
    ),
}


def load_cell_signalling(data_dir: str | Path | None = None) -> Dataset:
    """7,466 cells by 11 proteins; the truth is bnlearn's 17 edges, the other two graphs are in `truths`."""
    known = entry("cell-signalling")
    table = read_table(known, "sachs.csv", data_dir)
    return known.dataset(
        numbers(table, table.column_names),
        table.column_names,
        truth=TRUTHS["bnlearn17"],
        truths=TRUTHS,
    )
