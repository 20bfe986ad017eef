"""
How much integer noise can weekly counts bear?
==============================================

Chickenpox cases in 20 Hungarian counties, 522 weeks. Counts stay counts: a table release with discrete Gaussian noise
holds integers. Its noise must cover the whole public range of a cell. Moments that hide the same cells are noised once
per pair of counties instead of once per week and county. Which counties border each other is the truth to be found.

Needs the data set: ``hazeglass datasets --fetch chickenpox``, or HAZEGLASS_DATA set to a folder that holds it.
"""

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt

import hazeglass as hg
from hazeglass.present.plots import plot_privacy_utility

EPSILONS = (1, 3, 10, 30, 100)


def plan(counts, form, epsilon):
    column = {"kind": "integer", "lower": 0, "upper": 500}  # no county reports more in a week; public knowledge
    column |= {"noise": "discrete"} if form == "table" else {"transform": "sqrt"}
    return hg.Plan.from_dict(
        {
            "release": {"title": "Chickenpox", "form": form, "protects": "entry"},
            "budget": {"epsilon": float(epsilon), "delta": 1e-6},
            "columns": [{"name": n, **column} for n in counts.columns],
        }
    )


def area(counts, form, epsilon):
    """How well the recovered partial correlations tell borders from other pairs."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes about hidden columns: the picture shows what they mean
        release = hg.publish(counts.to_arrow(), plan(counts, form, epsilon), Path(folder) / "release")
        return hg.recover(release).auc(counts.truth)


def draw(counts):
    results = {
        f"{form}, a cell hidden": [(e, area(counts, form, e)) for e in EPSILONS for _ in range(2)]
        for form in ("moments", "table")
    }
    ax = plot_privacy_utility(results, ax=plt.subplots(figsize=(6, 4))[1])
    ax.axhline(0.5, color="grey", linewidth=0.8, linestyle=":")
    ax.set_title("Borders between counties, found in noisy counts (0.5 is chance)")


# %%
# Two releases for each point; the shade spans them.
try:
    draw(hg.datasets.load_chickenpox())
except hg.errors.DataError as missing:
    print(f"skipped: {missing}")
plt.show()
