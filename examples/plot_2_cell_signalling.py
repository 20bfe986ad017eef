"""
Can a signalling network be seen through epsilon 1?
===================================================

7,466 single cells, 11 proteins, and a network that biologists agree upon. Every cell is hidden at epsilon 1. The public
bounds are the cytometer's four decades, and nothing else about the data is known in advance.

Needs the data set: ``hazeglass datasets --fetch cell-signalling``, or HAZEGLASS_DATA set to a folder that holds it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hazeglass as hg
from hazeglass.present.plots import plot_roc


def published(cells, form):
    """The graph recovered from one release of this form at epsilon 1."""
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "Cell signalling", "form": form, "protects": "record"},
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "columns": [
                {"name": n, "kind": "continuous", "lower": 1.0, "upper": 1e4, "transform": "log"} for n in cells.columns
            ],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        return hg.recover(hg.publish(cells.to_arrow(), plan, Path(folder) / "release"))


def raw_strength(cells):
    """Partial correlations of the rows themselves, which the publisher alone could compute."""
    precision = np.linalg.inv(np.cov(np.log(np.clip(cells.data, 1.0, 1e4)), rowvar=False))
    scale = np.sqrt(np.diag(precision))
    return np.abs(precision / np.outer(scale, scale))


def draw(cells):
    truth = cells.truth_matrix("undirected19")
    upper = np.triu_indices(len(cells.columns), 1)
    scores = {
        "raw rows, no privacy": raw_strength(cells)[upper],
        "moments, epsilon 1": published(cells, "moments").strength()[upper],
        "noisy table, epsilon 1": published(cells, "table").strength()[upper],
    }
    plot_roc(truth[upper], scores, ax=plt.subplots(figsize=(5, 5))[1])
    plt.title("19 consensus edges, each cell hidden")


# %%
# Moments stay near the raw rows; a noisy table at the same promise is little better than a coin (area in brackets).
try:
    draw(hg.datasets.load_cell_signalling())
except hg.errors.DataError as missing:
    print(f"skipped: {missing}")
plt.show()
