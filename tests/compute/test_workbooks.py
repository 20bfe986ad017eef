"""Workbooks: every cell by itself, and neither damage nor size ends more than one reading."""

import re
import tracemalloc
import warnings
import zipfile
from collections import Counter
from itertools import chain

import openpyxl
import pytest

from hazeglass.compute.readings import Reading
from hazeglass.compute.tables import blocks, open_table
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError, MissingExtraError


def read(data, text=None):
    source = open_table(data, text)
    batches = list(blocks(source, source.names))
    return {name: [cell for batch in batches for cell in batch.column(name).to_pylist()] for name in source.names}


def workbook(path, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return str(path)


def test_the_first_sheet_of_a_workbook_is_a_table(tmp_path):
    rows = [["a", " b ", None], [1.0, 4], [2, "5"], [None, "x"], ["3,5", True]]
    read_rows = read(workbook(tmp_path / "d.xlsx", rows), TextFormat(separator=";", decimal=","))
    assert read_rows == {"a": [1.0, 2.0, None, 3.5], "b": [4.0, 5.0, None, 1.0]}


def test_a_workbook_that_says_it_is_smaller_than_it_is_loses_no_row(tmp_path):
    path = workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4], [2, 5]])
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part.replace(b'<dimension ref="A1:B3"', b'<dimension ref="A1:A2"'))
    assert read(path) == {"a": [1.0, 2.0], "b": [4.0, 5.0]}


def test_a_workbook_that_cannot_be_read_gets_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "d.xlsx").write_bytes(b"PK secret")
    with pytest.raises(DataError, match=r"cannot be read as an Excel workbook; save it anew") as caught:
        read(str(tmp_path / "d.xlsx"))
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match="its sheet is empty"):
        read(workbook(tmp_path / "empty.xlsx", []))
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"hazeglass\[excel\]"):
        read(str(tmp_path / "d.xlsx"))


