"""Where a bundle may lie: a folder, a .zip, or an http(s) address. Whatever it is, a local folder comes out."""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hazeglass.bundle.archive import unpack
from hazeglass.bundle.download import fetch_archive, fetch_bundle
from hazeglass.errors import BundleError

LARGEST_BUNDLE = 16 << 30
_ADDRESS = re.compile(r"(?i)([a-z][a-z0-9+.-]*)://")


class Place:
    """A folder with a bundle; `temporary` when it is ours to remove."""

    def __init__(self, folder: Path, *, temporary: bool) -> None:
        self.folder, self.temporary = folder, temporary

    def remove(self) -> None:
        """Remove what was unpacked or fetched."""
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def local_folder(path: str | Path, largest: int = LARGEST_BUNDLE) -> Iterator[Place]:
    """The bundle as a local folder; a temporary one is removed at once when the block fails, else by its new owner."""
    scheme = _ADDRESS.match(str(path)) if isinstance(path, str) else None
    if scheme is not None and scheme.group(1).lower() not in ("http", "https"):
        raise BundleError(f"a release is a folder, a .zip or an http(s) address; {str(path)!r} is none of them.")
    if scheme is None and Path(path).is_dir():
        yield Place(Path(path), temporary=False)
        return
    if scheme is None and not Path(path).is_file():
        raise BundleError(f"a release is a folder, a .zip or an http(s) address; {str(path)!r} is not a folder.")
    if scheme is None and Path(path).suffix.lower() != ".zip" and not zipfile.is_zipfile(path):
        raise BundleError(f"a release is a folder, a .zip or an http(s) address; {str(path)!r} is none of them.")
    place = Place(Path(tempfile.mkdtemp(prefix="hazeglass-")), temporary=True)
    try:
        if scheme is None:
            unpack(Path(path), place.folder, largest)
        elif str(path).lower().endswith(".zip"):
            _unpack_address(str(path), place.folder, largest)
        else:
            fetch_bundle(str(path), place.folder, largest)
        yield place
    except BaseException:
        place.remove()
        raise


def _unpack_address(url: str, folder: Path, largest: int) -> None:
    with tempfile.TemporaryDirectory(prefix="hazeglass-") as waiting:
        archive = Path(waiting) / "release.zip"
        fetch_archive(url, archive, largest)
        unpack(archive, folder, largest)
