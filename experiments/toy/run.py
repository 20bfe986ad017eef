"""The appendix's 4 x 4 example to its printed digits; Theorem 2 on random graphs; a graph whose zeros stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cells import Cell, Results, Setup, read_recipe
from ..pictures import draw_matrix, panels, save
from ..sections import Picture, Section, Table, read_expected

TITLE = "The 4 x 4 example and Theorem 2"
Floats = npt.NDArray[np.float64]
_ZERO = 1e-12


def cells(setup: Setup) -> list[Cell]:
    """All of it is one short computation."""
    return [Cell("toy/all", "toy.run:measure")]


def measure(setup: Setup) -> dict[str, Any]:
    """The perturbed precisions, and how many zeros of random connected graphs survive."""
    recipe = read_recipe(__file__, setup)
    variance = recipe["noise_variance"]
    counts = [_zeros_kept(seed) for seed in range(recipe["random_graphs"])]
    counterexample = np.array(recipe["counterexample"])
    return {
        "perturbed": with_noise(np.array(recipe["precision"]), variance).tolist(),
        "counterexample": with_noise(counterexample, variance).tolist(),
        "counterexample_limit": float(1 / np.linalg.norm(counterexample, 2)),
        "zeros": sum(before for before, _ in counts),
        "zeros_kept": sum(after for _, after in counts),
    }


def with_noise(precision: Floats, variance: float) -> Floats:
    """(Sigma + variance I)^-1."""
    covariance = np.linalg.inv(precision)
    return np.asarray(np.linalg.inv(covariance + variance * np.eye(len(precision))))


def _zeros_kept(seed: int) -> tuple[int, int]:
    """Zeros of a random connected graph's precision, and those still zero after noise below the theorem's limit."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(4, 13))
    precision = np.eye(nodes)
    for node in range(1, nodes):  # a random tree keeps it connected
        other = int(rng.integers(node))
        precision[node, other] = precision[other, node] = rng.uniform(0.2, 0.4) * rng.choice([-1, 1])
    precision += np.diag(np.abs(precision - np.diag(precision.diagonal())).sum(axis=1))
    variance = 0.9 / np.linalg.norm(precision, 2)
    zeros = precision[np.triu_indices(nodes, 1)] == 0
    after = np.abs(with_noise(precision, float(variance)))[np.triu_indices(nodes, 1)]
    return int(zeros.sum()), int((zeros & (after < _ZERO)).sum())


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """Digits beside digits, and the two small matrices before and after."""
    recipe = read_recipe(__file__, setup)
    found = results["toy/all"]
    perturbed = np.array(found["perturbed"])
    records = [_digit_record(row, perturbed) for row in read_expected(__file__)]
    kept = [
        {
            "graph": "signed 4-cycle",
            "zero": f"({i + 1}, {j + 1})",
            "after_noise": float(found["counterexample"][i][j]),
            "theorem_says": "not 0",
        }
        for i, j in ((0, 2), (1, 3))
    ]
    _draw(recipe, found, folder / "toy.png")
    same = sum(record["verdict"] == "same" for record in records)
    text = [
        f"{same} of the {len(records)} printed entries appear to their printed digits.",
        f"Theorem 2 on {recipe['random_graphs']} random trees with noise below its limit: of {found['zeros']} zeros "
        f"{found['zeros_kept']} stay zero. It is generic, not universal: in a cycle of four whose last link has the "
        f"other sign the two paths cancel, and both zeros stay (noise variance {recipe['noise_variance']}, the "
        f"theorem's limit is {found['counterexample_limit']:.3f}).",
    ]
    tables = [
        Table("toy", "The perturbed precision, ours and printed", records, tone="verdict"),
        Table("counterexample", "Zeros the theorem says must vanish", kept),
    ]
    caption = "Precisions without noise and with noise of variance 0.3: the appendix's example and the counterexample."
    return Section("toy", TITLE, text, tables, [Picture("toy.png", caption)])


def _digit_record(row: dict[str, Any], perturbed: Floats) -> dict[str, Any]:
    i, j = int(row["row"]), int(row["column"])
    ours, printed = float(perturbed[i - 1, j - 1]), float(row["printed"])
    digits = 2 if abs(printed) >= 0.01 else 4
    agrees = abs(ours - printed) <= 0.5 * 10.0**-digits
    return {
        "entry": f"({i}, {j})",
        "ours": ours,
        "printed": printed,
        "difference": ours - printed,
        "verdict": "same" if agrees else "differs",
    }


def _draw(recipe: dict[str, Any], found: dict[str, Any], path: Path) -> None:
    figure, axes = panels(1, 4, (10.0, 2.8))
    shown = (
        ("example", recipe["precision"]),
        ("example, with noise", found["perturbed"]),
        ("signed 4-cycle", recipe["counterexample"]),
        ("signed 4-cycle, with noise", found["counterexample"]),
    )
    for place, (title, matrix) in zip(axes[0], shown, strict=True):
        values = np.array(matrix)
        draw_matrix(place, values, title)
        for i, j in np.ndindex(values.shape):
            text = "0" if abs(values[i, j]) < _ZERO else f"{values[i, j]:.2g}"
            dark = i != j and abs(values[i, j]) > 0.6 * np.abs(values - np.diag(values.diagonal())).max()
            place.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
    save(figure, path)
