"""A release in, a graph out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass._version import __version__
from hazeglass.analyst.blas import single_threaded_if_small
from hazeglass.analyst.correct import Corrected, correct
from hazeglass.analyst.graph import Graph
from hazeglass.analyst.inference import PairInference, infer
from hazeglass.analyst.moments import NoisyCovariance, covariance_of, noise_of, rows_of
from hazeglass.analyst.penalties import Repair, Setting, entry_weights
from hazeglass.analyst.selection import (
    Choice,
    FoldSource,
    RowSource,
    StreamedRows,
    cross_validate,
    ebic,
    effective_rows,
    inference_penalty,
    stars,
)
from hazeglass.bundle.reader import Release, load
from hazeglass.compute.engines import Engine, open_engine
from hazeglass.errors import InputError, RepairWarning

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    FloatArray = npt.NDArray[np.float64]

__all__ = ["recover"]

SELECTIONS = ("ebic", "stars", "cv", "mse")
_MOST_PAIRS = 500_000  # in a graph's table: every pair of a thousand columns
_MOST_CELLS = 1 << 25  # of a table held in memory at once, for folds and subsamples: 256 MiB


def recover(
    release: Release | str | Path,
    *,
    alpha: float | None = None,
    select: str = "ebic",
    fdr: float = 0.1,
    solver: str = "auto",
    weights: str = "noise",
    n_jobs: int | None = None,
    engine: str | Engine = "threads",
    progress: Callable[[str], None] | None = None,
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
    n_jobs : how many jobs at a time for stars, cv and mse; as many as the engine has workers when None
    engine : who reads a table's parts and works on those jobs: 'serial', 'threads', 'dask' or 'dask:tcp://host:8786';
        the graph is the same whichever it is
    progress : called with each step's name before it begins

    Returns
    -------
    Graph
    """
    if not isinstance(release, Release):
        release = load(release)
    _check(alpha, select, fdr, release)
    with open_engine(engine) as workers, single_threaded_if_small(len(release.columns)):
        return _recover(release, alpha, select, fdr, solver, weights, n_jobs, workers, progress or _nobody)


def _nobody(step: str) -> None:
    """Whom progress is told when nobody asked."""


def _recover(
    release: Release,
    alpha: float | None,
    select: str,
    fdr: float,
    solver: str,
    weights: str,
    n_jobs: int | None,
    engine: Engine,
    progress: Callable[[str], None],
) -> Graph:
    progress("correcting the covariance")
    corrected = correct(covariance_of(release, engine))
    noisy = corrected.noisy
    setting = Setting(entry_weights(noisy, weights), solver=solver)
    progress("choosing the penalty" if alpha is None else "fitting the graph")
    if alpha is None:
        choice, moved = _choose(release, corrected, setting, select, n_jobs, engine), 0.0
    else:
        choice, moved = _given(noisy, setting, float(alpha))
    progress("working out intervals for every pair")
    gentle = inference_penalty(noisy, setting, choice.alpha)
    base = choice.solution if gentle == choice.alpha else setting.fit(noisy.covariance, gentle, choice.solution)
    pairs = infer(noisy, base.precision)
    edges = _edge_table(noisy.names, choice, pairs, fdr)
    record = _fit_record(release, corrected, choice, gentle, moved, weights, fdr)
    return Graph(noisy.names, choice.solution.precision, edges, record)


def _choose(
    release: Release, corrected: Corrected, setting: Setting, select: str, n_jobs: int | None, engine: Engine
) -> Choice:
    if select == "ebic":
        return ebic(corrected.noisy, setting)
    source = _row_source(release, corrected, engine) if release.form == "table" else None
    if select == "stars":
        with engine.joblib():
            return stars(corrected.noisy, setting, source, n_jobs=n_jobs)
    if source is None:
        raise InputError(
            f"select = {select!r} needs rows to hold out, and a {release.form} release has none of its own. "
            "Use 'ebic' or 'stars'."
        )
    with engine.joblib():
        return cross_validate(corrected.noisy, setting, source, select, n_jobs=n_jobs)


def _row_source(release: Release, corrected: Corrected, engine: Engine) -> RowSource:
    """The released rows, in memory where they fit."""
    noise, deviations = noise_of(release), corrected.standard_deviations
    if release.n * len(release.columns) > _MOST_CELLS:
        return StreamedRows(release, noise, deviations, engine)
    return FoldSource(rows_of(release), noise, deviations)


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


def _edge_table(names: tuple[str, ...], choice: Choice, pairs: PairInference, fdr: float) -> pa.Table:
    import pyarrow as pa

    rows, columns = np.triu_indices(len(names), 1)
    precision, selected = choice.solution.precision[rows, columns], pairs.q_value <= fdr
    kept = _listed(selected | (precision != 0), pairs.p_value)
    known = pa.array(names)
    table = pa.table(
        {
            "source": known.take(pa.array(rows[kept])),
            "target": known.take(pa.array(columns[kept])),
            "precision": precision[kept],
            "partial_correlation": pairs.partial_correlation[kept],
            "std_error": pairs.std_error[kept],
            "ci_low": pairs.ci_low[kept],
            "ci_high": pairs.ci_high[kept],
            "p_value": pairs.p_value[kept],
            "q_value": pairs.q_value[kept],
            "selected": selected[kept],
        }
    )
    if choice.stability is None:
        return table
    return table.append_column("stability", pa.array(choice.stability[rows[kept], columns[kept]]))


def _listed(wanted: npt.NDArray[np.bool_], p_value: FloatArray) -> npt.NDArray[np.intp] | slice:
    """All pairs, or where they are too many for a table those that are wanted, filled up with the likeliest others."""
    if wanted.size <= _MOST_PAIRS:
        return slice(None)
    room = min(max(0, _MOST_PAIRS - int(np.count_nonzero(wanted))), wanted.size - 1)
    others = np.where(wanted, np.inf, p_value)
    kept = wanted.copy()
    kept[np.argpartition(others, room)[:room]] = True
    return np.flatnonzero(kept)


def _fit_record(
    release: Release, corrected: Corrected, choice: Choice, gentle: float, moved: float, weights: str, fdr: float
) -> dict[str, Any]:
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
        "pairs": len(manifest.names) * (len(manifest.names) - 1) // 2,
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