@pytest.mark.parametrize("filter", ["default", "error"])
def test_a_cell_that_is_no_date_of_excels_is_missing_and_never_told(tmp_path, filter):
    path = workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4], [99999999999, 5]])
    book = openpyxl.load_workbook(path)
    book.active["A3"].number_format = "yyyy-mm-dd"
    book.save(path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter(filter)
        assert read(path) == {"a": [1.0, None], "b": [4.0, 5.0]}
    assert not told


UNREADABLE_CELLS = [
    *(f"<v>{word}</v>" for word in ("NaN", "INF", "1,5", "0x10", "-", "1" * 5000, "\U0001d7d8.\u00e9")),
    *(' t="d"><v>2024-13-01</v>', ' t="d"><v>hello</v>', ' t="b"><v>true</v>', ' t="s"><v>99</v>', ' s="x"><v>1</v>'),
    *("<v>&#xD800;</v>", ' t="inlineStr"><is><t>&#55296;\uffff&#x1;</t></is>', "<f>X</f><v>NaN</v>"),
]


@pytest.mark.parametrize("cell", UNREADABLE_CELLS, ids=lambda cell: ascii(cell)[:40])
@pytest.mark.parametrize("place", ["A3", "B3", None])
def test_a_cell_of_a_workbook_that_cannot_be_read_is_missing_and_no_other(tmp_path, cell, place):
    """Also in column B, which nothing asks for; a cell without a place follows the one before."""
    path = workbook(tmp_path / "d.xlsx", [["a", "note", "b"], [1, 7, 4], [2, 8, 5], [3, 9, 6]])
    start = f'<c r="{place}"' if place else "<c"
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    odd = start + (cell if cell.startswith(" ") else f">{cell}") + "</c>"
    parts["xl/worksheets/sheet1.xml"] = re.sub(rf'<c r="{place or "A3"}".*?</c>', lambda _: odd, sheet).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    found = read(path)
    assert (found["a"], found["b"]) == ([1.0, 2.0 if place == "B3" else None, 3.0], [4.0, 5.0, 6.0])


OF_STRINGS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
AS_STRINGS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


SPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def sheet_of(path, cells, shared=()):
    """A workbook of a column `a` of cells as they stand in its sheet, and a running number beside it."""
    parts = parts_of(workbook(path, [["a", "b"]]))
    rows = "".join(f'<row r="{k}">{cell}<c r="B{k}"><v>{k}</v></c></row>' for k, cell in enumerate(cells, 2))
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    parts["xl/worksheets/sheet1.xml"] = sheet.replace("</sheetData>", rows + "</sheetData>")
    if shared:
        old = parts["[Content_Types].xml"].decode().replace("/xl/sharedStrings.xml", "/xl/no.xml")
        entry = f'<Override PartName="/xl/words.xml" ContentType="{AS_STRINGS}"/></Types>'
        parts["[Content_Types].xml"] = old.replace("</Types>", entry)
        parts["xl/words.xml"] = f'<sst xmlns="{SPACE}"><si><t>a</t></si><si><t>b</t></si>{"".join(shared)}</sst>'
    return packed(path, parts)


def words_of(path):
    source = open_table(str(path))
    levels = {"level": Reading("a", levels=("A\aB", "_x0041_"))}
    batches = list(chain.from_iterable(one.batches(Counter()) for one in source.pieces(["level"], ["a"], levels)))
    return [(row["level"], row["a"]) for batch in batches for row in batch.to_pylist()]


ESCAPES = {
    "person 1_x000D_": "person 1\r",
    "_x000d__x0041__x00e9_": "\rA\u00e9",
    "A_x0007_B": "A\aB",
    "_x005F_x0041_": "_x0041_",
    "_x005f__x005F_x005F_": "__x005F_",
    "_xD83D__xDE00_": "\U0001f600",
    "_xFFFF_1": "\uffff1",
    "_x41_ _x00041_ _X0041_ x0041_ _x00g1_": "_x41_ _x00041_ _X0041_ x0041_ _x00g1_",
}


@pytest.mark.parametrize("way", ["shared", "inline", "formula", "runs", "inline runs"])
def test_characters_that_excel_spells_out_are_those_of_a_csv(tmp_path, way):
    """Excel writes a carriage return as _x000D_, and an underscore before what looks like that as _x005F_."""
    runs = "runs" in way
    texts = [
        f'<r><rPr><sz val="huge"/></rPr><t>{word}</t></r><r><t/></r>' if runs else f"<t>{word}</t>" for word in ESCAPES
    ]
    shared = () if way.startswith(("inline", "formula")) else [f"<si>{text}</si>" for text in texts]
    cells = {
        "s": [f'<c r="A{k}" t="s"><v>{k}</v></c>' for k in range(2, len(ESCAPES) + 2)],
        "i": [f'<c r="A{k}" t="inlineStr"><is>{text}</is></c>' for k, text in enumerate(texts, 2)],
        "f": [f'<c r="A{k}" t="str"><f>X</f><v>{word}</v></c>' for k, word in enumerate(ESCAPES, 2)],
    }["s" if shared else way[0]]
    path = sheet_of(tmp_path / "d.xlsx", cells, shared)
    lines = ["a,b", *(f'"{word}",{k}' for k, word in enumerate(ESCAPES.values(), 2))]
    (tmp_path / "d.csv").write_bytes("\n".join([*lines, ""]).encode())
    csv = words_of(tmp_path / "d.csv")
    assert words_of(path) == csv
    assert (csv[0][1], csv[2], csv[3]) == ("person 1", (0.0, "AB"), (1.0, "_x0041_"))


def test_half_a_character_that_excel_spells_out_stops_nothing(tmp_path):
    halves = ("_xD800_", "A_xDC00_B", "_xD800__xD800__xDC00_", "_xDE00__xD83D_", "7")
    cells = [f'<c r="A{k}" t="str"><v>{word}</v></c>' for k, word in enumerate(halves, 2)]
    inline = [f'<c r="A{k}" t="inlineStr"><is><t>{word}</t></is></c>' for k, word in enumerate(halves, 2)]
    expected = ["\ufffd", "A\ufffdB", "\ufffd\U00010000", "\ufffd\ufffd", "7"]
    for kind in (cells, inline):
        assert [word for _, word in words_of(sheet_of(tmp_path / "d.xlsx", kind))] == expected


def test_words_and_places_that_are_none_leave_the_other_cells_alone(tmp_path):
    shared = ["<si><t>7</t></si>", "<si/>", "<si><t>8</t></si>"]
    places = [f'<c r="A{k}" t="s"><v>{n}</v></c>' for k, n in enumerate((2, -1, -3, 5, 10**30, 3, 4), 2)]
    assert read(sheet_of(tmp_path / "d.xlsx", places, shared)) == {
        "a": [7.0, None, None, None, None, None, 8.0],
        "b": [float(k) for k in range(2, 9)],
    }
    odd = [f'<c r="{place}"><v>9</v></c>' for place in ("??", "A", "7", "AAAA1", "A" + "1" * 5000, "$A$7", "-", "A8")]
    expected = {"a": [None] * 7 + [9.0], "b": [float(k) for k in range(2, 10)]}
    assert read(sheet_of(tmp_path / "d.xlsx", odd)) == expected


def test_a_shared_string_of_more_parts_than_a_text_has_is_missing_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("hazeglass.compute.workbooks._MOST_ELEMENTS", 50)
    shared = ["<si><t>7</t></si>", f"<si>{'<r><t>1</t></r>' * 1000}<t>5</t></si>", "<si><t>8</t></si>"]
    cells = [f'<c r="A{k}" t="s"><v>{k}</v></c>' for k in (2, 3, 4)]
    assert read(sheet_of(tmp_path / "d.xlsx", cells, shared)) == {"a": [7.0, None, 8.0], "b": [2.0, 3.0, 4.0]}


@pytest.mark.parametrize("look", ['<sz val="huge"/>', '<family val="34"/>', '<color rgb="QQ"/>', "<b/>"])
def test_how_the_letters_of_a_cell_look_keeps_no_workbook_from_being_read(tmp_path, look):
    """Words that cells share stand in a part of their own, which openpyxl reads as a whole or not at all."""
    path = workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4], [2, 5], [3, 6]])
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    added = {
        "[Content_Types].xml": f'<Override PartName="/xl/s.xml" ContentType="{AS_STRINGS}"/></Types>',
        "xl/_rels/workbook.xml.rels": f'<Relationship Id="s" Type="{OF_STRINGS}" Target="s.xml"/></Relationships>',
    }
    for name, end in added.items():
        parts[name] = re.sub("</(Types|Relationships)>$", end, parts[name].rstrip())
    sheet = "xl/worksheets/sheet1.xml"
    for place, number in (("A2", 0), ("A3", 1)):
        shared = f'<c r="{place}" t="s"><v>{number}</v></c>'
        parts[sheet] = re.sub(rf'<c r="{place}".*?</c>', lambda _, new=shared: new, parts[sheet])
    odd = f"<si><r><rPr>{look}</rPr><t>7</t></r><r><t>.5</t></r><rPh><t>9</t></rPh></si>"
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    parts["xl/s.xml"] = f'<sst xmlns="{space}">{odd}<si><t> 8 </t></si></sst>'
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    assert read(path) == {"a": [7.5, 8.0, 3.0], "b": [4.0, 5.0, 6.0]}


