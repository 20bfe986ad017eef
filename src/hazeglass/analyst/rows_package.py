"""A folder of synthetic rows: rows.csv or rows.parquet, a Data Package, a note for its users, and pictures.

Pictures show margins and the strongest pairs, of a release or of real rows beside drawn ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass._files import new_file
from hazeglass.analyst.export import without_formulas
from hazeglass.analyst.synthesize import MOST_COPIES, Synthesis, raw_cells
from hazeglass.bundle.columns import Column, unit_step
from hazeglass.bundle.reader import Release
from hazeglass.bundle.synthetic import NormalRows
from hazeglass.bundle.writer import new_folder
from hazeglass.errors import InputError, OutputError
from hazeglass.features.marginal import Marginal
from hazeglass.markov.tables import of_normals
from hazeglass.present.beside import Margin, PairOfTables, synthetic_page
from hazeglass.present.pages import Page

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = npt.NDArray[np.float64]
_MOST_PAIRS, _MOST_MARGINS, _BARS, _BLOCKS, _MOST_LEVELS, _EVEN = 9, 60, 12, 8, 24, 8
FORMATS = ("parquet", "csv")
PAGE = "publisher-only.html"
_TYPES = {"int64": "integer", "double": "number", "string": "string"}

NOTE = """\
# {title}: synthetic rows

{rows:,} made-up rows{copies}, drawn from the released numbers and nothing else. No row is a person's. The
promise of the release holds for them: mu = {mu:.4g}, epsilon = {epsilon:.4g} at delta = {delta:.1e}. Seed: {seed}.

## How far to trust a result

Rows carry the noise of the release once, however many there are. A tool that believes they are real computes error bars
from their number alone, which are too narrow.

{errors}

## What rows cannot show

- What three or more columns do together beyond what their pairs say: it was not released.
- Rare combinations: levels and pairs of levels that fewer rows have than the noise is wide were drawn towards
  independence, and some are never drawn at all.
- The shape of dependence between two ordered columns is that of normal scores, unless the release is a curved one.
- Where cells are missing, they are missing by chance, unless the plan calls that informative.

`hazeglass recover` on the release itself gives a graph whose error bars account for the noise. These rows are no
replacement for it.

## What was checked

{checks}
"""
_ONE = """\
This folder holds one copy. Make several with `--copies 5`: what differs between them shows how much noise a result
has."""
_SEVERAL = """\
Each of the {copies} copies was drawn from the released numbers with as much noise again. Compute a result q_k on every
copy, m = {copies} in all, take their mean as the answer and

    T = (1 + 1/m) b + (N/n) u,    b the variance of q_1 .. q_m, u the mean of the squared error bars that the tool
                                      gives, N = {rows} rows of a copy, n = {n} rows behind the release

