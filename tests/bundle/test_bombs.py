"""A small Parquet part that would unpack into gigabytes is refused, or read, with hardly any memory."""

import json
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle.writer import BundleWriter

from .forgery import reseal, write_part

NAMES = tuple(f"c{k:02d}" for k in range(40))
MOST_ARROW, MOST_RESIDENT = 32 << 20, 64 << 20

# Opens each folder named in a line on stdin and reads all of it; says what came of it and the peaks so far.
OPEN_ALL = """
import json, resource, sys
import pyarrow as pa
import hazeglass as hg

def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def use(path):
    try:
        release = hg.load(path)
        release.moments() if release.form == "moments" else release.table()
    except hg.errors.BundleError as error:
        return str(error)
    return "read"

assert use(sys.argv[1]) == "read"
before = resident()
for line in sys.stdin:
    said = use(line.strip())
    print(json.dumps([said, pa.default_memory_pool().max_memory(), resident() - before]), flush=True)
"""


def as_released(table, **changes):
    """The table with some columns replaced."""
    for name, values in changes.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def relied(path, rows, lie, which):
    """The footer states `lie` for the number of rows: the file's own, its row group's, or that of its columns."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    pieces = raw[-8 - size : -8].split(varint(rows))
    joints = [varint(rows)] * (len(pieces) - 1)
    for k in {"file": [0], "group": [-1], "columns": range(1, len(joints) - 1), "all": range(len(joints))}[which]:
        joints[k] = varint(lie)
    footer = b"".join(a + b for a, b in zip(pieces, [*joints, b""], strict=True))
    path.write_bytes(raw[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def varint(number):
    """An integer as Parquet's footer spells it."""
    return spelled(number << 1)


def compressed_pages(path, honest, codec):
    text = pa.array(["x" * 400_000] * honest.num_rows)
    write_part(as_released(honest, left=text, right=text), path, compression=codec, use_dictionary=False)


def a_long_name(path, honest, **encoding):
    text = pa.array(["x" * 400_000] * honest.num_rows)
    write_part(as_released(honest, left=text), path, **encoding)


def long_dictionary(path, honest):
    repeating = [name for name in honest.column_names if name != "value"]
    a_long_name(path, honest, use_dictionary=repeating, dictionary_pagesize_limit=1 << 30)


def long_prefix(path, honest):
    a_long_name(path, honest, use_dictionary=False, column_encoding={"left": "DELTA_BYTE_ARRAY"})


def lying_rows(path, honest, which):
    write_part(honest, path)
    relied(path, honest.num_rows, 1 << 40, which)


def row_groups(path, honest):
    write_part(honest, path, row_group_size=1)


def notes(path, honest, size):
    write_part(honest.replace_schema_metadata({"note": "x" * size}), path, store_schema=True)


