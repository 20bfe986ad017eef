"""Levels and dates: what one cell means, whatever column it stands in."""

import datetime
import enum
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hazeglass.compute.readings import Reading
from hazeglass.compute.tables import blocks, open_table
from hazeglass.compute.text import TextFormat
from hazeglass.errors import PlanError

TEXT = TextFormat(missing=("", "NA", "?"))
GRADES = Reading("x", ("low", "mid", "high"))
NAN = math.nan


def read(column, reading=GRADES, text=TEXT):
    values, unread = reading.column(column, text)
    return values.to_pylist(), unread


class Grade(enum.Enum):
    BAD = "low"
    high = 3


class Letter(enum.StrEnum):
    MIDDLE = "mid"


CELLS = {
    "text": ["low", " high ", None, "NA", "?", "LOW", "lower"],
    "objects": ["low", b" high ", None, pd.NA, pd.NaT, 3, object()],
    "enums": [Grade.BAD, Grade.high, None, NAN, None, enum.Enum("E", "a").a, "\udfff"],
}


@pytest.mark.parametrize("cells", CELLS.values(), ids=CELLS)
def test_a_cell_is_the_number_of_its_level_or_missing_and_strange_ones_are_counted(cells):
    assert read(cells) == ([0.0, 2.0, None, None, None, None, None], 2)


def test_text_is_read_alike_from_every_type_of_column():
    cells = CELLS["text"]
    expected = [0.0, 2.0, None, None, None, None, None], 2
    array = pa.array(cells)
    for column in (
        array,
        array.cast(pa.large_string()),
        array.cast(pa.binary()),
        array.dictionary_encode(),
        pa.chunked_array([array[:2], array[2:].dictionary_encode().cast(pa.string())]),
    ):
        assert read(column) == expected
    frame = pd.DataFrame({"x": pd.Categorical(cells)})
    assert _through_a_source(frame) == expected
    assert _through_a_source(pd.DataFrame({"x": pd.array(cells, dtype="string")})) == expected
    assert _through_a_source(pl.DataFrame({"x": pl.Series(cells, dtype=pl.Categorical)})) == expected
    kinds = pl.Enum(["lower", "low", " high ", "NA", "?", "LOW"])
    assert _through_a_source(pl.DataFrame({"x": pl.Series(cells, dtype=kinds)})) == expected
    assert _through_a_source(np.array([[c or ""] for c in cells]), "x1") == expected


def _through_a_source(table, name="x"):
    from collections import Counter

    unread = Counter()
    readings = {"x": Reading(name, GRADES.levels)}
    source = open_table(table, TEXT)
    batches = [batch for piece in source.pieces(["x"], (), readings) for batch in piece.batches(unread)]
    return [cell for batch in batches for cell in batch.column("x").to_pylist()], unread["x"]


def test_a_byte_that_is_no_text_makes_its_cell_strange_and_no_other():
    assert read(pa.array([b"low", b"\xfflow", b"mid" * 1000])) == ([0.0, None, None], 2)


def test_numbers_are_the_levels_that_are_written_like_them():
    reading = Reading("x", ("1", "2.5", "3", "03"))
    cells = [1, 1.0, np.int8(1), "1", "1.0", " +1", Decimal("1.00"), 2.5, np.float32(2.5), "2.50"]
    assert read(cells, reading) == ([0.0] * 7 + [1.0] * 3, 0)
    assert read([3, "3", "03", "003", 4, math.inf, 10**400], reading) == ([None, 2.0, 3.0, None, None, None, None], 5)
    assert read(pa.array([1, None, 3], pa.uint8()), Reading("x", ("1", "3"))) == ([0.0, None, 1.0], 0)
    assert read(pa.array([0.1, NAN, None]), Reading("x", ("0", "0.1"))) == ([1.0, None, None], 0)
    assert read(["1,5"], Reading("x", ("1.5", "2")), TextFormat(separator=";", decimal=",")) == ([0.0], 0)


@pytest.mark.parametrize("levels", [("false", "true"), ("no", "yes"), ("0", "1"), ("F", "T")])
def test_truth_is_read_as_the_binary_levels_say_it(levels):
    cells = [True, np.bool_(False), "True", "FALSE", 1, 0, 1.0, "yes", "n", "1", "maybe", 2]
    expected = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, None, None]
    assert read(cells, Reading("x", levels)) == (expected, 2)
    assert read(pa.array([True, None, False]), Reading("x", levels)) == ([1.0, None, 0.0], 0)


def test_other_levels_are_not_taken_for_truth():
    assert read([True, 1, "yes", "no"], Reading("x", ("no", "yes", "maybe"))) == ([None, None, 1.0, 0.0], 2)
    assert read([True, "True"], Reading("x", ("True", "False", "unknown"))) == ([0.0, 0.0], 0)


