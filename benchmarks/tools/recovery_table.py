"""Tables and a picture from the results of benchmarks/recovery.py.

python benchmarks/tools/recovery_table.py results.csv [more.csv ...] --markdown tables.md --picture recovery.png
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

Cell = tuple[str, int, int, float]
Results = dict[Cell, dict[str, list[tuple[float, float]]]]
OURS = ("moments (ours)", "table (ours)")


def read(paths: list[Path]) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    for path in paths:
        with path.open(newline="") as file:
            for family, p, n, epsilon, method, _seed, precision, auc, _seconds in csv.reader(file):
                cell = (family, int(p), int(n), float(epsilon))
                results[cell][method].append((float(precision), float(auc)))
    return results


def mean_and_error(values: list[tuple[float, float]], which: int) -> tuple[float, float]:
    chosen = np.array([value[which] for value in values])
    return float(chosen.mean()), float(chosen.std(ddof=1) / np.sqrt(len(chosen))) if len(chosen) > 1 else 0.0


def table(results: Results, which: int) -> list[str]:
    methods = list(dict.fromkeys(method for cell in results.values() for method in cell))
    lines = [f"| graph | p | n | epsilon | {' | '.join(methods)} |", "|---" * (4 + len(methods)) + "|"]
    for cell in sorted(results, key=lambda key: (key[1], key[2], key[0], key[3])):
        family, p, n, epsilon = cell
        numbers = []
        for method in methods:
            values = results[cell].get(method)
            numbers.append("" if not values else "{:.3f} ({:.3f})".format(*mean_and_error(values, which)))
        lines.append(f"| {family} | {p} | {n} | {epsilon:g} | {' | '.join(numbers)} |")
    return lines


def misses(results: Results, which: int) -> list[str]:
    """Cells where the better of ours is more than one standard error (the larger of the two) below the best."""
    found = []
    for cell, methods in results.items():
        scores = {method: mean_and_error(values, which) for method, values in methods.items()}
        best = max(scores, key=lambda method: scores[method][0])
        ours = max((method for method in OURS if method in scores), key=lambda method: scores[method][0])
        gap, error = scores[best][0] - scores[ours][0], max(scores[best][1], scores[ours][1])
        if best not in OURS and gap > error:
            found.append(
                f"{cell}: {best} {scores[best][0]:.3f}, {ours} {scores[ours][0]:.3f}, standard error {error:.3f}"
            )
    return found


def draw(results: Results, target: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    sizes = sorted({cell[1] for cell in results})
    rows = sorted({cell[2] for cell in results})
    epsilons = sorted({cell[3] for cell in results})
    methods = list(dict.fromkeys(method for cell in results.values() for method in cell))
    figure, axes = plt.subplots(
        len(sizes), len(rows), figsize=(3.4 * len(rows), 2.9 * len(sizes)), sharex=True, sharey=True, squeeze=False
    )
    for i, p in enumerate(sizes):
        for j, n in enumerate(rows):
            for k, method in enumerate(methods):
                _line(axes[i, j], results, (p, n), epsilons, method, k)
            axes[i, j].set_title(f"{p} columns, {n:,} rows", fontsize=10)
            axes[i, j].set_xscale("log", base=2)
            axes[i, j].set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axes[i, j].set_ylim(0, 1.03)
            axes[i, j].grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("epsilon (record, delta = 1e-6)")
    for axis in axes[:, 0]:
        axis.set_ylabel("average precision")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(target, dpi=130)


def _line(axis: object, results: Results, size: tuple[int, int], epsilons: list[float], method: str, k: int) -> None:
    """Mean over graph families and seeds, with standard errors."""
    points = []
    for epsilon in epsilons:
        cells = [methods for cell, methods in results.items() if cell[1:] == (*size, epsilon)]
        values = [value for methods in cells for value in methods.get(method, [])]
        if values:
            points.append((epsilon, *mean_and_error(values, 0)))
    if points:
        x, y, error = zip(*points, strict=True)
        style = {"linewidth": 2.4, "zorder": 5} if method in OURS else {"linewidth": 1.2}
        axis.errorbar(x, y, error, label=method, marker="osv^D*X"[k % 7], markersize=4, capsize=2, **style)  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    results = read(arguments.results)
    lines = ["Average precision", "", *table(results, 0), "", "Area under the ROC curve", "", *table(results, 1)]
    text = "\n".join(lines) + "\n"
    if arguments.markdown:
        arguments.markdown.write_text(text)
    else:
        print(text)
    for which, name in enumerate(("average precision", "AUC")):
        for line in misses(results, which):
            print(f"{name}: ours is not best in {line}")
    if arguments.picture:
        draw(results, arguments.picture)


if __name__ == "__main__":
    main()
