"""A cell means the same number, and the same person, whatever table it came in and whatever stands beside it."""

from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hazeglass.compute.cells import canonical_id, id_column, number_column, numbers_from_text
from hazeglass.compute.tables import blocks, floats, open_table
from hazeglass.compute.text import TextFormat

TEXT = TextFormat()
NAN = float("nan")
CELLS = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.text(max_size=6),
    st.sampled_from(
        ["1.5", " 2 ", "NA", "1,5", "inf", "1e400", b"3.5", b"\xff", date(2020, 1, 1), pd.NaT, pd.NA, [1], {}]
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=8))
def test_python_objects_are_read_one_by_one(cells):
    together, unread = number_column(list(cells), TEXT)
    alone = [number_column([cell], TEXT) for cell in cells]
    np.testing.assert_array_equal(
        together.to_numpy(zero_copy_only=False),
        np.concatenate([one.to_numpy(zero_copy_only=False) for one, _ in alone]),
    )
    assert unread == sum(count for _, count in alone)
    ids = id_column(list(cells), TEXT)
    assert ids.to_pylist() == [id_column([cell], TEXT)[0].as_py() for cell in cells]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123456789+-.eE, \tinfNA_x", max_size=12))
def test_text_is_a_number_where_python_agrees(text):
    values, _ = numbers_from_text(pa.array([text]), TEXT)
    try:
        expected = float(text) if "_" not in text else None
    except ValueError:
        expected = None
    got = values[0].as_py()
    assert got == expected or (got is None and expected != expected)


@pytest.mark.parametrize(
    ("array", "expected", "unread"),
    [
        (pa.array([1, None], pa.int8()), [1, NAN], 0),
        (pa.array([2**63], pa.uint64()), [2.0**63], 0),
        (pa.array([True, False, None]), [1, 0, NAN], 0),
        (pa.array([Decimal("1.25")]), [1.25], 0),
        (pa.array([1.5], pa.float32()), [1.5], 0),
        (pa.array(["1.5", "x", None, "?"]), [1.5, NAN, NAN, NAN], 2),
        (pa.array(["1.5", "1.5", "y"]).dictionary_encode(), [1.5, 1.5, NAN], 1),
        (pa.array(["7"], pa.large_string()), [7], 0),
        (pa.array([b"7", b"\xff"]), [7, NAN], 1),
        (pa.nulls(2), [NAN, NAN], 0),
        (pa.array([date(2020, 1, 1), None]), [NAN, NAN], 1),
        (pa.array([[1.0], None]), [NAN, NAN], 1),
        (pa.chunked_array([[1.0], [2.0]]), [1, 2], 0),
    ],
)
def test_any_type_gives_numbers_or_missing_cells_never_a_refusal(array, expected, unread):
    values, count = number_column(array, TEXT)
    np.testing.assert_array_equal(values.to_numpy(zero_copy_only=False), expected)
    assert count == unread


SAME = [
    7,
    "7",
    "07",
    "0" * 5000 + "7",
    "7e00000",
    "7.00",
    " 7 ",
    "+7",
    "7.0",
    "7.",
    7.0,
    np.float32(7),
    np.int8(7),
    Decimal("7.00"),
    b"7",
    "７",
    "7e0",
]


def test_one_person_has_one_id_however_it_is_written():
    assert {canonical_id(cell, TEXT) for cell in SAME} == {"7"}
    assert {canonical_id(cell, TEXT) for cell in (0, 0.0, -0.0, "0", "-0", "-0.0", "00")} == {"0"}
    assert canonical_id(7.5, TEXT) == canonical_id("7.50", TEXT) == canonical_id(np.float32(7.5), TEXT)
    assert canonical_id(7.1, TEXT) == canonical_id(np.float32(7.1), TEXT) == canonical_id("7.1", TEXT)
    assert canonical_id(2**60, TEXT) == canonical_id(str(2**60), TEXT) != canonical_id(2**60 + 1, TEXT)
    assert canonical_id("cafe\u0301", TEXT) == canonical_id("caf\u00e9", TEXT)


@pytest.mark.parametrize(
    "cell", [None, NAN, "", " ", "NA", "null", pd.NA, pd.NaT, float("inf"), 2.0**60, "1e30", b"\xff"]
)
def test_what_names_nobody_is_nobody(cell):
    assert canonical_id(cell, TEXT) is None


SAME_WORD = ["A", " A ", "\ufeffA", "A\u200b", "A\0\0", '"A"', ' "A"', memoryview(b"A"), bytearray(b"A")]


def test_what_nobody_sees_is_no_part_of_an_id():
    assert {canonical_id(cell, TEXT) for cell in SAME_WORD} == {"A"}
    assert {canonical_id(cell, TEXT) for cell in ("-7", "\u22127", "-\u0667", -7)} == {"-7"}
    assert canonical_id(6.9999999999, TEXT) == canonical_id(np.float32(6.9999999999), TEXT) == "7"
    assert canonical_id(100000.001, TEXT) == canonical_id(np.float32(100000.001), TEXT)
    one = UUID("12345678123456781234567812345678")
    assert canonical_id(one, TEXT) == canonical_id(str(one), TEXT)
    if hasattr(pa, "uuid"):
        assert id_column(pa.array([one.bytes], pa.uuid()), TEXT).to_pylist() == [str(one)]


