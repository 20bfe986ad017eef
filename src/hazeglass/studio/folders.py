"""The folders the studio was started with. Every path a browser names is checked here before it touches the disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hazeglass.errors import InputError

_MOST_ENTRIES = 2000
_LONGEST_NAME = 120
_NOT_IN_NAMES = set('/\\:*?"<>|')


class OutsideError(InputError):
    """A path that leaves the studio's folders."""


@dataclass(frozen=True)
class Folders:
    """Folders whose contents may be listed and named, and nothing else."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Folders:
        """Check that each is a folder."""
        roots = []
        for folder in folders:
            if not folder.is_dir():
                raise InputError(f"the studio browses folders, and {str(folder)!r} is not one. Give a folder.")
            roots.append(folder.resolve())
        return cls(tuple(dict.fromkeys(roots)))

    @property
    def labels(self) -> list[str]:
        """What the folders are called on the page."""
        names = [root.name or str(root) for root in self.roots]
        return [name if names.count(name) == 1 else str(root) for name, root in zip(names, self.roots, strict=True)]

    def resolve(self, place: Any) -> Path:
        """The existing file or folder that `{"root": 0, "path": "a/b"}` names, links followed."""
        root, parts = self._parts(place)
        path = root.joinpath(*parts)
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            self._refuse_outside(path, root)
            raise InputError(f"there is no {'/'.join(parts)!r} in this folder any more. Choose again.") from None
        self._refuse_outside(real, root)
        return real

    def new_place(self, place: Any, name: object) -> Path:
        """A name for something new inside an existing folder."""
        folder = self.resolve(place)
        if not isinstance(name, str) or not _usable(name):
            raise InputError(
                f'a new name must be 1 to {_LONGEST_NAME} characters without / \\ : * ? " < > | and not begin or end '
                "with a dot or a space. Choose another."
            )
        if not folder.is_dir():
            raise InputError("new files are put into a folder, and the place that was named is none.")
        return folder / name

    def listing(self, place: Any, classify: Callable[[Path], str | None]) -> dict[str, Any]:
        """Folders, and the files `classify` has a word for; hidden ones and links that lead outside are left out."""
        folder = self.resolve(place)
        if not folder.is_dir():
            raise InputError("only a folder can be listed, and this is a file.")
        entries = []
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name.casefold())
        except OSError:
            raise InputError(f"the folder {folder.name!r} cannot be read. Check its permissions.") from None
        for entry in found:
            kind = None if entry.name.startswith(".") else self._kind(Path(entry.path), classify)
            if kind is not None:
                entries.append({"name": entry.name, "kind": kind})
        entries.sort(key=lambda entry: entry["kind"] != "folder")
        return {"entries": entries[:_MOST_ENTRIES], "left_out": max(0, len(entries) - _MOST_ENTRIES)}

    def _kind(self, path: Path, classify: Callable[[Path], str | None]) -> str | None:
        try:
            real = path.resolve(strict=True)
            if not any(real.is_relative_to(root) for root in self.roots):
                return None
            known = classify(real)
            return known if known is not None else "folder" if real.is_dir() else None
        except (OSError, RuntimeError):
            return None

    def _parts(self, place: Any) -> tuple[Path, list[str]]:
        root = place.get("root") if isinstance(place, dict) else None
        path = place.get("path") if isinstance(place, dict) else None
        if isinstance(root, bool) or not isinstance(root, int) or not isinstance(path, str):
            raise InputError("a place is the number of a folder and a path inside it.")
        if not 0 <= root < len(self.roots):
            raise OutsideError("that is none of the folders the studio was started with.")
        parts = path.split("/") if path else []
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise OutsideError("a path must stay inside the folder it starts from: no '..', no absolute path.")
        if os.name == "nt" and any(":" in part for part in parts):
            raise OutsideError("a path must stay inside the folder it starts from: no drive.")
        return self.roots[root], parts

    @staticmethod
    def _refuse_outside(path: Path, root: Path) -> None:
        try:
            inside = path.resolve().is_relative_to(root)
        except (OSError, RuntimeError, ValueError):
            inside = False
        if not inside:
            raise OutsideError("this leads outside the folders the studio was started with; it was not opened.")


def _usable(name: str) -> bool:
    return (
        0 < len(name) <= _LONGEST_NAME
        and name.isprintable()
        and name == name.strip(" .")
        and not _NOT_IN_NAMES & set(name)
    )
