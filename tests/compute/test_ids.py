"""One person has one id, whatever table it came in, however it is spelled and whatever stands beside it."""

import datetime as dt
import struct
import time
import unicodedata
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hazeglass.compute.cells import number_column
from hazeglass.compute.ids import LONGEST, canonical_id, id_column
from hazeglass.compute.pieces import Recut, arrow_or_list
from hazeglass.compute.tables import blocks, open_table
from hazeglass.compute.text import THOUSANDS, TextFormat

TEXT = TextFormat()
NAN = float("nan")

SAME = [
    7,
    "7",
    "07",
    "0" * 900 + "7",
    "7e00000",
    "7.00",
    " 7 ",
    "+7",
    "„7“",
    "‚7‘",
    "〝7〟",
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
    "word", ["9999-12-31T23:00:00-05:00", "0001-01-01T00:00:00+05:00", "2024-01-01T00:00:00+05:00"]
)
def test_a_moment_at_the_end_of_time_is_the_same_as_text(word):
    assert canonical_id(datetime.fromisoformat(word), TEXT) == canonical_id(word, TEXT) is not None


@pytest.mark.parametrize(
    "cell", [None, NAN, "", " ", "NA", "null", pd.NA, pd.NaT, float("inf"), 2.0**60, "1e30", b"\xff"]
)
def test_what_names_nobody_is_nobody(cell):
    assert canonical_id(cell, TEXT) is None


SAME_WORD = ["A", " A ", "\ufeffA", "A\u200b", "A\u2065", "A\0\0", '"A"', ' "A"', memoryview(b"A"), bytearray(b"A")]


def test_what_nobody_sees_is_no_part_of_an_id():
    assert {canonical_id(cell, TEXT) for cell in SAME_WORD} == {"A"}
    assert {canonical_id(cell, TEXT) for cell in ("-7", "\u22127", "-\u0667", -7)} == {"-7"}
    assert canonical_id(6.9999999999, TEXT) == canonical_id(np.float32(6.9999999999), TEXT) == "7"
    assert canonical_id(100000.001, TEXT) == canonical_id(np.float32(100000.001), TEXT)
    one = UUID("12345678123456781234567812345678")
    assert canonical_id(one, TEXT) == canonical_id(str(one), TEXT)
    if hasattr(pa, "uuid"):
        assert id_column(pa.array([one.bytes], pa.uuid()), TEXT).to_pylist() == [one.hex]


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
    assert {tuple(id_column(column, TEXT).to_pylist()) for column in columns} == {("20200101", "2020-01-01 10:30:00")}
    assert id_column(pa.array([date(2020, 1, 1)]), TEXT).to_pylist() == ["20200101"]


def test_a_float_too_coarse_names_nobody():
    assert id_column(pa.array(np.array([7, 0.1], dtype=np.float16)), TEXT).to_pylist() == ["7", None]


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


# ------------------------------------------------------------------------------------- each cell by itself, on any path

NASTY = [
    *("7", "07", "7.0", "+7", "-0", "7e0", "0e5", ".5", "5.", "1e999", "1" * 31, "1" * 32, "1" * 401, "1" * 1000),
    *("true", "TRUE", "False", "A7", "a" * 31, "a" * 32, "a" * 1000, "a" * 1001, "Jos\u00e9", "Jose\u200d\u0301"),
    *("7\u2028", "7\x85", "\u16807", "7\ufe0f", "7\x1f", "7\u034f", '""7""', "'7'", "NA", " NA ", "nan", "inf"),
    *("2020-01-01", "2020-01-01T00:00:00Z", "2020-13-01", "12:30", "25:00", "{" + "a" * 32 + "}", "f" * 32),
    *("12345678-1234-5678-1234-567812345678", "0" * 31 + "7", "0" * 27 + "7e000", "\ufdfa" * 100, "\u1100\u1161"),
]
WORDS = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=12),
    st.text(alphabet="0123456789abcdefAF-+.eETZ: {}_", max_size=40),
    st.text(alphabet="\u0301\u0327\u200b\u034f\ufe0fae\u1100\u1161\u11a8 \x85", max_size=12),
)
FORMATS = st.sampled_from([TEXT, TextFormat(separator=";", decimal=","), TextFormat(missing=("-1", "true", "A7"))])


