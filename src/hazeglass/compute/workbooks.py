"""Excel workbooks: the first sheet, of which every cell is read by itself, as a CSV's are.

openpyxl reads the rest. By itself it gives a sheet up at the first cell it cannot read: "NaN" where a number should be,
a date that is none, half a character that openpyxl wrote itself. Here such a cell is missing. What is no cell (the list
of parts, how cells look) openpyxl reads as a whole: damage there ends the reading in one sentence. A workbook is an
archive, and a small one may unpack to fill the memory, so what is unpacked and what is held of it is bounded.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from hazeglass.compute.places import Place
from hazeglass.errors import DataError, MissingExtraError

# What XML cannot hold, raw or as a reference to a character.
_NO_CHARACTER = re.compile(
    rb"[\0-\x08\x0b\x0c\x0e-\x1f]|\xed[\xa0-\xbf][\x80-\xbf]|\xef\xbf[\xbe\xbf]|&#(?:[0-9]+|x[0-9a-fA-F]+);"
)
_REPLACEMENT = "\ufffd".encode()
_ESCAPE = re.compile("_x([0-9a-fA-F]{4})_")  # of a character in a cell; _x005F_ is the _ before what is none
_TAG = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_PLACE = re.compile("[A-Za-z]{1,3}[0-9]{1,9}")
_FREE_BYTES, _LARGEST_GROWTH = 512 << 20, 100  # what unpacks to more than both was made to fill a memory
_LARGEST_OTHER_PART = 64 << 20  # of one that is read as a whole
_MOST_ROWS, _MOST_CELLS = 1 << 20, 1 << 29  # the first is Excel's own
_MOST_ELEMENTS = 1 << 20  # of a row, which has at most 16,384 cells
_CHUNK = 1 << 20


class _RefusedError(Exception):
    """What is wrong with a workbook, behind its name."""


def workbook(place: Place) -> tuple[tuple[str, ...], list[list[Any]]]:
    """The first sheet of an Excel workbook: the names in its first row, and the cells below them, column by column.

    A formula is what it came to when the workbook was saved. Rows end with the last one that holds anything.
    """
    try:
        import openpyxl  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError(
            "a workbook needs openpyxl. Install it with: pip install 'hazeglass[excel]', or save the sheet as CSV."
        ) from None
    try:
        with place.open_file() as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they quote cells, and a caller may have them raised
            names, *rows = list(_rows(_as_xml(file))) or [[]]
    except (DataError, MemoryError):
        raise
    except _RefusedError as refusal:
        raise DataError(f"{place.name} {refusal}; save it anew as .xlsx or .csv.") from None
    except Exception:  # damaged files fail in many ways, some of which quote a cell
        raise DataError(f"{place.name} cannot be read as an Excel workbook; save it anew as .xlsx or .csv.") from None
    while names and names[-1] is None:
        names.pop()
    if not names:
        raise DataError(f"{place.name} must begin with a row of column names, and the first row of its sheet is empty.")
    columns = [[row[k] if k < len(row) else None for row in rows] for k in range(len(names))]
    return tuple("" if name is None else str(name).strip() for name in names), columns


def _openpyxl() -> tuple[Any, Any]:
    """openpyxl's reader of a workbook and parser of a sheet, as this file changes them."""
    from openpyxl.reader.excel import SHARED_STRINGS, ExcelReader
    from openpyxl.worksheet._reader import INLINE_STRING, WorkSheetParser

    class Reader(ExcelReader):  # type: ignore[misc]
        def read_strings(self) -> None:
            """The words that cells refer to, without how their letters look, which openpyxl may not know."""
            if (part := self.package.find(SHARED_STRINGS)) is not None:
                with self.archive.open(part.PartName[1:]) as source:
                    self.shared_strings = _Words(_words(source))

        def read_chartsheet(self, sheet: Any, rel: Any) -> None:
            """A sheet that is a chart holds no cells."""

    class Parser(WorkSheetParser):  # type: ignore[misc]
        col_counter: int

        def parse_cell(self, element: Any) -> dict[str, Any]:
            """The cell; a missing one where it cannot be read, in its place or, where that is none, behind the last."""
            before = self.col_counter
            try:
                return self._parse_text(element)
            except Exception:
                self.col_counter = before
                place = element.get("r", "")
                element.clear()
                if _PLACE.fullmatch(place):
                    element.set("r", place)
                return dict(super().parse_cell(element))

        def _parse_text(self, element: Any) -> dict[str, Any]:
            """The cell, with its text as shared strings are read."""
            kind, inline = element.get("t"), element.find(INLINE_STRING)
            if inline is not None:
                element.remove(inline)
            cell = dict(super().parse_cell(element))
            if kind == "inlineStr" and inline is not None:
                cell["value"] = _text(inline)
            elif kind != "s" and isinstance(cell["value"], str):
                cell["value"] = _unescaped(cell["value"])
            return cell

    return Reader, Parser


