"""Files that appear complete or not at all, and never in the place of another, on any system.

Not every system can do all of it: Windows opens no folder and flushes no file that is open for reading alone, and FAT
and some network drives have no links. There the next best is done.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hazeglass.errors import OutputError

# What systems say of a link on a file system that has none.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def flush(path: Path) -> None:
    """Bring a file, or a folder's list of names, from the system's memory to the disk."""
    folder = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except PermissionError:
        if folder:  # as on Windows, which keeps such lists by itself
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError:
        if not folder:  # some network drives flush files and no lists
            raise
    finally:
        os.close(descriptor)


def take_name(draft: Path, out: Path) -> None:
    """Give a complete file its name; FileExistsError where another has it.

    A link never replaces what is there. Where there are none, a look and a rename are what is left.
    """
    try:
        os.link(draft, out)
    except AttributeError:
        pass
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        return
    if out.exists() or out.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(out))
    os.rename(draft, out)


def check_name(out: str | Path) -> None:
    """Refuse a place whose name no file can have, or that libraries cannot be told."""
    try:
        os.fspath(Path(out).resolve()).encode()
        Path(out).exists()
    except (OSError, ValueError, RuntimeError) as error:  # the last: a link that leads to itself, before Python 3.13
        why = "it is no Unicode text" if isinstance(error, UnicodeError) else getattr(error, "strerror", None) or error
        raise OutputError(f"the name of a place for results must be one that a file can have, and {why}.") from None


def check_new_file(out: str | Path) -> Path:
    """The place for a file that is not there yet."""
    check_name(out)
    out = Path(out)
    if out.exists():
        raise OutputError(f"{str(out)!r} already exists. Name another file, or remove it first.")
    if not out.resolve().parent.is_dir():
        raise OutputError(f"the folder of {str(out)!r} does not exist. Make it first.")
    return out


@contextmanager
def new_file(out: str | Path) -> Iterator[Path]:
    """A draft beside `out` that takes its name when the block ends well, and vanishes when it does not."""
    out = check_new_file(out)
    draft = out.resolve().parent / f".{out.name}.partial-{secrets.token_hex(8)}"
    try:
        yield draft
        flush(draft)
        take_name(draft, out)
        flush(draft.parent)
    except FileExistsError:
        raise OutputError(f"{str(out)!r} already exists. Name another file, or remove it first.") from None
    except OSError as error:
        raise OutputError(f"cannot write {str(out)!r}: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)