as its squared error, with m - 1 degrees of freedom. In tests on made-up people with 5,000 rows, epsilon 1 and five
copies, intervals of 95 % held the truth in 88 to 100 % of the data sets, for means, shares, slopes, correlations and
pairs of levels, weak or strong. They do not hold for what is rarer than the noise is wide: 71 % for a pair of levels
that 15 of the 5,000 rows had. Copies are noisier than a single set of rows, because nothing in them is drawn towards
independence."""


def check_rows_place(out: Path) -> Path:
    """A place for rows that lies in no release: what lies in a release would pass for a part of it."""
    if out.suffix.lower() not in ("", ".parquet", ".csv") and not out.suffix[1:].isdigit():
        raise OutputError(f"rows go into a folder, a .parquet or a .csv file, got {out.name!r}. Rename it.")
    for folder in (out.resolve(), *out.resolve().parents):
        if (folder / "release.json").exists():
            raise OutputError(
                f"{str(out)!r} lies inside a release, which holds what its publisher released and nothing else. Name "
                "another folder."
            )
    return out


def write_package(
    release: Release,
    out: Path,
    rows: int,
    seed: int,
    *,
    copies: int = 1,
    kind: str = "parquet",
    exact: bool = False,
    missing: bool = True,
    progress: Callable[[str], None] | None = None,
) -> list[Synthesis]:
    """The folder `out`, complete or not at all; or one file of rows where it ends in .csv or .parquet."""
    check_rows_place(out)
    if not 1 <= copies <= MOST_COPIES:
        raise InputError(f"copies must be from 1 to {MOST_COPIES}, got {copies}.")
    single = out.suffix.lower().lstrip(".") in FORMATS
    if single and copies > 1:
        raise OutputError(f"{copies} copies need a folder, got the file {out.name!r}. Name a folder.")
    numbers = range(1, copies + 1) if copies > 1 else (0,)
    made = [Synthesis(release, rows, seed, exact=exact, missing=missing, copy=number) for number in numbers]
    if single:
        with new_file(out) as draft:
            _write(made[0].tables(), draft, out.suffix.lower().lstrip("."))
        return made
    with new_folder(out) as folder:
        files = []
        for one in made:
            if progress is not None:
                one.progress = _told(progress, f"copy {one.copy} of {copies}, " if one.copy else "")
            name = f"rows-{one.copy}.{kind}" if one.copy else f"rows.{kind}"
            schema = _write(one.tables(), folder / name, kind)
            files.append((name, schema))
        _write_json(folder / "datapackage.json", _described(release, made, files))
        _write_json(folder / "synthesis.json", [one.checked() for one in made])
        (folder / "README.md").write_text(_note(release, made), encoding="utf-8", newline="\n")
        (folder / "report.html").write_text(str(pictures(made[0])), encoding="utf-8", newline="\n")
    return made


def _told(progress: Callable[[str], None], which: str) -> Callable[[float], None]:
    """How far the fit of one copy is, in words."""
    return lambda done: progress(f"{which}fitted {done:.0%}" if done < 1 else f"{which}drawing")


def _write(tables: Iterator[pa.Table], path: Path, kind: str) -> pa.Schema:
    import pyarrow.parquet as pq
    from pyarrow import csv

    first = next(tables)
    plain = kind == "csv"
    schema = without_formulas(first).schema if plain else first.schema
    with (csv.CSVWriter if plain else pq.ParquetWriter)(str(path), schema) as writer:
        for table in chain([first], tables):
            writer.write_table(without_formulas(table) if plain else table)
    return first.schema


def _write_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def _described(release: Release, made: list[Synthesis], files: list[tuple[str, pa.Schema]]) -> dict[str, Any]:
    """The Data Package."""
    by_name = {column.name: column for column in release.columns}
    resources = []
    for name, schema in files:
        fields = []
        for field in schema:
            column, said = by_name[field.name], {"name": field.name, "type": _TYPES[str(field.type)]}
            limits: dict[str, Any] = {"enum": list(column.levels)}
            if not column.levels:
                limits = {"minimum": column.lower, "maximum": column.upper}
            fields.append({**said, "constraints": limits} if not made[0].exact or column.levels else said)
        stem, kind = name.rsplit(".", 1)
        entry = {"name": stem, "path": name, "profile": "tabular-data-resource", "format": kind}
        resources.append({**entry, "schema": {"fields": fields, "missingValues": [""]}})
    return {
        "name": "synthetic-rows",
        "title": f"{release.manifest.title}: synthetic rows",
        "description": "Made-up rows drawn from released numbers and nothing else; no row is a person's.",
        "resources": resources,
    }


def _note(release: Release, made: list[Synthesis]) -> str:
    first, manifest, copies = made[0], release.manifest, len(made)
    errors = _ONE if copies == 1 else _SEVERAL.format(copies=copies, rows=first.rows, n=release.n)
    return NOTE.format(
        title=_in_markdown(manifest.title),
        rows=first.rows,
        copies="" if copies == 1 else f" in each of {copies} copies",
        mu=manifest.mu,
        epsilon=manifest.epsilon,
        delta=manifest.delta,
        seed=first.seed,
        errors=errors,
        checks="\n".join(f"- {line}" for one in made for line in _said_of(one)),
    )


def _in_markdown(text: str) -> str:
    """Text of a release as one line that says itself: no heading, link or picture of its own."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(line.split()))


def _said_of(one: Synthesis) -> list[str]:
    check, of = one.check, f"copy {one.copy}: " if one.copy else ""
    names = [_in_markdown(name) for name in one.manifest.names]
    if check is None:
        return [f"{of}columns have the released distributions and correlations by construction."]
    found = [
        f"{of}pairs of columns with tables of their own: {len(check.agreement)}. Rows miss the released ones by at "
        f"most {check.worst:.2g} times what noise and so many rows explain."
    ]
    found += [f"{of}{names[i]} and {names[j]} do not have the released table." for i, j in check.apart]
    found += [f"{of}chains hardly moved in {names[k]}: do not rely on its pairs." for k in check.stuck]
    return found


