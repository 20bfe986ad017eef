"""release.json as a document: strict JSON of bounded size, depth and numbers, then the schema."""

from __future__ import annotations

import functools
import json
import math
import re
from importlib.resources import files
from typing import Any

import numpy as np

from hazeglass.bundle.integrity import LARGEST_JSON, MOST_FILES
from hazeglass.bundle.manifest import FORMAT, FORMAT_VERSION
from hazeglass.errors import BundleError

_DEEPEST = 32
_LONGEST_INTEGER = 19
# Possessive, so that no state is kept per character; a string without an end ends here with the text, so that its other
# quotes are not tried in turn.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
# A column takes at least 200 bytes of a part, and in release.json less than 13 KB, 50 values and 500 quotation marks.
_FREE_BYTES, _BYTES_PER_PART_BYTE = 1 << 20, 64
_FREE_VALUES, _VALUES_PER_PART_BYTE, _QUOTES_PER_VALUE = 20_000, 0.25, 10
_MOST_VALUES = 50 * MOST_FILES


def parse_manifest(raw: bytes, part_bytes: int = 0) -> dict[str, Any]:
    """The document, or a BundleError that says what is wrong with it.

    How large it may be follows from how many bytes of data parts it can describe.
    """
    check_size(len(raw), part_bytes)
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


def check_size(size: int, part_bytes: int) -> None:
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
    if major.isascii() and major.isdigit() and int(major) > int(ours):
        raise BundleError(
            f"the release has format version {str(version)[:20]!r} and this hazeglass reads {FORMAT_VERSION}. "
            "Install a newer hazeglass."
        )
    if major == "1":
        raise BundleError(
            f"the release has format version {str(version)[:20]!r} and this hazeglass reads {FORMAT_VERSION}. "
            "hazeglass 0.1 reads it; or ask the publisher for a new release."
        )
    raise BundleError(f"release.json has no format version this hazeglass knows; it reads {FORMAT_VERSION}.")


@functools.cache
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(release_schema())


def _check_schema(document: dict[str, Any]) -> None:
    error = next(iter(_validator().iter_errors(document)), None)
    if error is not None:
        where = ".".join(map(str, error.absolute_path)) or "release.json"
        reason = "".join(c if c.isprintable() else "\ufffd" for c in error.message[:200])
        raise BundleError(f"release.json is not a valid manifest: {where[:100]}: {reason}.")
