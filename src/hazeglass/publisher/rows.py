"""From raw cells to numbers in [-1, 1]: clamp to the public bounds, transform, rescale. Nothing looks at the data's own
spread, and a missing cell becomes the public centre, so that whether it was missing stays secret. A cell that cannot be
read is a missing cell: no cell can make a release fail, and only the publisher is told how many there were."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.columns import ABSENCE, Column
from hazeglass.bundle.synthetic import synthetic_width
from hazeglass.compute.engines import Engine
from hazeglass.compute.text import BROKEN_LINES, OPEN_LINES
from hazeglass.errors import DataError, PlanError
from hazeglass.publisher.choice import BoolArray, Choice, Fingerprint, FloatArray, Follows, choice_of, read_order
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.plan_columns import check_columns, readings

if TYPE_CHECKING:  # a preview opens no table, and needs nothing that could
    import pyarrow as pa

    from hazeglass.compute.pieces import Partition, Piece
    from hazeglass.compute.tables import TableSource
    from hazeglass.publisher.warehouse import QueriedRows

Block = Sequence[FloatArray]  # the plan's columns of some rows, NaN where a cell is missing
R = TypeVar("R")
_STEPS = 100  # of progress
_ALIKE, _FEWEST_ALIKE = 0.4, 100  # correlation with the row before, and rows, from which a hint is given
Work = Callable[["Cells", int, Iterator[Block]], R]  # the int is the number of rows before the piece


@dataclass(frozen=True)
class Cells:
    """How the plan reads cells. It holds the plan and no cell, so it can be sent to wherever the rows are.

    `key` and `ends` are put in where the rows are: they are secret, and reach them with the piece
    (:class:`_UsedPiece`). `ends` says which rows of the data end a stack (publisher/choice.py); None: all that can.
    """

    plan: Plan
    key: bytes = field(default=b"", repr=False)
    ends: npt.NDArray[np.uint8] | None = field(default=None, repr=False)
    seasons: npt.NDArray[np.int8] | None = field(default=None, repr=False)
    first: int = 0

    def codes(self, start: int, rows: int) -> npt.NDArray[np.int8]:
        """In which level of each season rows lie, from the row with the number `start` on; -1 where that is unknown."""
        assert self.seasons is not None
        return self.seasons[:, start - self.first : start - self.first + rows]

    def block(self, batch: pa.RecordBatch) -> list[FloatArray]:
        """Columns as they came."""
        columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in self.plan.names]
        for column in columns:  # Arrow gives some read-only and others not, and a kernel is compiled for each kind
            column.setflags(write=False)
        return columns

    def unit_box(self, block: Block, out: FloatArray | None = None) -> FloatArray:
        """Cells on the public [-1, 1] scale, one row per row; in memory the cells of a column lie together.

        `out`, one row per column, takes the place of fresh memory, which would take longer to get than to fill.
        """
        return filled(block, self.plan.columns, 0.0, out).T

    def units(self, block: Block, out: FloatArray | None = None) -> FloatArray:
        """The same with missing cells as NaN, one row per column, as marginals see them.

        Ranks do not change under a transform, so where they count whole numbers stay whole.
        """
        columns = self.plan.columns
        if self.plan.scale == "scores":
            columns = tuple(replace(one, transform=None) if one.counted else one for one in columns)
        return filled(block, columns, math.nan, out)


def filled(block: Block, columns: Sequence[Column], missing: float, out: FloatArray | None = None) -> FloatArray:
    """The columns' cells on the public scale, one row per column; a missing cell becomes `missing`."""
    from hazeglass.publisher.kernels import to_unit

    box = np.empty((len(block), block[0].size)) if out is None else out
    for column, raw, cells in zip(columns, block, box, strict=True):
        if column.transform is None:
            to_unit(raw, column.lower, column.upper, column.centre, column.half_width, missing, cells)
        else:
            values = column.transformed(np.clip(raw, column.lower, column.upper))
            to_unit(values, -np.inf, np.inf, column.centre, column.half_width, missing, cells)
    return box


