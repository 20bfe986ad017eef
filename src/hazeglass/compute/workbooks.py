"""Excel workbooks: the first sheet, of which every cell is read by itself, as a CSV's are.

openpyxl reads the rest. By itself it gives a sheet up at the first cell it cannot read: "NaN" where a number should be,
a date that is none, half a character that openpyxl wrote itself. Here such a cell is missing.
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
    except Exception:  # damaged files fail in many ways, some of which quote a cell
        raise DataError(f"{place.name} cannot be read as an Excel workbook; save it anew as .xlsx or .csv.") from None
    while names and names[-1] is None:
        names.pop()
    if not names:
        raise DataError(f"{place.name} must begin with a row of column names, and the first row of its sheet is empty.")
    columns = [[row[k] if k < len(row) else None for row in rows] for k in range(len(names))]
    return tuple("" if name is None else str(name).strip() for name in names), columns


def _rows(file: BinaryIO) -> Iterator[list[Any]]:
    """The rows of the first sheet, also those that a file leaves out.

    openpyxl's own rows end at the first cell it cannot read, so they are taken from the parser behind them.
    """
    from openpyxl.reader.excel import SHARED_STRINGS, ExcelReader
    from openpyxl.worksheet._reader import DATA_TAG, ROW_TAG, WorkSheetParser
    from openpyxl.xml.functions import iterparse

    class Reader(ExcelReader):  # type: ignore[misc]
        def read_strings(self) -> None:
            """The words that cells refer to, without how their letters look, which openpyxl may not know."""
            if (part := self.package.find(SHARED_STRINGS)) is not None:
                with self.archive.open(part.PartName[1:]) as source:
                    self.shared_strings = _words(source)

    class Parser(WorkSheetParser):  # type: ignore[misc]
        col_counter: int

        def parse_cell(self, element: Any) -> dict[str, Any]:
            """The cell; a missing one in its place where it cannot be read."""
            before = self.col_counter
            try:
                return dict(super().parse_cell(element))
            except Exception:
                self.col_counter = before
                place = element.get("r")
                element.clear()
                if place is not None:
                    element.set("r", place)
                return dict(super().parse_cell(element))

    reader = Reader(file, read_only=True, data_only=True, keep_links=False)
    reader.read()
    book = reader.wb
    sheet = book.worksheets[0]
    with book._archive.open(sheet._worksheet_path) as source:
        parser = Parser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        last = 0
        for _, element in iterparse(source):
            if element.tag == DATA_TAG:  # what stands behind the cells is about how they look
                return
            if element.tag != ROW_TAG:
                continue
            number, cells = parser.parse_row(element)
            element.clear()
            for _ in range(last + 1, number):
                yield []
            last = max(last, number)
            row = [None] * max((cell["column"] for cell in cells), default=0)
            for cell in cells:
                row[cell["column"] - 1] = cell["value"]
            yield row


def _words(source: BinaryIO) -> list[str]:
    """The shared strings of a workbook: each in one piece, or in runs of letters that look alike."""
    from openpyxl.xml.constants import SHEET_MAIN_NS
    from openpyxl.xml.functions import iterparse

    words, tag = [], f"{{{SHEET_MAIN_NS}}}"
    for _, element in iterparse(source):
        if element.tag == f"{tag}si":
            letters = (*element.findall(f"{tag}t"), *element.findall(f"{tag}r/{tag}t"))
            words.append("".join(one.text or "" for one in letters).replace("x005F_", ""))
            element.clear()
    return words


def _as_xml(file: BinaryIO) -> BinaryIO:
    """The same workbook, or a copy with a replacement for every character that XML does not have.

    One in a cell would end the reading of the whole file.
    """
    with zipfile.ZipFile(file) as archive:
        mended = {}
        for name in archive.namelist():
            if name.lower().endswith((".xml", ".rels")):  # parts may have any name
                text = archive.read(name)
                if (sound := _NO_CHARACTER.sub(_character, text)) != text:
                    mended[name] = sound
        file.seek(0)
        if not mended:
            return file
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as new:
            for name in archive.namelist():
                new.writestr(name, mended[name] if name in mended else archive.read(name))
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
