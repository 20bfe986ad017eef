"""A Parquet footer is walked through before pyarrow sees it, which some footers would end the process of."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle.footer import PHYSICAL_TYPES, read_footer
from hazeglass.bundle.moments import MOMENT_COLUMNS, schema_of
from hazeglass.errors import BundleError

from .forgery import AS_RELEASED, reseal, write_part

TYPES = {"x": 2, "y": 5}
LARGEST = 1 << 16


@pytest.fixture
def part(tmp_path):
    """A part of a table in three row groups."""
    rows = {"x": np.arange(300) % 7, "y": np.random.default_rng(1).standard_normal(300)}
    path = tmp_path / "part.parquet"
    write_part(pa.table(rows), path, row_group_size=100, use_dictionary=["x", "y"])
    return path


def read(path, types=TYPES, row_groups=3, largest=LARGEST):
    with path.open("rb") as file:
        return sum(group.rows for group in read_footer(file, "part", types, row_groups, largest, pa.cpp_version))


# ---- a footer as a tree of (kind, value), so that anything in it can be changed


def varint(raw, at):
    number = shift = 0
    while True:
        number, shift, at = number | (raw[at] & 127) << shift, shift + 7, at + 1
        if raw[at - 1] < 128:
            return number, at


def spell(number):
    out = b""
    while number > 127:
        number, out = number >> 7, out + bytes([number & 127 | 128])
    return out + bytes([number])


def decode(raw, at, kind):
    if kind in (1, 2):
        return None, at
    if kind == 3:
        return raw[at], at + 1
    if kind == 8:
        length, at = varint(raw, at)
        return raw[at : at + length], at + length
    if kind == 9:
        size, inner, at = raw[at] >> 4, raw[at] & 15, at + 1
        if size == 15:
            size, at = varint(raw, at)
        items = []
        for _ in range(size):
            item, at = decode(raw, at, inner)
            items.append(item)
        return [inner, items], at
    if kind == 12:
        fields, number = {}, 0
        while raw[at]:
            number, inner = number + (raw[at] >> 4), raw[at] & 15
            value, at = decode(raw, at + 1, inner)
            fields[number] = [inner, value]
        return fields, at + 1
    number, at = varint(raw, at)
    return (number >> 1) ^ -(number & 1), at


def encode(kind, value):
    if kind in (1, 2):
        return b""
    if kind == 3:
        return bytes([value])
    if kind == 8:
        return spell(len(value)) + value
    if kind == 9:
        inner, items = value
        head = bytes([len(items) << 4 | inner]) if len(items) < 15 else bytes([15 << 4 | inner]) + spell(len(items))
        return head + b"".join(encode(inner, item) for item in items)
    if kind == 12:
        out, before = b"", 0
        for number, (inner, item) in value.items():
            out, before = out + bytes([(number - before) << 4 | inner]) + encode(inner, item), number
        return out + b"\0"
    return spell(value << 1 if value >= 0 else ~(value << 1))


def forge(path, change):
    """Change the footer, as a tree or as bytes."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    tree, end = decode(raw[-8 - size : -8], 0, 12)
    assert end == size
    changed = change(tree)
    footer = changed if isinstance(changed, bytes) else encode(12, tree)
    path.write_bytes(raw[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def groups(tree):
    return tree[4][1][1]


def chunk(tree):
    """What is said of the first column of the first row group."""
    return groups(tree)[0][1][1][1][0][3][1]


def insert(fields, number, value):
    """A field in its place among the others."""
    fields[number] = value
    ordered = sorted(fields.items())
    fields.clear()
    fields.update(ordered)


def with_bytes(tree, size):
    """Another size of the first chunk, and of its row group."""
    group = groups(tree)[0]
    added = size - chunk(tree)[7][1]
    group.update({2: [6, group[2][1] + added], 6: [6, group[6][1] + added]})
    chunk(tree).update({6: [6, size], 7: [6, size]})


def sizes(tree):
    """How many values of the first chunk are missing and how many are there."""
    if 16 not in chunk(tree):
        pytest.skip("this version of pyarrow states no sizes")
    return chunk(tree)[16][1]


def longer(tree, fields, number):
    """The same number with more bytes than it needs, and so with room for a message."""
    marker = 123_456_789
    fields[number][1] = marker
    return encode(12, tree).replace(spell(marker << 1), b"\x85" * 30 + b"\0")


FORGERIES = {
    "a chunk too many": (lambda t: groups(t)[0][1][1][1].append(groups(t)[0][1][1][1][0]), "with other columns"),
    "a chunk too few": (lambda t: groups(t)[0][1][1][1].pop(), "with other columns"),
    "an unknown codec": (lambda t: chunk(t)[4].__setitem__(1, 99), "is compressed"),
    "a codec of another type": (lambda t: chunk(t)[4].__setitem__(0, 6), "not a readable"),
    "a codec beyond 32 bits": (lambda t: chunk(t)[4].__setitem__(1, 1 << 40), "not a readable"),
    "more bytes unpacked": (lambda t: chunk(t)[6].__setitem__(1, 1 << 40), "is compressed"),
    "more bytes than the file": (lambda t: with_bytes(t, 1 << 40), "more bytes than"),
    "more values": (lambda t: chunk(t)[5].__setitem__(1, 1 << 40), "in two ways"),
    "fewer rows": (lambda t: t[3].__setitem__(1, 10), "in two ways"),
    "rows below nothing": (lambda t: groups(t)[0][3].__setitem__(1, -100), "in two ways"),
    "another column": (lambda t: chunk(t)[3].__setitem__(1, [8, [b"z"]]), "with other columns"),
    "a type of its own": (lambda t: chunk(t)[1].__setitem__(1, 5), "with other columns"),
    "a part elsewhere": (lambda t: groups(t)[0][1][1][1].insert(0, {1: [8, b"/etc/passwd"]}), "not a readable"),
    "encryption": (lambda t: t.update({8: [12, {1: [12, {}]}]}), "not a readable"),
    "notes": (lambda t: insert(t, 5, [9, [12, [{1: [8, b"note"], 2: [8, b"text"]}]]]), "carries notes"),
    "Arrow's schema": (lambda t: insert(t, 5, [9, [12, [{1: [8, b"ARROW:schema"], 2: [8, b""]}]]]), "carries notes"),
    "a writer with a message": (lambda t: t[6].__setitem__(1, t[6][1] + b" raw rows: 1 2 3"), "another writer"),
    "a writer of another name": (lambda t: t[6].__setitem__(1, b"evil"), "another writer"),
    "another version": (lambda t: t[6].__setitem__(1, b"parquet-cpp-arrow version 123.45.678"), "another writer"),
    "a root of a type": (lambda t: insert(t[2][1][1][0], 1, [5, 1234567]), "does not have the columns"),
    "a root that repeats": (lambda t: t[2][1][1][0].__setitem__(3, [5, 1234567]), "does not have the columns"),
    "a root that says what it means": (lambda t: insert(t[2][1][1][0], 6, [5, 12345]), "does not have the columns"),
    "an order by nothing": (lambda t: t[7][1][1][0].pop(1), "carries notes"),
    "encodings in another order": (lambda t: chunk(t)[2][1][1].reverse(), "pages as no release"),
    "an encoding twice": (lambda t: chunk(t)[2][1][1].append(3), "pages as no release"),
    "counts of pages in another order": (lambda t: chunk(t)[13][1][1].reverse(), "pages as no release"),
    "no counts of pages": (lambda t: chunk(t).pop(13), "leaves out"),
    "a length of text of numbers": (lambda t: insert(sizes(t), 1, [6, 1 << 60]), "in two ways"),
    "levels that add up": (lambda t: sizes(t)[3].__setitem__(1, [6, [100]]), "in two ways"),
    "no word on what repeats": (lambda t: sizes(t).pop(2), "in two ways"),
    "no sizes": (lambda t: sizes(t) and chunk(t).pop(16), "what no release does"),
    "row groups with and without a number": (
        lambda t: groups(t)[1].pop(7, None) or insert(groups(t)[1], 7, [4, 1]),
        "in two ways",
    ),
    "a short list spelled at length": (
        lambda t: encode(12, t).replace(b"\x19\x2c\x1c\0\0\x1c", b"\x19\xfc\x02\x1c\0\0\x1c"),
        "not a readable",
    ),
    "a root with a message": (lambda t: t[2][1][1][0].__setitem__(4, [8, b"raw rows"]), "does not have the columns"),
    "more orders than columns": (lambda t: t[7][1][1].append({1: [12, {}]}), "carries notes"),
    "statistics": (lambda t: insert(chunk(t), 12, [12, {5: [8, b"\0" * 8], 6: [8, b"\0" * 8]}]), "not a readable"),
    "a number spelled at length": (lambda t: longer(t, groups(t)[0], 2), "not a readable"),
    "a list of encodings that says more": (lambda t: chunk(t)[2][1][1].extend([104, 105]), "pages as no release"),
    "another count of pages": (lambda t: chunk(t)[13][1][1][0].__setitem__(3, [5, 77]), "pages as no release"),
    "another start": (lambda t: chunk(t)[9].__setitem__(1, 4), "pages as no release"),
    "another dictionary": (lambda t: chunk(t)[11].__setitem__(1, 5), "pages as no release"),
    "more bytes in a chunk": (lambda t: with_bytes(t, 500), "pages as no release"),
    "bytes that do not add up": (lambda t: chunk(t).update({6: [6, 500], 7: [6, 500]}), "its bytes in two ways"),
    "a list of another type": (lambda t: chunk(t)[2].__setitem__(1, [8, [b"a"]]), "not a readable"),
    "a column inside a column": (lambda t: t[2][1][1][1].update({5: [5, 1]}), "does not have the columns"),
    "a column that is always there": (lambda t: t[2][1][1][1].__setitem__(3, [5, 0]), "numbers of the right kind"),
    "a column of another name": (lambda t: t[2][1][1][1].__setitem__(4, [8, b"\xff"]), "does not have the columns"),
    "a column of truth values": (lambda t: t[2][1][1][1].__setitem__(1, [5, 0]), "numbers of the right kind"),
    "a row group too many": (lambda t: groups(t).append(groups(t)[0]), "not a readable|more row groups"),
    "no schema": (lambda t: t.pop(2), "leaves out"),
    "an empty schema": (lambda t: t[2].__setitem__(1, [12, []]), "does not have the columns"),
    "no codec": (lambda t: chunk(t).pop(4), "leaves out"),
    "bytes at its end": (lambda t: encode(12, t) + b"\0", "not a readable"),
    "an end too early": (lambda t: encode(12, t)[:-1], "not a readable"),
    "no footer": (lambda t: b"", "not a readable"),
    "a field spelled out": (lambda t: b"\x05\x02\x04" + encode(12, t)[2:], "not a readable"),
    "a list that does not end": (lambda t: b"\x15\x04\x19\xfc\xff\xff\xff\xff\x0f", "not a readable"),
    "a number that does not end": (lambda t: b"\x15" + b"\xff" * 1000, "not a readable"),
    "a name that does not end": (lambda t: b"\x15\x04\x19\x1c\x48\xff\xff\xff\xff\x0f", "not a readable"),
}  # fmt: skip


def test_an_honest_footer_is_read_as_pyarrow_reads_it(part):
    assert read(part) == pq.read_metadata(part).num_rows == 300
    forge(part, lambda tree: None)
    assert read(part) == 300


def test_moments_and_text_are_read_as_well(tmp_path):
    schema, path = schema_of(MOMENT_COLUMNS), tmp_path / "moments.parquet"
    with pq.ParquetWriter(path, schema, **AS_RELEASED, use_dictionary=["left", "right"]) as writer:
        for _ in range(20):
            writer.write_batch(pa.RecordBatch.from_pylist([{"left": "a"}, {"left": "b" * 300, "value": 1.0}], schema))
    types = {field.name: PHYSICAL_TYPES[str(field.type)] for field in schema}
    assert read(path, types, row_groups=20) == 40


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_footer_is_refused(part, name):
    change, message = FORGERIES[name]
    forge(part, change)
    with pytest.raises(BundleError, match=message):
        read(part)


def with_page(path, place, change):
    """Change the head of the first page that starts at `place`, and every offset behind it."""
    raw = path.read_bytes()
    head, end = decode(raw, place, 12)
    change(head)
    new = encode(12, head)
    assert len(new) == end - place
    path.write_bytes(raw[:place] + new + raw[end:])


PAGES = {
    "more values than rows": lambda page: page[5][1].__setitem__(1, [5, 125]),
    "fewer values than rows": lambda page: page[5][1].__setitem__(1, [5, 99]),
    "another encoding": lambda page: page[5][1].__setitem__(2, [5, 7]),
    "other levels": lambda page: page[5][1].__setitem__(3, [5, 4]),
    "another kind": lambda page: page.__setitem__(1, [5, 3]),
    "more bytes unpacked": lambda page: page.__setitem__(2, [5, page[2][1] + 1]),
    "statistics that say nothing": lambda page: page[5][1].update({5: [12, {3: [6, 0]}]}) or page.pop(3),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_forged_page_is_refused(part, name):
    first = pq.read_metadata(part).row_group(0).column(0).data_page_offset
    with_page(part, first, PAGES[name])
    with pytest.raises(BundleError, match=r"pages as no release|leaves out"):
        read(part)


def test_a_dictionary_has_no_more_entries_than_rows(part):
    with_page(part, 4, lambda page: page[7][1].__setitem__(1, [5, 60]))
    assert read(part) == 300
    with_page(part, 4, lambda page: page[7][1].__setitem__(1, [5, 63]))
    assert read(part) == 300
    write_part(pa.table({"x": np.arange(40) % 7, "y": np.arange(40.0)}), part)
    with_page(part, 4, lambda page: page[7][1].__setitem__(1, [5, 41]))
    with pytest.raises(BundleError, match="pages as no release"):
        read(part)


def test_bytes_between_the_pages_and_the_footer_are_refused(part):
    raw = part.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    part.write_bytes(raw[: -8 - size] + b"raw rows" + raw[-8 - size :])
    with pytest.raises(BundleError, match="belong to none of its columns"):
        read(part)


def test_a_message_in_the_schema_of_a_part_does_not_travel(make_plan, table, tmp_path):
    """Arrow would write it into a note of its own, and hand it out again."""
    release = hg.publish(table, make_plan(form="table"), tmp_path / "r")
    part = release.path / release.parts[0]
    honest = pq.read_table(part)
    assert pq.read_metadata(part).metadata is None
    assert not pq.read_metadata(part).row_group(0).column(0).is_stats_set
    write_part(honest.replace_schema_metadata({"rows": "1 2 3"}), part, store_schema=True)
    with pytest.raises(BundleError, match="carries notes"):
        hg.load(reseal(release.path))
    write_part(honest, part, write_statistics=True)
    with pytest.raises(BundleError, match="not a readable Parquet file"):
        hg.load(reseal(release.path))


def test_a_footer_larger_than_its_columns_need_is_not_read(part):
    size = int.from_bytes(part.read_bytes()[-8:-4], "little")
    assert read(part, largest=size) == 300
    with pytest.raises(BundleError, match="says more about its columns"):
        read(part, largest=size - 1)
    with pytest.raises(BundleError, match="more row groups than a release"):
        read(part, types=TYPES, row_groups=2)


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"PAR1" * 2, b"PAR1\xff\xff\xff\xffPAR1", b"PAR1" + b"\0" * 4 + b"PARE"])
def test_what_is_no_parquet_file_is_refused(tmp_path, raw):
    (tmp_path / "part").write_bytes(raw)
    with pytest.raises(BundleError, match="not a readable Parquet file"):
        read(tmp_path / "part")


# ---- thousands of damaged parts, in a process that must survive them

DAMAGE = """
import hashlib, random, sys
from dataclasses import replace
from pathlib import Path
import pyarrow as pa
from hazeglass.bundle.manifest import Part
from hazeglass.bundle.verify import check_parts
from hazeglass.bundle.reader import Release, load
from hazeglass.errors import BundleError

folder, times = Path(sys.argv[1]), int(sys.argv[2])
release, draw = load(folder), random.Random(int(sys.argv[3]))
name = sys.argv[4]
raw, refused = (folder / name).read_bytes(), 0
footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
for _ in range(times):
    damaged = bytearray(raw)
    # Before 17, pyarrow itself ends the process on some pages, and nothing of ours stands before them.
    pages = int(pa.__version__.split(".")[0]) >= 17
    first, last = draw.choice([(footer, len(raw)), (4, footer) if pages else (footer, len(raw))])
    for _ in range(draw.choice([1, 1, 2, 4])):
        place = draw.randrange(first, last)
        damaged[place] = draw.choice([0, 1, 2, 0x15, 0x19, 0x1C, 0x26, 0x7F, 0x80, 0xFF, draw.randrange(256)])
    (folder / name).write_bytes(damaged)
    damage = Part(name, hashlib.sha256(damaged).hexdigest(), len(raw))
    parts = tuple(damage if part.path == name else part for part in release.manifest.files)
    described = replace(release.manifest, files=parts)
    try:
        check_parts(folder, described)
        damaged_release = Release(folder, described)
        read = {"moments.parquet": damaged_release.moments, "marginals.parquet": damaged_release.marginals}
        read.get(name, damaged_release.check_values)()
    except BundleError:
        refused += 1
print(refused)
"""


@pytest.mark.parametrize("name", ["data/part-00000.parquet", "moments.parquet", "marginals.parquet"])
def test_no_damage_to_a_part_ends_the_process(make_plan, table, tmp_path, name):
    form = "table" if name.startswith("data") else "moments"
    folder = hg.publish(table, make_plan(form=form), tmp_path / "r", simulate_seed=1).path
    times = 1500 * max(1, int(os.environ.get("HAZEGLASS_FUZZ", "0")))
    command = [sys.executable, "-c", DAMAGE, str(folder), str(times), "7", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120 * max(1, times // 1500))
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > times / 3
