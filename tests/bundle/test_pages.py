"""Every byte of a part belongs to a value that a reader gets: nothing hides inside a page, or in what is said of it."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.errors import BundleError

from .forgery import reseal, write_part
from .test_footer import decode, encode

MOMENTS, ROWS = "moments.parquet", "data/part-00000.parquet"
STAGE, LEFT, RIGHT, VALUE = 0, 1, 3, 5  # columns of the moments
BYTES = "holds bytes that are no values of its columns"
PAGES = "holds pages as no release has them"
ENTRIES = "a dictionary with entries that it does not need"


class Surgeon:
    """A part taken apart: `pages[group][column]` is a list of [head, body]; what is put together again fits."""

    def __init__(self, path):
        raw, at = path.read_bytes(), 4
        self.path, self.pages = path, []
        self.footer, _ = decode(raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8], 0, 12)
        for group in self.groups:
            self.pages.append([])
            for chunk in group[1][1][1]:
                until, pages = at + chunk[3][1][7][1], []
                while at < until:
                    head, begin = decode(raw, at, 12)
                    at = begin + head[3][1]
                    pages.append([head, raw[begin:at]])
                self.pages[-1].append(pages)

    @property
    def groups(self):
        return self.footer[4][1][1]

    def said(self, group, column):
        return self.groups[group][1][1][1][column][3][1]

    def sew(self):
        out = b"PAR1"
        for k, group in enumerate(self.groups):
            start = len(out)
            for column, pages in enumerate(self.pages[k]):
                said, first = self.said(k, column), len(out)
                places = {}
                for head, body in pages:
                    places.setdefault(head[1][1], len(out))
                    head[2], head[3] = [5, len(body)], [5, len(body)]
                    out += encode(12, head) + body
                said[6], said[7], said[9] = [6, len(out) - first], [6, len(out) - first], [6, places[0]]
                if 2 in places:
                    said[11] = [6, places[2]]
            group[2], group[5], group[6] = [6, len(out) - start], [6, start], [6, len(out) - start]
        footer = encode(12, self.footer)
        self.path.write_bytes(out + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.fixture
def moments(make_plan, table, tmp_path):
    return hg.publish(table, make_plan(), tmp_path / "moments").path


@pytest.fixture
def rows(make_plan, table, tmp_path):
    return hg.publish(table, make_plan(form="table"), tmp_path / "rows").path


@pytest.fixture
def plain_rows(make_plan, table, tmp_path):
    return hg.publish(table, make_plan(form="synthetic"), tmp_path / "plain").path


def use(folder):
    """Read everything in it."""
    release = hg.load(folder)
    release.check_values()
    release.moments() if release.form == "moments" else release.table()


def operate(folder, part, change):
    surgeon = Surgeon(folder / part)
    change(surgeon)
    surgeon.sew()
    return reseal(folder)


def body(group, column, page, change):
    """Another body for a page."""

    def operation(surgeon):
        one = surgeon.pages[group][column][page]
        one[1] = change(one[1])

    return operation


def entry(group, column, raw):
    """One more entry in a dictionary."""

    def operation(surgeon):
        head, old = surgeon.pages[group][column][0]
        head[7][1][1][1] += 1
        surgeon.pages[group][column][0][1] = old + raw

    return operation


def with_levels(more):
    """Bytes behind the runs that say that no value is missing, counted as theirs."""
    return lambda raw: (int.from_bytes(raw[:4], "little") + len(more)).to_bytes(4, "little") + raw[4:7] + more + raw[7:]


def two_entries_swapped(surgeon):
    """Of the names a and b; what they point to is swapped as well, so that every value is as it was."""
    dictionary, places = surgeon.pages[0][LEFT]
    dictionary[1] = dictionary[1][5:10] + dictionary[1][:5] + dictionary[1][10:]
    assert places[1][-2:] == b"\x24\0"  # 0, 1, 2 in two bits each
    places[1] = places[1][:-2] + b"\x21\0"


def filled_up(raw):
    """The last byte holds three places of two bits, and the byte behind it none: both have bits to spare."""
    assert raw[-3:] == b"\x03\x24\0"
    return raw[:-1] + b"\xa5"


def text_bytes(surgeon):
    if 16 not in surgeon.said(0, LEFT):
        pytest.skip("this version of pyarrow does not state how long texts are")
    surgeon.said(0, LEFT)[16][1][1] = [6, 1234]


def other_levels(surgeon):
    """As many values as before, one of them said to be missing."""
    if 16 not in surgeon.said(0, VALUE):
        pytest.skip("this version of pyarrow does not state how many values are missing")
    levels = surgeon.said(0, VALUE)[16][1][3][1][1]
    levels[:] = [levels[0] + 1, levels[1] - 1]


def in_head(column, page, number, change):
    """Another head of a page."""
    return lambda surgeon: change(surgeon.pages[0][column][page][0][number][1])


IN_MOMENTS = {
    "other numbers of missing values": (other_levels, BYTES),
    "a page without a word on statistics": (in_head(VALUE, 0, 5, lambda head: head.pop(5)), PAGES),
    "a page without a word on its levels": (in_head(VALUE, 0, 5, lambda head: head.pop(4)), PAGES),
    "a dictionary in no order or in one": (in_head(LEFT, 0, 7, lambda head: head.pop(3)), PAGES),
    "an integer with no sign": (
        lambda surgeon: surgeon.footer[2][1][1][1][10][1][10][1].pop(2),
        "numbers of the right kind",
    ),
    "bytes behind values": (body(0, VALUE, 0, lambda raw: raw + b"raw rows"), BYTES),
    "bytes behind places": (body(0, LEFT, 1, lambda raw: raw + b"raw rows"), BYTES),
    "bytes behind entries": (body(0, STAGE, 0, lambda raw: raw + b"raw rows"), BYTES),
    "bytes behind names": (body(0, LEFT, 0, lambda raw: raw + b"raw rows"), BYTES),
    "bytes behind missing places": (body(0, RIGHT, 1, lambda raw: raw + b"raw rows"), BYTES),
    "bytes behind levels": (body(0, VALUE, 0, with_levels(b"raw rows")), BYTES),
    "a run of nothing": (body(0, STAGE, 1, lambda raw: raw + b"\0\1"), BYTES),
    "a run of nothing before others": (body(0, STAGE, 1, lambda raw: raw[:7] + b"\0\0" + raw[7:]), BYTES),
    "places to spare": (body(0, LEFT, 1, filled_up), BYTES),
    "an empty place": (body(0, LEFT, 1, lambda raw: raw[:7] + b"\x21" + raw[8:]), BYTES),
    "an entry nothing points to": (entry(0, STAGE, b"\x63\0\0\0"), ENTRIES),
    "a name nothing points to": (entry(1, LEFT, b"\x08\0\0\0raw rows"), ENTRIES),
    "a name twice": (entry(1, LEFT, b"\x01\0\0\0a"), ENTRIES),
    "names in another order": (two_entries_swapped, ENTRIES),
    "a small number with high bits": (body(0, STAGE, 0, lambda raw: raw[:1] + b"row"), ENTRIES),
    "texts of another length": (text_bytes, ENTRIES),
}


@pytest.mark.parametrize("name", IN_MOMENTS)
def test_nothing_hides_in_the_pages_of_moments(moments, name):
    change, message = IN_MOMENTS[name]
    with pytest.raises(BundleError, match=message):
        use(operate(moments, MOMENTS, change))


IN_ROWS = {
    "bytes behind places": (body(0, 0, 1, lambda raw: raw + b"raw rows"), BYTES),
    "bytes behind entries": (body(0, 0, 0, lambda raw: raw + b"raw rows"), BYTES),
    "an entry nothing points to": (entry(0, 0, b"raw rows"), ENTRIES),
    "the bits of an entry": (
        body(0, 0, 1, lambda raw: raw[:-1] + bytes([raw[-1] ^ 0x80])),
        f"{ENTRIES}|not a readable",
    ),
}


@pytest.mark.parametrize("name", IN_ROWS)
def test_nothing_hides_in_the_pages_of_noisy_rows(rows, name):
    change, message = IN_ROWS[name]
    with pytest.raises(BundleError, match=message):
        use(operate(rows, ROWS, change))


@pytest.mark.parametrize("more", [b"raw rows", b"!"])
def test_nothing_hides_behind_numbers_that_stand_as_they_are(plain_rows, more):
    with pytest.raises(BundleError, match=BYTES):
        use(operate(plain_rows, ROWS, body(0, 1, 0, lambda raw: raw + more)))


def test_what_is_sewn_together_without_a_change_is_a_release(moments, rows, plain_rows):
    for folder, part in ((moments, MOMENTS), (rows, ROWS), (plain_rows, ROWS)):
        use(operate(folder, part, lambda surgeon: None))


@pytest.mark.parametrize("cut", [50, 300])
def test_rows_are_cut_as_the_writer_cuts_them(rows, table, cut):
    """How they are cut could be a message, or follow from the data."""
    release = hg.load(rows)
    write_part(release.table(), rows / ROWS, row_group_size=cut)
    with pytest.raises(BundleError, match=r"cut into parts or row groups as no release is|more row groups"):
        hg.load(reseal(rows))


def test_parts_are_cut_as_the_writer_cuts_them(rows):
    whole = hg.load(rows).table()
    write_part(whole.slice(0, 100), rows / ROWS)
    write_part(whole.slice(100), rows / "data/part-00001.parquet")
    with pytest.raises(BundleError, match="cut into parts or row groups as no release is"):
        hg.load(reseal(rows))


def test_all_parts_name_the_writer_that_the_release_names(rows):
    """Each part could carry 31 bits in a version of its own."""
    name = f"version {pa.cpp_version}"
    raw = (rows / ROWS).read_bytes()
    assert raw.count(name.encode()) == 1
    (rows / ROWS).write_bytes(raw.replace(name.encode(), (name[:-1] + str(9 - int(name[-1]))).encode()))
    with pytest.raises(BundleError, match="another writer than the pyarrow of release"):
        hg.load(reseal(rows))
    (rows / ROWS).write_bytes(raw)
    with pytest.raises(BundleError, match="another writer than the pyarrow of release"):
        hg.load(reseal(rows, lambda document: document["versions"].pop("pyarrow")))


def test_values_and_places_are_not_mixed(make_plan, table, tmp_path):
    """As pyarrow does where a dictionary becomes too large, which none of ours does."""
    release = hg.publish(pa.concat_tables([table] * 9), make_plan(form="table"), tmp_path / "r")
    write_part(release.table(), release.path / ROWS, dictionary_pagesize_limit=1)
    with pytest.raises(BundleError, match=PAGES):
        hg.load(reseal(release.path))


# ------------------------------------------------------------------------- small parts that would become large tables

SMALL = """
import json, resource, sys
import hazeglass as hg

