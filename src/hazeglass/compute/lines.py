"""CSV as lines: every line of a file is a row, and every line is read alone.

What one row holds cannot change how another is read. A quote that is not closed in its line, or a line with too few or
too many fields, is a row whose cells are all missing, and a blank line is a row too. The format (separator, decimal
mark, encoding, words for missing) comes from the plan and is never detected. Only where the plan says `quoted_newlines`
may a quoted cell go over several lines; its row is put on one line first, as RFC 4180 has it, and then a stray quote
takes what follows it into its row. Arrow parses and converts whole blocks of lines; only blocks with a line or a cell
that it refuses are looked at more closely.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from hazeglass.compute.cells import number_column, words_like_numbers
from hazeglass.compute.places import Place
from hazeglass.compute.text import BROKEN_LINES, OPEN_LINES, TextFormat
from hazeglass.errors import DataError

RANGE_BYTES = 1 << 23
_CHUNK_BYTES, _PEEK_BYTES = 1 << 20, 1 << 14
_LONGEST_HEADER, _LONGEST_LINE = 1 << 30, 1 << 24  # more than a chunk or a stretch
_AT_ONCE = 16  # stretches that are counted side by side
_BOM = codecs.BOM_UTF8
_NO_LINE_END = re.compile(rb"\r+(?!\n)")  # many at once: a cell may be nothing else
_LETTER = b"\v"  # in place of a line end that ends no row: no part of a number, and dropped from ids
_ON_ONE_LINE = bytes.maketrans(b"\r\n", _LETTER * 2)
_NO_ROW = b"\r "  # in a line that is no row: no other carriage return is left but at the end of a line


def csv_header(place: Place, text: TextFormat) -> tuple[tuple[str, ...], int]:
    """The names of a file's columns, and the number of bytes before its first row (of the text as UTF-8)."""
    chunks = _utf8_chunks(place, text)
    first = next(chunks, b"")
    mark = len(_BOM) if first.startswith(_BOM) else 0
    if not first and text.header:
        raise DataError(f"{place.name} is empty: it must hold a header and at least 2 rows.")
    if not text.header:
        return text.names, mark
    held, size = [], 0
    for chunk in _as_lines(chain([first[mark:]], chunks), place, text):
        held.append(chunk)
        size += len(chunk)
        if b"\n" in chunk:
            break
        if size > _LONGEST_HEADER:
            raise DataError(f"the first line of {place.name} is longer than 1 GiB: it cannot be one of column names.")
    line, newline, _ = b"".join(held).partition(b"\n")
    if not line.strip():
        raise DataError(f"{place.name} must begin with a line of column names, and its first line is empty.")
    fields = _fields(line.decode("utf-8", "replace").rstrip("\r"), separator(place, text))
    names = tuple(name.strip() for name in fields) if text.trim else tuple(fields)
    return names, mark + len(line) + len(newline)


def _fields(line: str, mark: str) -> list[str]:
    """As Python's csv reads a line, but for its limit: what other columns are called is no reason to refuse."""
    mark = re.escape(mark)
    field = re.compile(rf'(?:^|{mark})(?:"((?:[^"]++|"")*+)"?)?([^{mark}]*+)')
    return [quoted.replace('""', '"') + plain for quoted, plain in field.findall(line)]


def separator(place: Place, text: TextFormat) -> str:
    """The plan's, or what the file's name says."""
    return text.separator or ("\t" if place.suffix == ".tsv" else ",")


