"""hazeglass doctor: what is installed, what it weighs, which extras are there, and whether caches can be written."""

from __future__ import annotations

import importlib.metadata as metadata
import os
import platform
import re
import tempfile
from pathlib import Path
from typing import Any

import hazeglass
from hazeglass.cli.terminal import Printer, plain, speaking, table

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_FOR_DEVELOPERS = ("dev", "test", "lint", "docs")


@speaking
def doctor(printer: Printer) -> None:
    """Versions, extras, caches and GPU of this installation; paste its answer into a report of a problem.

    Example: hazeglass doctor --json
    """
    found = examine()
    printer.answer(found)
    printer.say(f"hazeglass {found['hazeglass']}, Python {found['python']}, {found['system']}, {found['cores']} cores.")
    shown = table("package", "version", "MB", words=("package", "version"))
    for one in found["packages"]:
        weight = "" if one["megabytes"] is None else f"{one['megabytes']:.0f}"
        shown.add_row(one["name"], one["version"] or "missing", weight)
    printer.say(shown)
    for extra in found["extras"]:
        remedy = plain(f"pip install 'hazeglass[{extra['name']}]'")
        state = (
            f"without {', '.join(extra['missing'])}. Install it with: {remedy}" if extra["missing"] else "installed."
        )
        printer.say(f"Extra {extra['name']}: {state}")
    for cache in found["caches"]:
        state = "can be written" if cache["writable"] else "cannot be written, so what it keeps is made again each time"
        printer.say(f"Cache of {cache['holds']}: {plain(cache['path'])} {state}.")
    printer.say(f"GPU: {plain(found['gpu'])}.")


def examine() -> dict[str, Any]:
    """The facts."""
    base: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in _requirements():
        name, extra = _REQUIREMENT.match(line), _EXTRA.search(line)
        if name is not None and name[1].lower() != "hazeglass":
            (base if extra is None else extras.setdefault(extra[1], [])).append(name[1])
    offered = {extra: names for extra, names in extras.items() if extra not in _FOR_DEVELOPERS}
    return {
        "hazeglass": hazeglass.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "packages": [{"name": name, "version": _version(name), "megabytes": _megabytes(name)} for name in base],
        "extras": [{"name": extra, "missing": _missing(names)} for extra, names in offered.items()],
        "caches": [_cache("downloads", _downloads()), _cache("compiled code", _compiled())],
        "gpu": _gpu(),
    }


def _requirements() -> list[str]:
    try:
        return metadata.requires("hazeglass") or []
    except metadata.PackageNotFoundError:  # run from a folder, without being installed
        return []


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _missing(names: list[str]) -> list[str]:
    return [name for name in names if _version(name) is None]


def _megabytes(name: str) -> float | None:
    """What a package's own files weigh."""
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def _downloads() -> Path:
    from hazeglass.datasets.dataset import cache_folder

    return cache_folder()


def _compiled() -> Path:
    """Where numba keeps what it compiles: a folder of the user's choice, or beside our own files."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(hazeglass.__file__).parent)


def _cache(holds: str, path: Path) -> dict[str, Any]:
    """The nearest folder that is there tells whether it can be written."""
    there = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there):
            writable = True
    except OSError:
        writable = False
    return {"holds": holds, "path": str(path), "writable": writable}


def _gpu() -> str:
    if not _version("torch"):
        return "not looked for, because torch (hazeglass[gpu]) is not installed"
    import torch

    if not torch.cuda.is_available():
        return "torch sees none"
    return ", ".join(torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count()))
