"""One table in many layouts, and its neighbours: what the test of non-interference publishes and compares.

A sheet holds cells as they were meant. A layout makes of it what a publisher may hold in hand: a CSV in some spelling,
a Parquet file with odd row groups, a data frame. A change replaces one protected unit of a sheet by another.
"""

import gzip
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import hazeglass as hg
from hazeglass.bundle.columns import origins
from hazeglass.compute.text import TextFormat
from hazeglass.publisher.plan import Plan

ROWS, MAX_ROWS, READINGS, PERSONS = 400, 3, 5, 200
NUMBERS, ID = ("x1", "x2", "x3"), "x4"  # the names that columns of a NumPy array have
CUTS = (0, 1, 131, 132, 290, ROWS + 40)  # odd pieces of a table, whatever its number of rows


@dataclass(frozen=True)
class Sheet:
    """Cells by column: a number, None where one is missing, text, or bytes that are no text.

    `lines` are rows that a text file holds as these bytes, whatever their cells are. `origin` says which row of the
    first sheet each row was, where rows were taken away or put in.
    """

    columns: Mapping[str, Sequence[Any]]
    lines: Mapping[int, bytes] = field(default_factory=dict)
    origin: Sequence[int] = range(ROWS)

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def with_cells(self, cells: Sequence[tuple[int, str]], put: Callable[[int, str], Any]) -> "Sheet":
        columns = {name: list(column) for name, column in self.columns.items()}
        for row, name in cells:
            columns[name][row] = put(row, name)
        return replace(self, columns=columns)

    def taking(self, rows: Sequence[int]) -> "Sheet":
        columns = {name: [column[k] for k in rows] for name, column in self.columns.items()}
        return replace(self, columns=columns, origin=[self.origin[k] for k in rows])

    def used(self, most: int) -> list[int]:
        """The rows that count where persons are protected: the first few of every id that can be read."""
        ids, found = self.columns[ID], []
        for row, person in enumerate(ids):
            if person is not None and row not in self.lines and ids[:row].count(person) < most:
                found.append(row)
        return found