@settings(max_examples=500, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=8), FORMATS)
@example(["1" * 450, " 8", "8"], TEXT)
def test_what_a_cell_is_hangs_on_no_other_cell_and_on_no_path(words, text):
    expected = [canonical_id(word, text) for word in words]
    array = pa.array(words)
    for column in (
        words,
        array,
        array.cast(pa.large_string()),
        array.dictionary_encode(),
        pa.chunked_array([array[:1], array[1:]]),
        pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(words) + 1), pa.int32()), array),
    ):
        assert id_column(column, text).to_pylist() == expected
    for word in words:
        assert id_column(pa.array([word]), text).to_pylist() == [canonical_id(word, text)]
    as_bytes = [canonical_id(word.encode(), text) for word in words]
    assert id_column(array.cast(pa.binary()), text).to_pylist() == as_bytes
    assert [found or form for found, form in zip(as_bytes, expected, strict=True)] == expected


@settings(max_examples=300, deadline=None)
@given(WORDS)
def test_a_canonical_form_is_the_canonical_form_of_itself(word):
    form = canonical_id(word, TEXT)
    assert form is None or canonical_id(form, TEXT) == form


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=8),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    st.integers(0),
    st.sampled_from("\u200b\u034f\ufe0f\x1f\u00ad"),
)
def test_no_form_of_unicode_and_no_unseen_letter_makes_another_person(word, form, place, unseen):
    assert canonical_id(unicodedata.normalize(form, word), TEXT) == canonical_id(word, TEXT)
    place %= len(word) + 1
    composed = unicodedata.normalize("NFC", word[:place]) + unseen + word[place:]
    assert canonical_id(composed, TEXT) == canonical_id(word, TEXT)


SAME_PERSONS = [
    (
        "7",
        "7\u2028",
        "7\x85",
        "\u16807",
        "7\ufe0f",
        "7\x1f",
        "7\x1c",
        "7\u034f",
        "7\u2800",
        "7\u3164",
        "7\u115f",
        '""7""',
        '"7',
    ),
    ("\u00e9", "e\u0301", "e\u034f\u0301", "e\u200b\u0301"),
    ("Ann O'Hara-Lee", "Ann  O\u2019Hara\u2013Lee", "\u201cAnn\u00a0O\u2018Hara\u2010Lee\u201d"),
    (
        "O'Brien",
        "O\u00b4Brien",
        "O`Brien",
        "O\u1ffdBrien",
        "O\u0384Brien",
        "O\u1fbdBrien",
        "O\u02bbBrien",
        "\u00b4OBrien",
    ),
    ("A-1", "A\u20531", "A\u301c1", "A\uff5e1", "A~1", "A\u30301", "A\U00010d6e1", "A\U00010ead1"),
    ("A B", "A\u1680B", "A\u3000B", "A\u1680 \u00a0B", "\u1680A \u00b4B"),
    ("Jos\u00e9", "Jose\u200d\u0301", "Jose\u00ad\u0301", "Jos\u00e9\u1680"),
    ("\uac00", "\u1100\u1161", "\u1100\u200b\u1161"),
    (True, np.bool_(True), "true", "True", "TRUE", b"true"),
    (
        UUID(int=5 << 100),
        str(UUID(int=5 << 100)),
        str(UUID(int=5 << 100)).upper(),
        UUID(int=5 << 100).hex,
        f"{{{UUID(int=5 << 100)}}}",
        f"urn:uuid:{UUID(int=5 << 100)}",
        f"URN:UUID:{UUID(int=5 << 100).hex}",
        f"urn:uuid:{{{UUID(int=5 << 100)}}}",
    ),
    (UUID(int=5), UUID(int=5).hex, str(UUID(int=5))),
    (
        datetime(2020, 1, 1),
        date(2020, 1, 1),
        pd.Timestamp("2020-01-01"),
        np.datetime64("2020-01-01T00:00:00"),
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "2020-01-01",
        "2020-01-01 00:00:00",
        "2020-01-01T00:00:00Z",
        "2020-01-01 00:00:00.000000000",
        "2020-01-01 02:00:00+02:00",
        "2019-12-31T19:00-0500",
    ),
    (
        datetime(2020, 1, 1, 10, 0, 0, 500_000),
        pd.Timestamp("2020-01-01 10:00:00.5", tz="UTC"),
        "2020-01-01 10:00:00.5",
        "2020-01-01T10:00:00.500000",
        "2020-01-01 10:00:00.500000000+00:00",
        "2020-01-01 10:00:00.5 UTC",
    ),
    (dt.time(12, 30), "12:30", "12:30:00", "12:30:00.000"),
    (date(2024, 1, 7), "2024-007", "2024007T00", "2024-01-06T24:00", "2024-01-06 24:00:00", 20240107),
    (dt.time(0), "00:00", "24:00", "T24", "24:00:00Z", "01:00+01:00"),
    ("A7", "A\U0001d1597", "A\U00016fe47", "A\u20287", "A\u20297"),
]


