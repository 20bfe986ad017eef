"""A release (or clean rows) in, a graph out. Linear dependence is the case of one feature per column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.analyst import DEPENDENCES, MARGINALS, SELECTS
from hazeglass.analyst.blocks import BlockInference, odds_tables, shape_of, strength_ridge
from hazeglass.analyst.covariance import Measured
from hazeglass.analyst.edges import CERTAINTY, disagreement_record, doubted, edge_table, without_certainty
from hazeglass.analyst.graph import FitRecord, Graph, Origin
from hazeglass.analyst.inference import PairInference
from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.analyst.penalty import Choice, Problem, Weights, given
from hazeglass.analyst.select import cross_validate, ebic, stars
from hazeglass.analyst.series import Past, arrows, past_of
from hazeglass.analyst.several import Several, disagreement, is_several
from hazeglass.analyst.source import Source, source_of
from hazeglass.analyst.twins import inferred
from hazeglass.compute.engines import Engine, open_engine, single_threaded_if_small, spoken
from hazeglass.errors import InputError
from hazeglass.glasso.device import usable
from hazeglass.glasso.linalg import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

Levels = Sequence[Sequence[str]]
_FOLDS = 5
_FEWEST_MORE = 20  # rows than columns: with fewer, partial correlations are large by chance, and seem certain
_INTERVALS = "working out intervals for every pair"
_MOST_SHAPES = 60  # strongest edges whose curve goes into fit.json and the report
_LOUD_TABLE = "Of the same rows moments have less noise than a table."
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
    lags: int | None = None,
    progress: Callable[[str], None] | bool | None = None,
) -> Graph:
    """Recover the graph of conditional dependence from a release, from several of the same columns, or from rows.

    Everything is computed from the release, so none of it costs privacy.

    Parameters
    ----------
    release : Release, path or rows
        A release, or the folder of one (it is verified first); a list of releases of the same columns, each of rows of
        its own, which are pooled; or rows: a data frame, an array, the path of a CSV or Parquet file.
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
        Where to work: 'cpu', or a device of torch such as 'cuda', for thousands of columns. Moments of 500 or more
        continuous columns are recovered there altogether; of other releases the graphical lasso is solved there. Where
        torch or the device is missing a warning says so and the CPU is used. Refused for curved dependence.
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
    lags : int, optional
        For rows in time, each the next one after the row before it: how many rows before a row may lead to it. The
        graph then has a second, directed layer, :attr:`Graph.lagged`. A release of such rows says itself how many.
    progress : callable or bool, optional
        Called with each step's name before it begins: a :class:`Step`, which is a str that also knows how much of the
        work is done by then. True for a line that says them.

    Returns
    -------
    Graph
    """
    device = usable(device)
    source = Several.of(release) if is_several(release) else source_of(release, noise_cov)
    if lags is not None:
        source = source.in_time(lags)
    _check(alpha, select, fdr, marginals, source)
    if marginals == "normal-scores":
        source = source.as_normal_scores()
    curved = _wants_curves(source, dependence, select, device)
    tell = spoken(progress, "recovering") or (lambda step: None)
    if not curved and select == "ebic" and solver == "auto" and isinstance(weights, str) and not all_pairs:
        found = _of_many(source, alpha, fdr, weights, device, tell)
        if found is not None:
            return found
    with open_engine(engine) as workers, single_threaded_if_small(len(source.names)):
        tell(Step("correcting the covariance", 0.05))
        past = past_of(source.stacks(), source.names, source.lags) if source.lags else None
        graph = graph_of(
            source.covariance(workers, curved=curved) if past is None else past.innovations,
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
    return graph if past is None else with_arrows(graph, past, fdr)


def _of_many(
    source: Source | Several, alpha: float | None, fdr: float, weights: str, device: str, tell: Callable[[str], None]
) -> Graph | None:
    """By the path for many columns, where that is for such a release."""
    from hazeglass.analyst.large_graph import MANY, LargeTask, is_for_many

    release, p = source.release, len(source.names)
    if release is None or release.form == "table" or source.made_for_curves or source.lags or p < MANY:
        return None
    tell(Step("correcting the covariance", 0.05))
    measured = Measured.of(release)
    if not is_for_many(measured):
        return None
    begin = {"correcting the covariance": 0.1, "choosing the penalty": 0.5, _INTERVALS: 0.85}

    def said(step: str, share: float) -> None:
        tell(Step(step, begin[step] + 0.3 * share))

    return LargeTask(measured, source.origin, alpha, fdr, weights, device, said).graph()


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
    if noisy.distrusted is None and noisy.n < len(noisy.names) + _FEWEST_MORE:
        few = f"there are {noisy.n} rows for {len(noisy.names)} columns, and error bars suppose {_FEWEST_MORE} more"
        noisy = replace(noisy, distrusted=f"{few} rows than columns")
    noisy = noisy.standardised()
    problem = Problem.of(noisy, weights, solver=solver, device=device)
    tell(Step("choosing the penalty" if alpha is None else "fitting the graph", 0.7))
    choice = choose(noisy, problem) if alpha is None else given(problem, float(alpha))
    tell(Step(_INTERVALS, 0.85))
    found = inferred(noisy, problem, choice.solution)
    base, pairs, ranked = found.base, found.pairs, found.evidence
    if noisy.plain is not None:
        plain = noisy.plain.standardised()
        ranked = inferred(plain, Problem.of(plain, weights, solver=solver, device=device), choice.solution).evidence
    apart = disagreement(noisy.parts, base.precision) if len(noisy.parts) > 1 else None
    edges = edge_table(noisy, choice, pairs, fdr, all_pairs=all_pairs, apart=apart)
    if noisy.distrusted is not None:
        edges = doubted(edges, noisy.distrusted)
    linear, kinds = pairs.block is None, bool(noisy.groups)
    deviations = dict(zip(noisy.names, noisy.standard_deviations.tolist(), strict=True))
    record = FitRecord.of(
        origin,
        choice,
        len(noisy.names),
        dependence="linear" if linear or kinds else "curved",
        functions=None if linear else noisy.functions,
        **_kinds_record(noisy, pairs, base.precision, edges, levels),
        left_out=list(found.left_out) or None,
        disagreement=None if apart is None else disagreement_record(noisy, apart, fdr),
        scale="correlation" if linear else "whitened features",
        standard_deviations=deviations if linear else None,
        effective_rows=noisy.effective_rows(),
        alpha_for_inference=base.alpha,
        ridge=None if linear or kinds else strength_ridge(noisy),
        shapes=None if pairs.block is None or kinds else _shapes(noisy, pairs.block, edges),
        weights=weights if isinstance(weights, str) else "given",
        fdr=fdr,
        smallest_eigenvalue=float(np.linalg.eigvalsh(noisy.covariance)[0]),
        hidden_columns=list(noisy.hidden),
        notes=[
            *origin.notes,
            *noisy.notes,
            *([_LOUD_TABLE] if noisy.hidden and origin.form == "table" else []),
            *found.notes,
        ],
        distrusted=noisy.distrusted,
    )
    features = () if linear else _feature_names(noisy)
    return Graph(noisy.names, choice.solution.precision, edges, record.to_dict(), ranked, features)


def with_arrows(graph: Graph, past: Past, fdr: float) -> Graph:
    """The graph of the innovations, with who leads whom beside it."""
    import pyarrow as pa

    found, names = arrows(past), np.array(graph.names)
    ends = {"source": names[found.source], "target": names[found.target], "lag": found.lag}
    own = ("precision", "coefficient", "coefficient_error", "partial_correlation", *CERTAINTY)
    lagged = pa.table({**ends, **{key: getattr(found, key) for key in own}, "selected": found.q_value <= fdr})
    if graph.fit.get("distrusted"):
        place, unknown = lagged.column_names.index("coefficient_error"), pa.nulls(lagged.num_rows, pa.float64())
        lagged = without_certainty(lagged.set_column(place, "coefficient_error", unknown))
    memory = {name: past.by_lag[:, k, k].tolist() for k, name in enumerate(graph.names)}
    record = {"lags": past.lags, "stacks": past.innovations.n, "own_past": memory}
    return replace(graph, lagged=lagged, fit={**graph.fit, "series": record})


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
    source: Source | Several, noisy: NoisyCovariance, problem: Problem, select: str, n_jobs: int | None, engine: Engine
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


def _check(alpha: float | None, select: str, fdr: float, marginals: str, source: Source | Several) -> None:
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


def _wants_curves(source: Source | Several, dependence: str | None, select: str, device: str) -> bool:
    """What is asked for, or else what the release was made for."""
    if dependence is not None and dependence not in DEPENDENCES:
        raise InputError(f"dependence must be 'linear' or 'curved', got {dependence!r}.")
    curved = source.made_for_curves if dependence is None else dependence == "curved"
    if source.lags and (curved or select != "ebic"):
        raise InputError("rows in time have linear dependence, and their penalty is chosen by 'ebic' or given.")
    if curved and select != "ebic":
        raise InputError(f"curved dependence chooses its penalty by 'ebic', got select = {select!r}.")
    if curved and device != "cpu":
        raise InputError(f"curved dependence is solved on the CPU, got device = {device!r}. Leave device out.")
    return curved


def _shapes(noisy: NoisyCovariance, block: BlockInference, edges: pa.Table) -> list[dict[str, Any]]:
    """Curves of the selected edges, the strongest first."""
    place = {name: k for k, name in enumerate(noisy.names)}
    strongest = edges.filter(edges["selected"]).sort_by([("strength", "descending")]).slice(0, _MOST_SHAPES)
    return [
        {**shape_of(noisy, block, place[row["source"]], place[row["target"]]).to_dict(), "shape": row["shape"]}
        for row in strongest.to_pylist()
    ]
