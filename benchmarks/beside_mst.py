"""MST (dpmm) and hazeglass on the same rows at the same epsilon: who ranks the true edges higher?

    python benchmarks/beside_mst.py [--draws 3] [--first-seed 30000] [--bins 10] [--only TEXT ...] [--out FILE.csv]

Four tables: the demo's feeder, a strong tree, a random graph, cell signalling. Every row is hidden at epsilon 1 and
delta 1e-6. MST runs in the environment that `make .venv-dpmm/bin/python` builds (or the one that HAZEGLASS_DPMM_PYTHON
names), with columns cut into even bins between their public bounds, which costs it nothing, and 1,000 of its steps. Its
rows are ranked in three ways, by partial correlations, by correlations and by the largest penalty of a graphical lasso
at which a pair is an edge; each is printed, and ours has the one ranking that `recover` gives.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from sklearn.metrics import average_precision_score, roc_auc_score

import hazeglass as hg
from graphs import precision_of, true_partials
from recovery import DPMM, lasso_entries
from truth import DATA, cell_release, pairs_of, recovered, release_of, scores_of, strong_tree, truth_of

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
EPSILON, DELTA, STEPS = 1.0, 1e-6, 1000


@dataclass(frozen=True)
class Draw:
    """Rows on the scale of their bounds, which pairs are edges, and how hazeglass ranks them."""

    rows: FloatArray
    lower: float
    upper: float
    real: FloatArray
    ours: Callable[[], FloatArray]


def _evidence(release: Any) -> FloatArray:
    found = recovered(release).evidence
    assert found is not None
    return np.asarray(found)


def feeder(seed: int) -> Draw:
    made = hg.datasets.make_feeder()
    release = lambda: release_of(made.data, -10.0, 10.0, "continuous", EPSILON, seed, scale="linear")  # noqa: E731
    return Draw(made.data, -10.0, 10.0, truth_of(made), lambda: _evidence(release()))


def tree(seed: int) -> Draw:
    rows, real = strong_tree(5_000, 30, np.random.default_rng(seed))
    ours = lambda: _evidence(release_of(rows, -6.0, 6.0, "continuous", EPSILON, seed, scale="linear"))  # noqa: E731
    return Draw(rows, -6.0, 6.0, real, ours)


def random_graph(seed: int) -> Draw:
    rng = np.random.default_rng(seed)
    precision = precision_of("random", 20, rng)
    rows = scores_of(precision, 10_000, rng)
    ours = lambda: _evidence(release_of(rows, -6.0, 6.0, "continuous", EPSILON, seed))  # noqa: E731
    return Draw(rows, -6.0, 6.0, np.abs(true_partials(precision)) > 1e-9, ours)


def cells(seed: int) -> Draw:
    data = hg.datasets.load_cell_signalling(data_dir=DATA)

    def ours() -> FloatArray:
        release = cell_release(EPSILON, seed, dependence="curved")[1]
        return np.abs(pairs_of(recovered(release, alpha=None), "strength"))

    return Draw(np.log(np.clip(data.data, 1, 1e4)), 0.0, float(np.log(1e4)), truth_of(data), ours)


TABLES: dict[str, Callable[[int], Draw]] = {
    "feeder, 35,040 x 12": feeder,
    "strong tree, 5,000 x 30": tree,
    "random graph, 10,000 x 20": random_graph,
    "cell signalling, 7,466 x 11": cells,
}


def mst(draw: Draw, bins: int, seed: int) -> list[FloatArray]:
    """What three rankings of its synthetic rows say of every pair."""
    place = (draw.rows - draw.lower) / (draw.upper - draw.lower)
    numbers = np.clip((place * bins).astype(int), 0, bins - 1)
    names = [f"x{k}" for k in range(numbers.shape[1])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        csv.write_csv(pa.table(dict(zip(names, numbers.T, strict=True))), folder / "rows.csv")
        (folder / "sizes.json").write_text(json.dumps(dict.fromkeys(names, bins)))
        tool = str(Path(__file__).with_name("tools") / "mst_table.py")
        python = os.environ.get("HAZEGLASS_DPMM_PYTHON", str(DPMM))
        files = [str(folder / one) for one in ("rows.csv", "sizes.json", "made.csv")]
        command = [python, tool, *files, str(EPSILON), str(DELTA), str(seed), "MST", str(STEPS)]
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        subprocess.run(command, check=True, capture_output=True, env=clean)
        made = np.column_stack([one.to_numpy() for one in csv.read_csv(folder / "made.csv").columns]).astype(float)
    made += 1e-6 * np.random.default_rng(0).standard_normal(made.shape)  # a column may come out constant
    correlation, upper = np.corrcoef(made, rowvar=False), np.triu_indices(made.shape[1], 1)
    inverse = np.linalg.inv(correlation + 1e-3 * np.eye(len(correlation)))
    scale = np.sqrt(np.diag(inverse))
    return [np.abs(inverse / np.outer(scale, scale))[upper], np.abs(correlation)[upper], lasso_entries(correlation)]


def judged(real: FloatArray, scores: FloatArray) -> tuple[float, float]:
    return float(roc_auc_score(real, scores)), float(average_precision_score(real, scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=30_000)
    parser.add_argument("--bins", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--out", type=Path, default=Path("beside_mst.csv"))
    options = parser.parse_args()
    for seed in range(options.first_seed, options.first_seed + options.draws):
        for label in (one for one in TABLES if any(text in one for text in options.only)):
            draw = TABLES[label](seed)
            started = time.process_time()
            ours = judged(draw.real, draw.ours())
            seconds = time.process_time() - started
            theirs = [x for one in mst(draw, options.bins, seed) for x in judged(draw.real, one)]
            line = f"{label.replace(',', '')},{seed},{options.bins}," + ",".join(f"{x:.4f}" for x in (*ours, *theirs))
            print(line, f"{seconds:.1f} s", flush=True)
            with options.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
