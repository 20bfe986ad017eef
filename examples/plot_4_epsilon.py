"""
What does epsilon cost?
=======================

Half a year of a made-up feeder is published again and again with less and less noise. The curves show F1, the
harmonic mean of how many true edges are found and how many found ones are true, when a row or a reading is hidden.
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
# Moments that hide a whole row come in stages and adapt to the data's own scale; moments that hide single readings
# cannot, and pay for wide public bounds. The shade spans two releases.
results = {
    f"{form}, {protects} hidden": [(e, f1(form, protects, e)) for e in EPSILONS for _ in range(2)]
    for form, protects in (("moments", "record"), ("moments", "entry"))
}
ax = plot_privacy_utility(results, utility="F1 of the edges found", ax=plt.subplots(figsize=(6, 4))[1])
ax.set(title="What epsilon costs", ylim=(-0.02, 1.02))
plt.show()