def _rows(file: BinaryIO) -> Iterator[list[Any]]:
    """The rows of the first sheet, also those that a file leaves out.

    openpyxl's own rows end at the first cell it cannot read, so they are taken from the parser behind them.
    """
    from openpyxl.worksheet._reader import DATA_TAG, ROW_TAG

    make_reader, make_parser = _openpyxl()
    reader = make_reader(file, read_only=True, data_only=True, keep_links=False)
    reader.archive = _Archive(file)
    reader.read()
    book = reader.wb
    sheet = book.worksheets[0]
    with book._archive.open(sheet._worksheet_path) as source:
        parser = make_parser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        last, width = 0, None
        for element in _elements(source, ROW_TAG, DATA_TAG):  # what stands behind the cells is about how they look
            number, cells = parser.parse_row(element)
            if number > _MOST_ROWS or number * (width or 0) > _MOST_CELLS:
                raise _RefusedError(f"has a row of number {number:,}, more than one with {width or 0:,} columns may")
            for _ in range(last + 1, number):
                yield []
            last = max(last, number)
            longest = max((cell["column"] for cell in cells), default=0)
            width = longest if width is None else width  # beyond the names nothing is read
            row = [None] * min(longest, width)
            for cell in cells:
                if cell["column"] <= width:
                    row[cell["column"] - 1] = cell["value"]
            yield row


class _Words(list[str | None]):
    """The shared strings of a workbook, which have no place before the first."""

    def __getitem__(self, place: Any) -> Any:
        if place < 0:
            raise IndexError
        return super().__getitem__(place)


def _words(source: BinaryIO) -> Iterator[str | None]:
    """The shared strings; None for one that holds nothing, or more than a text does."""
    for element in _elements(source, f"{_TAG}si", may_be_left_out=True):
        yield _text(element) if len(element) else None


def _text(element: Any) -> str:
    """A text in one piece, or in runs of letters that look alike."""
    letters = (*element.findall(f"{_TAG}t"), *element.findall(f"{_TAG}r/{_TAG}t"))
    return "".join(_unescaped(one.text or "") for one in letters)


def _unescaped(word: str) -> str:
    """Text with the characters that _x000D_ and its like stand for; half a character is a replacement for one."""
    if "_x" not in word:
        return word
    units = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), word).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


def _elements(source: BinaryIO, wanted: str, last: str = "", may_be_left_out: bool = False) -> Iterator[Any]:
    """The elements of a name, up to the end of one of another; whatever has been seen is let go of.

    One of too many parts is refused, or comes without them.
    """
    from openpyxl.xml.functions import iterparse

    around: list[Any] = []
    inside = held = 0
    for event, element in iterparse(source, ("start", "end")):
        if event == "start":
            around.append(element)
            inside += element.tag == wanted
            held += inside > 0
            if held > _MOST_ELEMENTS and not may_be_left_out:
                raise _RefusedError("has a row or a text of more parts than one has")
            continue
        around.pop()
        if element.tag == last:
            return
        if element.tag == wanted:
            inside -= 1
            held = 0
            yield element
        if around and (not inside or held > _MOST_ELEMENTS):
            around[-1].clear()


class _Archive(zipfile.ZipFile):
    """A workbook whose parts are unpacked a little at a time, so that none becomes larger than it says it is."""

    def open(self, *args: Any, **options: Any) -> Any:
        """A part."""
        part: Any = super().open(*args, **options)
        part.MAX_N = _CHUNK  # of a read of all; zipfile would unpack 2 GiB before it looks at what the part says
        return part

    def read(self, name: Any, pwd: bytes | None = None) -> bytes:
        """A part as a whole, as openpyxl reads those that are no cells."""
        if self.getinfo(name).file_size > _LARGEST_OTHER_PART:
            raise _RefusedError(f"has a part beside its cells of more than {_LARGEST_OTHER_PART:,} bytes")
        return super().read(name, pwd)


def _check_size(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse what unpacks to more than cells do, and methods that unpack without a bound."""
    entries = archive.infolist()
    if any(one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or one.flag_bits & 1 for one in entries):
        raise _RefusedError("is encrypted, or packed otherwise than workbooks are")
    if (total := sum(one.file_size for one in entries)) > max(_FREE_BYTES, _LARGEST_GROWTH * size):
        raise _RefusedError(f"would unpack to {total:,} bytes from {size:,}, more than cells do, and was not opened")


def _as_xml(file: BinaryIO) -> BinaryIO:
    """The same workbook, or a copy with a replacement for every character that XML does not have.

    One in a cell would end the reading of the whole file.
    """
    with _Archive(file) as archive:
        _check_size(archive, file.seek(0, io.SEEK_END))
        mended = {}
        for name in archive.namelist():
            if name.lower().endswith((".xml", ".rels")):  # parts may have any name
                with archive.open(name) as part:
                    text = part.read()
                if (sound := _NO_CHARACTER.sub(_character, text)) != text:
                    mended[name] = sound
        file.seek(0)
        if not mended:
            return file
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as new:
            for name in archive.namelist():
                with archive.open(name) as part:
                    new.writestr(name, mended[name] if name in mended else part.read())
    copy.seek(0)
    return copy


def _character(found: re.Match[bytes]) -> bytes:
    reference = found[0]
    if not reference.startswith(b"&"):
        return _REPLACEMENT
    digits, base = reference[2:-1].lstrip(b"x0") or b"0", 16 if reference[2:3] == b"x" else 10
    code = int(digits, base) if len(digits) < 8 else -1
    is_one = code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code <= 0x10FFFF
    return reference if is_one else _REPLACEMENT
