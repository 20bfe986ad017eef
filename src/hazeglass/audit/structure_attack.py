"""Attacks on everything about a release that is not a noised number.

Two inputs that must look alike are each published several times: neighbours, or the same rows laid out in another
way. From every release all facts are read that are no released number: which files, how many rows in each part and row
group, Parquet footers, every field of release.json but the time, every line of the pages, whether the output is sorted
as the input was, what was printed, and, where there is no release, how it was refused.

A fact that is always the same for one input and always another for the other tells them apart with certainty: mu is
infinite. A fact that differs from run to run is noise, or follows from noise, and is what the other attacks are for; if
it is equally likely for both inputs, it is mistaken for a certain one with probability at most 2 * 4^-runs.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hazeglass.audit.attack import Certificate
from hazeglass.bundle.columns import Column, origins
from hazeglass.errors import HazeglassError
from hazeglass.guarantee.units import table_distance
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.publish import publish as publish_rows

Publish = Callable[[Any, Plan, Path], object]
Facts = dict[str, str]
Inputs = tuple[Any, Any]
Columns = dict[str, npt.NDArray[Any]]
NO_DIFFERENCE = "no difference in structure found"
RUNS = 8  # of each input
ROWS = 3000
_FEW = 60  # where a cell decides, few rows do
_MOST_ROWS = 1 << 18
_MOST_OF_ONE = 40
_NOTE = 2000  # bytes of text in each row beside the plan, so that a reader of CSV cuts even a few rows into blocks
_SIGMAS = 5.0  # beyond which rows count as sorted


def publish_here(data: Any, plan: Plan, out: Path) -> object:
    """hazeglass's own publish."""
    return publish_rows(data, plan, out, engine="serial")


@dataclass(frozen=True)
class StructureAttack:
    """What `publish` makes of two inputs that must look alike."""

    plan: Plan
    inputs: Callable[[Plan, Path], Inputs]
    publish: Publish = publish_here
    runs: int = RUNS

    def certify(self, level: float) -> Certificate:
        """Infinity where a fact always differs, else 0; in the certificate's own form."""
        found = self.differences()
        words = NO_DIFFERENCE if not found else ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        return Certificate(math.inf if found else 0.0, words, self.runs, level)

    def differences(self) -> list[str]:
        """The facts that tell the two inputs apart in every run, the plainest first."""
        with tempfile.TemporaryDirectory(prefix="hazeglass-audit-") as name:
            folder = Path(name)
            (folder / "in").mkdir()
            pair = self.inputs(self.plan, folder / "in")
            # In turn, so that what drifts with time differs within a side and not between them.
            seen = [
                [self._facts(data, folder / f"out-{run}-{side}") for side, data in enumerate(pair)]
                for run in range(self.runs)
            ]
        here, there = ([facts[side] for facts in seen] for side in (0, 1))
        names = dict.fromkeys(name for facts in (*here, *there) for name in facts)
        certain = ((name, _always(here, name), _always(there, name)) for name in names)
        return [name for name, left, right in certain if left is not None and right is not None and left != right]

    def _facts(self, data: Any, out: Path) -> Facts:
        printed = io.StringIO()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                try:
                    self.publish(data, self.plan, out)
                    outcome = "released"
                except HazeglassError as error:
                    outcome = f"refused with exit status {error.exit_status}: {error}"
                except Exception as error:
                    outcome = f"failed with {type(error).__name__}"
        lines = [*printed.getvalue().splitlines(), *(str(one.message) for one in caught)]
        public = [line for line in lines if not line.startswith("publisher only:")]
        facts = {"exit status": outcome, "what is printed": "\n".join(public)}
        return facts | (_facts_of_release(out) if out.is_dir() else {})


def _always(side: list[Facts], name: str) -> str | None:
    """The fact's value where it is the same in every run."""
    values = {facts.get(name, "(absent)") for facts in side}
    return values.pop() if len(values) == 1 else None


# -------------------------------------------------------------------------------------------------------- facts