@dataclass(frozen=True)
class Lines:
    """Lines of a file, each of them a row.

    start, stop  their first byte and the one behind their last, or None for all to the end, where a file can only be
                 read from its start
    closed       whether a line is a row only once a newline ends it. So it is where a row is a single cell: a last one
                 that is missing leaves nothing behind the newline before it, and must not show in the number of rows
    """

    place: Place
    text: TextFormat
    start: int
    stop: int | None
    closed: bool

    def count(self) -> int:
        """How many there are."""
        if self.stop is None:
            return sum(block.count(b"\n") for block in self.blocks())
        rows, last = 0, b"\n"
        for last in self._chunks(self.stop):
            rows += last.count(b"\n")
        return rows + (not self.closed and not last.endswith(b"\n"))

    def blocks(self, unread: Counter[str] | None = None) -> Iterator[bytes]:
        """They themselves, in blocks of whole lines that end in a newline."""
        if self.stop is None:
            chunks = _behind(self.start, _utf8_chunks(self.place, self.text))
            found = _whole_lines(_rows_alone(chunks, self.place, self.text))
        else:
            found = iter([b"".join(_rows_alone(self._chunks(self.stop), self.place, self.text))])
        return filter(None, (self._ended(block, unread) for block in found))

    def _ended(self, block: bytes, unread: Counter[str] | None) -> bytes:
        """The same with a newline at its end, where the file may have none."""
        if not block or block.endswith(b"\n"):
            return block
        if not self.closed:
            return block + b"\n"
        if unread is not None:
            unread[OPEN_LINES] += 1
        return block[: block.rfind(b"\n") + 1]

    def _chunks(self, stop: int) -> Iterator[bytes]:
        """The bytes, almost always in one chunk; a line that is too long is never in one."""
        with self.place.open_file() as file:
            file.seek(self.start)
            left = stop - self.start
            while left > 0 and (chunk := _read(file, self.place, min(left, _LONGEST_LINE))):
                yield chunk
                left -= len(chunk)


def line_pieces(place: Place, text: TextFormat) -> list[tuple[Lines, int]]:
    """A file's rows in stretches that can be read one by one, with the number of rows of each.

    A file is a single stretch where it can only be read from its start: packed, in another encoding, or where quoted
    cells may go on in the next line.
    """
    names, first = csv_header(place, text)
    whole = place.suffix.endswith(".gz") or not _is_utf8(text) or text.quoted_newlines
    size = first if whole else max(first, place.size)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda at: _line_start(place, at), range(first + RANGE_BYTES, size, RANGE_BYTES))
        cuts = [first, *(at for at in found if at is not None), None if whole else size]
        stretches = [Lines(place, text, at, end, len(names) == 1) for at, end in pairwise(cuts) if at is not None]
        return list(zip(stretches, pool.map(Lines.count, stretches), strict=True))


def _line_start(place: Place, start: int) -> int | None:
    """Where the first line starts behind a byte, if one does within as many bytes as a stretch has."""
    stop = start + RANGE_BYTES
    with place.open_file() as file:
        file.seek(start - 1)
        while start < stop and (chunk := _read(file, place, min(_PEEK_BYTES, stop - start))):
            if (found := chunk.find(b"\n")) >= 0:
                return start + found
            start += len(chunk)
    return None


def _is_utf8(text: TextFormat) -> bool:
    return codecs.lookup(text.encoding).name in ("utf-8", "ascii")


def _utf8_chunks(place: Place, text: TextFormat) -> Iterator[bytes]:
    """The file as UTF-8; a byte that its encoding does not have becomes a character that is in no number."""
    decoder = None if _is_utf8(text) else codecs.getincrementaldecoder(text.encoding)("replace")
    with place.open_stream() as stream:
        try:
            while chunk := _read(stream, place, _CHUNK_BYTES):
                yield chunk if decoder is None else decoder.decode(chunk).encode("utf-8")
            if decoder is not None:  # half a character may have taken the last newline with it
                rest = bytes(decoder.getstate()[0])
                yield (decoder.decode(b"", final=True) + "\n" * rest.endswith(b"\n")).encode("utf-8")
        except UnicodeError:
            raise DataError(f"{place.name} does not begin as a file in {text.encoding} does.") from None


def _read(stream: Any, place: Place, most: int) -> bytes:
    try:
        return bytes(stream.read(most))
    except OSError:
        raise DataError(f"{place.name} cannot be read to its end; it may be damaged or out of reach.") from None