def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

hg.load(sys.argv[1]).table()
before = resident()
try:
    print(json.dumps([str(hg.load(sys.argv[2]).table().num_rows), resident() - before]))
except hg.errors.BundleError as error:
    print(json.dumps([str(error), resident() - before]))
"""


@pytest.mark.parametrize("form", ["table", "synthetic"])
def test_a_small_part_of_repeated_cells_does_not_become_a_large_table(make_plan, table, tmp_path, form):
    """Half a megabyte of dictionaries and runs once became 2.9 GB."""
    honest = hg.publish(table, make_plan(form=form), tmp_path / "honest").path
    forged = hg.publish(table, make_plan(form=form), tmp_path / "forged").path
    parts, size = 28, 1 << 20
    rows = {name: np.zeros(size) for name in "abc"}
    for number in range(parts):
        write_part(pa.table(rows), forged / f"data/part-{number:05d}.parquet", row_group_size=1 << 16)
    for column in rows.values():
        column[: 1 << 16] = np.random.default_rng(1).integers(0, 1 << 13, 1 << 16)
    write_part(pa.table(rows), forged / ROWS, row_group_size=1 << 16)

    def claim(document):
        document["n"] = size * parts
        document["delta_slack"] *= document["n"] / 600 if form == "table" else 1
        for stage in document["stages"]:
            stage["rows"] = document["n"]

    reseal(forged, claim)
    assert sum(path.stat().st_size for path in forged.rglob("*.parquet")) < 1 << 20
    assert sum(path.stat().st_size for path in forged.rglob("*.parquet")) > size * parts * 3 / 200
    done = subprocess.run([sys.executable, "-c", SMALL, honest, forged], capture_output=True, text=True, timeout=200)
    said, resident = json.loads(done.stdout)
    assert "no noisy data fits that" in said
    assert resident < 64 << 20


@pytest.mark.parametrize("scale", [1.0, 2.5, 30.0, 1000.0])
def test_noisy_cells_take_the_bytes_that_their_noise_has(make_plan, tmp_path, monkeypatch, scale):
    """The bound is below what every honest release takes, whatever the data: here all cells are equal."""
    monkeypatch.setattr("hazeglass.bundle.verify._FREE_CELLS", 0)
    columns = [{"name": name, "kind": "integer", "lower": 0, "upper": 1} for name in "ab"]
    plan = make_plan(form="table", protects="entry", budget={"mu": 1 / scale}, columns_as=columns)
    rows = pa.table({name: np.zeros(200_000, dtype=np.int64) for name in "ab"})
    release = hg.publish(rows, plan, tmp_path / "r")
    assert release.columns[0].cell_noise.scale == pytest.approx(scale, rel=1e-5)
    size = (release.path / ROWS).stat().st_size
    assert 400_000 * np.log2(4 * scale) / 8 < size < 8 * 400_000
    assert pq.read_metadata(release.path / ROWS).row_group(0).column(0).has_dictionary_page
