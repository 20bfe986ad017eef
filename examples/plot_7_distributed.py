"""
Does it matter who does the work?
=================================

The rows lie in several Parquet files. One thread, several threads or a dask cluster sum them up; a seeded run (a
simulation, which promises nothing) shows whether the answer depends on who did it. It must not: sums are integers.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

import hazeglass as hg

folder = tempfile.TemporaryDirectory()
here = Path(folder.name)
feeder = hg.datasets.make_feeder(days=180)
rows = feeder.to_arrow()
for part in range(6):
    pq.write_table(rows.slice(part * 2880, 2880), here / f"month-{part}.parquet")
plan = hg.Plan.from_dict(
    {
        "release": {"title": "Six months, six files", "form": "moments", "protects": "record"},
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "columns": [{"name": n, "kind": "continuous", "lower": -10.0, "upper": 10.0} for n in feeder.columns],
    }
)


def moments(engine):
    """The noisy second moments of a release made by this engine."""
    release = hg.publish(str(here / "month-*.parquet"), plan, here / engine, engine=engine, simulate_seed=1)
    return release.moments()[-1].second


# %%
# A dask client of this session is used as it is; ``processes=False`` keeps this example small.
engines = ["serial", "threads"]
try:
    from distributed import Client

    client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None)
    engines.append("dask")
except ImportError:
    client = None
    print("dask is not installed: pip install 'hazeglass[dask]'")
found = {engine: moments(engine) for engine in engines}
if client is not None:
    client.close()

# %%
# The noisy second moments, and how far each engine's are from the first one's: not at all.
fig, axes = plt.subplots(1, len(found), figsize=(3.2 * len(found), 3.6), constrained_layout=True)
reference = found["serial"]
for ax, (engine, second) in zip(axes, found.items(), strict=True):
    ax.imshow(second, cmap="RdBu_r", vmin=-1, vmax=1)
    different = np.count_nonzero(second != reference)
    ax.set(title=f"{engine}:\n{different} of {second.size} numbers differ", xticks=[], yticks=[])
plt.show()
