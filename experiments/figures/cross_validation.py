"""The penalty by cross-validation: squared error between fitted and held-out covariance, and the chosen point."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hazeglass.analyst.estimators import CorrectedGraphicalLassoCV
from hazeglass.errors import HazeglassWarning

from ..cells import Setup
from ..pictures import OURS, WORSE, panels, save
from ..protocol import add_noise, edges_of
from ..subjects import SUBJECTS, prepare

__all__ = ["draw", "measure"]


def measure(setup: Setup, name: str, level: float, folds: int) -> dict[str, Any]:
    """The curve of the product's own cross-validation on noisy rows."""
    prepared = prepare(name, setup.data_dir)
    noisy, variance = add_noise(prepared.rows, level, 0, prepared.kind)
    estimator = CorrectedGraphicalLassoCV(noise_cov=variance, scoring="mse", cv=folds, n_jobs=1)
    with warnings.catch_warnings():
        # It may choose the smallest penalty there is; the figure shows where it chose.
        warnings.simplefilter("ignore", HazeglassWarning)
        estimator.fit(noisy)
    return {
        "alphas": estimator.cv_results_["alphas"].tolist(),
        "errors": (-estimator.cv_results_["mean_test_score"]).tolist(),
        "chosen": float(estimator.alpha_),
        "edges": int(edges_of(estimator.precision_).sum()),
    }


def draw(found: Mapping[str, dict[str, Any]], level: float, path: Path) -> None:
    """One curve per data set, the chosen penalty circled."""
    figure, axes = panels(1, len(found), (4.0 * len(found), 3.0))
    for place, (name, curve) in zip(axes[0], found.items(), strict=True):
        place.plot(curve["alphas"], curve["errors"], color=OURS, marker="o", markersize=3)
        error = curve["errors"][curve["alphas"].index(curve["chosen"])]
        place.scatter([curve["chosen"]], [error], s=90, facecolor="none", edgecolor=WORSE, linewidth=1.6, zorder=3)
        place.set(xscale="log", yscale="log", xlabel="penalty", ylabel="squared error, held out")
        place.set_title(f"{SUBJECTS[name].title}, {level:g} dB: {curve['edges']} edges", fontsize=9)
    save(figure, path)