@dataclass(frozen=True)
class _Done(Generic[R]):
    """What came of one piece: how many rows it had, which columns held a number, how many cells could not be read."""

    rows: int
    seen: BoolArray
    unread: Counter[str]
    value: R


@dataclass(frozen=True)
class _OnPiece(Generic[R]):
    """Read a piece and work on its blocks, here or in another process."""

    cells: Cells
    work: Work[R]

    @property
    def secret(self) -> bool:
        """Whether the work itself must not be seen on its way to the rows: it may hold a key."""
        return bool(getattr(self.work, "secret", False))

    @np.errstate(all="ignore")  # what NumPy says of a cell (a NaN that signals, a root too small) would be seen
    def __call__(self, piece: _UsedPiece) -> _Done[R]:
        seen, unread = np.zeros(len(self.cells.plan.columns), dtype=bool), Counter[str]()
        rows = 0

        def blocks() -> Iterator[Block]:
            nonlocal rows
            for batch in piece.batches(unread):
                rows += batch.num_rows
                if batch.num_rows:
                    block = self.cells.block(batch)
                    for k in np.flatnonzero(~seen):
                        seen[k] = not np.isnan(block[k]).all()
                    yield block

        value = self.work(piece.secrets(self.cells), piece.start, blocks())
        return _Done(rows, seen, unread, value)


