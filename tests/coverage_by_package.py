"""Print line coverage package by package from pytest-cov's JSON, and fail below what RELEASING.md asks for.

python tests/coverage_by_package.py build/coverage.json
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

LEAST = {"guarantee": 98, "publisher": 98, "bundle": 98}
LEAST_OVERALL = 92


def by_package(report: dict) -> dict[str, tuple[int, int]]:
    """(covered, all) lines of each package; files beside the packages count as 'hazeglass'."""
    packages: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, file in report["files"].items():
        parts = Path(name).parts
        inside = parts[parts.index("hazeglass") + 1 :]
        package = inside[0] if len(inside) > 1 else "hazeglass"
        covered, count = packages[package]
        summary = file["summary"]
        packages[package] = covered + summary["covered_lines"], count + summary["num_statements"]
    return dict(packages)


def main(path: str) -> int:
    packages = by_package(json.loads(Path(path).read_text(encoding="utf-8")))
    packages["all of src"] = tuple(map(sum, zip(*packages.values(), strict=True)))
    short = 0
    for package, (covered, count) in sorted(packages.items()):
        share = 100 * covered / max(count, 1)
        least = LEAST_OVERALL if package == "all of src" else LEAST.get(package, 0)
        short += share < least
        sys.stdout.write(
            f"{package:12} {share:6.2f} %  {covered} of {count}{'  below ' + str(least) if share < least else ''}\n"
        )
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
