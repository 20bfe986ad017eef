"""Which rows are used: those of a public period, and of every id the first few; and which follow the row before them.

A period's rows are those in which a column says so; for persons, the rows of all periods so far. Periods are compared
as ids are, in one canonical form for all types and spellings, and a row whose period is missing or cannot be read is in
none. Of records the period is no secret and stays as it is when the row is replaced; of a person's rows it is as secret
as the rows are.

Of one id the same rows are used whenever the data is read again. In a lifetime those are the first few by period, and
in each period by where they stand: what a release used, all later ones use as well, whatever rows their periods bring.

Which rows in time end a stack follows from the cells of the order and the series column, which are read once and are no
part of the release. It is a function of the place of a row and of those cells of neighbouring rows, so a row, whatever
its own cells become, is in the same stacks or in fewer or others of at most lags + 1 places (docs/maths/series.md).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import Series
from hazeglass.errors import DataError, PlanError
from hazeglass.guarantee.budget import MOST_PERIODS, Lifetime
from hazeglass.guarantee.units import PERIOD_UNITS, Period

if TYPE_CHECKING:
    import pyarrow as pa

    from hazeglass.compute.tables import TableSource
    from hazeglass.compute.text import TextFormat
    from hazeglass.publisher.plan import Plan

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_SINCE = "1970-01-01"
NEAR = 1e-6  # of a step, by which differences of order cells are rounded


def check_plan(plan: Plan, sources: tuple[str, ...]) -> Period | None:
    """The period whose rows are released, if the plan has one; refused where it cannot be one. `sources` are the names
    of the data's columns that are released."""
    column, value = plan.period_column, plan.period
    if (column is None and value is None) or plan.periods is not None:
        return None
    if column is None or value is None:
        missing = "period_column" if column is None else "period"
        raise PlanError(
            f"[release] must have both period_column and period, or neither, and {missing} is missing. period_column "
            "names the data's column, and period says which of its values this release is about."
        )
    if plan.protects not in PERIOD_UNITS:
        raise PlanError(
            f"period_column has no meaning with protects = {plan.protects!r}, which is in several periods: releases of "
            "them add up. Remove it, protect record, entry or readings, or give persons a [lifetime]."
        )
    if column in sources:
        raise PlanError(
            f"the period column {column!r} is the same in every row of a release: remove its [[columns]] entry."
        )
    if canonical_period(value, plan.text) == "":
        raise PlanError(f"period must be a value that a cell can have, got {value[:100]!r}. Write one as the data do.")
    return Period(column, value)


def listed(periods: Any) -> Any:
    """The names of periods: a number of them stands for 1, 2 and so on. What is no list is left to the schema."""
    if isinstance(periods, int) and not isinstance(periods, bool) and 2 <= periods <= MOST_PERIODS:
        return tuple(map(str, range(1, periods + 1)))
    if not isinstance(periods, list | tuple):
        return periods
    return tuple(str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in periods)


def lifetime_of(plan: Plan, sources: tuple[str, ...]) -> Lifetime | None:
    """Which running release the plan is for; refused where it cannot be one."""
    periods, column, value = plan.periods, plan.period_column, plan.period
    if not isinstance(periods, tuple):
        return None
    if plan.protects != "person":
        raise PlanError(
            f"[lifetime] is for releases that protect persons, got protects = {plan.protects!r}: records of different "
            "periods do not add up. Leave [lifetime] out, or protect persons."
        )
    if column is None or value is None:
        missing = "period_column" if column is None else "period"
        raise PlanError(
            f"[lifetime] needs period_column and period in [release], and {missing} is missing. The release holds all "
            "rows up to that period."
        )
    if column in sources or column == plan.id_column:
        raise PlanError(f"the period column {column!r} must not be released or be the id column. Name another one.")
    cells = [canonical_period(one, plan.text) for one in periods]
    here = canonical_period(value, plan.text)
    if "" in cells or len(set(cells)) != len(cells):
        raise PlanError("the periods of [lifetime] must be values that cells can have, each once. Correct the list.")
    if here not in cells:
        raise PlanError(f"period {value[:100]!r} is not among the periods of [lifetime]. Correct one of the two.")
    return Lifetime(column, periods, cells.index(here) + 1)