@dataclass(frozen=True)
class _UsedPiece:
    """A piece and its place among the rows that are used; which rows of it those are is secret (None: all).

    Where rows were chosen by so many columns of ids, `ids` is a hash of those: a source that gives other rows, or the
    same ones in another order, when it is read again would let a person have more rows than were chosen. `key` is for
    draws that every pass repeats (:class:`~hazeglass.publisher.marginals.Encoder`).
    """

    piece: Piece
    start: int
    kept: npt.NDArray[np.uint8] | None
    ids: bytes = b""
    key: bytes = b""
    ends: npt.NDArray[np.uint8] | None = None
    seasons: npt.NDArray[np.int8] | None = None
    chosen_by: int = 0

    def secrets(self, cells: Cells) -> Cells:
        """With what only reaches the rows themselves."""
        return replace(cells, key=self.key, ends=self.ends, seasons=self.seasons, first=self.start)

    @property
    def public(self) -> bool:
        return self.kept is None and not self.key and self.ends is None and self.piece.public

    @property
    def lazy_rows(self) -> Any:
        """Rows that a cluster still has to compute, or None."""
        return getattr(self.piece, "lazy_rows", None)

    def without_rows(self) -> _UsedPiece:
        """The same without what leads to its rows."""
        return replace(self, piece=cast("Partition", self.piece).without_rows())

    def loaded(self, frame: Any) -> _UsedPiece:
        """The same once its rows are computed."""
        return replace(self, piece=cast("Partition", self.piece).loaded(frame))

    def portable(self) -> _UsedPiece:
        """The same for another process."""
        portable = getattr(self.piece, "portable", None)
        return self if portable is None else replace(self, piece=portable())

    def batches(self, unread: Counter[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if self.kept is None:
            yield from self.piece.batches(unread)
            return
        kept, done, seen = np.unpackbits(self.kept).astype(bool), 0, Fingerprint(self.chosen_by)
        for batch in self.piece.batches(unread):
            seen.update(*batch.columns[-self.chosen_by :])
            yield batch.filter(pa.array(kept[done : done + batch.num_rows]))
            done += batch.num_rows
        if seen.digest() != self.ids:
            raise DataError("ids changed while they were read. Start again when nothing writes to them.")

    def __repr__(self) -> str:
        return f"<rows of {self.piece!r}>"


@dataclass
class Rows:
    """The rows of a source as the plan sees them.

    n        how many are used: public, except where persons are protected and the plan does not say otherwise
    persons  the public number of persons, where those are protected
    """

    plan: Plan
    source: TableSource
    progress: Callable[[int], None] | None = None
    n: int = field(init=False)
    persons: int | None = field(init=False, default=None)
    unread: Counter[str] = field(init=False, default_factory=Counter)
    _starts: list[int] = field(init=False)
    _chosen: Choice | None = field(init=False, default=None)
    _without: int = field(init=False, default=0)
    _follows: Follows | None = field(init=False, default=None)
    _empty: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.plan.order_column is not None and self.plan.series is None:
            raise PlanError(
                "order_column is for a table in a warehouse; other tables have an order of their own. Remove it."
            )
        check_columns(self.plan, self.source)
        sizes = self.source.sizes()
        choice = choice_of(self.plan, self.source)
        if choice is not None:
            self._chosen, self._without, sizes = choice, choice.without, choice.used.sizes
            self._count_persons(choice.persons)
        self._starts = np.cumsum([0, *sizes]).tolist()
        self.n = self._starts[-1]
        series = self.plan.series
        if series is not None and series.sources:
            masks = None if choice is None else choice.used.masks
            self._follows = read_order(self.source, series, self.n, masks)
        self._check_sizes()

    def _count_persons(self, ids: int) -> None:
        if self.plan.id_column is not None:
            self.persons = self.plan.persons or ids
            if ids > self.persons:
                raise DataError(f"the plan says that there are {self.persons} persons, and the data has more ids.")

    def _check_sizes(self) -> None:
        for things, number in (("persons", self.persons), ("rows", self.public_size)):
            if number is not None and number < 2:
                raise DataError(f"the data must have at least 2 {things}, got {number}.")

    def of_periods(self) -> Iterator[Rows]:
        """The rows of every period of a lifetime so far, one after the other; what is told of them is told of all."""
        assert self._chosen is not None
        empty = set(self.plan.names)
        for used in self._chosen.periods:
            own = copy(self)
            own._chosen, own._starts = replace(self._chosen, used=used), np.cumsum([0, *used.sizes]).tolist()
            own.n, own.unread = own._starts[-1], Counter()
            yield own
            self.unread = own.unread  # of all rows, whichever are used
            empty.intersection_update(own._empty)
        self._empty = sorted(empty, key=self.plan.names.index)

    @property
    def asked(self) -> QueriedRows | None:
        """These where they stay in a database, which is asked for sums (publisher/warehouse.py)."""
        return None

    @property
    def public_size(self) -> int:
        """The number of records, or of persons where those are protected: what the mechanism may depend on."""
        return self.n if self.persons is None or self.plan.form == "table" else self.persons

    @property
    def ends(self) -> npt.NDArray[np.uint8] | None:
        """Which rows end a stack, as packed bits; None where all that can do."""
        return None if self._follows is None else self._follows.ends

    @property
    def public_range(self) -> tuple[int, int]:
        """Between which numbers the number of rows, or of stacks, lies, as everybody knows; few synthetic rows have no
        covariance."""
        if self.persons is None or self.plan.form == "table":
            return self.n if self.plan.series is None else 2, self.n
        if self.plan.series is not None:
            return 2, self.persons * self.plan.unit.max_rows
        least = synthetic_width(self.plan.columns) + 2 if self.plan.form == "synthetic" else 2
        fewest = max(least, self.persons if self.plan.persons is None else 0)
        return fewest, self.persons * self.plan.unit.max_rows

    @property
    def cells(self) -> Cells:
        """How the plan reads them."""
        return Cells(self.plan)

    def _used_pieces(self, key: bytes = b"") -> Iterator[_UsedPiece]:
        by = self.plan.chosen_by
        pieces = self.source.pieces(self.plan.names, by, readings(self.plan.columns))
        codes = None if self._follows is None else self._follows.seasons
        for piece, (start, end) in zip(pieces, pairwise(self._starts), strict=True):
            kept, seen = (None, b"") if self._chosen is None else self._chosen.used.masks[piece.number]
            here = None if codes is None else codes[:, start:end]
            yield _UsedPiece(piece, start, kept, seen, key, self.ends, here, len(by))

    def blocks(self) -> Iterator[Block]:
        """The plan's columns, block by block."""
        unread: Counter[str] = Counter()
        return (self.cells.block(batch) for piece in self._used_pieces() for batch in piece.batches(unread))

    def run(self, engine: Engine, work: Work[R], key: bytes = b"") -> Iterator[R]:
        """The results of `work` on every piece, in order; `key` reaches it on the way that rows in memory take."""
        seen, unread = np.zeros(len(self.plan.columns), dtype=bool), Counter[str]()
        done, marks = 0, self._marks()
        for found in engine.map(_OnPiece(self.cells, work), self._used_pieces(key)):
            seen |= found.seen
            unread += found.unread
            done += found.rows
            self._tell_marks(marks, done if self.persons is None else 0)
            yield found.value
        if done != self.n:
            raise DataError("the number of rows changed while they were read. Start again when nothing writes to them.")
        self._tell_marks(marks, marks[-1] if marks else 0)
        self.unread = unread
        self._empty = [name for name, any_number in zip(self.plan.names, seen, strict=True) if not any_number]

    def _marks(self) -> list[int]:
        """What progress is told, however the rows are cut: hundredths of a public number, or that alone at the end."""
        if self.persons is not None:
            return [self.persons]
        return sorted({self.n * k // _STEPS for k in range(1, _STEPS + 1)} - {0})

    def _tell_marks(self, marks: list[int], done: int) -> None:
        while self.progress is not None and marks and marks[0] <= done:
            self.progress(marks.pop(0))

    def _tell_alike(self) -> None:
        """A hint where rows resemble the ones before them, as they do in time; by the first block alone."""
        found = 0.0
        for cells in next(self.blocks(), []):
            here, before = cells[1:], cells[:-1]
            both = np.isfinite(here) & np.isfinite(before)
            if both.sum() >= _FEWEST_ALIKE and here[both].std() > 0 and before[both].std() > 0:
                found = max(found, float(np.corrcoef(here[both], before[both])[0, 1]))
        if found > _ALIKE:
            _tell(
                f"publisher only: rows resemble the row before them (correlation {found:.2f} in one column). Are they "
                'in time? Then rows = "series" gives honest error bars; if they are only sorted, never mind.'
            )

    def tell_publisher(self) -> None:
        """Say what only the publisher may know: how much of the data could not be read."""
        worded = [one for one in self.plan.columns if one.levels or one.since]
        meant = {one.name: "dates" if one.part or one.since else "levels" for one in worded}
        if not self.plan.text.header and all(self.unread[one.name] for one in self.plan.columns if one.part != ABSENCE):
            _tell(
                "publisher only: every column has a cell that cannot be read. Do the data begin with a line of names?"
            )
        for name, cells in sorted(self.unread.items()):
            what = f"cells of column {name!r} that are no {meant.get(name, 'numbers')} and count as missing: {cells:,}."
            if name in meant:
                found = "That is most of them: compare" if 2 * cells > self.n else "Is one misspelled? Compare"
                what += f" {found} the plan's {meant[name]} with how the data writes them."
            if name == BROKEN_LINES:
                what = f"lines that are no rows and count as rows of missing cells: {cells:,}."
                if not self.plan.text.quoted_newlines:
                    what += " If quoted cells hold line ends, the plan must say so: [text] quoted_newlines = true."
            if name == OPEN_LINES:
                what = f"last lines that no newline ends, and that are no rows where a file has one column: {cells:,}."
            _tell(f"publisher only: {what}")
        for name in self._empty:
            what = meant.get(name, "numbers").removesuffix("s")
            _tell(f"publisher only: column {name!r} holds no {what} at all.")
        if self._without:
            what, column = ("id", self.plan.id_column) if self.plan.id_column else ("period", self.plan.period_column)
            also = "" if self.plan.lifetime is None else ", or of no period that [lifetime] lists"
            _tell(
                f"publisher only: rows without a readable {what} in {column!r}{also}, which are left out: "
                f"{self._without:,}."
            )
        if self._follows is not None:
            lonely = self.n - self._follows.following
            _tell(
                f"publisher only: rows that follow no row before them (the first of a series, behind a gap, or with an "
                f"order that cannot be read): {lonely:,} of {self.n:,}; stacks: {self._follows.stacks:,}."
            )
        elif self.plan.series is None and self.persons is None:
            self._tell_alike()


def _tell(sentence: str) -> None:
    """To standard error and nowhere else: no release and no answer may hold it, and no filter makes it an error."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()
