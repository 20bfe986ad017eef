"""CSV as lines: every line of a file is a row, and every line is read alone.

What one row holds cannot change how another is read. A quoted cell may hold line ends, and its row is then put on one
line first; a quote that is not closed as it should be ends with its line; a line with too few or too many fields is a
row whose cells are all missing, and a blank line is a row too. The format (separator,
decimal mark, encoding, words for missing) comes from the plan and is never detected. Arrow parses and converts whole
blocks of lines; only blocks with a line or a cell that it refuses are looked at more closely.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv as arrow_csv

from hazeglass.compute.cells import number_column, words_like_numbers
from hazeglass.compute.places import Place
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError

BROKEN_LINES = "\n"  # under this name broken lines are counted; no column can have it
RANGE_BYTES = 1 << 23
_CHUNK_BYTES = 1 << 20
_LONGEST_HEADER = _LONGEST_LINE = 1 << 24  # more than a chunk or a stretch
_LONGEST_ROW = 1 << 20  # of several lines
_AT_ONCE = 16  # stretches that are counted side by side
_BOM = codecs.BOM_UTF8
_QUOTED = re.compile(rb'"(?:[^"]++|"")*+"')


def csv_header(place: Place, text: TextFormat) -> tuple[tuple[str, ...], int]:
    """The names of a file's columns, and the number of bytes before its first row (of the text as UTF-8)."""
    first = b""
    for chunk in _utf8_chunks(place, text):
        first += chunk
        if b"\n" in chunk or len(first) > _LONGEST_HEADER:
            break
    mark = len(_BOM) if first.startswith(_BOM) else 0
    if not first and text.header:
        raise DataError(f"{place.name} is empty: it must hold a header and at least 2 rows.")
    if not text.header:
        return text.names, mark
    line, newline, _ = first[mark:].partition(b"\n")
    if not line.strip():
        raise DataError(f"{place.name} must begin with a line of column names, and its first line is empty.")
    try:
        (fields,) = csv.reader([line.decode("utf-8").rstrip("\r")], delimiter=separator(place, text), strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError):
        raise DataError(
            f"the first line of {place.name} cannot be read as column names in {text.encoding} with separator "
            f"{separator(place, text)!r}. Correct [text] in the plan, or the file."
        ) from None
    names = tuple(name.strip() for name in fields) if text.trim else tuple(fields)
    return names, mark + len(line) + len(newline)


def separator(place: Place, text: TextFormat) -> str:
    """The plan's, or what the file's name says."""
    return text.separator or ("\t" if place.suffix == ".tsv" else ",")


@dataclass(frozen=True)
class Lines:
    """The lines that start in a stretch of a file's bytes, each of them a row.

    start    the first byte; `opens` says that a line starts there, and not only behind the next newline
    stop     the byte behind the last, or None for all to the end, where a file can only be read as a whole
    columns  how many fields a row has
    """

    place: Place
    text: TextFormat
    start: int
    stop: int | None
    opens: bool
    columns: int

    def count(self) -> tuple[int, bool]:
        """How many there are, and whether a quoted cell may go on in the line after one of them."""
        rows, goes_on = 0, False
        for block in self.blocks():
            rows += block.count(b"\n")
            goes_on = goes_on or _odd_lines(block).size > 0
        return rows, goes_on

    def blocks(self) -> Iterator[bytes]:
        """They themselves, in blocks of whole lines that end in a newline."""
        if self.stop is None:
            rows = _rows_of_stream(self.place, self.text, self.start)
            mark = separator(self.place, self.text).encode()
            yield from _on_one_line(_whole_lines(_without_endless_lines(rows)), mark, self.columns)
        elif self.start < self.stop:
            with self.place.open_file() as file:
                if block := b"".join(_without_endless_lines(self._range(file, self.stop))):
                    yield block

    def _range(self, file: Any, stop: int) -> Iterator[bytes]:
        at = self.start if self.opens else self.start - 1
        file.seek(at)
        block = file.read(stop - at)
        if not self.opens:
            first = block.find(b"\n") + 1
            if first in (0, len(block)):  # a longer line covers the stretch, or the next line starts behind it
                return
            block = block[first:]
        yield block
        while not block.endswith(b"\n"):
            more = file.read(_CHUNK_BYTES)
            end = more.find(b"\n")
            block = b"\n" if not more else more if end < 0 else more[: end + 1]
            yield block