def write_comparison(release: Release, raw: Path, out: Path, rows: int, seed: int) -> Synthesis:
    """A page that shows real rows beside synthetic ones, for the publisher alone."""
    check_rows_place(out)
    cells, names = raw_cells(raw, release.columns)
    made = Synthesis(release, rows, seed)
    with new_folder(out) as folder:
        page = folder / PAGE
        page.touch(mode=0o600)  # it shows real rows
        page.write_text(str(comparison(made, cells, names)), encoding="utf-8", newline="\n")
    return made


# ---------------------------------------------------------------------- pictures: margins and the strongest pairs


def _digits(number: float) -> int:
    """How many a whole number has."""
    return len(f"{abs(number):.0f}")


class _Bins:
    """The bars of one column: its levels, or ranges of its (transformed) unit."""

    def __init__(self, column: Column, known: Marginal | None) -> None:
        self.column = column
        if column.levels:
            self.labels = list(column.levels)
            self.edges: FloatArray = np.arange(len(self.labels) - 1, dtype=np.float64) + 0.5
            return
        low, high = (-0.9, 0.9) if known is None else map(float, known.quantile(np.array([0.01, 0.99])))
        unit: FloatArray = low + (high - low) * np.arange(_BARS - 1, dtype=np.float64) / (_BARS - 2)
        step = unit_step(column, "scores")
        if step:  # between values, not through them, and none below the least
            number = np.unique(np.clip(np.rint((unit + 1) / step - 0.5), 0, max(np.rint(2 / step) - 1, 0)))
            unit = np.asarray(-1 + step * (number + 0.5), dtype=np.float64)
        self.edges = np.asarray(column.centre + column.half_width * unit)
        begin = self.edges + (column.half_width * step / 2 if step else 0.0)
        whole = step > 0 and not column.transform  # then with all digits before the point
        shown = [f"{start:.{_digits(start) if whole else 3}g}" for start in begin]
        self.labels = [f"below {shown[0]}", *(f"from {low}" for low in shown)]

    def of(self, cells: FloatArray) -> npt.NDArray[np.int64]:
        """The bar of each cell."""
        return np.searchsorted(self.edges, cells, side="right")

    def shares(self, cells: FloatArray) -> FloatArray:
        """Of the cells that are numbers, in each bar."""
        known = cells[np.isfinite(cells)]
        return np.bincount(self.of(known), minlength=len(self.labels)) / max(known.size, 1)

    def released(self, known: Marginal) -> FloatArray:
        """What the release says of them."""
        column = self.column
        step = unit_step(column, "scores")
        if column.levels:
            if not column.ordered:
                return known.shares
            return np.diff(known.cdf(np.asarray(-1 + step * (np.arange(len(self.labels) + 1) - 0.5))))
        unit: FloatArray = (self.edges - column.centre) / column.half_width
        return np.diff(np.concatenate([[0.0], known.cdf(unit), [1.0]]))


def pictures(made: Synthesis) -> Page:
    """Released numbers and drawn rows, and nothing else."""
    blocks = _drawn(made)
    margins = []
    for k, (column, known) in enumerate(zip(made.manifest.columns, made.marginals, strict=False)):
        bins = _Bins(column, known)
        margins.append(Margin(column.label, bins.labels, bins.released(known), bins.shares(blocks[:, k])))
    title, pairs = f"{made.manifest.title}: synthetic rows", _released_pairs(made, blocks)
    return synthetic_page(title, "released", made.rows, margins[:_MOST_MARGINS], pairs, made.checked())