@pytest.mark.parametrize("cells", SAME_PERSONS, ids=lambda cells: ascii(cells[0]))
def test_spellings_of_one_person_are_one_person(cells):
    forms = {canonical_id(cell, TEXT) for cell in cells}
    assert len(forms) == 1
    assert None not in forms
    assert len(set(id_column(list(cells), TEXT).to_pylist())) == 1


THOUSANDS_AND_MORE = {
    (",", "."): ["2,000", "+2,000", "2,000.0", "2,000.", "2,000e0", b"2,000", "\u200b2,000", "\uff12,000"],
    (".", ","): ["2.000", "2.000,0", "2000,", "2000.0"],
    (" ", "."): ["2 000", "2\u00a0000", "2\u202f000", "2\u2009000", "2  000", "2 000.00"],
    ("'", "."): ["2'000", "2\u2019000", "2'000.0"],
}


@pytest.mark.parametrize("marks", THOUSANDS_AND_MORE, ids=repr)
def test_a_number_with_marks_between_thousands_is_the_person_of_its_value(marks):
    text = TextFormat(separator=";", thousands=marks[0], decimal=marks[1])
    cells = [*THOUSANDS_AND_MORE[marks], 2000, 2000.0, Decimal(2000), Decimal("2000.000"), "2000", "002000"]
    assert id_column(cells, text).to_pylist() == ["2000"] * len(cells)
    written = [cell for cell in cells if isinstance(cell, str)]
    assert id_column(pa.array(written), text).to_pylist() == ["2000"] * len(written)
    for column in ([Decimal("2.000")], pa.array([Decimal("2.000")]), [2.0], pa.array([2.0])):  # a type has no marks
        assert id_column(column, text).to_pylist() == ["2"]
    million = [word.format(marks[0]) for word in ("1{0}234{0}567", "12{0}34{0}567")]
    assert id_column(million, text).to_pylist() == ["1234567"] * 2


def test_a_point_between_thousands_is_one_only_before_three_digits():
    text = TextFormat(separator=";", thousands=".", decimal=",")
    words = ["1.234", "1.5", "7.0", "1.0625", "1234.5", "1.234,5", "1,5"]
    assert id_column(words, text).to_pylist() == ["1234", "1.5", "7", "1.0625", "1234.5", "1234.5", "1.5"]
    assert canonical_id("2,000", TEXT) == "2,000"  # a plan that names no mark knows none


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**12), 10**12), st.sampled_from([*THOUSANDS]), st.sampled_from(".,"))
def test_every_number_that_a_cell_can_be_is_one_person_by_its_value(number, mark, point):
    if mark == point:
        return
    text = TextFormat(separator=";", thousands=mark, decimal=point)
    words = [f"{number:,}".replace(",", mark), f"{number:,}".replace(",", mark) + point + "0", str(number)]
    assert number_column(words, text)[0].to_pylist() == [number] * 3
    assert set(id_column(words, text).to_pylist()) == {str(number)}


def test_seven_digits_are_a_number_and_no_day_of_a_year():
    assert canonical_id("2024007", TEXT) == canonical_id(2024007, TEXT) == "2024007" != canonical_id("2024-007", TEXT)


def test_a_truth_value_is_a_word_and_no_number():
    assert id_column(pa.array([True, False, None]), TEXT).to_pylist() == ["true", "false", None]
    assert canonical_id(True, TEXT) != canonical_id(1, TEXT) == "1"


