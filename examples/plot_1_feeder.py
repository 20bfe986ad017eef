"""
Which buses of a feeder hang together?
======================================

A utility holds a year of voltage changes at twelve buses, one row each quarter of an hour. It publishes noisy moments
that hide every row at epsilon 1. Somebody who never saw a row draws the map of the feeder.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import hazeglass as hg

feeder = hg.datasets.make_feeder()
plan = hg.Plan.from_dict(
    {
        "release": {"title": "Feeder with 12 buses", "form": "moments", "protects": "record"},
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "columns": [{"name": n, "kind": "continuous", "lower": -10.0, "upper": 10.0} for n in feeder.columns],
    }
)
folder = tempfile.TemporaryDirectory()
release = hg.publish(feeder.to_arrow(), plan, Path(folder.name) / "release")

# %%
# The analyst starts here, with the folder and nothing else.
graph = hg.recover(Path(folder.name) / "release")
lines = len(graph.pairs & feeder.lines)
print(f"{len(graph.pairs)} edges; {lines} of the {len(feeder.lines)} power lines are among them")
print(f"{len(graph.pairs - feeder.truth)} edges are wrong, AUC {graph.auc(feeder.truth):.2f}")

# %%
# Lines of the grid and pairs two lines apart: both are in the precision matrix of a radial feeder's voltages.
graph.plot(ax=plt.subplots(figsize=(7, 6))[1])
plt.title("Recovered at epsilon 1 (solid: positive, broken: negative)")
plt.show()
