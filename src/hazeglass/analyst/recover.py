"""A release in, a graph out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass._version import __version__
from hazeglass.analyst.correct import Corrected, correct
from hazeglass.analyst.graph import Graph
from hazeglass.analyst.inference import PairInference, infer
from hazeglass.analyst.moments import covariance_of
from hazeglass.analyst.selection import Choice, ebic, effective_rows, inference_penalty
from hazeglass.analyst.solvers import graphical_lasso
from hazeglass.bundle.reader import Release, load
from hazeglass.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["recover"]

SELECTIONS = ("ebic",)


def recover(
    release: Release | str | Path,
    *,
    alpha: float | None = None,
    select: str = "ebic",
    fdr: float = 0.1,
    solver: str = "auto",
) -> Graph:
    """Recover the graph of conditional dependence from a release.

    Parameters
    ----------
    release : a Release, or the folder of one (it is verified first)
    alpha : the penalty, on the correlation scale; chosen by `select` when None
    select : how to choose the penalty: 'ebic'
    fdr : pairs with a q-value of at most this are selected
    solver : which graphical lasso solver to use for the final fit

    Returns
    -------
    Graph
    """
    if not isinstance(release, Release):
        release = load(release)
    _check(alpha, select, fdr, release)
    corrected = correct(covariance_of(release))
    noisy = corrected.noisy
    if alpha is None:
        choice = ebic(noisy)
    else:
        solution = graphical_lasso(noisy.covariance, alpha, solver=solver)
        choice = Choice("given", float(alpha), solution)
    gentle = inference_penalty(noisy, choice.alpha)
    base = choice.solution if gentle == choice.alpha else graphical_lasso(noisy.covariance, gentle, solver=solver)
    pairs = infer(noisy, base.precision)
    edges = _edge_table(noisy.names, choice.solution.precision, pairs, fdr)
    return Graph(noisy.names, choice.solution.precision, edges, _fit_record(release, corrected, choice, gentle, fdr))


def _check(alpha: float | None, select: str, fdr: float, release: Release) -> None:
    if alpha is not None and not (np.isfinite(alpha) and alpha >= 0):
        raise InputError(f"alpha must be a finite number, at least 0, got {alpha!r}.")
    if select not in SELECTIONS:
        raise InputError(f"select must be one of {', '.join(SELECTIONS)}, got {select!r}.")
    if not 0 < fdr < 1:
        raise InputError(f"fdr must lie strictly between 0 and 1, got {fdr!r}; 0.1 is a common choice.")
    if len(release.columns) < 2:
        raise InputError("a graph needs at least 2 columns, and this release has 1.")


def _edge_table(names: tuple[str, ...], precision: Any, pairs: PairInference, fdr: float) -> pa.Table:
    import pyarrow as pa

    rows, columns = np.triu_indices(len(names), 1)
    return pa.table(
        {
            "source": [names[i] for i in rows],
            "target": [names[j] for j in columns],
            "precision": precision[rows, columns],
            "partial_correlation": pairs.partial_correlation,
            "std_error": pairs.std_error,
            "ci_low": pairs.ci_low,
            "ci_high": pairs.ci_high,
            "p_value": pairs.p_value,
            "q_value": pairs.q_value,
            "selected": pairs.q_value <= fdr,
        }
    )


def _fit_record(release: Release, corrected: Corrected, choice: Choice, gentle: float, fdr: float) -> dict[str, Any]:
    """Everything a reader needs to judge the estimate, as it goes into fit.json."""
    manifest, solution = release.manifest, choice.solution
    return {
        "hazeglass": __version__,
        "title": manifest.title,
        "form": manifest.form,
        "n": manifest.n,
        "unit": manifest.unit.name,
        "unit_readings": manifest.unit.readings,
        "unit_max_rows": manifest.unit.max_rows,
        "mu": manifest.mu,
        "epsilon": manifest.epsilon,
        "delta": manifest.delta,
        "simulation": manifest.simulation,
        "scale": "correlation",
        "standard_deviations": dict(zip(manifest.names, corrected.standard_deviations.tolist(), strict=True)),
        "effective_rows": effective_rows(corrected.noisy),
        "alpha": choice.alpha,
        "alpha_chosen_by": choice.method,
        "path": [
            {"alpha": alpha, "score": score if np.isfinite(score) else None, "edges": count}
            for alpha, score, count in zip(choice.alphas, choice.scores, choice.edges, strict=True)
        ],
        "alpha_for_inference": gentle,
        "fdr": fdr,
        "solver": solution.solver,
        "iterations": solution.n_iter,
        "duality_gap": solution.gap,
        "smallest_eigenvalue": float(np.linalg.eigvalsh(corrected.noisy.covariance)[0]),
        "hidden_columns": list(corrected.hidden),
        "notes": list(corrected.notes),
    }
