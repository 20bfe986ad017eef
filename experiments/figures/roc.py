"""ROC curves: ours and the graphical lasso that ignores the noise, on every data set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..cells import Setup
from ..pictures import panels, save
from ..protocol import add_noise, area, corrected_covariance, fit, scores_of
from ..sections import decibels, level_name
from ..subjects import SUBJECTS, prepare, true_edges

__all__ = ["draw", "measure"]

_POINTS = 101
_LOOKS = (("#14507a", "-"), ("#3c8dbc", "--"), ("#9ccbe5", "-."), ("#d9822b", ":"))


def measure(setup: Setup, name: str, levels: list[float | str]) -> dict[str, dict[str, Any]]:
    """One curve per noise level, and the uncorrected one at 20 dB."""
    prepared = prepare(name, setup.data_dir)
    truth, alpha = true_edges(prepared), prepared.subject.alpha
    found = {}
    for level in levels:
        noisy, variance = add_noise(prepared.rows, decibels(level), 0, prepared.kind)
        found[f"ours, {level_name(level)}"] = _curve(
            truth, scores_of(fit(corrected_covariance(noisy, variance), alpha))
        )
        if level == 20:
            found["vanilla, 20 dB"] = _curve(truth, scores_of(fit(corrected_covariance(noisy), alpha)))
    return found


def _curve(truth: Any, scores: Any) -> dict[str, Any]:
    from sklearn.metrics import roc_curve

    wrong, right, _ = roc_curve(truth, scores)
    rates = np.linspace(0, 1, _POINTS)
    return {"right": [round(float(r), 4) for r in np.interp(rates, wrong, right)], "auc": area(truth, scores)}


def draw(found: Mapping[str, dict[str, dict[str, Any]]], path: Path) -> None:
    """One panel per data set."""
    rows = math.ceil(len(found) / 4)
    figure, axes = panels(rows, 4, (12.0, 3.1 * rows))
    for place in axes.flat[len(found) :]:
        place.set_axis_off()
    for place, (name, curves) in zip(axes.flat, found.items(), strict=False):
        place.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=0.8)
        ours = [label for label in curves if label.startswith("ours")]
        for label, (colour, style) in zip([*ours, "vanilla, 20 dB"], (*_LOOKS[: len(ours)], _LOOKS[3]), strict=True):
            rates = np.linspace(0, 1, _POINTS)
            legend = f"{label} ({curves[label]['auc']:.2f})"
            place.plot(rates, curves[label]["right"], style, color=colour, linewidth=1.4, label=legend)
        place.legend(fontsize=6.5, frameon=False, loc="lower right")
        place.set_title(SUBJECTS[name].title, fontsize=9)
        place.set_xlabel("false-positive rate", fontsize=7)
        place.set_ylabel("true-positive rate", fontsize=7)
        place.tick_params(labelsize=6)
    save(figure, path)