def sheet(columns: int, often_missing: Sequence[str] = ()) -> Sheet:
    """Numbers that every layout can hold exactly and that depend on each other, and people with one to five rows each.

    Three cells of each column are missing, or a third of them.
    """
    rng = np.random.default_rng(5)
    both = rng.normal(size=ROWS)
    one, two, three = (0.9 * both + 0.45 * rng.normal(size=ROWS) for _ in range(3))
    made: dict[str, list[Any]] = {
        "x1": np.clip(np.rint(10 * one) / 8, -4, 4).tolist(),
        "x2": np.clip(np.rint(4 * np.exp(3 + two)) / 4, 1, 1000).tolist(),
        "x3": np.clip(np.rint(40 + 12 * three), 0, 100).astype(int).tolist(),
        ID: [],
    }
    for person in range(ROWS):
        made[ID] += [100 + person] * (1 + person % 3 + 2 * (person % 10 == 9))
    ids = np.array(made[ID][:ROWS])
    made[ID] = ids[rng.permutation(ROWS)].tolist()
    together = rng.choice(ROWS, ROWS // 3, replace=False)
    for name in NUMBERS:
        for row in together if name in often_missing else rng.choice(ROWS, 3, replace=False):
            made[name][row] = None
    return Sheet(made if columns > 1 else {"x1": made["x1"]})


# -------------------------------------------------------------------------------------------------------------- plans

_PERSON = {"protects": "person", "id_column": ID, "max_rows": MAX_ROWS}
_ONE, _SEVERAL = {"missing": ("x3",)}, {"missing": ("x1", "x3")}  # in which a third of the cells is missing

PLANS: dict[str, dict[str, Any]] = {
    "table entry": {"form": "table", "protects": "entry"},
    "table entry, one column": {"form": "table", "protects": "entry", "columns": 1},
    "table readings": {"form": "table", "protects": "readings", "readings": READINGS},
    "table record": {"form": "table", "protects": "record", "discrete": True},
    "table record, order kept": {"form": "table", "protects": "record", "order": "kept"},
    "table record, clipped": {"form": "table", "protects": "record", "clip_radius": 1.0},
    "table person": {"form": "table", **_PERSON, "row_counts": "public"},
    "table column": {"form": "table", "protects": "column"},
    "moments entry": {"form": "moments", "protects": "entry"},
    "moments entry, linear": {"form": "moments", "protects": "entry", "scale": "linear"},
    "moments entry, cells missing": {"form": "moments", "protects": "entry", "mu": 9.0, **_SEVERAL},
    "moments readings": {"form": "moments", "protects": "readings", "readings": READINGS},
    "moments record": {"form": "moments", "protects": "record", "mu": 3.0},
    "moments record, linear": {"form": "moments", "protects": "record", "scale": "linear", "mu": 4.0},
    "moments record, one column": {"form": "moments", "protects": "record", "columns": 1},
    "moments record, one stage": {"form": "moments", "protects": "record", "adaptive": False},
    "moments record, bought radius": {"form": "moments", "protects": "record", "clip_radius": "private"},
    "moments record, curved": {"form": "moments", "protects": "record", "dependence": "curved"},
    "moments record, cells missing in one column": {"form": "moments", "protects": "record", "mu": 3.0, **_ONE},
    "moments record, cells missing": {"form": "moments", "protects": "record", "mu": 3.0, **_SEVERAL},
    "moments record, linear, cells missing": {
        **_SEVERAL,
        "form": "moments",
        "protects": "record",
        "mu": 3.0,
        "scale": "linear",
    },
    "moments record, series": {"form": "moments", "protects": "record", "mu": 3.0, "rows": "series", "lags": 2},
    "moments readings, series": {
        "form": "moments",
        "protects": "readings",
        "readings": READINGS,
        "scale": "linear",
        "rows": "series",
    },
    "moments person, series": {"form": "moments", **_PERSON, "mu": 9.0, "rows": "series"},
    "moments person": {"form": "moments", **_PERSON},
    "moments person, linear": {"form": "moments", **_PERSON, "scale": "linear", "mu": 9.0},
    "moments person, cells missing": {"form": "moments", **_PERSON, "mu": 9.0, **_SEVERAL},
    "moments person, persons stated": {"form": "moments", **_PERSON, "persons": PERSONS},
    "moments person, bought radius": {"form": "moments", **_PERSON, "clip_radius": "private"},
    "synthetic entry": {"form": "synthetic", "protects": "entry"},
    "synthetic readings": {"form": "synthetic", "protects": "readings", "readings": READINGS, "scale": "linear"},
    "synthetic record": {"form": "synthetic", "protects": "record", "round_integers": True},
    "synthetic record, linear": {"form": "synthetic", "protects": "record", "scale": "linear", "mu": 3.0},
    "synthetic record, one stage": {"form": "synthetic", "protects": "record", "adaptive": False},
    "synthetic person": {"form": "synthetic", **_PERSON, "persons": PERSONS, "mu": 0.3},
    "synthetic person, linear": {
        **_PERSON,
        "form": "synthetic",
        "scale": "linear",
        "exact": True,
        "round_integers": True,
        "mu": 0.3,
    },
    "table entry, kinds": {"form": "table", "protects": "entry", "kinds": ("categorical",)},
    "table record, kinds": {"form": "table", "protects": "record", "kinds": ("categorical",)},
    "table person, kinds": {"form": "table", **_PERSON, "row_counts": "public", "kinds": ("categorical",)},
    "table readings, kinds": {
        "form": "table",
        "protects": "readings",
        "readings": READINGS,
        "kinds": ("categorical",),
    },
    "moments entry, kinds": {"form": "moments", "protects": "entry", "mu": 9.0, "kinds": ("categorical",)},
    "moments record, kinds": {"form": "moments", "protects": "record", "mu": 3.0, "kinds": ("categorical",)},
    "moments person, kinds": {"form": "moments", **_PERSON, "mu": 9.0, "kinds": ("categorical",)},
    "synthetic record, kinds": {"form": "synthetic", "protects": "record", "kinds": (), "scale": "linear"},
    "synthetic record, all kinds": {"form": "synthetic", "protects": "record", "kinds": ("categorical",)},
}


# Levels are written like the numbers of the sheet, so that every layout holds them; all others are missing.
_OF_ALL_KINDS = (
    hg.Column("x1", "continuous", lower=-4, upper=4, missing="informative"),
    hg.Column("sign", "binary", levels=("-0.125", "0.125"), source="x1"),
    hg.Column("x2", "integer", lower=1, upper=1000),
    hg.Column("x3", "ordinal", levels=tuple(map(str, range(20, 70))), missing="informative"),
    hg.Column("tens", "categorical", levels=("40", "30", "50", "99"), source="x3", missing="informative"),
)


def make_plan(name: str, text: TextFormat | None = None, **other: Any) -> Plan:
    wish = {"mu": 1.0, **PLANS[name], **other}
    discrete, _, more = wish.pop("discrete", False), wish.pop("missing", ()), wish.pop("kinds", None)
    if more is not None:
        columns = [column for column in _OF_ALL_KINDS if column.kind != "categorical" or column.kind in more]
        return Plan(title="Clinic", delta=1e-6, columns=tuple(columns), text=text or TextFormat(), **wish)
    columns = [
        hg.Column("x1", "continuous", lower=-4, upper=4),
        hg.Column("x2", "continuous", lower=1, upper=1000, transform="log"),
        hg.Column("x3", "integer", lower=0, upper=100, noise="discrete" if discrete else "rounded"),
    ][: wish.pop("columns", 3)]
    return Plan(title="Clinic", delta=1e-6, columns=tuple(columns), text=text or TextFormat(), **wish)


# ------------------------------------------------------------------------------------------------------------ changes

TEXT = 'HIV "positive"; since 1,5 years'
VALUES: dict[str, Callable[[int, str], Any]] = {
    "value": lambda row, name: {"x1": -3.875, "x2": 777.25, "x3": 99}[name],
    "missing": lambda row, name: None,
    "huge": lambda row, name: 1e300,
    "infinite": lambda row, name: math.inf if row % 2 else -math.inf,
    "not a number": lambda row, name: math.nan,
    "text": lambda row, name: TEXT,
    "bad byte": lambda row, name: b"1.5\xff",
}
LINES = {
    "short line": b"1",
    "long line": b"1,2;3\t4|5,6;7\t8|9,1;2\t3|4,5;6\t7|8,9;1\t2|3",
    "stray quote": b'1.5,"2;3\t4|5,6;7\t8|9',
    "bytes of no text": b"\xff\x80\xfe,\xc3;\xe2\x28\t\x81|\x00",
    "blank line": b"",
    "carriage return": b"1\r2,3;4\t5|6",
}
ROW_NUMBERS = ("fewer rows", "more rows", "rows beyond the cap")
ABSENCES = ("no row", "no readable id")
CHANGES = ("nothing", *VALUES, *LINES, *ROW_NUMBERS, *ABSENCES)


def sort_of(kind: str) -> str:
    """What a change does: nothing, another number, a cell or a line that is missing, another number of rows."""
    if kind in (*ROW_NUMBERS, *ABSENCES):
        return "rows"
    numbers = ("value", "huge", "infinite")
    return "line" if kind in LINES else "number" if kind in numbers else kind if kind == "nothing" else "missing"


def change(plan: Plan, base: Sheet, kind: str, case: str) -> Sheet:
    """A neighbour of the sheet under the plan; which unit is replaced follows from the name of the case."""
    if kind == "nothing":
        return base
    pick = crc32(case.encode())
    if plan.protects == "person":
        return _other_person(plan, base, kind, pick)
    rows = [(0, base.rows - 1, pick % base.rows)[pick % 3]]
    if kind in LINES:
        return replace(base, lines=dict.fromkeys(rows, LINES[kind]))
    names = list(dict.fromkeys(origins(plan.columns)))
    if plan.protects == "readings":
        rows = [(rows[0] + 117 * k) % base.rows for k in range(READINGS)]
    if plan.protects == "column":
        rows = list(range(base.rows))
    if plan.protects in ("entry", "readings", "column"):
        names = [names[pick % len(names)]]
    return base.with_cells([(row, name) for row in rows for name in names], VALUES[kind])


def _other_person(plan: Plan, base: Sheet, kind: str, pick: int) -> Sheet:
    """Somebody with two rows becomes somebody else."""
    ids = list(base.columns[ID])
    twice = sorted({person for person in ids if ids.count(person) == 2})
    person = twice[pick % len(twice)]
    rows = [row for row, found in enumerate(ids) if found == person]
    if kind in VALUES:
        return base.with_cells(
            [(row, name) for row in rows for name in dict.fromkeys(origins(plan.columns))], VALUES[kind]
        )
    if kind in LINES:  # one of two, so that the number of persons stays what it is
        return replace(base, lines={rows[0]: LINES[kind]})
    if kind == "no readable id":
        return base.with_cells([(row, ID) for row in rows], VALUES["missing"])
    order = list(range(base.rows))
    for row in {"fewer rows": rows[:1], "no row": rows}.get(kind, []):
        order.remove(row)
    for k in range({"more rows": 1, "rows beyond the cap": 4}.get(kind, 0)):
        order.insert((pick + 97 * k) % base.rows, rows[k % 2])
    return base.taking(order)


# ------------------------------------------------------------------------------------------------------------ layouts


@dataclass(frozen=True)
class Layout:
    """A way in: which source of the code reads it, a file's suffix, and which changes of a cell or line it can hold."""

    make: Callable[[Sheet, Path], Any]
    source: str
    suffix: str = ""
    text: TextFormat = field(default_factory=TextFormat)
    holds: tuple[str, ...] = ("value", "missing", "huge", "infinite", "not a number")


_FEW = ("value", "missing")
_TEXT = ("value", "missing", "huge", "infinite", "not a number", "text")
_BYTES = (*_TEXT, "bad byte")
_CSV = (*_BYTES, *LINES)


def number_text(cell: Any, style: int = 0) -> str:
    """A number as it may be written; styles beyond 0 are other spellings of the same."""
    if not math.isfinite(cell) or abs(cell) > 1e6:
        return ("inf" if cell > 0 else "-inf") if math.isinf(cell) else "nan" if math.isnan(cell) else "1e300"
    plain = str(cell)
    spellings = (plain, f"{cell:.6f}", f"{cell:e}", f'"{plain}"', f" {plain} ", f"{cell:+.3f}", f'"{cell:.9f}"')
    return spellings[style % len(spellings)]


def _field(cell: Any, decimal: str, style: int) -> str | bytes:
    if cell is None:
        return ("", "NA", '""')[style % 3]
    if isinstance(cell, bytes):
        return cell
    if isinstance(cell, str):
        return '"' + cell.replace('"', '""') + '"'
    return number_text(cell, style).replace(".", decimal)


Extra = Mapping[str, Callable[[int], str | bytes]]


def csv_bytes(
    base: Sheet,
    *,
    separator: str = ",",
    decimal: str = ".",
    newline: str = "\n",
    encoding: str = "utf-8",
    spelled: bool = False,
    extra: Extra | None = None,
    backwards: bool = False,
    header: bool = True,
    first: int = 0,
    last: int | None = None,
) -> bytes:
    """The sheet's rows as a CSV file."""
    names = [*base.columns, *(extra or {})][:: -1 if backwards else 1]
    lines = [separator.join(names).encode(encoding)] if header else []
    for row in range(first, base.rows if last is None else min(last, base.rows)):
        if row in base.lines:
            lines.append(base.lines[row])
            continue
        cells = [
            extra[name](row)
            if extra and name in extra
            else _field(base.columns[name][row], decimal, (row * 3 + k + 1) if spelled else 0)
            for k, name in enumerate(names)
        ]
        lines.append(
            separator.encode().join(c if isinstance(c, bytes) else c.encode(encoding, "replace") for c in cells)
        )
    return newline.encode().join([*lines, b""])


def _csv(**options: Any) -> Callable[[Sheet, Path], str]:
    def make(base: Sheet, folder: Path) -> str:
        (folder / "d.csv").write_bytes(csv_bytes(base, **options))
        return str(folder / "d.csv")

    return make


def _spelled(base: Sheet, folder: Path) -> str:
    """Every spelling at once, with a byte order mark and without a last newline (which rows of one cell need)."""
    several = len(base.columns) > 1
    content = b"\xef\xbb\xbf" + csv_bytes(base, spelled=several, newline="\r\n")
    (folder / "d.csv").write_bytes(content.removesuffix(b"\r\n") if several else content)
    return str(folder / "d.csv")


def _several_csv(base: Sheet, folder: Path) -> str:
    for k, (first, last) in enumerate(pairwise(CUTS)):
        (folder / f"d{k}.csv").write_bytes(
            csv_bytes(
                base, first=first, last=last, spelled=k == 2, backwards=k == 3, newline="\r\n" if k == 1 else "\n"
            )
        )
    (folder / "e.csv").write_bytes(csv_bytes(base, first=ROWS * 2))  # a file without rows
    return str(folder)


def _packed(base: Sheet, folder: Path) -> str:
    (folder / "d.csv.gz").write_bytes(gzip.compress(csv_bytes(base)))
    return str(folder / "d.csv.gz")


def _data(base: Sheet, folder: Path) -> str:
    (folder / "d.data").write_bytes(csv_bytes(base, spelled=True))
    return str(folder / "d.data")


def _packed_data(base: Sheet, folder: Path) -> str:
    (folder / "d.data.gz").write_bytes(gzip.compress(csv_bytes(base)))
    return str(folder / "d.data.gz")


def _tabs(base: Sheet, folder: Path) -> str:
    (folder / "d.tsv").write_bytes(csv_bytes(base, separator="\t"))
    return str(folder / "d.tsv")


_BESIDE: Extra = {
    "status": lambda row: "HIV positive" if row % 7 == 3 else "healthy",
    "note": lambda row: '"' + 'said ""no"", then went; ' * (row % 9) + '"',
    "odd": lambda row: b"\xff\x00\xfe" * (row % 5),
    "amount": lambda row: "1.5" if row < 300 else "none",
}


def numbers_only(cells: Sequence[Any]) -> pa.Array:
    return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64(), from_pandas=False)


