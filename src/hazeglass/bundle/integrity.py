"""Files and hashes: a bundle holds exactly the plain files that SHA256SUMS lists, with exactly those bytes.

Beside them lie SHA256SUMS itself and, where the release is signed, the signature over it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from hazeglass.bundle.sign import SIGNATURE
from hazeglass.bundle.writer import CHECKSUMS, sha256_of
from hazeglass.errors import BundleError

LARGEST_JSON = 64 << 20
MOST_FILES = 100_000
_LONGEST_NAME, _MOST_PARTS_OF_A_NAME = 200, 3  # an archive may hold the release as one folder
_SUM_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


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
        if match is None or match.group(2) in sums:
            raise BundleError(
                "SHA256SUMS is damaged: every line must be a hash, two spaces and a name, each name once."
            )
        check_name(match.group(2))
        sums[match.group(2)] = match.group(1)
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
    """No link, nothing extra, nothing missing, nothing changed."""
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
    for name, expected in sums.items():
        path = folder / name
        if not _is_plain(path):
            raise BundleError(f"{name[:100]} is missing from the release. Ask the publisher for a complete copy.")
        if sha256_of(path) != expected:
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
