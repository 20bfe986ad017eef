"""
Which answers on a clinic's form hang together?
===============================================

A form has numbers, choices and boxes to tick: an age, a ward, how strong the pain is, whether someone smokes, how many
days they stay. The plan says which kind each is and lists the choices, which are public. Here the rows are made up, so
that the truth is known: age goes with smoking and with the length of the stay, the ward with the pain, the pain with
the stay. Age and pain are joined as well, because who knows how long somebody stayed learns of one from the other.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import hazeglass as hg

ROWS = 20_000
PAIN, WARDS = ["none", "mild", "strong", "unbearable"], ["surgery", "heart", "children"]


def forms(rng):
    """Made-up forms, filled in by people who follow the rules above."""
    age = np.clip(rng.gamma(9.0, 6.0, ROWS), 0, 110)
    ward = rng.choice(3, ROWS, p=[0.5, 0.3, 0.2])
    feeling = np.array([1.0, -0.3, 0.0])[ward] + rng.normal(size=ROWS)
    pain = np.digitize(feeling, [-0.8, 0.6, 1.6])
    smokes = rng.random(ROWS) < 1 / (1 + np.exp((age - 45) / 12))
    days = rng.poisson(np.exp(0.8 + 0.012 * age + 0.35 * feeling))
    words = {"ward": np.array(WARDS)[ward], "pain": np.array(PAIN)[pain]}
    return pd.DataFrame({"age": age, **words, "smokes": smokes, "days": np.minimum(days, 60)})


plan = hg.Plan(
    title="Forms",
    form="moments",
    protects="record",
    epsilon=1.0,
    delta=1e-6,
    columns=[
        hg.Column("age", "continuous", lower=0, upper=110),
        hg.Column("ward", "categorical", levels=WARDS),
        hg.Column("pain", "ordinal", levels=PAIN),
        hg.Column("smokes", "binary"),
        hg.Column("days", "integer", lower=0, upper=60),
    ],
)

# %%
# The graph joins what depends directly on each other, whatever kinds the two are.
with tempfile.TemporaryDirectory() as folder:
    graph = hg.recover(hg.publish(forms(np.random.default_rng(7)), plan, Path(folder) / "release"))
graph.plot()
plt.show()
