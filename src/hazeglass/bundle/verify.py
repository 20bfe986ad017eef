"""Whether a release is well formed: release.json as a document, the files that follow from it, and the footers of the
parts that it describes. What it claims is for promise.py.

release.json is strict JSON of bounded size, depth and numbers that its schema accepts. Parquet parts have the columns,
types and rows that it describes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hazeglass._version import __version__
from hazeglass.bundle.catalogue import DERIVED, derived, json_pieces
from hazeglass.bundle.contents import bytes_per_cell
from hazeglass.bundle.footer import PHYSICAL_TYPES, RowGroup, read_footer
from hazeglass.bundle.manifest import FORMAT, FORMAT_VERSION, Manifest
from hazeglass.bundle.moments import MARGINAL_COLUMNS, MOMENT_COLUMNS, moment_batches, moment_rows, most_counts
from hazeglass.bundle.sign import Signature
from hazeglass.bundle.writer import part_rows, row_groups
from hazeglass.errors import BundleError, HazeglassWarning, warn

_FIRST_OF_FORMAT = [0, 3]
LARGEST_JSON = 64 << 20
MOST_FILES = 100_000
_DEEPEST = 32
_LONGEST_INTEGER = 19
# Possessive, so that no state is kept per character; a string without an end ends here with the text, so that its other
# quotes are not tried in turn.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
# A column takes at least 100 bytes of a part, and in release.json less than 13 KB, 50 values and 500 quotation marks.
_FREE_BYTES, _BYTES_PER_PART_BYTE = 1 << 20, 128
_FREE_VALUES, _VALUES_PER_PART_BYTE, _QUOTES_PER_VALUE = 20_000, 0.5, 10
_MOST_VALUES = 50 * MOST_FILES
_FREE_CELLS = 1 << 20  # the fewest bytes are those of a mean, which few cells need not keep
# A cell takes 8 bytes, and 8 more in a dictionary; the rest is for row groups, each of which names every column again.
_BYTES_PER_CELL = 32
_BYTES_PER_FILE, _BYTES_PER_COLUMN, _TIMES_A_NAME = 1 << 16, 1 << 10, 8


# --------------------------------------------------------------------------------------------------------- the document


def read_manifest(folder: Path, sums: dict[str, str]) -> Manifest:
    """release.json, unless it is larger than its parts need, malformed, or not the file that SHA256SUMS lists."""
    path = folder / "release.json"
    part_bytes = sum((folder / name).stat().st_size for name in sums if name.endswith(".parquet"))
    _check_size(path.stat().st_size, part_bytes)
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != sums.get("release.json"):
        raise BundleError("release.json is not listed in SHA256SUMS, or changed while it was read. Ask for a new copy.")
    return Manifest.from_json(parse_manifest(raw, part_bytes))


def parse_manifest(raw: bytes, part_bytes: int = 0) -> dict[str, Any]:
    """The document, or a BundleError that says what is wrong with it.

    How large it may be follows from how many bytes of data parts it can describe.
    """
    _check_size(len(raw), part_bytes)
    _check_structure(raw, min(_MOST_VALUES, _FREE_VALUES + int(_VALUES_PER_PART_BYTE * part_bytes)))
    try:
        document = json.loads(
            raw.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_short_integer,
            object_pairs_hook=_unique_keys,
        )
    except BundleError:
        raise
    except (ValueError, RecursionError):
        raise BundleError("release.json is not valid JSON in UTF-8. Ask the publisher for a new copy.") from None
    _check_text(document)
    _check_format(document)
    _check_schema(document)
    return dict(document)


@functools.cache
def release_schema() -> dict[str, Any]:
    """The JSON Schema of release.json, as shipped."""
    text = files("hazeglass.bundle").joinpath("release.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def _check_size(size: int, part_bytes: int) -> None:
    """Refuse more bytes than release.json can need."""
    largest = min(LARGEST_JSON, _FREE_BYTES + _BYTES_PER_PART_BYTE * part_bytes)
    if size > largest:
        raise BundleError(f"release.json is larger than {largest:,} bytes, more than its parts need; it was not read.")


def _check_structure(raw: bytes, most_values: int) -> None:
    """Count commas and brackets outside strings before any parser makes values of them, or recurses into them."""
    quotes = raw.count(b'"')
    structure = b"" if quotes > _QUOTES_PER_VALUE * most_values else _STRING.sub(b"", raw)
    marks = np.frombuffer(structure.translate(None, _NOT_STRUCTURE), dtype=np.uint8)
    if quotes > _QUOTES_PER_VALUE * most_values or marks.size > 2 * most_values:
        raise BundleError("release.json holds more values than its columns and parts need; it was not read.")
    steps = np.isin(marks, list(b"[{")).astype(np.int32) - np.isin(marks, list(b"]}"))
    if steps.size and int(np.cumsum(steps).max()) > _DEEPEST:
        raise BundleError(f"release.json is nested more than {_DEEPEST} deep, which no release is; it was not read.")


def _no_constant(name: str) -> float:
    raise BundleError(f"release.json holds {name}, which is not a number. Ask the publisher for a new copy.")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BundleError(f"release.json holds {text[:40]}, a number too large to be one. Ask for a new copy.")
    return value


def _short_integer(text: str) -> int:
    if len(text.lstrip("-")) > _LONGEST_INTEGER:
        raise BundleError(f"release.json holds an integer of {len(text)} digits; no release does. Ask for a new copy.")
    return int(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two values for one key would let two readers see two releases."""
    document = dict(pairs)
    if len(document) != len(pairs):
        raise BundleError("release.json gives one key two values. Do not rely on it.")
    return document