def test_a_workbook_that_openpyxl_wrote_with_half_a_character_is_read(tmp_path):
    path = workbook(tmp_path / "d.xlsx", [["a", "b"], [1, "\ud800"], [2, "\uffff"], [3, 6]])
    assert read(path) == {"a": [1.0, 2.0, 3.0], "b": [None, None, 6.0]}


def parts_of(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(path, parts):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name, part)
    return str(path)


def refusal_of(path):
    with pytest.raises(DataError) as refusal:
        read(str(path))
    assert refusal.value.exit_status == 2
    said = str(refusal.value)
    assert re.fullmatch(r"d\.xlsx [^\n]*; save it anew as \.xlsx or \.csv\.", said)
    return said


LAUGHS = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 12))
STYLES = {
    "nothing": b"",
    "no XML": b"<styleSheet",
    "half a file": lambda good: good[: len(good) // 2],
    "a number that is none": lambda good: good.replace(b'numFmtId="0"', b'numFmtId="secret"'),
    "a size that is none": lambda good: good.replace(b'<sz val="11"', b'<sz val="secret"'),
    "laughs": f'<!DOCTYPE a [<!ENTITY a0 "ha">{LAUGHS}]><a>&a11;</a>'.encode(),
}


@pytest.mark.parametrize("name", STYLES)
def test_a_damaged_style_sheet_is_one_sentence(tmp_path, name):
    parts, new = parts_of(workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4]])), STYLES[name]
    good = parts["xl/styles.xml"]
    parts["xl/styles.xml"] = new(good) if callable(new) else new
    assert parts["xl/styles.xml"] != good
    said = refusal_of(packed(tmp_path / "d.xlsx", parts))
    assert "cannot be read as an Excel workbook" in said
    assert "secret" not in said