def _behind(first: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The text behind the header."""
    for chunk in chunks:
        yield chunk[first:]
        first = max(0, first - len(chunk))


def _rows_alone(chunks: Iterator[bytes], place: Place, text: TextFormat) -> Iterator[bytes]:
    """The same text, every row on a line of its own that is not too long, with carriage returns where a line ends."""
    return _without_endless_lines(_as_lines(chunks, place, text))


def _as_lines(chunks: Iterator[bytes], place: Place, text: TextFormat) -> Iterator[bytes]:
    """The same, but for their length."""
    chunks = _carriage_returns_as_letters(chunks)
    return _on_one_line(chunks, separator(place, text).encode()) if text.quoted_newlines else chunks


def _carriage_returns_as_letters(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Those that end no line."""
    held = b""
    for chunk in chunks:
        text = held + chunk
        held = b"\r" if text.endswith(b"\r") else b""
        text = text.removesuffix(b"\r")
        yield _NO_LINE_END.sub(lambda found: _LETTER * len(found[0]), text) if _has_other_returns(text) else text
    if held:  # one chunk stays one, and need not be copied to be joined
        yield held


def _has_other_returns(text: bytes) -> bool:
    """Whether there is a carriage return that ends no line; Arrow would end one there."""
    return b"\r" in text and text.count(b"\r") != text.count(b"\r\n")


def _on_one_line(chunks: Iterator[bytes], mark: bytes) -> Iterator[bytes]:
    """The same rows, byte for byte as long, but with letters in place of the line ends in quoted cells.

    A quote opens only at the start of a cell and closes only before a separator or the end of a line; two are one.
    """
    mark = re.escape(mark)
    letters = rb'""|"(?=[^"%b\r\n])' % mark  # quotes in a quoted cell that do not close it
    inside = re.compile(rb'(?:[^"]++|%b)*+' % letters)
    # Up to the first quote whose cell goes on in the next line, or behind the chunk.
    outside = re.compile(
        rb'(?:[^"]++|(?<![%b\n])"|(?<=[%b\n])"(?:[^"\n]++|%b)*+"(?=[%b\r\n]))*+' % (mark, mark, letters, mark)
    )
    quoted, text = False, b"\n"  # first in the text stands the byte before it
    for chunk in chunks:
        text, at, out = text + chunk, 1, []
        while at < len(text):
            found = (inside if quoted else outside).match(text, at)
            assert found is not None  # at worst of nothing
            out.append(found[0].translate(_ON_ONE_LINE) if quoted else found[0])
            at = found.end()
            if at == len(text) or (quoted and at == len(text) - 1):  # what a last quote means shows in the next chunk
                break
            out.append(b'"')
            at, quoted = at + 1, not quoted
        yield b"".join(out)
        text = text[at - 1 :]
    if quoted:
        yield text[1:] or _NO_ROW


def _without_endless_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same text, but of a line too long to be a row its start alone, marked as no row.

    No memory and no parser is large enough for every line, and one line must not decide whether the others are read.
    """
    length = 0  # of the line that the last chunk left open
    for chunk in chunks:
        end = chunk.find(b"\n")
        rest = chunk if end < 0 else chunk[:end]
        if length + len(rest) > _LONGEST_LINE:
            broken = b"" if length > _LONGEST_LINE else rest[: _LONGEST_LINE - length] + _NO_ROW
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
        yield block


class LineReader:
    """Blocks of lines as columns: `numbers` as float64, `others` as text."""

    def __init__(self, place: Place, text: TextFormat, names: Sequence[str]) -> None:
        # By their places: what columns beside the wanted ones are called does not matter.
        self._text, self._places = text, {name: str(k) for k, name in reversed(list(enumerate(names)))}
        self._names = [str(k) for k in range(len(names))]
        self._separator = separator(place, text)
        self._mark = self._separator.encode()
        self._said_in_numbers = words_like_numbers(text) or text.thousands is not None
        self._empty = self._mark * (len(names) - 1)

    def columns(
        self, block: bytes, numbers: Sequence[str], others: Sequence[str], unread: Counter[str]
    ) -> dict[str, pa.Array]:
        """The named columns of a block that ends in a newline; what cannot be read is null and counted."""
        lines = block.count(b"\n")
        # Arrow compares words for missing cells with the spaces around a cell, which matters where one is a number, and
        # knows no mark between thousands.
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
        one behind it, which a quote that the last line does not close would swallow. A block that begins with a letter
        of ASCII and has no quote needs neither, and is not copied.
        """
        if _has_other_returns(block):
            return None
        more = 0 if b" " < block[:1] < b"\x7f" and b'"' not in block else 1
        framed = b"".join((self._empty, b"\n", block, self._empty, b"\n")) if more else block
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
                    column_types={name: types.get(name, pa.string()) for name in wanted},
                    null_values=list(self._text.missing),
                    strings_can_be_null=True,
                    decimal_point=self._text.decimal,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return table.slice(more, lines) if table.num_rows == lines + 2 * more else None

    def _mended(self, block: bytes) -> tuple[bytes, int]:
        """The block with every line that is not a row replaced by one whose cells are missing; how many there were."""
        lines = block.split(b"\n")[:-1]
        broken = 0
        waiting = [(0, len(lines))]
        while waiting:
            first, end = waiting.pop()
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