def _check_text(document: Any) -> None:
    """JSON can spell half a character, which no file and no screen can hold."""
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BundleError("release.json holds text that is not Unicode. Ask the publisher for a new copy.") from None


def _check_format(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BundleError(f"release.json must describe a {FORMAT}; it does not.")
    version = document.get("format_version")
    major, ours = str(version).split(".")[0], FORMAT_VERSION.split(".")[0]
    if major == ours:
        return
    both = f"the release has format version {str(version)[:20]!r} and this hazeglass reads {FORMAT_VERSION}."
    if re.fullmatch(r"[0-9]{1,4}", major) and int(major) > int(ours):
        raise BundleError(f"{both} Install a newer hazeglass.")
    if major in ("1", "2"):
        raise BundleError(f"{both} hazeglass 0.{major} reads it; or ask the publisher for a new release.")
    raise BundleError(f"release.json has no format version this hazeglass knows; it reads {FORMAT_VERSION}.")


@functools.cache
def _validator() -> Any:
    import jsonschema

    draft = jsonschema.Draft202012Validator
    # JSON Schema takes 200.0 for an integer, which Python does not, and Python lets a line end follow a pattern's end.
    whole = draft.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    strict = jsonschema.validators.extend(draft, {"pattern": _matches}, type_checker=whole)
    return strict(release_schema())


def _matches(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Exception]:
    import jsonschema

    if isinstance(value, str) and not re.search(pattern.removesuffix("$") + r"\Z", value):
        yield jsonschema.ValidationError(f"{value[:60]!r} does not match {pattern}")


def _check_schema(document: dict[str, Any]) -> None:
    error = next(iter(_validator().iter_errors(document)), None)
    if error is not None:
        where = ".".join(map(str, error.absolute_path)) or "release.json"
        reason = "".join(c if c.isprintable() else "\ufffd" for c in error.message[:200])
        raise BundleError(f"release.json is not a valid manifest: {where[:100]}: {reason}.")


# ------------------------------------------------------------------------------------------------- what follows from it


def check_derived(folder: Path, manifest: Manifest, signature: Signature) -> tuple[str, ...]:
    """Refuse a file that does not follow from release.json; returns those that this version cannot judge.

    release.json itself is written in one way only: spaces, escapes and digits that a parser drops could hold a message,
    or mean something else to another one.
    """
    if not _says(folder / "release.json", json_pieces(manifest.to_json())):
        raise BundleError("release.json is not written as hazeglass writes it. Ask the publisher for a new copy.")
    made_by = manifest.versions["hazeglass"]
    if [int(number) for number in re.findall("[0-9]+", made_by)[:2]] < _FIRST_OF_FORMAT:
        raise BundleError(
            f"release.json says that hazeglass {made_by} made it, which writes another format. Do not rely on it."
        )
    if made_by != __version__:
        signed = (
            "whoever signed the release vouches for them" if signature == "valid" else "anyone may have written them"
        )
        warn(
            f"the release was made by hazeglass {made_by} and this is {__version__}: {', '.join(DERIVED)} may be "
            f"worded differently and were not compared with release.json, so what they state is not checked; {signed}. "
            "Rely on release.json.",
            HazeglassWarning,
        )
        return DERIVED
    try:
        for name, pieces in derived(manifest):
            if not _says(folder / name, pieces):
                raise BundleError(f"{name} does not follow from release.json: it was replaced. Do not rely on it.")
    except ArithmeticError:
        raise BundleError("release.json holds numbers that no statement can be made of. Ask for a new copy.") from None
    return ()


def _says(path: Path, pieces: Iterable[str]) -> bool:
    """Whether a file holds just this text. It is made only as far as the two agree, however long it would become."""
    with path.open("rb") as file:
        for piece in pieces:
            expected = piece.encode()
            if file.read(len(expected)) != expected:
                return False
        return not file.read(1)


# ---------------------------------------------------------------------------------------------------------------- parts


def parts_below(manifest: Manifest, prefix: str) -> list[str]:
    """Names of the data parts that start with a prefix, in order."""
    return sorted(part.path for part in manifest.files if part.path.startswith(prefix))


@dataclass(frozen=True)
class Expected:
    """What the manifest implies about the parts of one kind: their columns and types, rows and bytes in all, the row
    groups and the footer's bytes of each, and the version of pyarrow that wrote them."""

    columns: Mapping[str, str]
    rows: int
    fewest_bytes: int
    most_bytes: int
    row_groups: int
    footer_bytes: int
    version: str

    @property
    def types(self) -> dict[str, int]:
        """The number of each column's Parquet type."""
        return {column: PHYSICAL_TYPES[kind] for column, kind in self.columns.items()}

    def footer(self, file: BinaryIO, name: str) -> list[RowGroup]:
        """The row groups of a part, which its footer tells."""
        return read_footer(file, name, self.types, self.row_groups, self.footer_bytes, self.version)


def check_parts(folder: Path, manifest: Manifest) -> None:
    """Sizes, columns, types and rows of every part, from the footers; nothing is unpacked yet.

    Parts are not compressed, so that no more can come out of one than its size, which is bounded first, and the rows
    and columns of the manifest allow.
    """
    expected = expected_parts(manifest)
    rows = [f"data/part-{k:05d}.parquet" for k in range(len(manifest.files))]
    allowed = {name for prefix in expected for name in (rows if prefix == "data/" else [prefix])}
    if not {part.path for part in manifest.files} <= allowed:
        raise BundleError(
            f"a {manifest.form} release holds no other parts than {', '.join(expected)}. Ask for a new copy."
        )
    for part in manifest.files:
        if (folder / part.path).stat().st_size != part.bytes:
            raise BundleError(f"{part.path[:200]} has another size than release.json says. Ask for a new copy.")
    for prefix, implied in expected.items():
        names = parts_below(manifest, prefix)
        if not names:
            raise BundleError(
                f"a {manifest.form} release must hold {prefix}, and this one does not. Ask for a new copy."
            )
        size = sum(part.bytes for part in manifest.files if part.path.startswith(prefix))
        if size < implied.fewest_bytes:
            raise BundleError(f"{prefix} has {implied.rows:,} rows in {size:,} bytes: no noisy data fits that.")
        if size > implied.most_bytes:
            raise BundleError(f"{prefix} has {size:,} bytes, more than {implied.rows:,} rows take. Do not rely on it.")
        found = []
        for name in names:
            with (folder / name).open("rb") as file:
                found.append([group.rows for group in implied.footer(file, name)])
        counted = sum(map(sum, found))
        if not (counted <= implied.rows if prefix == "marginals.parquet" else counted == implied.rows):
            raise BundleError(
                f"{prefix} holds {counted} rows where release.json describes {implied.rows}. Ask for a new copy."
            )
        if prefix == "data/" and found != row_groups(counted, len(implied.columns)):
            raise BundleError(f"{prefix} is cut into parts or row groups as no release is. Ask for a new copy.")


def expected_parts(manifest: Manifest) -> dict[str, Expected]:
    """By the beginning of their names."""
    expected, version = {}, manifest.versions.get("pyarrow", "")
    if manifest.form != "moments":
        columns = len(manifest.columns)
        cells = manifest.n * columns
        groups = len(row_groups(part_rows(columns), columns)[0])
        kinds = ["int64" if whole else "double" for whole in manifest.whole_columns]
        expected["data/"] = Expected(
            columns=dict(zip(manifest.names, kinds, strict=True)),
            rows=manifest.n,
            fewest_bytes=int((1 - _FREE_CELLS / cells) * manifest.n * sum(map(bytes_per_cell, manifest.columns))),
            most_bytes=_BYTES_PER_CELL * cells + len(parts_below(manifest, "data/")) * _frame(manifest.names),
            row_groups=groups,
            footer_bytes=_frame(manifest.names, 1 + groups),
            version=version,
        )
    if manifest.form != "table":
        features = [stage.size for stage in manifest.moment_sets]
        rows, groups = sum(map(moment_rows, features)), sum(map(moment_batches, features))
        if manifest.rounds:
            counts = len(manifest.rounds) * most_counts(manifest.columns)
            expected["marginals.parquet"] = Expected(
                columns=MARGINAL_COLUMNS,
                rows=counts,
                fewest_bytes=0,
                most_bytes=_BYTES_PER_CELL * counts * len(MARGINAL_COLUMNS)
                + len(manifest.rounds) * _frame(manifest.names),
                row_groups=len(manifest.rounds),
                footer_bytes=_frame(MARGINAL_COLUMNS, 1 + len(manifest.rounds)),
                version=version,
            )
        names = len(features) * _frame(manifest.names)
        expected["moments.parquet"] = Expected(
            columns=MOMENT_COLUMNS,
            rows=rows,
            fewest_bytes=8 * rows,  # the numbers themselves
            most_bytes=_BYTES_PER_CELL * rows * len(MOMENT_COLUMNS) + names + _frame(MOMENT_COLUMNS),
            row_groups=groups,
            footer_bytes=_frame(MOMENT_COLUMNS, 1 + groups),
            version=version,
        )
    return expected


def _frame(names: Iterable[str], times: int = 1) -> int:
    """Bytes that a file may need besides its cells: its schema, and what is said of its columns, so many times."""
    return _BYTES_PER_FILE + times * sum(_BYTES_PER_COLUMN + _TIMES_A_NAME * len(name.encode()) for name in names)