def test_every_cell_is_read_alone():
    cells = [*CELLS["text"], *CELLS["objects"], *CELLS["enums"], True, 1, 2.5, "2024-01-01", datetime.date(2024, 1, 1)]
    for reading in (GRADES, Reading("x", part="hour"), Reading("x", since="2024-01-01"), Reading("x", ("0", "1"))):
        alone = [read([cell], reading) for cell in cells]
        assert read(cells, reading) == ([one[0][0] for one in alone], sum(one[1] for one in alone))


# ---------------------------------------------------------------------------------------------------------------- dates

NOON = datetime.datetime(2024, 2, 29, 12, 30)
PARTS = {"hour": 12.0, "weekday": 3.0, "month": 1.0}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_moment_is_the_same_in_every_type(part):
    reading = Reading("x", part=part)
    east = datetime.timezone(datetime.timedelta(hours=2))
    moments = [NOON, NOON.replace(tzinfo=east), np.datetime64(NOON), pd.Timestamp(NOON), "2024-02-29 12:30"]
    moments += ["2024-02-29T12:30:00.000Z", "20240229T1230", "2024-02-29 12:30:59+02:00", b"2024-02-29T12:30-05"]
    assert read(moments, reading) == ([PARTS[part]] * len(moments), 0)
    for unit in ("s", "ms", "us", "ns"):
        assert read(pa.array([NOON, None], pa.timestamp(unit)), reading) == ([PARTS[part], None], 0)
    zoned = pa.array([NOON.replace(tzinfo=datetime.UTC)], pa.timestamp("us", "Europe/Berlin"))
    assert read(zoned, reading) == ([PARTS[part] + (part == "hour")], 0)


def test_a_moment_of_numpy_beyond_other_units_does_not_wrap():
    """As microseconds 2^62 weeks are a day in 1970."""
    reading = Reading("x", part="weekday")
    assert read([np.datetime64(2**40, "D"), np.datetime64(10**12, "W")], reading) == ([(2**40 + 3) % 7, 3.0], 0)
    beyond = [np.datetime64(2**62, "W"), np.datetime64(2**62, "Y"), np.datetime64(2**62, "M")]
    assert read(beyond, reading) == ([None] * 3, 3)
    for unit in ("Y", "M", "D", "h", "ns", "as"):
        assert read([np.datetime64(0, unit)], reading) == ([3.0], 0)
    assert read([np.datetime64(-1, "as")], reading) == ([2.0], 0)


def test_a_date_has_a_weekday_and_no_hour():
    for cell in (NOON.date(), "2024-02-29", "20240229"):
        assert read([cell], Reading("x", part="weekday")) == ([3.0], 0)
        assert read([cell], Reading("x", part="hour")) == ([None], 1)
    for kind in (pa.date32(), pa.date64()):
        assert read(pa.array([NOON.date()], kind), Reading("x", part="month")) == ([1.0], 0)
        assert read(pa.array([NOON.date()], kind), Reading("x", part="hour")) == ([None], 1)
    assert read([NOON.time()], Reading("x", part="hour")) == ([12.0], 0)
    assert read(pa.array([NOON.time()]), Reading("x", part="month")) == ([None], 1)


def test_days_are_counted_from_the_public_date_on():
    reading = Reading("x", since="2024-02-28")
    east = datetime.timezone(datetime.timedelta(hours=12, minutes=30))
    cells = [NOON, NOON.replace(tzinfo=east), "2024-02-28", "1970-01-01", "2024-02-29T12:30:00+12:30"]
    noon = 36.5 / 24
    assert read(cells, reading) == ([noon, 1.0, 0.0, -19781.0, 1.0], 0)
    assert read(pa.array([NOON], pa.timestamp("ns", "Asia/Tokyo")), reading) == ([noon], 0)


class Odd(str):
    def __iter__(self):
        raise RuntimeError("secret")


class OddFloat(float):
    def __ne__(self, other):
        raise RuntimeError("secret")

    __hash__ = float.__hash__


def test_no_cell_of_any_type_makes_reading_fail():
    cells = [
        Odd("low"),
        OddFloat(1.0),
        np.datetime64("NaT"),
        np.datetime64("2024", "Y"),
        [1],
        {},
        10**5000,
        Decimal("sNaN"),
    ]
    cells += [
        datetime.timedelta(1),
        datetime.datetime.max,
        datetime.datetime.min,
        float("-inf"),
        b"\xff" * 2000,
        "9" * 2000,
    ]
    for reading in (GRADES, Reading("x", ("0", "1")), Reading("x", part="month"), Reading("x", since="2024-01-01")):
        values, _ = read(cells, reading)
        assert len(values) == len(cells)
        alone = [read([cell], reading)[0][0] for cell in cells]
        assert values == alone