def rewritten_footer(path, change):
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    footer = change(raw[-8 - size : -8])
    path.write_bytes(raw[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def unknown_codec(path, honest):
    """Behind a column's name stands its codec, 0 for none; there is none of number 20."""
    write_part(honest, path)
    named = b"\x19\x18\x05stage\x15"
    rewritten_footer(path, lambda footer: footer.replace(named + b"\0", named + b"\x28"))


def short_histogram(path, honest):
    """Of two levels, only one is counted; older writers count none."""
    write_part(honest, path)
    rewritten_footer(path, lambda footer: footer.replace(b"\x19\x06\x19\x26\0", b"\x19\x06\x19\x16"))


def empty_chunks(path, honest, chunks, groups=1):
    """A footer of column chunks that say nothing, three bytes each."""
    counted = b"\xfc" + spelled(chunks) if chunks > 14 else bytes([chunks << 4 | 12])
    group = b"\x19" + counted + b"\x26\0\0" * chunks + b"\x16\0\x16\0\0"
    schema = b"\x19\x2c\x48\x06schema\x15\x02\0\x15\x0a\x25\x02\x18\x01x\0"
    footer = b"\x15\x02" + schema + b"\x16\0\x19" + bytes([groups << 4 | 12]) + group * groups + b"\0"
    pages = b"PAR1" + b"\0" * (8 * honest.num_rows)
    path.write_bytes(pages + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def spelled(number):
    out = b""
    while number > 127:
        number, out = number >> 7, out + bytes([number & 127 | 128])
    return out + bytes([number])


def named_at_length(folder):
    with (folder / "SHA256SUMS").open("a") as sums:
        sums.write("0" * 64 + "  " + "/".join("a" * 20_000) + "\n")


def titled(folder, title):
    (folder / "release.json").write_text('{"title": ' + title + "}")
    (folder / "SHA256SUMS").unlink()
    BundleWriter(folder).checksums()


def long_dictionary_count(path, honest):
    """A page of 3 dictionary entries that says it has 2^31 - 1."""
    write_part(honest, path, use_dictionary=["noise_sd"])
    chunk = pq.read_metadata(path).row_group(0).column(6)
    raw, at = path.read_bytes(), chunk.dictionary_page_offset
    count = raw.index(b"\x4c\x15", at) + 2
    assert at < count < at + 20
    path.write_bytes(raw[:count] + varint(2**31 - 1) + raw[count + 1 :])


BOMBS = {
    "zstd": (lambda path, table: compressed_pages(path, table, "zstd"), "is compressed"),
    "snappy": (lambda path, table: compressed_pages(path, table, "snappy"), "is compressed|more than .* rows take"),
    "a long name in a dictionary": (long_dictionary, "names a column that release.json does not"),
    "a long name as a prefix": (long_prefix, "holds pages as no release"),
    "rows of the file": (lambda path, table: lying_rows(path, table, "file"), "counts its rows in two ways"),
    "rows of the row group": (lambda path, table: lying_rows(path, table, "group"), "counts its rows in two ways"),
    "rows of the columns": (lambda path, table: lying_rows(path, table, "columns"), "counts its rows in two ways"),
    "rows everywhere": (lambda path, table: lying_rows(path, table, "all"), "pages as no release|in two ways"),
    "a row group per row": (row_groups, "more than .* rows take"),
    "long notes": (lambda path, table: notes(path, table, 50 << 20), "more than .* rows take"),
    "short notes": (lambda path, table: notes(path, table, 10), "carries notes"),
    "a codec of no number": (unknown_codec, "is compressed"),
    "a histogram too short": (short_histogram, "counts its rows in two ways|^read$"),
    "two chunks for one column": (lambda path, table: empty_chunks(path, table, 2), "is not a readable|columns"),
    "a footer of empty chunks": (lambda path, table: empty_chunks(path, table, 30_000, 5), "says more about|is not a"),
}
FOLDER_BOMBS = {
    "a name of many parts": (named_at_length, "names a file .* in more than 200 characters or 3 parts"),
    "a long string": (lambda folder: titled(folder, '"' + "a" * 2_400_000 + '"'), "must describe a hazeglass-release"),
    "a string without an end": (lambda folder: titled(folder, '"' + '\\"' * 90_000), "is not valid JSON"),
    "too many objects": (lambda folder: titled(folder, "[" + "{}," * 700_000 + "{}]"), "more values than"),
    "too many strings": (lambda folder: titled(folder, "[" + '"",' * 700_000 + "0]"), "more values than"),
    "a document for no parts": (lambda folder: titled(folder, " " * 30_000_000), "release.json is larger than"),
}
ALL = BOMBS | FOLDER_BOMBS


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """What came of opening every bomb in a process of its own."""
    from tests.conftest import plan_document

    folder = tmp_path_factory.mktemp("bombs")
    rows = np.random.default_rng(1).standard_normal((300, len(NAMES)))
    plan = hg.Plan.from_dict(plan_document(columns=NAMES))
    honest = hg.publish(pa.table(dict(zip(NAMES, rows.T, strict=True))), plan, folder / "honest").path
    table = pq.read_table(honest / "moments.parquet")
    for name, (make, _) in BOMBS.items():
        shutil.copytree(honest, folder / name)
        make(folder / name / "moments.parquet", table)
        reseal(folder / name)
        assert sum(path.stat().st_size for path in (folder / name).rglob("*.json")) < 1 << 20
    for name, (make, _) in FOLDER_BOMBS.items():
        shutil.copytree(honest, folder / name)
        make(folder / name)
    lines = "".join(f"{folder / name}\n" for name in ALL)
    command = [sys.executable, "-c", OPEN_ALL, str(honest)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return dict(zip(ALL, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("name", ALL)
def test_a_bomb_is_refused_in_a_sentence_with_hardly_any_memory(opened, name):
    said, arrow, resident = opened[name]
    assert re.search(ALL[name][1], said)
    assert arrow < MOST_ARROW
    assert resident < MOST_RESIDENT


def test_a_dictionary_that_claims_two_billion_entries_is_refused(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(), tmp_path / "r")
    part = release.path / "moments.parquet"
    long_dictionary_count(part, pq.read_table(part))
    reseal(release.path)
    with pytest.raises(hg.errors.BundleError, match="holds pages as no release"):
        hg.load(release.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path, rows: write_part(rows, path, compression="zstd"), "is compressed"),
        (lambda path, rows: write_part(rows, path, row_group_size=1), "rows take"),
        (lambda path, rows: notes(path, rows, 10), "carries notes"),
        (lambda path, rows: lying_rows(path, rows, "columns"), "counts its rows in two ways"),
    ],
)
def test_parts_of_a_table_are_bounded_the_same_way(make_plan, tmp_path, table, change, message):
    release = hg.publish(pa.concat_tables([table] * 3), make_plan(form="table"), tmp_path / "r")
    change(release.path / release.parts[0], release.table())
    reseal(release.path)
    with pytest.raises(hg.errors.BundleError, match=message):
        hg.load(release.path)


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
@pytest.mark.parametrize("names", [("a", "b"), tuple("ä" * 999 + f"{k}" for k in range(9))], ids=["short", "long"])
def test_what_is_published_stays_within_its_bounds(make_plan, tmp_path, form, names):
    for n in (20, 5000):
        rows = np.random.default_rng(n).standard_normal((n, len(names)))
        plan = make_plan(form=form, columns=names)
        release = hg.publish(pa.table(dict(zip(names, rows.T, strict=True))), plan, tmp_path / f"{n}")
        for part in release.manifest.files:
            footer = pq.read_metadata(release.path / part.path)
            codecs = {footer.row_group(g).column(0).compression for g in range(footer.num_row_groups)}
            assert codecs == {"UNCOMPRESSED"}


def test_a_size_that_release_json_does_not_state_is_refused(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(), tmp_path / "r")
    reseal(release.path, lambda document: document["files"][0].update(bytes=1))
    with pytest.raises(hg.errors.BundleError, match="has another size"):
        hg.load(release.path)


@pytest.mark.parametrize("name", ["moments.parquet", "statement.html"])
def test_a_file_of_holes_is_refused_before_it_is_hashed(make_plan, table, tmp_path, name):
    """Hashing it would take hours."""
    release = hg.publish(table, make_plan(), tmp_path / "release")
    with (release.path / name).open("r+b") as file:
        file.truncate(1 << 40)
    started = time.process_time()
    with pytest.raises(
        hg.errors.BundleError, match=r"has another size than release\.json says|larger than 67,108,864 bytes"
    ):
        hg.load(release.path)
    assert time.process_time() - started < 5
