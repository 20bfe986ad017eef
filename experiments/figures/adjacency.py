"""The 11-bus grid at 20 dB: what each method finds beside the truth, and AUC against epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..accounting import DELTA, printed_epsilon, true_epsilon
from ..cells import Setup
from ..methods import CORRECTED, METHODS, best_over
from ..pictures import OURS, PRINTED, draw_matrix, panels, save
from ..protocol import add_noise, area, corrected_covariance, fit, scores_of
from ..subjects import prepare, true_edges

__all__ = ["curve", "draw", "measure"]

_SHOWN = [name for name in METHODS if name not in ("CLIME", "adaptive lasso")]


def measure(setup: Setup, level: float, shares: list[float]) -> dict[str, Any]:
    """Scores of every pair by every method; the baselines see the released rows as they are, as in the paper."""
    prepared = prepare("grid11", setup.data_dir)
    truth = true_edges(prepared)
    noisy, variance = add_noise(prepared.rows, level, 0, prepared.kind)
    found: dict[str, Any] = {"truth": {"scores": truth.astype(float).tolist(), "auc": 1.0}}
    for name in _SHOWN:
        covariance = corrected_covariance(noisy, variance if name in CORRECTED else 0.0)
        scores, value, share = best_over(name, covariance, len(noisy), truth, shares)
        found[name] = {"scores": [float(s) for s in scores], "auc": value, "share": share}
    return found


def curve(setup: Setup, levels: list[float], runs: int) -> list[dict[str, float]]:
    """AUC at each level with the paper's epsilon and the true one for a record."""
    prepared = prepare("grid11", setup.data_dir)
    truth = true_edges(prepared)
    records = []
    for level in levels:
        values = []
        for run in range(runs):
            noisy, variance = add_noise(prepared.rows, level, run, prepared.kind)
            values.append(area(truth, scores_of(fit(corrected_covariance(noisy, variance), prepared.subject.alpha))))
        records.append(
            {
                "level": level,
                "auc": float(np.mean(values)),
                "sd": float(np.std(values)),
                "printed": printed_epsilon(prepared.rows, level),
                "true_record": true_epsilon(prepared.rows, level, prepared.kind, "record"),
            }
        )
    return records


def draw(found: dict[str, Any], points: list[dict[str, float]], path: Path) -> None:
    """Matrices from left to right, then the curve."""
    figure, axes = panels(1, len(found) + 1, (2.4 * (len(found) + 1), 3.0))
    for place, (name, answer) in zip(axes[0], found.items(), strict=False):
        scores = np.array(answer["scores"])
        nodes = int((1 + np.sqrt(1 + 8 * len(scores))) / 2)
        matrix = np.zeros((nodes, nodes))
        matrix[np.triu_indices(nodes, 1)] = scores
        draw_matrix(place, matrix + matrix.T, name if name == "truth" else f"{name}\nAUC {answer['auc']:.2f}")
    place = axes[0, -1]
    for key, colour, label in (
        ("printed", PRINTED, "as the paper counts"),
        ("true_record", OURS, f"true, record, delta {DELTA:g}"),
    ):
        place.errorbar(
            [p[key] for p in points],
            [p["auc"] for p in points],
            yerr=[p["sd"] for p in points],
            color=colour,
            marker="o",
            markersize=3,
            linewidth=1,
            label=label,
        )
    place.set_xscale("log")
    place.set_xlabel("epsilon", fontsize=8)
    place.set_ylabel("AUC", fontsize=8)
    place.tick_params(labelsize=7)
    place.legend(fontsize=6.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    save(figure, path)