def _as_bytes(cells: Sequence[Any]) -> pa.Array:
    """Numbers and text alike as bytes."""
    words = [c if c is None or isinstance(c, bytes) else c if isinstance(c, str) else number_text(c) for c in cells]
    return pa.array([w.encode() if isinstance(w, str) else w for w in words], pa.binary())


def _arrow(base: Sheet, column: Callable[[Sequence[Any]], pa.Array] = numbers_only) -> pa.Table:
    return pa.table({name: column(cells) for name, cells in base.columns.items()})


def _typed(base: Sheet) -> pa.Table:
    """Every column of a type of its own."""
    types = {"x1": pa.float32(), "x2": pa.decimal128(12, 3), "x3": pa.int16(), ID: pa.string()}
    made = {}
    for name, cells in base.columns.items():
        if name == "x2":
            cells = [None if cell is None else Decimal(str(cell)) for cell in cells]
        if name == ID:
            cells = [None if cell is None else ("0" * (cell % 2) + str(cell)) for cell in cells]
        made[name] = pa.array(cells, types[name])
    return pa.table(made)


def _chunked(base: Sheet, folder: Path) -> pa.Table:
    """Every column cut at places of its own."""
    whole = _arrow(base)
    columns = []
    for k, column in enumerate(whole.columns):
        cuts = [0, *range(1 + 13 * k, base.rows, 53 + 31 * k), base.rows]
        columns.append(pa.chunked_array([column.chunk(0).slice(a, b - a) for a, b in pairwise(cuts)]))
    return pa.table(columns, names=whole.column_names)