def line_pieces(place: Place, text: TextFormat) -> list[tuple[Lines, int]]:
    """A file's rows in stretches that can be read one by one, with the number of rows of each.

    A file is a single stretch where it can only be read from its start: packed, in another encoding, or with quoted
    cells that may go on in the next line.
    """
    names, first = csv_header(place, text)
    whole = Lines(place, text, first, None, opens=True, columns=len(names))
    if not place.suffix.endswith(".gz") and _is_utf8(text):
        starts = range(first, max(place.size, first + 1), RANGE_BYTES)
        stretches = [
            replace(whole, start=at, stop=min(at + RANGE_BYTES, place.size), opens=at == first) for at in starts
        ]
        with ThreadPoolExecutor(min(_AT_ONCE, len(stretches))) as pool:
            counted = list(pool.map(Lines.count, stretches))
        if not any(goes_on for _, goes_on in counted):
            return [(lines, rows) for lines, (rows, _) in zip(stretches, counted, strict=True)]
    return [(whole, whole.count()[0])]


def _odd_lines(block: bytes) -> npt.NDArray[np.intp]:
    """Where lines with an odd number of quotes start: only their last cell can go on in the next line."""
    if b'"' not in block:
        return np.zeros(0, dtype=np.intp)
    raw = np.frombuffer(block, dtype=np.uint8)
    starts = np.concatenate(([0], np.flatnonzero(raw == ord("\n"))[:-1] + 1))
    quotes = np.add.reduceat((raw == ord('"')).view(np.uint8), starts)
    return np.asarray(starts[quotes % 2 == 1])


def _on_one_line(blocks: Iterator[bytes], mark: bytes, columns: int) -> Iterator[bytes]:
    """The same rows, each on one line: in quoted cells that go over several lines, line ends become spaces.

    A quoted cell goes on only where it is closed as it should be, before a separator or the end of a line, and gives a
    row with all its fields. Otherwise the quote is a stray one, and its line alone is broken.
    """
    held = b""
    for block in chain(blocks, [b""]):
        text, final, done, out = held + block, not block, 0, []
        held = b""
        for start in _odd_lines(text).tolist():
            if start < done:
                continue
            end = _row_end(text[start : start + _LONGEST_ROW], mark, columns)
            if end is None and not final and len(text) - start < _LONGEST_ROW:
                out.append(text[done:start])
                held, done = text[start:], len(text)
                break
            if end:
                row = text[start : start + end - 1]
                out += [text[done:start], row.replace(b"\r", b" ").replace(b"\n", b" "), b"\n"]
                done = start + end
        if whole := b"".join([*out, text[done:]]):
            yield whole


def _row_end(text: bytes, mark: bytes, columns: int) -> int | None:
    """Where the row ends that starts with the text; 0 where it is not one of several lines, None where it goes on."""
    at, fields = 0, 1
    while True:
        if text[at : at + 1] == b'"':
            at = _closing(text, at + 1)
            if at < 0 or text[at:] in (b"", b"\r"):
                return None
            if text[at : at + 1] not in (mark, b"\n") and text[at : at + 2] != b"\r\n":
                return 0
        cell, line = text.find(mark, at), text.find(b"\n", at)
        if 0 <= cell < line or (line < 0 <= cell):
            at, fields = cell + 1, fields + 1
        elif line < 0:
            return None
        else:
            return line + 1 if fields == columns and b"\n" in text[:line] else 0


def _closing(text: bytes, at: int) -> int:
    """Behind the quote that closes a cell; two quotes are one of its letters."""
    while (at := text.find(b'"', at)) >= 0:
        if text[at + 1 : at + 2] != b'"':
            return at + 1
        at += 2
    return -1


def _is_utf8(text: TextFormat) -> bool:
    return codecs.lookup(text.encoding).name in ("utf-8", "ascii")


def _utf8_chunks(place: Place, text: TextFormat) -> Iterator[bytes]:
    """The file as UTF-8; a byte that its encoding does not have becomes a character that is in no number."""
    decoder = None if _is_utf8(text) else codecs.getincrementaldecoder(text.encoding)("replace")
    with place.open_stream() as stream:
        try:
            while chunk := _read(stream, place):
                yield chunk if decoder is None else decoder.decode(chunk).encode("utf-8")
            if decoder is not None and (last := decoder.decode(b"", final=True)):
                yield last.encode("utf-8")
        except UnicodeError:
            raise DataError(f"{place.name} does not begin as a file in {text.encoding} does.") from None


def _read(stream: Any, place: Place) -> bytes:
    try:
        return bytes(stream.read(_CHUNK_BYTES))
    except OSError:
        raise DataError(f"{place.name} cannot be read to its end; it may be damaged or out of reach.") from None


def _rows_of_stream(place: Place, text: TextFormat, first: int) -> Iterator[bytes]:
    """The text behind the header."""
    skip = first
    for chunk in _utf8_chunks(place, text):
        if kept := chunk[skip:]:
            yield kept
        skip = max(0, skip - len(chunk))