def comparison(made: Synthesis, real: FloatArray, names: Sequence[str]) -> Page:
    """Real rows beside drawn ones, for the publisher alone; `real` has the release's (transformed) columns."""
    blocks = _drawn(made)
    known = made.marginals or (None,) * len(made.manifest.columns)
    bins = [_Bins(column, one) for column, one in zip(made.manifest.columns, known, strict=True)]
    margins, kept = [], []
    for k, column in enumerate(made.manifest.columns):
        if column.name in names:
            kept.append(k)
            margins.append(
                Margin(column.label, bins[k].labels, bins[k].shares(real[:, k]), bins[k].shares(blocks[:, k]))
            )
    pairs = []
    for i, j in combinations([k for k in kept if len(bins[k].labels) <= _MOST_LEVELS], 2):
        tables = [_table(cells, bins, i, j) for cells in (real, blocks)]
        pairs.append((_strength(tables[0]), _pair(made.manifest.columns, bins, i, j, *tables)))
    pairs.sort(key=lambda pair: -pair[0])
    title = f"{made.manifest.title}: real and synthetic rows, for the publisher alone"
    shown = [pair for _, pair in pairs[:_MOST_PAIRS]]
    return synthetic_page(title, "real", made.rows, margins[:_MOST_MARGINS], shown, made.checked())


def _drawn(made: Synthesis) -> FloatArray:
    return np.concatenate(list(islice(made.made.blocks(), _BLOCKS)))[: made.rows]


def _table(cells: FloatArray, bins: Sequence[_Bins], i: int, j: int) -> FloatArray:
    rows = cells[np.isfinite(cells[:, i]) & np.isfinite(cells[:, j])]
    size = len(bins[i].labels), len(bins[j].labels)
    flat = bins[i].of(rows[:, i]) * size[1] + bins[j].of(rows[:, j])
    return np.bincount(flat, minlength=size[0] * size[1]).reshape(size) / max(len(rows), 1)


def _strength(table: FloatArray) -> float:
    return float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum())


def _pair(
    columns: Sequence[Column], bins: Sequence[_Bins], i: int, j: int, one: FloatArray, other: FloatArray
) -> PairOfTables:
    return PairOfTables((columns[i].label, columns[j].label), (bins[i].labels, bins[j].labels), one, other)


def _released_pairs(made: Synthesis, drawn: FloatArray) -> list[PairOfTables]:
    """The strongest pairs: of a field leaf by leaf, of normal numbers between even ranks."""
    rows, columns = made.made, made.manifest.columns
    if isinstance(rows, NormalRows):
        return [] if made.exact or made.manifest.scale == "public" else _normal_pairs(rows, columns, drawn)
    assert made.check is not None
    tables, found = rows.tables, []
    for i, j in made.check.agreement:
        if max(tables.sizes[i], tables.sizes[j]) <= _MOST_LEVELS:
            released = tables.share_of(i, j)
            found.append((_strength(released), i, j, released, made.check.drawn[i, j]))
    found.sort(key=lambda one: -one[0])
    labels = [list(one.levels) if not one.ordered else _leaves(size) for one, size in
              zip(columns, tables.sizes, strict=True)]  # fmt: skip
    return [
        PairOfTables((columns[i].label, columns[j].label), (labels[i], labels[j]), released, drawn)
        for _, i, j, released, drawn in found[:_MOST_PAIRS]
    ]


def _normal_pairs(rows: NormalRows, columns: Sequence[Column], drawn: FloatArray) -> list[PairOfTables]:
    ends, even = np.linspace(0, 1, _EVEN + 1), np.full(_EVEN, 1 / _EVEN)
    order = np.argsort(np.argsort(drawn, axis=0, kind="stable"), axis=0, kind="stable")
    place = np.minimum(order * _EVEN // len(drawn), _EVEN - 1)
    correlation, found = rows.root @ rows.root.T, []
    for i, j in combinations(range(len(columns)), 2):
        found.append((abs(float(correlation[i, j])), i, j))
    labels, pairs = _leaves(_EVEN), []
    for _, i, j in sorted(found, key=lambda one: -one[0])[:_MOST_PAIRS]:
        table = of_normals(ends, ends, float(correlation[i, j]), 0.0)
        made = np.bincount(place[:, i] * _EVEN + place[:, j], minlength=_EVEN**2).reshape(_EVEN, _EVEN) / len(drawn)
        given = np.outer(even, even) if table is None else table
        pairs.append(PairOfTables((columns[i].label, columns[j].label), (labels, labels), given, made))
    return pairs


def _leaves(size: int) -> list[str]:
    return [f"leaf {k + 1}" for k in range(size)]