def _facts_of_release(folder: Path) -> Facts:
    """All that can be read of a release without looking at a released number."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    paths.sort(key=lambda path: path.name != "release.json")  # the others follow from it
    files = " ".join(path.relative_to(folder).as_posix() for path in paths)
    facts = {"files": files, "order of the rows": _order(folder)}
    created = json.loads((folder / "release.json").read_text("utf-8")).get("created", "")
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".parquet":
            facts |= _footer(path, name)
            continue
        text = path.read_text("utf-8").replace(created, "(time)") if created else path.read_text("utf-8")
        if path.suffix == ".json":
            facts |= {f"{name}: {key}": value for key, value in _leaves(json.loads(text))}
        else:
            facts |= {f"{name}, line {k + 1}": line for k, line in enumerate(text.splitlines())}
    return facts


def _footer(path: Path, name: str) -> Facts:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    footer, groups = file.metadata, range(file.metadata.num_row_groups)
    chunks = [footer.row_group(k).column(j) for k in groups for j in range(footer.num_columns)]
    return {
        f"rows of {name}": str(footer.num_rows),
        f"rows in each row group of {name}": str([footer.row_group(k).num_rows for k in groups]),
        f"schema of {name}": file.schema_arrow.to_string(show_schema_metadata=True),
        f"writer of {name}": f"{footer.created_by}, {footer.format_version}",
        f"encodings of {name}": str([(c.encodings, c.compression, c.has_dictionary_page) for c in chunks]),
        f"statistics of {name}": str([(c.is_stats_set, c.statistics and c.statistics.null_count) for c in chunks]),
    }


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every field with its path; the length of a list is a fact as well."""
    if isinstance(value, dict):
        yield f"{path} keys".strip(), " ".join(value)
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        yield f"{path} length", str(len(value))
        for k, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{k}]")
    else:
        yield path, repr(value)


def _order(folder: Path) -> str:
    """Whether released rows rise or fall from the first to the last: the columns' ranks against the place."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from scipy.stats import rankdata

    parts = [pq.read_table(path) for path in sorted((folder / "data").glob("*.parquet"))]
    if not parts:
        return "no rows"
    table = pa.concat_tables(parts)
    ranks = np.mean([rankdata(column.to_numpy()) for column in table.columns], axis=0)
    correlation = np.corrcoef(ranks, np.arange(table.num_rows))[0, 1] * math.sqrt(table.num_rows)
    return "rising" if correlation > _SIGMAS else "falling" if correlation < -_SIGMAS else "neither rising nor falling"


# -------------------------------------------------------------------------------------------------------- pairs


def _rows(plan: Plan, rows: int = ROWS) -> Columns:
    """Made-up rows within the plan's bounds, two for each id, so that a person is still there when one row is not."""
    rng = np.random.default_rng(17)
    columns = {name: _cells(column, rng.uniform(0.05, 0.95, rows)) for name, column in _made_of(plan).items()}
    if plan.id_column is not None:
        columns[plan.id_column] = np.arange(rows) // 2
    return columns


def _made_of(plan: Plan) -> dict[str, Column]:
    """The columns that the data must have, each with the first that is made of it."""
    found: dict[str, Column] = {}
    for column, name in zip(plan.columns, origins(plan.columns), strict=True):
        found.setdefault(name, column)
    return found