@pytest.mark.parametrize(
    "moment", ["1600-01-01", "9999-12-31", "0001-01-01", "1969-12-31 23:59:59.5", "2020-06-01 12:00:00.001"]
)
def test_a_moment_is_one_person_in_every_type(moment):
    when = datetime.fromisoformat(moment)
    columns = [
        pa.array([moment]),
        [when],
        pa.array([when], pa.timestamp("us")),
        pa.array([when], pa.timestamp("us", "UTC")),
    ]
    columns += [pa.array([when], pa.timestamp("ms", "Asia/Tokyo")), pa.array([when.isoformat()]), [str(when)]]
    if moment[-3] == "-":
        columns += [pa.array([when.date()]), pa.array([when.date()], pa.date64()), pa.array([when], pa.timestamp("s"))]
    if 1700 < when.year < 2200:
        columns += [pa.array([when], pa.timestamp("ns")), [pd.Timestamp(when)]]
    forms = [id_column(column, TEXT)[0].as_py() for column in columns]
    assert set(forms) == {moment if ":" in moment else str(int(moment.replace("-", "")))}


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        *((pa.time64("us"), value) for value in (2**62, -5)),
        *((pa.time32("s"), value) for value in (2**31 - 1, -5)),
        *((pa.timestamp(unit, zone), 2**62) for unit in ("s", "ns") for zone in (None, "UTC", "Mars/Phobos")),
        *((pa.date32(), value) for value in (2**31 - 1, -(2**31))),
        *((pa.date64(), value) for value in (2**62, 5)),
    ],
    ids=str,
)
def test_a_time_beyond_all_clocks_changes_no_other_cell(kind, raw):
    """Arrow refuses to cast the whole column for it."""
    column = pa.array([1, raw, None], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    found = id_column(column, TEXT).to_pylist()
    assert found[0] == id_column(column[:1], TEXT)[0].as_py()
    assert found[0] is not None
    assert found[2] is None
    assert len(set(found)) == 3


def test_text_of_any_length_costs_no_time_and_beyond_some_names_nobody():
    words = [
        "1" * 100_000 + "x",
        "\u0301\u0327" * 100_000,
        "1" * 999 + "x",
        "\u0301\u0327" * 500,
        "1e" + "1" * 998,
        "x" * (1 << 24),
    ]
    start = time.process_time()
    found = id_column(pa.array(words), TEXT).to_pylist()
    assert found == id_column(words, TEXT).to_pylist()
    assert time.process_time() - start < 2
    assert [form is None for form in found] == [True, True, False, False, True, True]
    assert canonical_id("x" * LONGEST, TEXT) == "x" * LONGEST
    assert canonical_id("x" + " " * LONGEST, TEXT) is None
    assert canonical_id("\ufdfa" * 100, TEXT) is None  # eighteen letters each


def test_a_long_word_that_many_rows_share_is_read_once():
    """Written out they would be more than an Arrow array of text holds."""
    values = pa.array(["5" + " " * (1 << 20), "7"])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None] * 3000, pa.int32()), values)
    assert id_column(column, TEXT).to_pylist() == [None, "7", None] * 3000
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3000, 3001], pa.int32()), values)
    assert id_column(runs, TEXT).to_pylist() == [None] * 3000 + ["7"]
    assert id_column(runs[2999:], TEXT).to_pylist() == [None, "7"]


def test_a_cell_of_more_than_two_gib_is_nobodys_and_stops_nothing():
    """The long cell is never touched: memory that is not written to takes none."""
    long = (1 << 31) + 5
    letters = np.zeros(long + 2, dtype=np.uint8)
    letters[[0, -1]] = ord("7"), ord("8")
    offsets = np.array([0, 1, long + 1, long + 2])
    for kind in (pa.large_string(), pa.large_binary()):
        column = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
        assert id_column(column, TEXT).to_pylist() == ["7", None, "8"]