def _encoded(base: Sheet, folder: Path) -> pa.Table:
    """Dictionaries that differ from chunk to chunk, with nulls among their values."""
    whole, cuts = _arrow(base, _as_bytes), [0, 40, 41, 300, base.rows]
    parts = [whole.slice(a, b - a) for a, b in pairwise(cuts)]
    names = whole.column_names
    return pa.table(
        [
            pa.chunked_array([part[name].combine_chunks().dictionary_encode("encode") for part in parts])
            for name in names
        ],
        names=names,
    )


def _parquet(column: Callable[[Sheet], pa.Table], suffix: str, **options: Any) -> Callable[[Sheet, Path], str]:
    def make(base: Sheet, folder: Path) -> str:
        table = column(base)
        with pq.ParquetWriter(folder / f"d{suffix}", table.schema, **options) as writer:
            for first, last in pairwise(CUTS):
                if first < table.num_rows:
                    writer.write_table(table.slice(first, last - first))
        return str(folder / f"d{suffix}")

    return make


def _several_parquet(base: Sheet, folder: Path) -> str:
    table = _arrow(base).append_column("status", pa.array([_BESIDE["status"](row) for row in range(base.rows)]))
    for k, (first, last) in enumerate(pairwise(CUTS)):
        pq.write_table(table.slice(first, last - first), folder / f"d{k}.parquet", row_group_size=17 + k)
    return f"{folder}/*.parquet"