def test_no_array_of_any_type_makes_reading_fail():
    extremes = [-(2**63) + 1, 0, 2**63 - 1]
    arrays = [
        *(pa.array(extremes, pa.int64()).view(pa.duration(unit)) for unit in ("s", "ns")),
        *(
            pa.array(extremes, pa.int64()).view(pa.timestamp(unit, tz))
            for unit in ("s", "ns")
            for tz in (None, "Asia/Tokyo")
        ),
        pa.array(extremes, pa.int64()).view(pa.timestamp("us", "No/Where")),
        pa.array([[1], None, []]),
        pa.array([{"a": 1}, None, {"a": 2}]),
        pa.array([b"ab", None, b"cd"], pa.binary(2)),
        pa.array([Decimal("1.0"), None, Decimal("2.5")]),
        pa.nulls(3),
    ]
    for array in arrays:
        for reading in (GRADES, Reading("x", ("0", "1")), Reading("x", part="hour"), Reading("x", since="2024-01-01")):
            values, _ = read(array, reading)
            assert values == [read(array.slice(k, 1), reading)[0][0] for k in range(3)], (array.type, reading)


def test_whole_days_are_those_that_have_passed():
    reading = Reading("x", since="2024-02-28", whole=True)
    assert read([NOON, "2024-02-28 23:59", "2024-02-27 01:00"], reading) == ([1.0, 0.0, -1.0], 0)


def test_what_is_no_date_is_missing_and_counted():
    cells = ["2024-02-30", "2024-13-01", "25:00", "2024-02-29 25:00", "yesterday", 20240229, True, None, "NA", pd.NaT]
    assert read(cells, Reading("x", since="2024-01-01")) == ([None] * 10, 7)


# -------------------------------------------------------------------------------------------------------------- absence


def test_absence_is_1_where_a_cell_is_missing_as_its_own_column_reads_it():
    assert read([1.5, None, "word", NAN], Reading("x", absence=True)) == ([0.0, 1.0, 1.0, 1.0], 0)
    assert read(["low", "?", "else"], Reading("x", GRADES.levels, absence=True)) == ([0.0, 1.0, 1.0], 0)


def test_a_file_of_text_gives_numbers_levels_dates_and_absences_of_the_same_columns(tmp_path):
    (tmp_path / "d.csv").write_text('a,b,when\n1.5,"low",2024-02-29 12:30\n?, high ,\nx,?,nope\n,"mid",2024-03-01\n')
    readings = {
        "b": Reading("b", GRADES.levels),
        "a (missing)": Reading("a", absence=True),
        "hour": Reading("when", part="hour"),
        "day": Reading("when", since="2024-02-29"),
    }
    source, names = open_table(tmp_path / "d.csv", TEXT), ["a", "a (missing)", "b", "hour", "day"]
    from collections import Counter

    unread = Counter()
    (batch,) = [b for piece in source.pieces(names, (), readings) for b in piece.batches(unread)]
    found = {name: batch.column(name).to_pylist() for name in names}
    assert found == {
        "a": [1.5, None, None, None],
        "a (missing)": [0.0, 1.0, 1.0, 1.0],
        "b": [0.0, 2.0, None, 1.0],
        "hour": [12.0, None, None, None],
        "day": [12.5 / 24, None, None, 1.0],
    }
    assert +unread == {"a": 1, "hour": 2, "day": 1}
    assert [b.num_rows for b in blocks(source, ["a"])] == [4]


@pytest.mark.parametrize(
    ("order", "cells"),
    [
        ("day first", ["29.02.2024", "29/2/2024", " 29-02-2024 ", "2024-02-29"]),
        ("month first", ["02/29/2024", "2/29/2024", "2024-02-29"]),
    ],
)
def test_dates_are_read_in_the_order_that_the_plan_says(order, cells):
    text = TextFormat(dates=order)
    days = Reading("when", since="2024-01-01", whole=True)
    for cell in cells:
        assert days.column(pa.array([cell]), text)[0].to_pylist() == [59]
    for cell in ("31.02.2024", "29.02/2024", "29.02.24", "29.02.20245", "x"):
        assert days.column(pa.array([cell]), text)[0].to_pylist() == [None]
    assert days.column(pa.array([cells[0]]), TextFormat())[0].to_pylist() == [None]
    with pytest.raises(PlanError, match=r"text\.dates must be one of 'day first', 'month first'"):
        TextFormat(dates="year first")


@pytest.mark.parametrize("word", ["C", "2047-01-01", "NA", "\u00e9" * 600])
def test_what_a_very_long_cell_says_does_not_hang_on_what_holds_it(word):
    for cell in (" " * 1001 + word, " " * (1000 - len(word.encode())) + word):
        for reading in (
            Reading("x", levels=("C",)),
            Reading("x", since="2020-01-01"),
            Reading("x", ("C",), absence=True),
        ):
            held = (pa.array([cell]), [cell], pa.array([cell.encode()]), [cell.encode()])
            found = [tuple(str(part) for part in reading.column(column, TextFormat())) for column in held]
            assert len(set(found[:2])) == 1
            assert len(set(found[2:])) == 1
