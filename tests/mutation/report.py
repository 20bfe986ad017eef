"""Print what tests/mutation/run.py found: a table by module, and every survivor.

python tests/mutation/report.py build/mutants
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mutators import mutants

SRC = Path(__file__).resolve().parents[2] / "src" / "hazeglass"


def last_records(path: Path, present: set[str]) -> list[dict[str, Any]]:
    """One record for each mutant of the module as it is now: the last, where a survivor was run again."""
    records = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return list({record["key"]: record for record in records if record["key"] in present}.values())


def main(folder: str) -> None:
    survivors: list[str] = []
    rows = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        module = path.stem.replace("-", "/", 1) + ".py"
        present = {mutant.key for mutant in mutants((SRC / module).read_text(encoding="utf-8"))}
        records = last_records(path, present)
        count = {status: sum(r["status"] == status for r in records) for status in ("killed", "timeout", "survived")}
        rows.append((module, len(present), len(records), *count.values()))
        survivors += [f"{module}:{r['line']}  {r['change']}" for r in records if r["status"] == "survived"]
    rows.append(("all", *(sum(row[k] for row in rows) for k in range(1, 6))))
    sys.stdout.write("| module | mutants | run | killed | timed out | survived |\n|---|---|---|---|---|---|\n")
    for row in rows:
        sys.stdout.write(f"| {' | '.join(map(str, row))} |\n")
    sys.stdout.write("\n" + "\n".join(survivors) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