def check_lifetime(plan: Plan) -> None:
    """Refuse, in one sentence, what running releases are not derived for."""
    if plan.form != "moments" or plan.adaptive or plan.clip_radius == "private":
        raise PlanError(
            '[lifetime] needs form = "moments" and one stage on the public scale, fixed before the first period: '
            "remove adaptive = true, or give clip_radius as a number."
        )
    if plan.persons is None:
        raise PlanError(
            "[lifetime] needs persons, the public number of persons over all periods, because the number of ids so far "
            "would say when a person came. Add it to [release]."
        )


def check_source(period: Period | Lifetime, source: TableSource) -> None:
    """Refuse a column that other types would read otherwise: under another name the same rows could be released twice,
    and charged once. Text and numbers have one form, whatever holds them; no cell is looked at."""
    from hazeglass.compute.tables import declared_kinds

    kind = declared_kinds(source, period.column)[period.column]
    if kind in ("date", "binary"):  # floats are not refused: pandas makes them of whole numbers, one of them missing
        raise DataError(
            f"period_column must hold text or whole numbers, and {period.column!r} is declared as {kind}. Write "
            'periods as text, such as "2024-01", in every release.'
        )


def canonical_period(value: str, text: TextFormat) -> str:
    """The form that all spellings of a period have, empty where it names none."""
    import pyarrow as pa

    from hazeglass.compute.ids import id_column

    (cells,) = id_column(pa.array([value], pa.string()), text).to_pylist()
    return cells or ""


def in_period(cells: pa.Array, value: str) -> tuple[npt.NDArray[np.bool_], int]:
    """Which rows are in the period of this canonical form, and how many are in none."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.equal(cells, value), False).to_numpy(zero_copy_only=False), cells.null_count


class Fingerprint:
    """A hash of the cells that rows are chosen by, and of where one ends, however they are cut into batches."""

    def __init__(self, columns: int = 1) -> None:
        self._hashes = [(hashlib.sha256(), hashlib.sha256()) for _ in range(columns)]

    def update(self, *columns: pa.Array) -> None:
        """Take in some more."""
        import pyarrow.compute as pc

        for (lengths, letters), cells in zip(self._hashes, columns, strict=True):
            if not len(cells):
                return
            lengths.update(pc.fill_null(pc.binary_length(cells), -1).to_numpy())
            words = pc.fill_null(cells, "")
            first, last = np.frombuffer(words.buffers()[1], np.int32)[[words.offset, words.offset + len(words)]]
            letters.update(memoryview(words.buffers()[2] or b"")[first:last])

    def digest(self) -> bytes:
        """Of all of them."""
        return b"".join(lengths.digest() + letters.digest() for lengths, letters in self._hashes)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Which rows of every piece are used, as packed bits beside a hash of what they were chosen by, and how many."""

    masks: list[tuple[npt.NDArray[np.uint8], bytes]]
    sizes: list[int]

    @classmethod
    def of(cls, masks: Sequence[BoolArray], digests: Sequence[bytes]) -> Chosen:
        """Piece by piece."""
        packed = [(np.packbits(mask), digest) for mask, digest in zip(masks, digests, strict=True)]
        return cls(packed, [int(mask.sum()) for mask in masks])


def looked_at(
    source: TableSource, columns: tuple[str, ...], look: Callable[..., tuple[npt.NDArray[Any], int]]
) -> tuple[list[npt.NDArray[Any]], list[bytes], int]:
    """What `look` says of every row by these columns, looking at no other, piece by piece; a hash of the columns in
    each piece; and in how many rows nothing can be read there."""
    found, digests, without = [], [], 0
    for piece in source.pieces((), columns):
        said, seen = [], Fingerprint(len(columns))
        for batch in piece.batches(Counter()):
            seen.update(*batch.columns)
            some, unread = look(*batch.columns)
            said.append(some)
            without += unread
        found.append(np.concatenate(said) if said else np.zeros(0, dtype=np.bool_))
        digests.append(seen.digest())
    return found, digests, without


@dataclass(frozen=True, eq=False)
class Choice:
    """The rows that a plan uses, of a lifetime those of each period so far as well; how many persons they are of, and
    how many rows are in no one's or in no period."""

    used: Chosen
    periods: tuple[Chosen, ...]
    persons: int
    without: int


