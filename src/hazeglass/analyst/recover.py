"""A release (or clean rows) in, a graph out. Linear dependence is the case of one feature per column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.analyst import DEPENDENCES, MARGINALS, SELECTS
from hazeglass.analyst.graph import FitRecord, Graph, Origin
from hazeglass.analyst.inference import PairInference, evidence, infer, pilot
from hazeglass.analyst.levels import odds_tables, pair_kinds, strengths
from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.analyst.penalty import Choice, Problem, Weights, given
from hazeglass.analyst.select import cross_validate, ebic, stars
from hazeglass.analyst.shape import BlockInference, noise_ridge, ridge_strength, shape_of
from hazeglass.analyst.source import Source, source_of
from hazeglass.compute.engines import Engine, open_engine, single_threaded_if_small, spoken
from hazeglass.errors import DistrustWarning, InputError, warn
from hazeglass.glasso.device import check_device
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms

if TYPE_CHECKING:
    import pyarrow as pa

Levels = Sequence[Sequence[str]]
_FOLDS = 5
_MOST_PAIRS = 500_000  # in a graph's table: every pair of a thousand columns
_MOST_SHAPES = 60  # strongest edges whose curve goes into fit.json and the report
_CERTAINTY = ("std_error", "ci_low", "ci_high", "p_value", "q_value")
_FUNCTIONS = {"hermite": ("{}", "{}^2", "{}^3"), "cosines": ("cos 1 of {}", "cos 2 of {}", "cos 3 of {}")}


class Step(str):
    """A step's name, and about which share of the work is done when it begins."""

    __slots__ = ("done",)
    done: float

    def __new__(cls, name: str, done: float) -> Step:
        """From both."""
        made = super().__new__(cls, name)
        made.done = done
        return made


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
    all_pairs: bool = False,
    progress: Callable[[str], None] | bool | None = None,
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
    all_pairs : bool, default=False
        Whether the graph's table lists every pair however many there are, not half a million of them.
    progress : callable or bool, optional
        Called with each step's name before it begins: a :class:`Step`, which is a str that also knows how much of the
        work is done by then. True for a line that says them.

    Returns
    -------
    Graph
    """
    if device != "cpu":
        check_device(device)
    source = source_of(release, noise_cov)
    _check(alpha, select, fdr, marginals, source)
    if marginals == "normal-scores":
        source = source.as_normal_scores()
    curved = _wants_curves(source, dependence, select, device)
    tell = spoken(progress, "recovering") or (lambda step: None)
    with open_engine(engine) as workers, single_threaded_if_small(len(source.names)):
        tell(Step("correcting the covariance", 0.05))
        return graph_of(
            source.covariance(workers, curved=curved),
            source.origin,
            alpha=alpha,
            choose=lambda noisy, problem: _choose(source, noisy, problem, select, n_jobs, workers),
            fdr=fdr,
            weights=weights,
            solver=solver,
            device=device,
            all_pairs=all_pairs,
            tell=tell,
            levels=[column.levels for column in source.release.columns] if source.release is not None else (),
        )


def graph_of(
    noisy: NoisyCovariance,
    origin: Origin,
    *,
    alpha: float | None = None,
    choose: Callable[[NoisyCovariance, Problem], Choice] = ebic,
    fdr: float = 0.1,
    weights: Weights = "noise",
    solver: str = "auto",
    device: str = "cpu",
    all_pairs: bool = False,
    tell: Callable[[str], None] = lambda step: None,
    levels: Levels = (),
) -> Graph:
    """From a covariance and its error, whoever made it, to a graph; `choose` finds the penalty if none is given.

    `levels` are the names of each column's levels, where there are categorical ones.
    """
    noisy = noisy.standardised()
    problem = Problem.of(noisy, weights, solver=solver, device=device)
    tell(Step("choosing the penalty" if alpha is None else "fitting the graph", 0.7))
    choice = choose(noisy, problem) if alpha is None else given(problem, float(alpha))
    tell(Step("working out intervals for every pair", 0.85))
    base = pilot(noisy, problem, choice.solution)
    pairs = infer(noisy, base.precision, base.blur)
    edges = _edge_table(noisy, choice, pairs, fdr, all_pairs=all_pairs)
    if noisy.distrusted is not None:
        edges = _without_certainty(edges)
        warn(f"nothing is selected, because error bars would be wrong: {noisy.distrusted}.", DistrustWarning)
    p, path, solution = len(noisy.names), zip(choice.alphas, choice.scores, choice.edges, strict=True), choice.solution
    linear, kinds = pairs.block is None, bool(noisy.groups)
    deviations = dict(zip(noisy.names, noisy.standard_deviations.tolist(), strict=True))
    record = FitRecord(
        origin=origin,
        dependence="linear" if linear or kinds else "curved",
        functions=None if linear else noisy.functions,
        **_kinds_record(noisy, pairs, base.precision, edges, levels),
        pairs=p * (p - 1) // 2,
        scale="correlation" if linear else "whitened features",
        standard_deviations=deviations if linear else None,
        effective_rows=noisy.effective_rows(),
        alpha=choice.alpha,
        alpha_chosen_by=choice.method,
        path=[{"alpha": a, "score": s if np.isfinite(s) else None, "edges": count} for a, s, count in path],
        alpha_for_inference=base.alpha,
        ridge=None if linear or kinds else noise_ridge(noisy),
        shapes=None if pairs.block is None or kinds else _shapes(noisy, pairs.block, edges),
        weights=weights if isinstance(weights, str) else "given",
        repaired_by=choice.moved,
        skipped=choice.skipped,
        fdr=fdr,
        solver=solution.solver,
        iterations=solution.n_iter,
        duality_gap=solution.gap,
        smallest_eigenvalue=float(np.linalg.eigvalsh(noisy.covariance)[0]),
        hidden_columns=list(noisy.hidden),
        notes=list(noisy.notes),
        distrusted=noisy.distrusted,
    )
    ranking = evidence(noisy, base, problem) if linear or kinds else None
    features = () if linear else _feature_names(noisy)
    return Graph(noisy.names, solution.precision, edges, record.to_dict(), ranking, features)


def _feature_names(noisy: NoisyCovariance) -> tuple[str, ...]:
    if noisy.groups:
        numbers = range(1, noisy.size + 1)
        return tuple(name if k == 1 else f"{name} [{k}]" for name in noisy.names for k in numbers)
    return tuple(one.format(name) for name in noisy.names for one in _FUNCTIONS[noisy.functions])


def _kinds_record(
    noisy: NoisyCovariance, pairs: PairInference, precision: FloatArray, edges: pa.Table, levels: Levels
) -> dict[str, Any]:
    """What fit.json says where columns are categorical: which are, how others were read, and odds of the edges."""
    if not noisy.groups or pairs.block is None:
        return {}
    place = {name: k for k, name in enumerate(noisy.names)}
    chosen = edges.filter(edges["selected"]).sort_by([("strength", "descending")]).to_pylist()
    ends = [(place[row["source"]], place[row["target"]]) for row in chosen if row["partial_correlation"] is None]
    debiased = 2 * precision - precision @ noisy.covariance @ precision
    return {
        "categorical": [name for name, one in zip(noisy.names, noisy.groups, strict=True) if one is not None],
        "reading": "latent",
        "odds": odds_tables(noisy, debiased, levels or [()] * len(place), ends),
    }


def _choose(
    source: Source, noisy: NoisyCovariance, problem: Problem, select: str, n_jobs: int | None, engine: Engine
) -> Choice:
    if select == "ebic":
        return ebic(noisy, problem)
    rows = source.cut(noisy.standard_deviations, engine)
    with engine.joblib():
        if select == "stars":
            return stars(noisy, problem, rows, n_jobs=n_jobs)
        if rows is None:
            raise InputError(
                f"select = {select!r} needs rows to hold out, and a {source.origin.form} release has none of its own. "
                "Use 'ebic' or 'stars'."
            )
        return cross_validate(problem, rows.folds(_FOLDS), select, n_jobs)


def _check(alpha: float | None, select: str, fdr: float, marginals: str, source: Source) -> None:
    if alpha is not None and not (np.isfinite(alpha) and alpha >= 0):
        raise InputError(f"alpha must be a finite number, at least 0, got {alpha!r}.")
    if select not in SELECTS:
        raise InputError(f"select must be one of {', '.join(SELECTS)}, got {select!r}.")
    if not 0 < fdr < 1:
        raise InputError(f"fdr must lie strictly between 0 and 1, got {fdr!r}; 0.1 is a common choice.")
    if len(source.names) < 2:
        raise InputError("a graph needs at least 2 columns, and this release has 1.")
    if marginals not in MARGINALS:
        raise InputError(f"marginals must be one of {', '.join(MARGINALS)}, got {marginals!r}.")


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


def _edge_table(
    noisy: NoisyCovariance, choice: Choice, pairs: PairInference, fdr: float, *, all_pairs: bool
) -> pa.Table:
    """One row per pair; for blocks the strength of the whole dependence and its shape as well."""
    import pyarrow as pa

    rows, columns = np.triu_indices(len(noisy.names), 1)
    precision, selected = choice.solution.precision, pairs.q_value <= fdr
    if noisy.size == 1:
        entries = precision[rows, columns]
    else:  # the norm of the block, with the sign that the linear part gives it
        norms = block_norms(precision, noisy.size)[rows, columns]
        entries = np.where(pairs.partial_correlation > 0, -norms, norms)
    kept = slice(None) if all_pairs else _listed(selected | (entries != 0), pairs.p_value)
    known = pa.array(noisy.names)
    table = {
        "source": known.take(pa.array(rows[kept])),
        "target": known.take(pa.array(columns[kept])),
        "precision": entries[kept],
        "partial_correlation": pairs.partial_correlation[kept],
        "std_error": pairs.std_error[kept],
        "ci_low": pairs.ci_low[kept],
        "ci_high": pairs.ci_high[kept],
        "p_value": pairs.p_value[kept],
        "q_value": pairs.q_value[kept],
        "selected": selected[kept],
    }
    if pairs.block is not None:
        if noisy.groups:
            table["strength"] = strengths(noisy, pairs.block, pairs.partial_correlation, pairs.std_error)[kept]
            table["shape"] = np.where(pair_kinds(noisy) > 0, "levels", "linear")[kept]
            for name in ("partial_correlation", "std_error", "ci_low", "ci_high"):  # empty where an end has no order
                table[name] = pa.array(table[name], from_pandas=True)
        else:
            table["strength"] = ridge_strength(noisy)[rows, columns][kept]
            table["shape"] = np.where(pairs.block.curved, "curved", "linear")[kept]
    if choice.stability is not None:
        table["stability"] = choice.stability[rows[kept], columns[kept]]
    return pa.table(table)


def _without_certainty(edges: pa.Table) -> pa.Table:
    """The same pairs, none of them selected, and nothing said of how sure their estimates are."""
    import pyarrow as pa

    for name in _CERTAINTY:
        edges = edges.set_column(edges.column_names.index(name), name, pa.nulls(edges.num_rows, pa.float64()))
    nothing = pa.array(np.zeros(edges.num_rows, dtype=bool))
    return edges.set_column(edges.column_names.index("selected"), "selected", nothing)


def _listed(wanted: npt.NDArray[np.bool_], p_value: FloatArray) -> npt.NDArray[np.intp] | slice:
    """All pairs, or where they are too many for a table those that are wanted, filled up with the likeliest others."""
    if wanted.size <= _MOST_PAIRS:
        return slice(None)
    room = min(max(0, _MOST_PAIRS - int(np.count_nonzero(wanted))), wanted.size - 1)
    others = np.where(wanted, np.inf, p_value)
    kept = wanted.copy()
    kept[np.argpartition(others, room)[:room]] = True
    return np.flatnonzero(kept)


def _shapes(noisy: NoisyCovariance, block: BlockInference, edges: pa.Table) -> list[dict[str, Any]]:
    """Curves of the selected edges, the strongest first."""
    place = {name: k for k, name in enumerate(noisy.names)}
    strongest = edges.filter(edges["selected"]).sort_by([("strength", "descending")]).slice(0, _MOST_SHAPES)
    return [
        {**shape_of(noisy, block, place[row["source"]], place[row["target"]]).to_dict(), "shape": row["shape"]}
        for row in strongest.to_pylist()
    ]