@pytest.mark.parametrize("cell", [object(), [1], {"a": 1}, (1,), range(3), 1j, type])
def test_an_object_that_is_no_name_names_nobody(cell):
    """What it says of itself may be its place in memory, another one for every row."""
    assert canonical_id(cell, TEXT) is None


def test_a_word_for_missing_is_one_in_every_type():
    """One text among numbers turns a frame's column into objects, and must not change whom the others are."""
    text = TextFormat(missing=("", "NA", "-1"))
    for column in (pa.array([-1, 7]), pa.array([-1.0, 7.0]), pa.array(["-1", "7"]), [-1, 7], [-1.0, "7"], ["-1.0", 7]):
        assert id_column(column, text).to_pylist() == [None, "7"]


def test_a_moment_is_the_same_in_every_zone():
    moment = datetime(2020, 1, 1, 10, tzinfo=UTC)
    zones = [pa.array([moment], pa.timestamp("us", tz=zone)) for zone in ("UTC", "Europe/Berlin")]
    assert len({id_column(column, TEXT)[0].as_py() for column in zones}) == 1
    durations = [pa.array([5], pa.duration("s")), pa.array([5000], pa.duration("ms"))]
    assert len({id_column(column, TEXT)[0].as_py() for column in durations}) == 1


def test_spaces_are_no_part_of_an_id_whatever_the_plan_says():
    assert {canonical_id(cell, TextFormat(trim=False)) for cell in ("ann", " ann", "ann ", "\tann")} == {"ann"}


def test_a_moment_is_the_same_id_in_every_unit():
    moments = [datetime(2020, 1, 1), datetime(2020, 1, 1, 10, 30)]
    columns = [pa.array(moments, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]
    assert {tuple(id_column(column, TEXT).to_pylist()) for column in columns} == {("2020-01-01", "2020-01-01 10:30:00")}
    assert id_column(pa.array([date(2020, 1, 1)]), TEXT).to_pylist() == ["2020-01-01"]


def test_a_float_too_coarse_or_a_number_too_long_names_nobody():
    assert id_column(pa.array(np.array([7, 0.1], dtype=np.float16)), TEXT).to_pylist() == ["7", None]
    assert canonical_id("7." + "0" * 500, TEXT) is None
    assert canonical_id("1" * 500, TEXT) is None


@pytest.mark.parametrize("kind", ["decimal32", "run-length dictionary"])
def test_types_that_arrow_cannot_convert_are_read_cell_by_cell(kind):
    if not hasattr(pa, "decimal32"):
        pytest.skip("this Arrow is too old for such types")
    column = (
        pa.array([Decimal("7.0"), None], pa.decimal32(3, 1))
        if kind == "decimal32"
        else pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["7", None]).dictionary_encode())
    )
    assert id_column(column, TEXT).to_pylist() == ["7", None]
    np.testing.assert_array_equal(number_column(column, TEXT)[0].to_numpy(zero_copy_only=False), [7, NAN])


def test_columns_of_any_type_give_the_same_ids():
    cells = [7, 0, 12345]
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array(["7", "0", "7", "12345"]))
    columns = [
        pa.array(cells),
        pa.array(cells, pa.float64()),
        pa.array(["7", "0", "12345"]),
        pa.array(["7.0", "-0.0", " 12345"]),
        pa.array([b"7", b"0", b"12345"]),
        pa.array([Decimal(7), Decimal(0), Decimal(12345)]),
        pa.array(["7", "0", "12345"]).dictionary_encode(),
        [7.0, "0", 12345],
    ]
    for column in columns:
        assert id_column(column, TEXT).to_pylist() == ["7", "0", "12345"]
    assert id_column(dictionary, TEXT).to_pylist() == ["7", "0", "7", "12345"]
    assert id_column(pa.array([[1]]), TEXT).to_pylist() == [None]
    assert id_column(pa.array([0.0, -0.0, NAN, None]), TEXT).to_pylist() == ["0", "0", None, None]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_one_odd_cell_changes_no_other(frame):
    """A frame whose column turns to objects or text because of one cell gives the same numbers elsewhere."""
    plain = open_table(frame({"x": [1.5, 2.5, 3.5]}))
    odd = [1.5, "two", 3.5]
    mixed = open_table(pd.DataFrame({"x": odd}) if frame is pd.DataFrame else pl.DataFrame({"x": odd}, strict=False))
    expected, found = (np.vstack([floats(batch, ["x"]) for batch in blocks(t, ["x"])]) for t in (plain, mixed))
    assert (found[[0, 2]] == expected[[0, 2]]).all()
    assert np.isnan(found[1]).all()


def test_an_index_is_no_column_and_columns_beside_the_plan_are_not_touched():
    class Hostile:
        def __str__(self):
            raise RuntimeError("touched")

    frame = pd.DataFrame({"x": [1.0, 2.0], "other": [Hostile(), {"a": 1}]}, index=[7, 9])
    source = open_table(frame)
    assert source.names == ("x", "other")
    assert [floats(batch, ["x"]).ravel().tolist() for batch in blocks(source, ["x"])] == [[1.0, 2.0]]
