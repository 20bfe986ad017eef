"""A release in, a graph out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass._version import __version__
from hazeglass.analyst.blas import single_threaded_if_small
from hazeglass.analyst.correct import Corrected, correct
from hazeglass.analyst.curved.blocks import FeatureBlocks, blocks_of_moments
from hazeglass.analyst.curved.recover import recover_curved
from hazeglass.analyst.graph import Graph
from hazeglass.analyst.inference import PairInference, infer
from hazeglass.analyst.moments import NoisyCovariance, covariance_of, rows_of
from hazeglass.analyst.penalties import Repair, Setting, entry_weights
from hazeglass.analyst.selection import (
    Choice,
    FoldSource,
    cross_validate,
    ebic,
    effective_rows,
    inference_penalty,
    stars,
)
from hazeglass.bundle.reader import Release, load
from hazeglass.errors import InputError, RepairWarning

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["recover"]

SELECTIONS = ("ebic", "stars", "cv", "mse")


def recover(
    release: Release | str | Path,
    *,
    alpha: float | None = None,
    select: str = "ebic",
    fdr: float = 0.1,
    solver: str = "auto",
    weights: str = "noise",
    dependence: str | None = None,
    n_jobs: int | None = None,
) -> Graph:
    """Recover the graph of conditional dependence from a release.

    Everything is computed from the release, so none of it costs privacy.

    Parameters
    ----------
    release : a Release, or the folder of one (it is verified first)
    alpha : the penalty, on the correlation scale; chosen by `select` when None
    select : how to choose the penalty: 'ebic', 'stars' (stability), and for table releases also 'cv' (held-out
        likelihood) and 'mse' (the paper's squared error)
    fdr : pairs with a q-value of at most this are selected
    solver : which graphical lasso solver to use
    weights : 'noise' lets each pair pay in proportion to the noise in its covariance, 'uniform' all the same
    dependence : 'linear', or 'curved' for dependence of any smooth shape; None for what the release was made for.
        Curved graphs have two more columns: strength, and shape ('linear' or 'curved')
    n_jobs : threads for stars, cv and mse

    Returns
    -------
    Graph
    """
    if not isinstance(release, Release):
        release = load(release)
    _check(alpha, select, fdr, release)
    with single_threaded_if_small(len(release.columns)):
        if _wants_curves(release, dependence, select):
            return recover_curved(
                _feature_blocks(release), _release_record(release), alpha=alpha, fdr=fdr, weights=weights
            )
        return _recover(release, alpha, select, fdr, solver, weights, n_jobs)


def _recover(
    release: Release,
    alpha: float | None,
    select: str,
    fdr: float,
    solver: str,
    weights: str,
    n_jobs: int | None,
) -> Graph:
    corrected = correct(covariance_of(release))
    noisy = corrected.noisy
    setting = Setting(entry_weights(noisy, weights), solver=solver)
    if alpha is None:
        choice, moved = _choose(release, corrected, setting, select, n_jobs), 0.0
    else:
        choice, moved = _given(noisy, setting, float(alpha))
    gentle = inference_penalty(noisy, setting, choice.alpha)
    base = choice.solution if gentle == choice.alpha else setting.fit(noisy.covariance, gentle, choice.solution)
    pairs = infer(noisy, base.precision)
    edges = _edge_table(noisy.names, choice, pairs, fdr)
    record = _fit_record(release, corrected, choice, gentle, moved, weights, fdr)
    return Graph(noisy.names, choice.solution.precision, edges, record)


def _choose(release: Release, corrected: Corrected, setting: Setting, select: str, n_jobs: int | None) -> Choice:
    if select == "ebic":
        return ebic(corrected.noisy, setting)
    source = None
    if release.form == "table":
        rows, noise = rows_of(release)
        source = FoldSource(rows, noise, corrected.standard_deviations)
    if select == "stars":
        return stars(corrected.noisy, setting, source, n_jobs=n_jobs)
    if source is None:
        raise InputError(
            f"select = {select!r} needs rows to hold out, and a {release.form} release has none of its own. "
            "Use 'ebic' or 'stars'."
        )
    return cross_validate(corrected.noisy, setting, source, select, n_jobs=n_jobs)


def _given(noisy: NoisyCovariance, setting: Setting, alpha: float) -> tuple[Choice, float]:
    """Fit at the user's penalty; where that is too small for an indefinite covariance, move it as little as needed."""
    if alpha == 0:
        return Choice("given", alpha, setting.fit(noisy.covariance, alpha)), 0.0
    repair = Repair(noisy.covariance, setting)
    moved = repair.size(alpha)
    if moved > 0:
        warnings.warn(
            f"no estimate exists at alpha = {alpha:.3g}: the corrected covariance is indefinite, d(S) = "
            f"{setting.distance(noisy.covariance):.3g}. It was moved by at most {moved:.3g} per entry; or use a larger "
            "alpha.",
            RepairWarning,
            stacklevel=3,
        )
    return Choice("given", alpha, setting.fit(repair.at(alpha), alpha)), moved


def _check(alpha: float | None, select: str, fdr: float, release: Release) -> None:
    if alpha is not None and not (np.isfinite(alpha) and alpha >= 0):
        raise InputError(f"alpha must be a finite number, at least 0, got {alpha!r}.")
    if select not in SELECTIONS:
        raise InputError(f"select must be one of {', '.join(SELECTIONS)}, got {select!r}.")
    if not 0 < fdr < 1:
        raise InputError(f"fdr must lie strictly between 0 and 1, got {fdr!r}; 0.1 is a common choice.")
    if len(release.columns) < 2:
        raise InputError("a graph needs at least 2 columns, and this release has 1.")


def _wants_curves(release: Release, dependence: str | None, select: str) -> bool:
    """What is asked for, or else what the release was made for; refused where it cannot be had."""
    if dependence not in (None, "linear", "curved"):
        raise InputError(f"dependence must be 'linear' or 'curved', got {dependence!r}.")
    made_for = release.form == "moments" and release.manifest.stages[-1].features == "hermite"
    if dependence == "linear" or (dependence is None and not made_for):
        return False
    if not made_for:
        raise InputError(
            f"dependence = 'curved' needs squares and cubes, and this {release.form} release has none. "
            "Ask the publisher for one with dependence = \"curved\" in its plan, or use 'linear'."
        )
    if select != "ebic":
        raise InputError(f"curved dependence chooses its penalty by 'ebic', got select = {select!r}.")
    return True


def _feature_blocks(release: Release) -> FeatureBlocks:
    stage = release.manifest.stages[-1]
    note = (
        f"Rows were clipped to length {stage.radius:.3g} together with their squares and cubes; strengths are those of "
        "clipped rows."
    )
    return blocks_of_moments(release.moments()[-1], release.n, (note,) if stage.clipped else ())


def _edge_table(names: tuple[str, ...], choice: Choice, pairs: PairInference, fdr: float) -> pa.Table:
    import pyarrow as pa

    rows, columns = np.triu_indices(len(names), 1)
    table = pa.table(
        {
            "source": [names[i] for i in rows],
            "target": [names[j] for j in columns],
            "precision": choice.solution.precision[rows, columns],
            "partial_correlation": pairs.partial_correlation,
            "std_error": pairs.std_error,
            "ci_low": pairs.ci_low,
            "ci_high": pairs.ci_high,
            "p_value": pairs.p_value,
            "q_value": pairs.q_value,
            "selected": pairs.q_value <= fdr,
        }
    )
    if choice.stability is None:
        return table
    return table.append_column("stability", pa.array(choice.stability[rows, columns]))


def _release_record(release: Release) -> dict[str, Any]:
    """What fit.json says of the data."""
    manifest = release.manifest
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
    }


def _fit_record(
    release: Release, corrected: Corrected, choice: Choice, gentle: float, moved: float, weights: str, fdr: float
) -> dict[str, Any]:
    """Everything a reader needs to judge the estimate, as it goes into fit.json."""
    manifest, solution = release.manifest, choice.solution
    return {
        **_release_record(release),
        "dependence": "linear",
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
        "weights": weights,
        "repaired_by": moved,
        "fdr": fdr,
        "solver": solution.solver,
        "iterations": solution.n_iter,
        "duality_gap": solution.gap,
        "smallest_eigenvalue": float(np.linalg.eigvalsh(corrected.noisy.covariance)[0]),
        "hidden_columns": list(corrected.hidden),
        "notes": list(corrected.notes),
    }