def test_moments_of_the_old_parquet_kind_do_not_wrap(tmp_path):
    ids = pa.array([datetime(2500, 1, 1)] * 2, pa.timestamp("us"))
    (tmp_path / "d").mkdir()
    for name, old in (("a", False), ("b", True)):
        pq.write_table(pa.table({"id": ids}), tmp_path / "d" / f"{name}.parquet", use_deprecated_int96_timestamps=old)
    found = [batch.column("id") for batch in blocks(open_table(tmp_path / "d"), [], ["id"])]
    assert pa.chunked_array(found).to_pylist() == ["25000101"] * 4


OLD = {"use_deprecated_int96_timestamps": True}
WITHIN = [1704085200123456789, -1, -1_000_000_001, 0, None, -(2**63) + 1, 2**63 - 1, 7 * 86_400 * 10**9]  # nanoseconds
BEYOND = [-(2**63) // 1000 - 1, 2**63 // 1000 + 1, None, 16725225600123456, -62135596800 * 10**6, 2**62]  # microseconds


def ids_of(path, rows=1 << 16):
    (piece,) = open_table(str(path)).pieces([], ["id"])
    wanted = replace(piece.wanted, block_rows=rows)
    found = [batch.column("id") for batch in replace(piece, wanted=wanted).batches(Counter())]
    return pa.chunked_array(found).to_pylist()


def test_moments_of_the_old_parquet_kind_keep_every_digit_that_a_unit_has(tmp_path):
    """Nanoseconds from 1677 to 2262 and microseconds beyond, whatever stands in the same batch."""
    path = tmp_path / "d.parquet"
    fine, coarse = pa.array(WITHIN, pa.timestamp("ns")), pa.array(BEYOND, pa.timestamp("us"))
    expected = id_column(fine, TEXT).to_pylist(), id_column(coarse, TEXT).to_pylist()
    assert len(set(expected[0] + expected[1])) == len(WITHIN + BEYOND) - 1
    assert expected[0][:2] == ["2024-01-01 05:00:00.123456789", "1969-12-31 23:59:59.999999999"]
    for kind, said in zip((fine, coarse), expected, strict=True):
        pq.write_table(pa.table({"id": kind}), path, **OLD)
        assert ids_of(path) == ids_of(path, 3) == said
    both = [*BEYOND, *(None if one is None else one // 1000 for one in WITHIN)]
    pq.write_table(pa.table({"id": pa.array(both, pa.timestamp("us"))}), path, **OLD, row_group_size=5)
    said = expected[1] + id_column(pa.array(both[len(BEYOND) :], pa.timestamp("us")), TEXT).to_pylist()
    assert ids_of(path) == ids_of(path, 2) == ids_of(path, 5) == said


def test_nanoseconds_beside_a_moment_beyond_them_are_kept(tmp_path):
    """Arrow writes no file of both, so a day of this one is changed by hand."""
    path = tmp_path / "d.parquet"
    nanos = [1704085200123456789, None, 86_400 * 10**9 + 123456789, -1, -(2**63)]
    plain = {**OLD, "use_dictionary": False, "compression": "none"}
    pq.write_table(pa.table({"id": pa.array(nanos, pa.timestamp("ns"))}), path, **plain)
    day, raw = 2_440_588, path.read_bytes()  # the Julian one of 1970
    second, far = (struct.pack("<qi", 123456789, one) for one in (day + 1, day + 193_579))
    assert raw.count(second) == 1
    path.write_bytes(raw.replace(second, far))
    expected = [
        "2024-01-01 05:00:00.123456789",
        None,
        "2500-01-01 00:00:00.123456",
        "1969-12-31 23:59:59.999999999",
        "1677-09-21 00:12:43.145224",
    ]
    assert ids_of(path) == ids_of(path, 1) == ids_of(path, 3) == expected


def test_columns_that_are_cut_at_other_rows_stay_beside_each_other():
    rows = Recut(iter(pa.table({"a": range(20)}).to_batches(max_chunksize=6)))
    assert [rows.take(many).column("a").to_pylist() for many in (4, 4, 1, 10, 1)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8],
        list(range(9, 19)),
        [19],
    ]


def test_a_value_that_is_no_text_behind_codes_is_missing_alone():
    words = pa.array([b"7", b"\xff\xfe", b"8"], pa.binary_view())
    odd = pa.Array.from_buffers(pa.string_view(), 3, words.buffers())
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), odd)
    assert id_column(column, TextFormat()).to_pylist() == ["7", None, "8"]
    assert number_column(column, TextFormat())[0].to_pylist() == [7.0, None, 8.0]