def choice_of(plan: Plan, source: TableSource) -> Choice | None:
    """Rows by their id or period, or by both; None where all are used."""
    by, counts, lifetime = plan.chosen_by, dict[str, int](), plan.lifetime
    if not by:
        return None
    if plan.rows_of is not None:
        check_source(plan.rows_of, source)
        here = canonical_period(plan.rows_of.value, plan.text)
        found, digests, without = looked_at(source, by, lambda cells: in_period(cells, here))
    elif lifetime is None:
        most = plan.unit.max_rows
        found, digests, without = looked_at(source, by, lambda ids: among_first(ids, counts, most))
    else:
        check_source(lifetime, source)
        names = [canonical_period(one, plan.text) for one in lifetime.periods]
        found, digests, without = looked_at(source, by, lambda ids, cells: in_lifetime(ids, cells, counts, names))
        codes = np.concatenate([np.zeros(0, dtype=np.int64), *found])
        ends = np.cumsum([0, *(one.size for one in found)])
        of_each, persons = first_in_lifetime(codes, len(names), lifetime.step, plan.unit.max_rows)
        whole = (np.logical_or.reduce(of_each), *of_each)
        of_pieces = [[one[start:end] for start, end in pairwise(ends)] for one in whole]
        used, *periods = (Chosen.of(one, digests) for one in of_pieces)
        return Choice(used, tuple(periods), persons, without)
    return Choice(Chosen.of(found, digests), (), len(counts), without)


def in_lifetime(
    ids: pa.Array, cells: pa.Array, persons: dict[str, int], periods: Sequence[str]
) -> tuple[IntArray, int]:
    """For every row the number of its person, times that of all periods, plus that of its own; -1, and counted, where
    it has no person or no period. `persons` remembers earlier batches."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = ids.dictionary_encode()
    numbers = [persons.setdefault(one, len(persons)) for one in encoded.dictionary.to_pylist()]
    person = np.array([*numbers, -1], dtype=np.int64)[pc.fill_null(encoded.indices, -1).to_numpy()]
    period = pc.fill_null(pc.index_in(cells, pa.array(periods, pa.string())), -1).to_numpy()
    found = np.where((person < 0) | (period < 0), -1, person * len(periods) + period)
    return found, int(np.sum(found < 0))


def first_in_lifetime(codes: IntArray, periods: int, step: int, most: int) -> tuple[list[BoolArray], int]:
    """Which rows are used in each of the first `step` periods, at most so many of each person in all of them; and how
    many persons have any. What later periods hold does not matter."""
    period = codes % periods
    at = np.flatnonzero((codes >= 0) & (period < step))
    at = at[np.argsort(codes[at], kind="stable")]  # person by person, period by period, as they stand in the data
    starts = np.flatnonzero(np.diff(codes[at] // periods, prepend=-1))
    rank = np.arange(at.size) - np.repeat(starts, np.diff(starts, append=at.size))
    kept = np.zeros(codes.size, dtype=np.bool_)
    kept[at[rank < most]] = True
    return [kept & (period == number) for number in range(step)], starts.size


def among_first(ids: pa.Array, counts: dict[str, int], most: int) -> tuple[BoolArray, int]:
    """Which rows are among the first `most` of their id, and how many have none; `counts` remembers earlier batches."""
    import pyarrow.compute as pc

    encoded = ids.dictionary_encode()
    identifiers = encoded.dictionary.to_pylist()
    without_id = len(identifiers)  # the code of rows without an id
    code = pc.fill_null(encoded.indices, without_id).to_numpy()
    before = np.array([*(counts.get(identifier, 0) for identifier in identifiers), most], dtype=np.int64)
    here = np.bincount(code, minlength=without_id + 1)
    order = np.argsort(code, kind="stable")
    rank = np.empty(len(code), dtype=np.int64)  # how many rows of the same id come before, in this batch
    rank[order] = np.arange(len(code)) - np.repeat(np.cumsum(here) - here, here)
    counts.update(zip(identifiers, (before + here)[:without_id].tolist(), strict=True))
    return np.asarray(before[code] + rank < most), int(here[without_id])


# ------------------------------------------------------------------------------------ which rows follow each other


@dataclass(frozen=True, eq=False)
class Follows:
    """Which rows of the data end a stack, as packed bits, and how many follow the row before them: secret.

    seasons  in which level of each season every row lies, -1 where its order cell cannot be read
    """

    ends: npt.NDArray[np.uint8]
    following: int
    stacks: int
    seasons: npt.NDArray[np.int8] | None = None


def read_order(
    source: TableSource, series: Series, rows: int, masks: Sequence[tuple[npt.NDArray[np.uint8], bytes]] | None = None
) -> Follows:
    """From the order and series columns alone; a cell that cannot be read follows nothing, and nothing follows it.

    Where persons are protected, `masks` says which rows of each piece are used; of others nothing is seen.
    """
    follows, done = np.zeros(rows, dtype=bool), 0
    codes = np.full((len(series.seasons), rows), -1, dtype=np.int8)
    before: _Cells | None = None
    for cells in _cells(source, series, masks):
        here = cells if before is None else before.then(cells)
        joins = here.joins(series.step)
        kept = joins[0 if before is None else 1 :]
        follows[done : done + kept.size] = kept[: max(0, rows - done)]
        codes[:, done : done + kept.size] = cells.seasons[:, : max(0, rows - done)]
        done, before = done + kept.size, here.last
    place = np.arange(rows)
    broken = np.maximum.accumulate(np.where(follows, 0, place)) if rows else place
    ends = place - broken >= series.lags
    return Follows(np.packbits(ends), int(follows.sum()), int(ends.sum()), codes if series.seasons else None)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Order cells, NaN where one cannot be read, and ids of series, None where there is none; of some rows."""

    order: FloatArray | None
    series: npt.NDArray[np.object_] | None
    seasons: npt.NDArray[np.int8]

    @property
    def last(self) -> _Cells:
        order, series = (None if one is None else one[-1:] for one in (self.order, self.series))
        return _Cells(order, series, self.seasons[:, -1:])  # type: ignore[arg-type]

    def then(self, other: _Cells) -> _Cells:
        pairs = ((self.order, other.order), (self.series, other.series))
        order, series = (None if b is None else np.concatenate([a, b]) for a, b in pairs)
        return _Cells(order, series, np.hstack([self.seasons, other.seasons]))

    def joins(self, step: float) -> BoolArray:
        """Which rows follow the one before them; the first one of all follows none."""
        found = np.ones(self.seasons.shape[1], dtype=bool)
        found[:1] = False
        if self.order is not None:
            with np.errstate(all="ignore"):
                found[1:] &= np.abs(np.diff(self.order) - step) <= NEAR * step  # false where one is NaN
        if self.series is not None:
            known = np.array([one is not None for one in self.series], dtype=bool)
            found[1:] &= (self.series[1:] == self.series[:-1]) & known[1:]
        return found


