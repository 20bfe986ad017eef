"""
How much integer noise can weekly counts bear?
==============================================

Chickenpox cases in 20 Hungarian counties, 522 weeks. Counts stay counts: a table with discrete Gaussian noise holds
integers. Hiding one county's one week takes noise as wide as the public range of a cell, so single cells say nothing.
What many cells say together survives: here the season, as the mean over ten years of each four weeks.

Needs the data set: ``hazeglass datasets --fetch chickenpox``, or HAZEGLASS_DATA set to a folder that holds it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hazeglass as hg


def published(counts, epsilon):
    """The whole table with noise on every cell, as integers."""
    column = {"kind": "integer", "lower": 0, "upper": 500, "noise": "discrete"}  # bounds: a guess made without the data
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "Chickenpox", "form": "table", "protects": "entry"},
            "budget": {"epsilon": float(epsilon), "delta": 1e-6},
            "columns": [{"name": n, **column} for n in counts.columns],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        table = hg.publish(counts.to_arrow(), plan, Path(folder) / "release").table()
    return np.column_stack([table[n].to_numpy() for n in counts.columns])


def season(rows):
    """Cases in the whole country, per week, in each of 13 stretches of four weeks."""
    weeks = rows[: 52 * 10].sum(axis=1).reshape(10, 13, 4)
    return weeks.mean(axis=(0, 2))


def draw(counts):
    _, ax = plt.subplots(figsize=(6, 4))
    ax.plot(season(counts.data), "k-", label="as counted")
    for epsilon, style in ((10, "--s"), (3, ":^")):
        noisy = published(counts, epsilon)
        spread = np.std(noisy - counts.data)
        ax.plot(season(noisy), style, label=f"epsilon {epsilon}: noise of {spread:.0f} on every cell")
    ax.set(xlabel="four weeks, counted from January", ylabel="cases a week in all counties", ylim=(0, None))
    ax.legend(frameon=False)
    ax.set_title("A cell hidden, the season seen")


# %%
# A county has a few dozen cases a week; the noise on each cell is many times that.
try:
    draw(hg.datasets.load_chickenpox())
except hg.errors.DataError as missing:
    print(f"skipped: {missing}")
plt.show()
