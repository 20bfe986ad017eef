"""A cell means the same number, and the same person, whatever table it came in and whatever stands beside it."""

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hazeglass.compute.cells import number_column, numbers_from_text
from hazeglass.compute.ids import id_column
from hazeglass.compute.readings import Reading
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


def test_a_decimal_is_the_float_nearest_to_it_in_every_type():
    rng = np.random.default_rng(1)
    words = [f"{rng.integers(10)}.{rng.integers(10**6):06d}" for _ in range(4000)]
    expected = [float(word) for word in words]
    decimals = [Decimal(word) for word in words]
    columns = [pa.array(words), decimals, [*map(str, decimals)]]
    columns += [
        pa.array(decimals, kind) for kind in (pa.decimal128(10, 6), pa.decimal128(38, 30), pa.decimal256(76, 60))
    ]
    for column in columns:
        assert number_column(column, TEXT)[0].to_pylist() == expected


def test_cells_behind_codes_that_cannot_be_read_are_counted_row_by_row():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None, 2]), pa.array(["x", "1", None, "unused"]))
    values, unread = number_column(pa.chunked_array([column, column[1:]]), TEXT)
    assert values.to_pylist() == [None, 1, None, None, None, 1, None, None, None]
    assert unread == 3


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


@pytest.mark.parametrize("kind", [pa.decimal128(10, -400), pa.decimal128(10, 400), pa.decimal256(40, 330)], ids=str)
def test_decimals_with_more_places_than_arrow_can_write_are_missing(kind):
    cells = pa.py_buffer(b"".join(number.to_bytes(kind.byte_width, "little") for number in (7, 0)))
    column = pa.Array.from_buffers(kind, 2, [None, cells])
    assert id_column(column, TEXT).to_pylist() == [None, None]
    assert number_column(column, TEXT)[0].to_pylist() == [None, None]


def test_a_number_that_lets_nothing_be_done_with_it_is_missing():
    class Stubborn(Decimal):
        def __float__(self):
            raise OverflowError

        def __gt__(self, other):
            raise TypeError

    assert number_column([1, Stubborn(2), 3], TEXT)[0].to_pylist() == [1, None, 3]


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


class Unhashable(type):
    """A type of types that says what two types being equal means, and so has no hash; nor does it know its name."""

    __name__ = property(lambda _: 1 / 0)

    def __eq__(cls, other):
        return cls is other


def test_a_cell_whose_type_cannot_be_looked_up_is_missing_or_nobody():
    cells = [1.5, Unhashable("Odd", (), {})()]
    numbers, unread = number_column(cells, TEXT)
    assert (numbers.to_pylist(), unread) == ([1.5, None], 1)
    assert id_column(cells, TEXT).to_pylist() == ["1.5", None]
    for reading in (Reading("a", levels=("x",)), Reading("a", since="2024-01-01"), Reading("a", part="hour")):
        found, unread = reading.column(["x", cells[1]], TEXT)
        assert found.to_pylist()[1] is None
