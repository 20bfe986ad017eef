"""Where a bundle may lie: a folder, a .zip, or an http(s) address. Whatever it is, a local folder comes out.

What is unpacked or fetched goes into a temporary folder of our own: no name that climbs, no link, no bomb, nothing from
another host, all of it bounded in size and time. The folder holds exactly the plain files that SHA256SUMS lists, with
exactly those bytes; beside them lie SHA256SUMS and, where the release is signed, the signature over it.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

from hazeglass._files import new_file
from hazeglass._http import DownloadError, HttpClient
from hazeglass.bundle.sign import SIGNATURE, SIGNATURE_BYTES
from hazeglass.bundle.verify import LARGEST_JSON, MOST_FILES
from hazeglass.bundle.writer import CHECKSUMS, sha256_of
from hazeglass.errors import BundleError, OutputError

LARGEST_BUNDLE = 16 << 30
_ADDRESS = re.compile(r"(?i)([a-z][a-z0-9+.-]*)://")
_CHUNK = 1 << 20
# Noise hardly shrinks and JSON shrinks by 20; what grows more than this was made to fill a disk.
_LARGEST_GROWTH = 100
_FREE_BYTES = 16 << 20
_ENTRY, _LARGEST_DIRECTORY = b"PK\x01\x02", 64 << 20  # how an entry of an archive's directory begins
_SECONDS_IN_ALL = 3600
_LONGEST_NAME, _MOST_PARTS_OF_A_NAME = 200, 3  # an archive may hold the release as one folder
_SUM_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_NOT_THERE = (403, 404, 410)  # object stores say 403 of a file that they do not have


@contextmanager
def local_folder(path: str | Path, largest: int) -> Iterator[tuple[Path, bool]]:
    """The bundle as a local folder, and whether it is temporary: removed at once when the block fails, else by its new
    owner."""
    scheme = _ADDRESS.match(str(path)) if isinstance(path, str) else None
    if not isinstance(path, str | os.PathLike):
        raise BundleError(f"a release is a path or an http(s) address, got {type(path).__name__}. Give one of them.")
    file = Path(path)
    if scheme is None and file.is_dir():
        yield file, False
        return
    if scheme is None and not file.is_file():
        raise BundleError(f"there is no release {str(path)!r}. Give its folder, a .zip of it, or its http(s) address.")
    if scheme is None:
        known = file.suffix.lower() == ".zip" or zipfile.is_zipfile(file)
    else:
        known = scheme.group(1).lower() in ("http", "https")
    if not known:
        raise BundleError(f"a release is a folder, a .zip or an http(s) address; {str(path)!r} is none of them.")
    folder = Path(tempfile.mkdtemp(prefix="hazeglass-"))
    try:
        if scheme is None:
            _unpack(file, folder, largest)
        else:
            _fetch(str(path), folder, largest)
        yield folder, True
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


# ------------------------------------------------------------------------------------------------------------ archives


class _Archive(io.FileIO):
    """An archive's bytes. zipfile reads the directory at once and makes an object of every entry, so it is refused here
    where it is too large, whatever the archive says about itself."""

    def read(self, size: int | None = -1, /) -> bytes:
        """At most so many bytes."""
        if size is None or not 0 <= size <= _LARGEST_DIRECTORY:
            size = _LARGEST_DIRECTORY + 1
        raw = super().read(size) or b""
        if len(raw) > _LARGEST_DIRECTORY or raw.count(_ENTRY) > 2 * MOST_FILES:
            raise BundleError(f"a release holds at most {MOST_FILES:,} files; this archive holds more.")
        return raw


def _unpack(archive: Path, folder: Path, largest: int) -> None:
    """Write the files of `archive` below the empty `folder`; nothing is written for an archive that is refused."""
    try:
        with _Archive(archive) as file, zipfile.ZipFile(file) as opened:
            entries = _checked_entries(opened, archive.stat().st_size, largest)
            for name, entry in entries.items():
                _extract(opened, entry, folder / name)
    except BundleError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ArithmeticError, ValueError, OSError):
        raise BundleError(f"{archive.name} is not a readable zip archive. Ask the publisher for a new copy.") from None


def _checked_entries(opened: zipfile.ZipFile, size: int, largest: int) -> dict[str, zipfile.ZipInfo]:
    """The archive's files by their name inside the release, or a refusal."""
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in opened.infolist():
        name = entry.orig_filename.removesuffix("/")
        check_name(name)
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise BundleError(f"{name[:100]} is a link; a release holds plain files only.")
        if entry.flag_bits & 0x1:
            raise BundleError(f"{name[:100]} is encrypted; a release is not. Unpack the archive yourself first.")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack without a bound
            raise BundleError(f"{name[:100]} must be stored or deflated; it is not. Pack the release again.")
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
    # An archive may hold the files themselves, or one folder with them.
    tops = {name.partition("/")[0] for name in entries}
    if "release.json" in entries or len(tops) != 1 or not all("/" in name for name in entries):
        return entries
    return {name.partition("/")[2]: entry for name, entry in entries.items()}


