"""A release (or clean rows) in, a graph out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.analyst import DEPENDENCES, MARGINALS, SELECTS
from hazeglass.analyst.correct import Corrected, correct
from hazeglass.analyst.curved.recover import recover_curved
from hazeglass.analyst.graph import Graph
from hazeglass.analyst.inference import PairInference, evidence, infer, pilot
from hazeglass.analyst.penalties import Setting, Weights, pair_weights
from hazeglass.analyst.selection import (
    Choice,
    cross_validate,
    ebic,
    effective_rows,
    given,
    stars,
)
from hazeglass.analyst.sources import Source, source_of
from hazeglass.compute.engines import Engine, open_engine, single_threaded_if_small
from hazeglass.errors import InputError
from hazeglass.glasso.device import check_device

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    FloatArray = npt.NDArray[np.float64]

__all__ = ["recover"]

_FOLDS = 5
_MOST_PAIRS = 500_000  # in a graph's table: every pair of a thousand columns


def recover(
    release: Any,
    *,
    noise_cov: npt.ArrayLike | None = None,
    alpha: float | None = None,
    select: str = "ebic",
    fdr: float = 0.1,
    solver: str = "auto",
    device: str = "cpu",
    weights: Weights = "noise",
    dependence: str | None = None,
    marginals: str = "as-is",
    n_jobs: int | None = None,
    engine: str | Engine = "threads",
    progress: Callable[[str], None] | None = None,
) -> Graph:
    """Recover the graph of conditional dependence from a release, or from rows.

    Everything is computed from the release, so none of it costs privacy.

    Parameters
    ----------
    release : Release, path or rows
        A release, or the folder of one (it is verified first); or rows: a data frame, an array, the path of a CSV or
        Parquet file.
    noise_cov : float or array-like, optional
        For rows that carry a known error of their own (sensors, surveys): one variance, one per column, or a covariance
        matrix. A release states its noise itself.
    alpha : float, optional
        The penalty, on the correlation scale; chosen by `select` when None.
    select : {'ebic', 'stars', 'cv', 'mse'}, default='ebic'
        How to choose the penalty: an information criterion, stability, and where there are rows also held-out
        likelihood and the paper's squared error.
    fdr : float, default=0.1
        Pairs with a q-value of at most this are selected.
    solver : {'auto', 'cd', 'newton', 'admm'}, default='auto'
        Which graphical lasso solver to use.
    device : str, default='cpu'
        Where the graphical lasso is solved: 'cpu', or a device of torch such as 'cuda', for thousands of columns. It is
        refused where torch or the device is missing, and for curved dependence.
    weights : {'noise', 'uniform'} or array-like of shape (p, p), default='noise'
        What each pair pays, times alpha: in proportion to the noise in its covariance, all the same, or as given.
    dependence : {'linear', 'curved'}, optional
        'curved' for dependence of any smooth shape; None for what the release was made for. Curved graphs have two more
        columns: strength, and shape ('linear' or 'curved').
    marginals : {'as-is', 'normal-scores'}, default='as-is'
        'normal-scores' maps each column to a standard normal through its ranks first (a Gaussian copula; for counts and
        other columns far from normal). It needs rows, with little noise or none.
    n_jobs : int, optional
        How many jobs at a time for stars, cv and mse; as many as the engine has workers when None.
    engine : str or Engine, default='threads'
        Who reads a table's parts and works on those jobs: 'serial', 'threads', 'dask' or 'dask:tcp://host:8786'; the
        graph is the same whichever it is.
    progress : callable, optional
        Called with each step's name before it begins.

    Returns
    -------
    Graph
    """
    if device != "cpu":
        check_device(device)
    source = source_of(release, noise_cov)
    _check(alpha, select, fdr, source)
    if marginals not in MARGINALS:
        raise InputError(f"marginals must be one of {', '.join(MARGINALS)}, got {marginals!r}.")
    if marginals == "normal-scores":
        source = source.as_normal_scores()
    tell = progress or (lambda step: None)
    with open_engine(engine) as workers, single_threaded_if_small(len(source.names)):
        if _wants_curves(source, dependence, select, device):
            tell("recovering curved dependence")
            record = {**source.record, "marginals": marginals}
            return recover_curved(source.blocks(), record, alpha=alpha, fdr=fdr, weights=weights)
        return _recover_linear(source, alpha, select, fdr, solver, device, weights, n_jobs, workers, tell)


def _recover_linear(
    source: Source,
    alpha: float | None,
    select: str,
    fdr: float,
    solver: str,
    device: str,
    weights: Weights,
    n_jobs: int | None,
    engine: Engine,
    progress: Callable[[str], None],
) -> Graph:
    progress("correcting the covariance")
    corrected = correct(source.covariance(engine))
    noisy = corrected.noisy
    setting = Setting(pair_weights(weights, noisy.error.entry_sd()), solver=solver, device=device)
    progress("choosing the penalty" if alpha is None else "fitting the graph")
    if alpha is None:
        choice = _choose(source, corrected, setting, select, n_jobs, engine)
    else:
        choice = given(noisy.covariance, setting, float(alpha))
    progress("working out intervals for every pair")
    base = pilot(noisy, solver, device)
    pairs = infer(noisy, base.precision)
    edges = _edge_table(noisy.names, choice, pairs, fdr)
    record = _fit_record(source, corrected, choice, base.alpha, weights, fdr)
    return Graph(noisy.names, choice.solution.precision, edges, record, evidence=evidence(noisy, base, solver, device))


def _choose(
    source: Source, corrected: Corrected, setting: Setting, select: str, n_jobs: int | None, engine: Engine
) -> Choice:
    if select == "ebic":
        return ebic(corrected.noisy, setting)
    rows = source.row_source(corrected.standard_deviations, engine)
    if select == "stars":
        with engine.joblib():
            return stars(corrected.noisy, setting, rows, n_jobs=n_jobs)
    if rows is None:
        raise InputError(
            f"select = {select!r} needs rows to hold out, and a {source.form} release has none of its own. "
            "Use 'ebic' or 'stars'."
        )
    with engine.joblib():
        return cross_validate(corrected.noisy, setting, rows.folds(_FOLDS), select, n_jobs)


def _check(alpha: float | None, select: str, fdr: float, source: Source) -> None:
    if alpha is not None and not (np.isfinite(alpha) and alpha >= 0):
        raise InputError(f"alpha must be a finite number, at least 0, got {alpha!r}.")
    if select not in SELECTS:
        raise InputError(f"select must be one of {', '.join(SELECTS)}, got {select!r}.")
    if not 0 < fdr < 1:
        raise InputError(f"fdr must lie strictly between 0 and 1, got {fdr!r}; 0.1 is a common choice.")
    if len(source.names) < 2:
        raise InputError("a graph needs at least 2 columns, and this release has 1.")


def _wants_curves(source: Source, dependence: str | None, select: str, device: str) -> bool:
    """What is asked for, or else what the release was made for."""
    if dependence is not None and dependence not in DEPENDENCES:
        raise InputError(f"dependence must be 'linear' or 'curved', got {dependence!r}.")
    curved = source.made_for_curves if dependence is None else dependence == "curved"
    if curved and select != "ebic":
        raise InputError(f"curved dependence chooses its penalty by 'ebic', got select = {select!r}.")
    if curved and device != "cpu":
        raise InputError(f"curved dependence is solved on the CPU, got device = {device!r}. Leave device out.")
    return curved


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
    source: Source, corrected: Corrected, choice: Choice, pilot_alpha: float, weights: Weights, fdr: float
) -> dict[str, Any]:
    """Everything a reader needs to judge the estimate, as it goes into fit.json."""
    solution = choice.solution
    return {
        **source.record,
        "dependence": "linear",
        "marginals": "as-is" if source.scores is None else "normal-scores",
        "pairs": len(source.names) * (len(source.names) - 1) // 2,
        "scale": "correlation",
        "standard_deviations": dict(zip(source.names, corrected.standard_deviations.tolist(), strict=True)),
        "effective_rows": effective_rows(corrected.noisy),
        "alpha": choice.alpha,
        "alpha_chosen_by": choice.method,
        "path": [
            {"alpha": alpha, "score": score if np.isfinite(score) else None, "edges": count}
            for alpha, score, count in zip(choice.alphas, choice.scores, choice.edges, strict=True)
        ],
        "alpha_for_inference": pilot_alpha,
        "weights": weights if isinstance(weights, str) else "given",
        "repaired_by": choice.moved,
        "fdr": fdr,
        "solver": solution.solver,
        "iterations": solution.n_iter,
        "duality_gap": solution.gap,
        "smallest_eigenvalue": float(np.linalg.eigvalsh(corrected.noisy.covariance)[0]),
        "hidden_columns": list(corrected.hidden),
        "notes": list(corrected.notes),
    }
