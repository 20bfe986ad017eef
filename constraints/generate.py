"""Write oldest.txt: every dependency at the floor that pyproject.toml promises.

python constraints/generate.py
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
EXTRAS = ("plot", "dask", "excel", "studio", "test")
HEAD = (
    "# The oldest versions we promise to work with. Made by `python constraints/generate.py`, used by `make oldest`.\n"
)


def floors() -> dict[str, str]:
    """Lowest allowed version by name, over the base dependencies and the extras that the tests use."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(line for extra in EXTRAS for line in project["optional-dependencies"][extra])]
    found = {}
    for line in wanted:
        name, floor = re.match(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", line).groups()
        found[name.lower()] = floor
    return dict(sorted(found.items()))


def text() -> str:
    """The constraints file."""
    return HEAD + "".join(f"{name}=={floor}\n" for name, floor in floors().items())


if __name__ == "__main__":
    (HERE / "oldest.txt").write_text(text(), encoding="utf-8")