@pytest.mark.parametrize("styles", [b"<html/>", b"<a>" * 100_000 + b"</a>" * 100_000], ids=["none", "very deep"])
def test_a_style_sheet_that_says_nothing_ends_no_reading(tmp_path, styles):
    parts = parts_of(workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4]]))
    assert read(packed(tmp_path / "d.xlsx", {**parts, "xl/styles.xml": styles})) == {"a": [1.0], "b": [4.0]}


def test_a_workbook_that_unpacks_to_more_than_cells_do_is_not_opened(tmp_path, monkeypatch):
    parts = parts_of(workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4], [2, 5], [3, 6]]))
    path = packed(tmp_path / "d.xlsx", {**parts, "xl/sharedStrings.xml": b" " * (8 << 20)})
    assert read(path)["a"] == [1.0, 2.0, 3.0]
    monkeypatch.setattr("hazeglass.compute.workbooks._FREE_BYTES", 1 << 20)
    assert "would unpack to 8,4" in refusal_of(path)
    monkeypatch.setattr("hazeglass.compute.workbooks._LARGEST_GROWTH", 1000)
    assert read(path)["a"] == [1.0, 2.0, 3.0]
    monkeypatch.setattr("hazeglass.compute.workbooks._LARGEST_OTHER_PART", 10_000)
    path = packed(tmp_path / "d.xlsx", {**parts, "xl/styles.xml": parts["xl/styles.xml"] + b" " * 10_000})
    assert "has a part beside its cells of more than 10,000 bytes" in refusal_of(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_workbook_that_is_packed_without_a_bound_is_not_opened(tmp_path, method):
    parts = parts_of(workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4]]))
    with zipfile.ZipFile(tmp_path / "d.xlsx", "w", method) as file:
        for name, part in parts.items():
            file.writestr(name, part)
    assert "packed otherwise than workbooks are" in refusal_of(tmp_path / "d.xlsx")


def test_a_part_that_says_it_is_smaller_than_it_is_does_not_fill_the_memory(tmp_path):
    parts = parts_of(workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4]]))
    name, size = "xl/styles.xml", 96 << 20
    path = packed(tmp_path / "d.xlsx", {**parts, name: b" " * size})
    raw = (tmp_path / "d.xlsx").read_bytes()
    assert raw.count(size.to_bytes(4, "little")) == 2
    (tmp_path / "d.xlsx").write_bytes(raw.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    tracemalloc.start()
    try:
        refusal_of(path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_row_of_a_number_that_no_sheet_has_makes_no_rows(tmp_path):
    parts = parts_of(workbook(tmp_path / "d.xlsx", [["a", "b"], [1, 4], [2, 5]]))
    sheet = "xl/worksheets/sheet1.xml"
    for number, rows in (("9", 8), ("1048576", 2**20 - 1), ("1048577", None), ("2000000000", None)):
        changed = parts[sheet].replace(b'<row r="3"', f'<row r="{number}"'.encode()).replace(b'r="A3"', b"")
        path = packed(tmp_path / "d.xlsx", {**parts, sheet: changed.replace(b'r="B3"', b"")})
        if rows is None:
            assert f"has a row of number {int(number):,}" in refusal_of(path)
        else:
            found = read(path)["a"]
            assert (len(found), found[-1]) == (rows, 2.0)


def test_cells_beyond_the_names_take_no_memory(tmp_path):
    rows = [["a", "b"], *([k, 4.0] for k in range(1000))]
    parts = parts_of(workbook(tmp_path / "d.xlsx", rows))
    sheet = "xl/worksheets/sheet1.xml"
    wide = re.sub(rb'<row r="(\d{2,})"(.*?)</row>', rb'<row r="\1"\2<c r="ZZZ\1"><v>1</v></c></row>', parts[sheet])
    path = packed(tmp_path / "d.xlsx", {**parts, sheet: wide})
    tracemalloc.start()
    try:
        assert read(path) == {"a": [float(k) for k in range(1000)], "b": [4.0] * 1000}
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_row_of_too_many_elements_is_refused_and_many_rows_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("hazeglass.compute.workbooks._MOST_ELEMENTS", 50)
    rows = [[f"c{k}" for k in range(12)], *([1] * 12 for _ in range(100))]
    assert len(read(workbook(tmp_path / "d.xlsx", rows))["c3"]) == 100
    rows.append([1] * 30)
    assert "has a row or a text of more parts than one has" in refusal_of(workbook(tmp_path / "d.xlsx", rows))
