"""Discrete networks: rows drawn from their tables, and the graph of conditional dependence that these have.

A file of the bnlearn repository lists the levels of every variable, and the probabilities of its levels for every
configuration of its parents. Two variables depend on each other given all others where one is the other's parent, or
where both are parents of a third: the moral graph is the truth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from hazeglass.datasets.dataset import Dataset, Edges, FloatArray, contents, entry
from hazeglass.errors import DataError

ROWS = 20_000
_VARIABLE = re.compile(r"variable\s+(\S+)\s*\{[^{}]*\{([^{}]*)\}")
_TABLE = re.compile(r"probability\s*\(\s*([^()|]+?)\s*(?:\|\s*([^()]+?)\s*)?\)\s*\{([^{}]*)\}")
_LINE = re.compile(r"(?:table|\(([^()]*)\))([^;]*);")


@dataclass(frozen=True, eq=False)
class Network:
    """Variables in the file's order: their levels, their parents, and a table with one axis for each parent and a last
    one for the variable's own levels."""

    levels: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, FloatArray]

    @property
    def moral(self) -> Edges:
        """Every variable joined to its parents, and these to each other."""
        families = ([name, *parents] for name, parents in self.parents.items())
        return frozenset(frozenset(pair) for family in families for pair in combinations(family, 2))

    def draw(self, rows: int, seed: int) -> FloatArray:
        """Rows of level numbers, each variable drawn once its parents are."""
        rng = np.random.default_rng(seed)
        drawn: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        while len(drawn) < len(self.levels):
            for name in self.levels:
                if name not in drawn and all(parent in drawn for parent in self.parents[name]):
                    chances = self.tables[name][tuple(drawn[parent] for parent in self.parents[name])]
                    steps = np.cumsum(np.broadcast_to(chances, (rows, len(self.levels[name]))), axis=1)
                    drawn[name] = np.sum(rng.random((rows, 1)) * steps[:, -1:] >= steps[:, :-1], axis=1)
        return np.column_stack([drawn[name] for name in self.levels]).astype(np.float64)


def parse(text: str) -> Network:
    """A network in the interchange format (.bif)."""
    levels = {name: _words(listed) for name, listed in _VARIABLE.findall(text)}
    parents, tables = {}, {}
    for name, given, body in _TABLE.findall(text):
        parents[name] = _words(given)
        table = np.zeros([len(levels[one]) for one in (*parents[name], name)])
        for configuration, numbers in _LINE.findall(body):
            at = tuple(levels[p].index(level) for p, level in zip(parents[name], _words(configuration), strict=True))
            table[at] = [float(number) for number in _words(numbers)]
        tables[name] = table
    return Network(levels, parents, tables)


def _words(listed: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in listed.split(",") if word.strip())


def load_asia(data_dir: str | Path | None = None, *, rows: int = ROWS, seed: int = 0) -> Dataset:
    """A chest clinic: 8 yes or no columns; `rows` of them drawn with `seed`."""
    return _drawn("asia", data_dir, rows, seed)


def load_child(data_dir: str | Path | None = None, *, rows: int = ROWS, seed: int = 0) -> Dataset:
    """Newborn children with heart disease: 20 columns of 2 to 6 levels; `rows` of them drawn with `seed`."""
    return _drawn("child", data_dir, rows, seed)


def load_insurance(data_dir: str | Path | None = None, *, rows: int = ROWS, seed: int = 0) -> Dataset:
    """Car insurance: 27 columns of 2 to 5 levels; `rows` of them drawn with `seed`."""
    return _drawn("insurance", data_dir, rows, seed)


def _drawn(name: str, data_dir: str | Path | None, rows: int, seed: int) -> Dataset:
    if rows < 1:
        raise DataError(f"rows must be at least 1, got {rows}.")
    known = entry(name)
    network = parse(contents(known, f"{name}.bif", data_dir).decode("utf-8"))
    columns: Sequence[str] = tuple(network.levels)
    return known.dataset(network.draw(rows, seed), columns, truth=network.moral, levels=network.levels)
