"""Whether a release is whole: its files, and release.json as a document. What that claims is for promise.py.

A bundle holds exactly the plain files that SHA256SUMS lists, with exactly those bytes; beside them lie SHA256SUMS and,
where the release is signed, the signature over it. release.json is strict JSON of bounded size, depth and numbers that
its schema accepts.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from hazeglass.bundle.manifest import FORMAT, FORMAT_VERSION, Manifest
from hazeglass.bundle.sign import SIGNATURE
from hazeglass.bundle.writer import CHECKSUMS, sha256_of
from hazeglass.errors import BundleError

LARGEST_JSON = 64 << 20
MOST_FILES = 100_000
_LONGEST_NAME, _MOST_PARTS_OF_A_NAME = 200, 3  # an archive may hold the release as one folder
_SUM_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
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


# ----------------------------------------------------------------------------------------------------- files and hashes


def read_checksums(folder: Path) -> bytes:
    """The bytes of SHA256SUMS."""
    path = folder / CHECKSUMS
    if not _is_plain(path) or not _is_plain(folder / "release.json"):
        raise BundleError(f"{str(folder)!r} is not a release: it must hold release.json and SHA256SUMS.")
    if path.stat().st_size > LARGEST_JSON:
        raise BundleError("SHA256SUMS is too large to be one. Ask the publisher for a new copy.")
    return path.read_bytes()


def parse_checksums(raw: bytes) -> dict[str, str]:
    """Every line is a hash, two spaces and a name inside the folder, each name once."""
    sums: dict[str, str] = {}
    if raw.count(b"\n") > MOST_FILES:
        raise BundleError(f"a release holds at most {MOST_FILES:,} files; SHA256SUMS lists more.")
    *lines, rest = raw.decode("utf-8", errors="replace").split("\n")
    for line in [*lines, rest] if rest else lines:
        match = _SUM_LINE.fullmatch(line)
        if match is None or match[2] in sums:
            raise BundleError(
                "SHA256SUMS is damaged: every line must be a hash, two spaces and a name, each name once."
            )
        check_name(match[2])
        sums[match[2]] = match[1]
    return sums


def check_name(name: str) -> None:
    """Refuse absolute names, names that climb, that no release needs, and that other systems read differently."""
    parts = name.split("/", _MOST_PARTS_OF_A_NAME)
    odd = name.startswith("/") or "\\" in name or ":" in parts[0] or any(ord(c) < 32 for c in name)
    if odd or any(part in ("", ".", "..") for part in parts):
        raise BundleError(f"the release names a file outside its own folder ({name[:100]!r}); it was not opened.")
    if len(name) > _LONGEST_NAME or len(parts) > _MOST_PARTS_OF_A_NAME:
        raise BundleError(
            f"the release names a file ({name[:60]!r}...) in more than {_LONGEST_NAME} characters or "
            f"{_MOST_PARTS_OF_A_NAME} parts, as no release does; it was not opened."
        )


def check_files(folder: Path, sums: dict[str, str]) -> None:
    """No link, nothing extra, nothing missing; and of what is no part nothing changed.

    How large parts may be, release.json says: only then are they hashed (`check_hashes`).
    """
    folders = {name[: k + 1] for name in sums for k, c in enumerate(name) if c == "/"}
    for name, kind in _entries(folder):
        if stat.S_ISLNK(kind):
            raise BundleError(f"{name[:100]} is a link; a release holds plain files only.")
        if stat.S_ISDIR(kind):
            if f"{name}/" not in folders:
                raise BundleError(f"{name[:100]} is no part of the release: SHA256SUMS lists nothing in it. Remove it.")
            continue
        if not stat.S_ISREG(kind):
            raise BundleError(f"{name[:100]} is neither a file nor a folder; a release holds plain files only.")
        if name not in (CHECKSUMS, SIGNATURE) and name not in sums:
            raise BundleError(f"{name[:100]} is not part of the release: SHA256SUMS does not list it. Remove it.")
    for name in sums:
        path = folder / name
        if not _is_plain(path):
            raise BundleError(f"{name[:100]} is missing from the release. Ask the publisher for a complete copy.")
        if not name.endswith(".parquet") and path.stat().st_size > LARGEST_JSON:
            raise BundleError(
                f"{name[:100]} is larger than {LARGEST_JSON:,} bytes, as no such file is. Do not open it."
            )
    check_hashes(folder, {name: expected for name, expected in sums.items() if not name.endswith(".parquet")})


def check_hashes(folder: Path, sums: dict[str, str]) -> None:
    """Nothing changed."""
    for name, expected in sums.items():
        if sha256_of(folder / name) != expected:
            raise BundleError(
                f"{name[:100]} was changed after publication: its hash does not match. Ask for a new copy."
            )


def _entries(folder: Path) -> Iterator[tuple[str, int]]:
    """Every entry below a folder as a name and a kind; links are named, never followed."""
    waiting = [("", str(folder))]
    while waiting:
        prefix, place = waiting.pop()
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                kind = entry.stat(follow_symlinks=False).st_mode
                yield prefix + entry.name, kind
                if stat.S_ISDIR(kind):
                    waiting.append((f"{prefix}{entry.name}/", entry.path))


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):  # not there, or a name no file can have
        return False


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
