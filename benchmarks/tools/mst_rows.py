"""Run by the environment of dpmm, not by ours: rows in, as many MST synthetic rows of the same promise out.

    .venv-dpmm/bin/python benchmarks/tools/mst_rows.py rows.npy made.npy epsilon delta seed

Columns are cut into ten bins of equal width between the public bounds, which costs MST no budget.
"""

import sys

import numpy as np
import pandas as pd
from dpmm.pipelines import MSTPipeline

BINS, BOUND = 10, 5.0
STEPS = 1000  # of its mirror descent, for speed; its default is 10,000


def main() -> None:
    source, target, epsilon, delta, seed = sys.argv[1:]
    rows = np.load(source)
    names = [f"x{k}" for k in range(rows.shape[1])]
    cells = np.clip(((rows + BOUND) / (2 * BOUND) * BINS).astype(int), 0, BINS - 1)
    model = MSTPipeline(
        epsilon=float(epsilon), delta=float(delta), disable_processing=True, n_jobs=1, gen_kwargs={"n_iters": STEPS}
    )
    model.fit(pd.DataFrame(cells, columns=names), dict.fromkeys(names, BINS), random_state=int(seed))
    made = model.generate(n_records=min(len(rows), 20_000), random_state=int(seed))
    np.save(target, (made[names].to_numpy(dtype=float) + 0.5) / BINS * 2 * BOUND - BOUND)


if __name__ == "__main__":
    main()
