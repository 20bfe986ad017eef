"""Run by the environment of dpmm, not by ours: a table of level numbers in, as many synthetic rows of one promise out.

    .venv-dpmm/bin/python benchmarks/tools/mst_table.py rows.csv sizes.json made.csv epsilon delta seed [TOOL [STEPS]]

TOOL is MST or AIM. sizes.json has the number of levels of every column, which are public. Prints the processor seconds
it took.
"""

import json
import sys
import time
from pathlib import Path

import pandas as pd
from dpmm import pipelines


def main() -> None:
    source, sizes, target, epsilon, delta, seed, *tool = sys.argv[1:]
    rows, domain = pd.read_csv(source), json.loads(Path(sizes).read_text())
    started = time.process_time()
    pipeline = getattr(pipelines, f"{(tool or ['MST'])[0]}Pipeline")
    steps = {"gen_kwargs": {"n_iters": int(tool[1])}} if len(tool) > 1 else {}
    model = pipeline(epsilon=float(epsilon), delta=float(delta), disable_processing=True, n_jobs=1, **steps)
    model.fit(rows, domain, random_state=int(seed))
    made = model.generate(n_records=len(rows), random_state=int(seed))
    made[list(rows.columns)].to_csv(target, index=False)
    print(time.process_time() - started)


if __name__ == "__main__":
    main()