HALF_PAST = """2024-01-01T05:30 2024-01-01t05:30:00.000 2024-01-01T05:30:00,0Z 2024-01-01T05,5 20240101T05.5Z
20240101T0530 20240101T053000Z 20240101T053000.0+0000 2024-01-01T05:30+00 2024-01-01T06:30+01 20240101T0630+0100
2024-01-01T00:30-05:00 2024-001T0530 2024001T05:30 2024-W01-1T05:30 2024W011T0530Z
2024-01-01T05:29:60 2023-12-31T24:00-05:30"""
MIDNIGHT = """2024-01-01 20240101 2024-01-01T00 20240101T000000 2024-001 2024-W01-1 2024-W01 2024-01 2023-12-31T24:00
2023-12-31T23:59:60Z 2024-01-01T01+01"""


@pytest.mark.parametrize(("words", "moment"), [(HALF_PAST, "2024-01-01 05:30"), (MIDNIGHT, "2024-01-01")])
def test_a_moment_is_one_in_every_spelling_of_iso_8601(words, moment):
    when = datetime.fromisoformat(moment)
    columns = [pa.array([when], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]
    columns += [[np.datetime64(when, unit)] for unit in (["M", "D", "h"] if when.hour == 0 else []) + ["m", "s", "ns"]]
    columns += [[word] for word in words.split()] + [pa.array([word]) for word in words.split()]
    assert len({id_column(column, TEXT)[0].as_py() for column in columns}) == 1


def test_a_year_alone_is_a_number_and_as_a_type_of_moments_no_one():
    """As 2024-01-01 it would be one person more than as 2024."""
    assert canonical_id(np.datetime64("2024"), TEXT) is None
    assert canonical_id("2024", TEXT) == canonical_id(2024, TEXT) == "2024"


ATTOSECONDS = {"W": 604_800, "D": 86_400, "h": 3600, "m": 60, "s": 1}
ATTOSECONDS = {unit: seconds * 10**18 for unit, seconds in ATTOSECONDS.items()}
ATTOSECONDS |= {unit: 10 ** (15 - 3 * k) for k, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"))}
DAY = 86_400 * 10**18


def days_to(year, month):
    """From 1970 to the first of a month, in whole numbers without an end: years of the calendar begin in March."""
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719_468


def months_before(day):
    """The month that a day is in, counted from the year 0 on; found by halves, as the inverse of the above."""
    low, high = -12 * (abs(day) // 365 + 10**4), 12 * (abs(day) // 365 + 10**4)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if days_to(*divmod_month(middle)) <= day else (low, middle)
    return low


def divmod_month(months):
    return months // 12, months % 12 + 1


def moment_in_words(value, unit):
    """What an id of so many units since 1970 is, as text of any length says it; None in years that text cannot say."""
    if unit == "M":
        day, rest = days_to(*divmod_month(12 * 1970 + value)), 0
    else:
        day, rest = divmod(value * ATTOSECONDS[unit], DAY)
    months = months_before(day)
    year, month = divmod_month(months)
    date = f"{year:04}-{month:02}-{day - days_to(year, month) + 1:02}"
    if abs(year) >= 10**12:
        return None
    if not rest:
        return str(int(date[0] + date[1:].replace("-", "")))
    seconds, part = divmod(rest, 10**18)
    tail = f"{part:018}".rstrip("0")
    return f"{date} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}" + (f".{tail}" if tail else "")


UNITS = [*ATTOSECONDS, "M"]
TICKS = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-(10**6), 10**6), st.integers(-(2**40), 2**40))


@settings(max_examples=500, deadline=None)
@given(TICKS, st.sampled_from(UNITS), st.sampled_from([1, 7, 25]))
@example(2**62, "W", 1)
@example(-(2**62), "D", 1)
@example(2**40, "D", 1)
@example(2**62, "h", 1)
@example(2**62, "s", 25)
def test_a_moment_of_numpy_is_what_it_says_in_every_unit_and_never_wraps(value, unit, count):
    column = np.array([value, 1], f"datetime64[{count}{unit}]")
    expected = moment_in_words(value * count, unit)
    assert canonical_id(column[0], TEXT) == expected
    assert id_column(list(column), TEXT)[0].as_py() == expected
    assert id_column(arrow_or_list(column), TEXT)[0].as_py() == expected
    if expected is not None:
        assert canonical_id(expected, TEXT) == expected


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**32), 2**32), st.sampled_from(UNITS[:5]))
def test_a_moment_of_numpy_is_one_person_in_all_units_that_hold_it(value, unit):
    cell, forms = np.datetime64(value, unit), set()
    for other, size in ATTOSECONDS.items():
        there, rest = divmod(value * ATTOSECONDS[unit], size)
        if not rest and abs(there) < 2**63:
            forms.add(canonical_id(np.datetime64(there, other), TEXT))
    assert forms == {canonical_id(cell, TEXT)}