def _objects(base: Sheet) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(list(cells), dtype=object) for name, cells in base.columns.items()})


def _nullable(base: Sheet, folder: Path) -> pd.DataFrame:
    frame = _objects(base).astype({name: "Int64" if name in ("x3", ID) else "Float64" for name in base.columns})
    return frame.set_index(pd.Index([f"patient {k}" for k in range(base.rows)][::-1], name="who"))


def _categories(base: Sheet, folder: Path) -> pd.DataFrame:
    return _objects(base).astype(dict.fromkeys(base.columns, "category")).assign(note=TEXT)


def _numpy_text(base: Sheet, folder: Path) -> np.ndarray:
    words = [
        ["" if c is None else c if isinstance(c, str) else number_text(c) for c in cs] for cs in base.columns.values()
    ]
    return np.array(words).T


def _dask(frame: Callable[[Sheet, Path], pd.DataFrame]) -> Callable[[Sheet, Path], Any]:
    def make(base: Sheet, folder: Path) -> Any:
        import dask
        import dask.dataframe as dd

        rows = frame(base, folder)
        with dask.config.set({"dataframe.convert-string": False}):
            return dd.concat(
                [dd.from_pandas(rows.iloc[a:b], npartitions=1, sort=False) for a, b in ((0, 1), (1, 250), (250, None))]
            )

    return make


