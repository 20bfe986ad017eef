"""Draw which package imports which, from pyproject.toml's import contracts and from what the source really imports.

python docs/layers.py docs/images/layers.svg
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hazeglass"
CELL, LEFT, TOP = 30, 118, 108
COLOURS = {"imports": "#2b6cb0", "forbidden": "#f3d3cf", "allowed": "#ffffff", "self": "#d9d9d9"}


def packages() -> list[str]:
    """Every folder of hazeglass that holds Python, those that import fewest others last."""
    names = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    reach = {name: len(_below(name, {n: imports(n) for n in names})) for name in names}
    return sorted(names, key=lambda name: (-reach[name], name))


def imports(package: str) -> frozenset[str]:
    """Packages that a package's modules import; imports for type checkers alone do not count."""
    found = {
        name for path in (SOURCE / package).rglob("*.py") for name in _imported(ast.parse(path.read_text("utf-8")))
    }
    return frozenset(found - {package})


def forbidden() -> set[tuple[str, str]]:
    """(importer, imported) pairs of whole packages that a contract rules out."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    pairs: set[tuple[str, str]] = set()
    for contract in contracts:
        if contract["type"] == "independence":
            names = contract["modules"]
            pairs |= {(a, b) for a in names for b in names if a != b}
        elif contract["type"] == "forbidden":
            pairs |= {(a, b) for a in contract["source_modules"] for b in contract["forbidden_modules"]}
    return {(_package(a), _package(b)) for a, b in pairs if a.count(".") == b.count(".") == 1}


def picture() -> str:
    """A square for each pair of packages: row imports column, must not, or might."""
    names, barred = packages(), forbidden()
    known = {name: imports(name) for name in names}
    size = CELL * len(names)
    width, height = max(LEFT + size + 10, 520), TOP + size + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="13">',
        "<title>Which package imports which, and which must not</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_labels(names),
    ]
    for i, row in enumerate(names):
        for j, column in enumerate(names):
            kind = _kind(row, column, known, barred)
            parts.append(_cell(LEFT + j * CELL, TOP + i * CELL, kind, f"{row} and {column}: {kind}"))
    parts += _legend(TOP + size + 14)
    return "\n".join([*parts, "</svg>", ""])


def write_picture(path: Path) -> None:
    path.write_text(picture(), encoding="utf-8")


def _kind(row: str, column: str, known: dict[str, frozenset[str]], barred: set[tuple[str, str]]) -> str:
    if row == column:
        return "self"
    if column in known[row]:
        return "imports"
    return "forbidden" if (row, column) in barred else "allowed"


def _cell(x: int, y: int, kind: str, words: str) -> str:
    box = f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" fill="{COLOURS[kind]}" stroke="#b5b5b5">'
    cross = f'<path d="M{x + 9} {y + 9}l10 10m0 -10l-10 10" stroke="#b03a2e"/>' if kind == "forbidden" else ""
    return f"{box}<title>{escape(words)}</title></rect>{cross}"


def _labels(names: list[str]) -> Iterator[str]:
    for k, name in enumerate(names):
        middle = k * CELL + CELL // 2
        yield f'<text x="{LEFT - 8}" y="{TOP + middle + 3}" text-anchor="end">{escape(name)}</text>'
        yield f'<text transform="translate({LEFT + middle + 3} {TOP - 8}) rotate(-60)">{escape(name)}</text>'


def _legend(y: int) -> Iterator[str]:
    for x, kind, words in (
        (LEFT, "imports", "imports"),
        (LEFT + 110, "forbidden", "must not"),
        (LEFT + 230, "allowed", "does not"),
    ):
        yield _cell(x, y - 6, kind, words)
        yield f'<text x="{x + CELL + 4}" y="{y + 13}">{words}</text>'


def _below(package: str, known: dict[str, frozenset[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [package]
    while waiting:
        for name in known.get(waiting.pop(), frozenset()) - found:
            found.add(name)
            waiting.append(name)
    return found & known.keys()


def _imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom) and child.module == "hazeglass":
            names = [f"hazeglass.{alias.name}" for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            names = [child.module or ""]
        yield from (
            _package(name) for name in names if name.startswith("hazeglass.") and (SOURCE / _package(name)).is_dir()
        )
        yield from _imported(child)


def _package(module: str) -> str:
    return module.split(".")[1]


if __name__ == "__main__":
    write_picture(Path(sys.argv[1]))
