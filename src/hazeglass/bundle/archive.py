"""A bundle in a .zip, unpacked into a folder of our own: no name that climbs, no link, no bomb."""

from __future__ import annotations

import stat
import zipfile
import zlib
from pathlib import Path

from hazeglass.bundle.integrity import MOST_FILES, check_name
from hazeglass.errors import BundleError

_CHUNK = 1 << 20
# Noise hardly shrinks and JSON shrinks by 20; what grows more than this was made to fill a disk.
_LARGEST_GROWTH = 100
_FREE_BYTES = 16 << 20


def unpack(archive: Path, folder: Path, largest: int) -> None:
    """Write the files of `archive` below the empty `folder`; nothing is written for an archive that is refused."""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = _checked(opened, archive.stat().st_size, largest)
            for name, entry in entries.items():
                _extract(opened, entry, folder / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"{archive.name} is not a readable zip archive. Ask the publisher for a new copy.") from None


def _checked(opened: zipfile.ZipFile, size: int, largest: int) -> dict[str, zipfile.ZipInfo]:
    """The archive's files by their name inside the release, or a refusal."""
    if len(opened.infolist()) > 2 * MOST_FILES:
        raise BundleError(f"a release holds at most {MOST_FILES:,} files; this archive holds more.")
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in opened.infolist():
        name = entry.orig_filename.removesuffix("/")
        check_name(name)
        kind = entry.external_attr >> 16
        if stat.S_ISLNK(kind):
            raise BundleError(f"{name[:100]} is a link; a release holds plain files only.")
        if entry.flag_bits & 0x1:
            raise BundleError(f"{name[:100]} is encrypted; a release is not. Unpack the archive yourself first.")
        if entry.orig_filename.endswith("/"):
            continue
        if name in entries:
            raise BundleError(f"the archive holds {name[:100]} twice. Do not rely on it.")
        entries[name] = entry
    total = sum(entry.file_size for entry in entries.values())
    if total > min(largest, _LARGEST_GROWTH * size + _FREE_BYTES):
        raise BundleError(
            f"the archive would unpack to {total:,} bytes from {size:,}, more than a release can; it was not opened."
        )
    return _below_one_folder(entries)


def _below_one_folder(entries: dict[str, zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Names relative to the release: an archive may hold the files themselves, or one folder with them."""
    tops = {name.split("/")[0] for name in entries}
    if "release.json" in entries or len(tops) != 1 or not all("/" in name for name in entries):
        return entries
    return {name.split("/", 1)[1]: entry for name, entry in entries.items()}


def _extract(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with opened.open(entry) as source, target.open("xb") as sink:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > entry.file_size:
                raise BundleError(f"{entry.orig_filename[:100]} is larger than the archive says. Do not rely on it.")
            sink.write(chunk)