def _cells(column: Column, places: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Cells that the plan reads, from their places between 0 and 1: numbers, days of 2000, or words."""
    if column.part is not None or column.since is not None:
        return np.datetime64("2000-01-01") + (365 * places).astype(np.int64)
    cells = column.lower + (column.upper - column.lower) * places
    if column.levels:
        return np.array(column.levels)[np.rint(cells).astype(np.int64)]
    return np.rint(cells) if column.counted else cells


def _batches(plan: Plan, folder: Path) -> Inputs:
    """The same rows in memory, cut in other places."""
    import pyarrow as pa

    table = pa.table(_rows(plan))
    cut = [table.slice(0, 700), table.slice(700, 300), table.slice(1000)]
    return table, pa.concat_tables(cut)


def _parquet_files(plan: Plan, folder: Path) -> Inputs:
    """The same rows in one file with large row groups, and in three with small ones."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(_rows(plan))
    for name, start, end in (("1/a", 0, ROWS), ("3/a", 0, 500), ("3/b", 500, 1700), ("3/c", 1700, ROWS)):
        (folder / name).parent.mkdir(exist_ok=True)
        path = folder / f"{name}.parquet"
        pq.write_table(table.slice(start, end - start), path, row_group_size=2000 if name == "1/a" else 400)
    return str(folder / "1" / "*.parquet"), str(folder / "3" / "*.parquet")


def _spellings(plan: Plan, folder: Path) -> Inputs:
    """The same rows as text, every number written short or long."""
    columns = _rows(plan)
    numbers = [name for name, cells in columns.items() if cells.dtype.kind in "fi"]
    short = {
        name: [f"{cell:.3f}" for cell in cells] if name in numbers else _words(cells) for name, cells in columns.items()
    }
    long = {name: [cell + ("0" if name in numbers else " ") * 200 for cell in cells] for name, cells in short.items()}
    for one in (short, long):
        one |= {plan.id_column: _words(columns[plan.id_column])} if plan.id_column else {}
        one["note"] = ["x" * _NOTE] * ROWS
    return _csv(folder / "short.csv", short), _csv(folder / "long.csv", long)


def _sorted_rows(plan: Plan, folder: Path) -> Inputs:
    """The same rows from the smallest to the largest, and back; so many that their order shows through the noise."""
    import pyarrow as pa

    p = len(plan.columns)
    deviation = table_distance(plan.unit, columns=p, rows=ROWS) / plan.guarantee.mu
    rows = int(min(max(ROWS, 400 * deviation**2 / p), _MOST_ROWS))
    places = np.linspace(0.05, 0.95, rows)
    rising = {name: _cells(column, places) for name, column in _made_of(plan).items()}
    if plan.id_column is not None:
        rising[plan.id_column] = np.arange(rows) // 2
    return pa.table(rising), pa.table({name: cells[::-1] for name, cells in rising.items()})


def _row_counts(plan: Plan, folder: Path) -> Inputs:
    """Neighbours in which one person has a single row, or as many as are used."""
    import pyarrow as pa

    assert plan.id_column is not None
    columns = _rows(plan) | {plan.id_column: 1 + np.arange(ROWS) // 2}
    person = {name: cells[:1] for name, cells in columns.items()} | {plan.id_column: np.zeros(1, dtype=np.int64)}
    one, many = (
        pa.table({name: np.concatenate([cells, np.repeat(person[name], count)]) for name, cells in columns.items()})
        for count in (1, min(plan.unit.max_rows, _MOST_OF_ONE))
    )
    return one, many


def _one_cell(
    cell: str, *, of: str = "first", only: bool = False, rows: int = _FEW, note: str = "x"
) -> Callable[[Plan, Path], Inputs]:
    """Neighbours as text: one cell of the first column, of the ids, or of the notes beside the plan is `cell` or what
    stood there; `only`: of a column whose other cells are all missing."""

    def inputs(plan: Plan, folder: Path) -> Inputs:
        columns = {name: _words(cells[:rows]) for name, cells in _rows(plan).items()}
        columns["note"] = [note] * rows  # a line is never blank
        name = {"id": plan.id_column, "note": "note"}.get(of) or next(iter(columns))
        if only:
            columns[name][1:] = [""] * (rows - 1)
        changed = columns | {name: [cell, *columns[name][1:]]}
        return _csv(folder / "a.csv", columns), _csv(folder / "b.csv", changed)

    return inputs


def _words(cells: npt.NDArray[Any]) -> list[str]:
    cells = cells.astype(str) if cells.dtype.kind == "M" else cells
    return [cell if isinstance(cell, str) else repr(cell) for cell in cells.tolist()]


def _csv(path: Path, columns: dict[str, list[str]]) -> Path:
    lines = [",".join(line) for line in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")
    return path


@dataclass(frozen=True)
class Pair:
    """Two inputs that must look alike: how they are made, and for which plans."""

    inputs: Callable[[Plan, Path], Inputs]
    applies: Callable[[Plan], bool] = lambda plan: True


def _by_person(plan: Plan) -> bool:
    """Whether the number of rows of each person is secret."""
    return plan.unit.name == "person" and getattr(plan, "row_counts", None) != "public"


def _usual_text(plan: Plan) -> bool:
    """Whether the plan reads a plain CSV; names with a comma or a quote would need more than `_csv` writes."""
    text = getattr(plan, "text", None)
    words = [*origins(plan.columns), *(level for column in plan.columns for level in column.levels)]
    plain = all(word == word.strip() and not set(word) & set(',"\r\n') and word != "note" for word in words)
    return plain and (text is None or text == type(text)())


PAIRS: dict[str, Pair] = {
    "batches in memory": Pair(_batches),
    "files and row groups": Pair(_parquet_files),
    "spelling of numbers": Pair(_spellings, _usual_text),
    "a column beside the plan": Pair(_one_cell("y" * 2 * _NOTE, of="note", rows=ROWS, note="x" * _NOTE), _usual_text),
    "order of the rows": Pair(_sorted_rows, lambda plan: getattr(plan, "order", None) != "kept"),
    "rows of one person": Pair(_row_counts, _by_person),
    "text in a cell": Pair(_one_cell("unknown"), _usual_text),
    "a ragged line": Pair(_one_cell("1,2"), _usual_text),
    "a stray quote": Pair(_one_cell('"1'), _usual_text),
    "a column's only value": Pair(_one_cell("", only=True), _usual_text),
    "a missing id": Pair(_one_cell("", of="id"), lambda plan: plan.unit.name == "person" and _usual_text(plan)),
}


def structure_attacks(plan: Plan, publish: Publish = publish_here) -> dict[str, StructureAttack]:
    """Every attack on structure that this plan is open to, by name."""
    return {name: StructureAttack(plan, pair.inputs, publish) for name, pair in PAIRS.items() if pair.applies(plan)}