def _workbook(base: Sheet, folder: Path) -> str:
    """With a note in every row, because a sheet ends with its last row that holds anything."""
    book = openpyxl.Workbook()
    book.active.append([*base.columns, "note"])
    for row in zip(*base.columns.values(), strict=True):
        book.active.append([*row, "x"])
    book.save(folder / "d.xlsx")
    return str(folder / "d.xlsx")


LAYOUTS: dict[str, Layout] = {
    "csv": Layout(_csv(), "files", ".csv", holds=_CSV),
    "csv spelled otherwise": Layout(_spelled, "files", ".csv", holds=_BYTES),
    "csv with semicolons": Layout(
        _csv(separator=";", decimal=",", spelled=True, newline="\r\n"),
        "files",
        ".csv",
        TextFormat(separator=";", decimal=",", missing=("", "NA", "?")),
        holds=_CSV,
    ),
    "csv in latin-1": Layout(
        _csv(encoding="latin-1", separator="|", extra={"ä": lambda row: "é" * (row % 30)}),
        "files",
        ".csv",
        TextFormat(separator="|", encoding="latin-1"),
        holds=_CSV,
    ),
    "csv without header": Layout(
        _csv(header=False), "files", ".csv", TextFormat(header=False, names=(*NUMBERS, ID)), holds=_CSV
    ),
    "csv with other columns": Layout(_csv(extra=_BESIDE, backwards=True), "files", ".csv", holds=_CSV),
    "csv with cells of several lines": Layout(
        _csv(extra={"note": lambda row: '"' + "x1,x2\n9,9\r\n" * (row % 9) + '"'}, spelled=True),
        "files",
        ".csv",
        TextFormat(quoted_newlines=True),
        holds=_BYTES,
    ),
    "several csv": Layout(_several_csv, "files", ".csv", holds=_CSV),
    "csv, packed": Layout(_packed, "files", ".csv.gz", holds=_CSV),
    "csv by another name": Layout(_data, "files", ".data", holds=_CSV),
    "csv by another name, packed": Layout(_packed_data, "files", ".data.gz", holds=_CSV),
    "tsv": Layout(_tabs, "files", ".tsv", holds=_CSV),
    "parquet": Layout(_parquet(_arrow, ".parquet"), "files", ".parquet"),
    "parquet of other types": Layout(_parquet(_typed, ".pq"), "files", ".pq", holds=_FEW),
    "parquet of text": Layout(
        _parquet(lambda base: _arrow(base, _as_bytes), ".parquet", compression="zstd"),
        "files",
        ".parquet",
        holds=_BYTES,
    ),
    "several parquet": Layout(_several_parquet, "files", ".parquet"),
    "excel": Layout(_workbook, "files", ".xlsx", holds=_FEW),
    "csv with thousands": Layout(
        _csv(spelled=True, extra={"sum": lambda row: f'"{997 * row:,}"'}),
        "files",
        ".csv",
        TextFormat(thousands=","),
        holds=_CSV,
    ),
    "numpy": Layout(
        lambda base, folder: (
            np.array([[np.nan if cell is None else float(cell) for cell in cells] for cells in base.columns.values()]).T
        ),
        "numpy",
    ),
    "numpy objects": Layout(
        lambda base, folder: np.array([list(cells) for cells in base.columns.values()], dtype=object).T,
        "numpy",
        holds=_BYTES,
    ),
    "numpy text": Layout(_numpy_text, "numpy", holds=_TEXT),
    "arrow": Layout(lambda base, folder: _arrow(base), "arrow"),
    "arrow, chunked": Layout(_chunked, "arrow"),
    "arrow, encoded": Layout(_encoded, "arrow", holds=_BYTES),
    "arrow of other types": Layout(lambda base, folder: _typed(base), "arrow", holds=_FEW),
    "record batch": Layout(lambda base, folder: _arrow(base).select(list(base.columns)[::-1]).to_batches()[0], "arrow"),
    "pandas objects": Layout(lambda base, folder: _objects(base), "frame", holds=_BYTES),
    "pandas categories": Layout(_categories, "frame", holds=_BYTES),
    "pandas nullable": Layout(_nullable, "frame", holds=_FEW),
    "polars, lazy": Layout(lambda base, folder: pl.from_arrow(_arrow(base)).lazy(), "frame"),
    "polars": Layout(lambda base, folder: pl.from_arrow(_arrow(base)), "frame"),
    "polars of text": Layout(lambda base, folder: pl.from_arrow(_arrow(base, _as_bytes)), "frame", holds=_BYTES),
    "dask": Layout(_dask(lambda base, folder: _objects(base).astype("Float64")), "dask", holds=_FEW),
    "dask objects": Layout(_dask(lambda base, folder: _objects(base)), "dask", holds=_BYTES),
}


def applies(plan: str, layout: str, kind: str) -> bool:
    """Whether the layout can hold such a change and it replaces one unit of the plan."""
    wish, holds = PLANS[plan], LAYOUTS[layout].holds
    person, one = wish["protects"] == "person", "columns" in wish
    if one and LAYOUTS[layout].text.names:
        return False  # the names of a file without header are those of all its columns
    if kind in LINES:
        return kind in holds and ((person and wish["form"] != "table") or wish["protects"] == "record" or one)
    if kind in (*ROW_NUMBERS, *ABSENCES):
        return person and wish["form"] != "table" and (kind in ROW_NUMBERS or "persons" in wish)
    return kind == "nothing" or kind in holds
