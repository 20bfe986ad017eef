"""How long recovery takes once everything is imported and compiled: 50 columns, 5000 rows, the defaults and stars.

Goals: under 1 s with ebic (20 penalties, inference included), under 10 s with stars (50 subsamples).

    python benchmarks/recover_time.py
"""

from __future__ import annotations

import time
import warnings

import numpy as np

import hazeglass as hg
from graphs import make_plan, precision_of, simulate, standardised_rows

BUDGETS = {"moments": 2.0, "table": 60.0}  # mu at which the noise is about as large as the sampling error, or less


def main() -> None:
    rng = np.random.default_rng(0)
    rows = standardised_rows(precision_of("random", 50, rng), 5000, rng)
    for form, mu in BUDGETS.items():
        release = simulate(rows, make_plan(form, 50, mu=mu), seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hg.recover(release)
            for select in ("ebic", "stars"):
                wall, cpu = time.perf_counter(), time.process_time()
                hg.recover(release, select=select)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                print(f"{form:<8} {select:<6} {wall:6.2f} s, {cpu:6.2f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
