"""Look into the wheel and the sdist: what a user needs is there, and the version is the one in the source.

python tests/packaging/contents.py FOLDER
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The sdist must be able to build, to be tested and to be cited.
SDIST = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CITATION.cff",
    "CHANGELOG.md",
    "tests/conftest.py",
    "constraints/oldest.txt",
)


def source_files() -> list[str]:
    """Every file of the package, whatever its kind: modules, templates, schemas, styles, py.typed."""
    package = ROOT / "src"
    files = (path for path in (package / "hazeglass").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(path.relative_to(package).as_posix() for path in files if "__pycache__" not in path.parts)


def only(found: list[Path]) -> Path:
    """The one file of its kind."""
    if len(found) != 1:
        raise SystemExit(f"exactly one file was to be there, found {[path.name for path in found]}")
    return found[0]


def must_hold(wanted: tuple[str, ...] | list[str], names: set[str], archive: Path) -> None:
    """Stop when something is not in the archive."""
    if missing := [name for name in wanted if name not in names]:
        raise SystemExit(f"{archive.name} lacks {', '.join(missing)}")


def main(folder: Path) -> None:
    """Check both archives."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src/hazeglass/_version.py").read_text(encoding="utf-8"))[1]
    wheel, sdist = only(list(folder.glob("*.whl"))), only(list(folder.glob("*.tar.gz")))
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = Parser().parsestr(archive.read(f"hazeglass-{version}.dist-info/METADATA").decode())
    must_hold([*source_files(), "hazeglass/py.typed", "hazeglass_experiments/everything.py"], names, wheel)
    with tarfile.open(sdist) as archive:
        must_hold([f"hazeglass-{version}/{name}" for name in SDIST], set(archive.getnames()), sdist)
    print(f"hazeglass {metadata['Version']}: {wheel.name} with {len(names)} files, typed; {sdist.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