def _without_endless_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same text, but of a line too long to be a row its start alone, with a carriage return that breaks it.

    No memory and no parser is large enough for every line, and one line must not decide whether the others are read.
    """
    length = 0  # of the line that the last chunk left open
    for chunk in chunks:
        end = chunk.find(b"\n")
        rest = chunk if end < 0 else chunk[:end]
        if length + len(rest) > _LONGEST_LINE:
            broken = b"" if length > _LONGEST_LINE else rest[: _LONGEST_LINE - length] + b"\r "
            yield broken if end < 0 else broken + chunk[end:]
        else:
            yield chunk
        length = length + len(rest) if end < 0 else len(chunk) - chunk.rfind(b"\n") - 1


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= RANGE_BYTES and b"\n" in chunk:
            end = chunk.rfind(b"\n") + 1
            held[-1] = chunk[:end]
            yield b"".join(held)
            held, size = [chunk[end:]], len(chunk) - end
    if block := b"".join(held):
        yield block if block.endswith(b"\n") else block + b"\n"


class LineReader:
    """Blocks of lines as columns: `numbers` as float64, `others` as text."""

    def __init__(self, place: Place, text: TextFormat, names: Sequence[str]) -> None:
        # By their places: what columns beside the wanted ones are called does not matter.
        self._text, self._places = text, {name: str(k) for k, name in reversed(list(enumerate(names)))}
        self._names = [str(k) for k in range(len(names))]
        self._separator = separator(place, text)
        self._mark = self._separator.encode()
        self._said_in_numbers = words_like_numbers(text)
        self._empty = self._mark * (len(names) - 1)

    def columns(
        self, block: bytes, numbers: Sequence[str], others: Sequence[str], unread: Counter[str]
    ) -> dict[str, pa.Array]:
        """The named columns of a block that ends in a newline; what cannot be read is null and counted."""
        lines = block.count(b"\n")
        # Arrow compares words for missing cells with the spaces around a cell, which matters where one is a number.
        types = {} if self._said_in_numbers else {self._places[name]: pa.float64() for name in numbers}
        wanted = {name: self._places[name] for name in (*numbers, *others)}
        table = self._parsed(block, lines, types, list(wanted.values())) if types or not numbers else None
        if table is not None:
            return {name: table.column(place).combine_chunks() for name, place in wanted.items()}
        block, broken = self._mended(block)
        unread[BROKEN_LINES] += broken
        table = self._parsed(block, lines, {}, list(wanted.values()))
        assert table is not None  # every line that was left has the right number of fields
        found = {name: table.column(place).combine_chunks() for name, place in wanted.items()}
        for name in numbers:
            found[name], cells = number_column(found[name], self._text)
            unread[name] += cells
        return found

    def _parsed(self, block: bytes, lines: int, types: dict[str, pa.DataType], wanted: list[str]) -> pa.Table | None:
        """A table with one row per line, or None where the block does not make one.

        A line of empty cells is read before it, so that no byte order mark among the rows is taken for the file's, and
        one behind it, which a quote that the last line does not close would swallow.
        """
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):  # Arrow ends a line there
            return None
        framed = b"".join((self._empty, b"\n", block, self._empty, b"\n"))
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(framed),
                read_options=arrow_csv.ReadOptions(
                    column_names=self._names, use_threads=False, block_size=len(framed) + 1
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._separator, ignore_empty_lines=False, newlines_in_values=True
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=wanted,
                    column_types={name: types.get(name, pa.binary()) for name in wanted},
                    null_values=list(self._text.missing),
                    strings_can_be_null=True,
                    decimal_point=self._text.decimal,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return table.slice(1, lines) if table.num_rows == lines + 2 else None

    def _mended(self, block: bytes) -> tuple[bytes, int]:
        """The block with every line that is not a row replaced by one whose cells are missing; how many there were."""
        lines = block.split(b"\n")[:-1]
        broken = 0
        waiting = [(0, len(lines))]
        while waiting:
            first, end = waiting.pop()
            if end - first == 1:  # a carriage return in quotes is a letter of its cell
                lines[first] = _QUOTED.sub(lambda quoted: quoted[0].replace(b"\r", b" "), lines[first])
            if self._are_rows(lines[first:end]):
                continue
            if end - first == 1:
                lines[first] = self._empty
                broken += 1
            else:
                middle = (first + end) // 2
                waiting += [(first, middle), (middle, end)]
        return b"\n".join([*lines, b""]), broken

    def _are_rows(self, lines: list[bytes]) -> bool:
        block = b"\n".join([*lines, b""])
        fields = len(self._names)
        if b'"' not in block and any(line.count(self._mark) != fields - 1 and line.strip() for line in lines):
            return False
        return self._parsed(block, len(lines), {}, self._names[:1]) is not None
