"""Print line coverage room by room from pytest-cov's JSON, and fail below what RELEASING.md asks for.

python tests/coverage_by_room.py build/coverage.json
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

LEAST = {"guarantee": 98, "publisher": 98, "bundle": 98}
LEAST_OVERALL = 92


def by_room(report: dict) -> dict[str, tuple[int, int]]:
    """(covered, all) lines of each room; files beside the rooms count as 'hazeglass'."""
    rooms: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, file in report["files"].items():
        parts = Path(name).parts
        inside = parts[parts.index("hazeglass") + 1 :]
        room = inside[0] if len(inside) > 1 else "hazeglass"
        covered, count = rooms[room]
        summary = file["summary"]
        rooms[room] = covered + summary["covered_lines"], count + summary["num_statements"]
    return dict(rooms)


def main(path: str) -> int:
    rooms = by_room(json.loads(Path(path).read_text(encoding="utf-8")))
    rooms["all of src"] = tuple(map(sum, zip(*rooms.values(), strict=True)))
    short = 0
    for room, (covered, count) in sorted(rooms.items()):
        share = 100 * covered / max(count, 1)
        least = LEAST_OVERALL if room == "all of src" else LEAST.get(room, 0)
        short += share < least
        sys.stdout.write(
            f"{room:12} {share:6.2f} %  {covered} of {count}{'  below ' + str(least) if share < least else ''}\n"
        )
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