def _extract(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with opened.open(entry) as source, target.open("xb") as sink:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > entry.file_size:
                raise BundleError(f"{entry.orig_filename[:100]} is larger than the archive says. Do not rely on it.")
            sink.write(chunk)


def pack(folder: Path, out: Path) -> Path:
    """A release's folder as one .zip with one folder in it, complete or not at all; the same release, the same bytes.

    Parts are noise, which hardly shrinks, and are stored as they are.
    """
    if out.suffix.lower() != ".zip":
        raise OutputError(f"a packed release must end in .zip, got {out.name!r}.")
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    with new_file(out) as draft, zipfile.ZipFile(draft, "x") as archive:
        for name in names:
            entry = zipfile.ZipInfo(f"{out.stem}/{name}")
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
            with (folder / name).open("rb") as source, archive.open(entry, "w", force_zip64=True) as sink:
                shutil.copyfileobj(source, sink, _CHUNK)
    return out


# ----------------------------------------------------------------------------------------------------------- addresses


def _fetch(url: str, folder: Path, largest: int) -> None:
    """Fetch a .zip and unpack it; or SHA256SUMS, its signature if there is one, and each file that is listed, up to the
    first with another hash."""
    address = _checked_address(url)
    client = HttpClient(largest, _SECONDS_IN_ALL, _elsewhere)
    if url.lower().endswith(".zip"):
        with tempfile.TemporaryDirectory(prefix="hazeglass-") as waiting:
            archive = Path(waiting) / "release.zip"
            _fetch_file(client, address, archive.name, archive)
            _unpack(archive, folder, largest)
        return
    _fetch_file(client, f"{address}/{CHECKSUMS}", CHECKSUMS, folder / CHECKSUMS, LARGEST_JSON)
    _fetch_file(client, f"{address}/{SIGNATURE}", SIGNATURE, folder / SIGNATURE, SIGNATURE_BYTES, optional=True)
    for name, expected in parse_checksums((folder / CHECKSUMS).read_bytes()).items():
        limit = None if name.endswith(".parquet") else LARGEST_JSON
        _fetch_file(client, f"{address}/{quote(name)}", name, folder / name, limit)
        if sha256_of(folder / name) != expected:
            raise BundleError(f"{name} was changed after publication: its hash does not match. Ask for a new copy.")


def _fetch_file(
    client: HttpClient, address: str, name: str, target: Path, largest: int | None = None, optional: bool = False
) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as sink:
            client.fetch(address, name[:100], sink, largest)
    except OSError as error:  # SHA256SUMS may list itself, or a file below another file
        raise BundleError(f"{address} cannot be fetched: {type(error).__name__}.") from None
    except DownloadError as error:
        if optional and error.status in _NOT_THERE:
            target.unlink()
            return
        hint = "" if error.status is None else " Is it the address of a release?"
        raise BundleError(f"{error}{hint}") from None


def _elsewhere(old: SplitResult, new: SplitResult) -> str | None:
    """A release is fetched from one scheme, host and port."""
    if (old.scheme, old.netloc) == (new.scheme, new.netloc):
        return None
    return f"{f'{new.scheme}://{new.netloc}'[:100]!r}; a release is not fetched from elsewhere"


def _checked_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username is not None:
        raise BundleError(f"{url!r} must be a plain http(s) address: a host and a path, no query and no password.")
    if not url.isascii() or any(c.isspace() for c in url):
        raise BundleError(f"{url!r} must be written in ASCII, other characters percent-encoded.")
    return url.rstrip("/")


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