def _cells(
    source: TableSource, series: Series, masks: Sequence[tuple[npt.NDArray[np.uint8], bytes]] | None
) -> Iterator[_Cells]:
    order = () if series.order_column is None else (series.order_column,)
    ids = () if series.series_column is None else (series.series_column,)
    import pyarrow as pa

    from hazeglass.compute.readings import Reading  # it loads what reads tables

    readings = {name: Reading(name, since=_SINCE if series.dated else None) for name in order}
    parts = tuple(f"{series.order_column} {season}" for season in series.seasons)  # no other names are asked for
    readings |= {
        name: Reading(str(series.order_column), part=season) for name, season in zip(parts, series.seasons, strict=True)
    }
    for piece in source.pieces((*order, *parts), ids, readings):
        used = None if masks is None else np.unpackbits(masks[piece.number][0]).astype(bool)
        done = 0
        for batch in piece.batches(Counter()):
            if used is not None:
                here, done = used[done : done + batch.num_rows], done + batch.num_rows
                batch = batch.filter(pa.array(here))
            if not batch.num_rows:
                continue
            yield _Cells(
                batch.column(0).to_numpy(zero_copy_only=False).astype(np.float64) if order else None,
                np.array(batch.column(len(order) + len(parts)).to_pylist(), dtype=object) if ids else None,
                _codes([batch.column(k + 1) for k in range(len(parts))], series.season_levels, batch.num_rows),
            )


def _codes(columns: Sequence[Any], sizes: Sequence[int], rows: int) -> npt.NDArray[np.int8]:
    found = np.full((len(columns), rows), -1, dtype=np.int8)
    for own, column, size in zip(found, columns, sizes, strict=True):
        cells = column.to_numpy(zero_copy_only=False).astype(np.float64)
        known = (cells >= 0) & (cells < size)  # a time of 24:00 is in no hour
        own[:] = np.where(known, cells, -1.0).astype(np.int8)
    return found
