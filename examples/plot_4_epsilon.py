"""
What does epsilon cost?
=======================

Half a year of a made-up feeder is published again and again with less and less noise. The curves show how many of the
true edges are found, and how many found ones are true (F1, their harmonic mean), when a row or a single reading is hidden.
"""

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt

import hazeglass as hg
from hazeglass.present.plots import plot_privacy_utility

EPSILONS = (0.1, 0.3, 1, 3, 10)
feeder = hg.datasets.make_feeder(days=180)


def f1(form, protects, epsilon):
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "Feeder", "form": form, "protects": protects},
            "budget": {"epsilon": float(epsilon), "delta": 1e-6},
            "columns": [{"name": n, "kind": "continuous", "lower": -10.0, "upper": 10.0} for n in feeder.columns],
        }
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hg.recover(hg.publish(feeder.to_arrow(), plan, Path(folder) / "release")).scores(feeder.truth).f1


# %%
# Moments that hide a whole row are nearly free from epsilon 1 on. One-stage moments that hide single readings cannot
# adapt to the data's own scale, and the noisy table sees nothing at any of these budgets.
results = {
    f"{form}, {protects} hidden": [(e, f1(form, protects, e)) for e in EPSILONS for _ in range(2)]
    for form, protects in (("moments", "record"), ("moments", "entry"), ("table", "record"))
}
ax = plot_privacy_utility(results, utility="F1 of the edges found", ax=plt.subplots(figsize=(6, 4))[1])
ax.set(title="What epsilon costs", ylim=(-0.02, 1.02))
plt.show()