@pytest.mark.parametrize("unit", ["Y", *UNITS])
def test_a_length_of_time_names_no_one_in_any_unit(unit):
    """As whole numbers 1 s and 1000 ms would be two persons, and 3 ns and 3 as one."""
    lengths = np.array([3, 2**60], f"timedelta64[{unit}]")
    assert id_column(arrow_or_list(lengths), TEXT).to_pylist() == [None, None]
    assert id_column(list(lengths), TEXT).to_pylist() == [None, None]
    assert number_column(list(lengths), TEXT)[0].to_pylist() == [None, None]


def test_a_time_of_day_is_one_in_every_spelling_and_on_every_path():
    times = ["T05:00", "05:00", "05:00Z", "T05", "t0500", "06:00+01:00", "23:00-06", dt.time(5), dt.time(5, tzinfo=UTC)]
    columns = [[cell] for cell in times] + [pa.array([cell]) for cell in times if isinstance(cell, str)]
    columns += [pa.array([dt.time(5)], pa.time32("s")), pa.array([dt.time(5)], pa.time64("ns"))]
    assert {id_column(column, TEXT)[0].as_py() for column in columns} == {"05:00:00"}
    assert canonical_id("24:00", TEXT) == canonical_id("T24", TEXT) == "00:00:00"  # the end of a day is the next


UUIDS = [
    UUID("9f3a52d1-7c1b-4e05-a1b2-334455667788"),
    UUID("12345678123456789234567812345678"),  # a whole number as well
    UUID(bytes=b"abcdefghijklmnop"),  # text as well
    UUID(bytes=b"1234567812345678"),  # both
]


@pytest.mark.parametrize("uuid", UUIDS, ids=str)
def test_a_uuid_is_one_person_as_text_as_bytes_and_in_its_own_type(uuid):
    cells = [uuid, str(uuid), uuid.hex, str(uuid).upper(), uuid.urn, f"{{{uuid}}}", uuid.bytes, bytearray(uuid.bytes)]
    if uuid.hex.isdecimal():
        cells += [int(uuid.hex), Decimal(uuid.hex), f"+{uuid.hex}"]
    columns = [[cell] for cell in cells] + [pa.array([cell]) for cell in cells if isinstance(cell, str)]
    columns += [pa.array([uuid.bytes], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary(16))]
    columns += [pa.array([uuid.bytes], pa.uuid())] if hasattr(pa, "uuid") else []
    (form,) = {id_column(column, TEXT)[0].as_py() for column in columns}
    assert form is not None
    assert canonical_id(form, TEXT) == form


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=16, max_size=16))
@example(bytes(15) + b"7")
@example(b"7" + bytes(15))
def test_sixteen_bytes_are_nobody_or_the_uuid_they_are(raw):
    """Also where they might be text: 7 and fifteen zero bytes is either."""
    assert canonical_id(raw, TEXT) in (None, canonical_id(str(UUID(bytes=raw)), TEXT))


def test_types_that_only_their_library_understands_name_no_one():
    periods = pd.DataFrame({"id": pd.PeriodIndex(["2024-01-01"] * 2, freq="D")})
    column = pa.Table.from_pandas(periods).column("id")
    assert id_column(column, TextFormat()).to_pylist() == [None, None]
    assert number_column(column, TextFormat())[0].to_pylist() == [None, None]
