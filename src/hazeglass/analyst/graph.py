"""The graph of conditional dependence as a value: named nodes, one row per pair, and how the estimate came about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hazeglass._version import __version__
from hazeglass.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

    from hazeglass.analyst.compare import GraphDiff, Scores
    from hazeglass.analyst.penalty import Choice
    from hazeglass.bundle.manifest import Manifest

# What fit.json says of each of several releases.
_OF_RELEASE = ("title", "form", "n", "unit", "unit_readings", "unit_max_rows", "mu", "epsilon", "delta", "simulation")
_OF_RANKS = (
    "Partial correlations are of ranks turned into normal numbers, as those of rows with normal-scores marginals."
)
_MOST_INLINE = 300  # nodes of a graph that a notebook shows as a page
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Origin:
    """Where the columns came from, and whether through their ranks; rows without a release promise nothing.

    Of several releases the promise is that of each one: `releases` says what they are, and mu and epsilon are left out.
    """

    title: str
    form: str
    n: int
    unit: str | None = None
    unit_readings: int | None = None
    unit_max_rows: int | None = None
    mu: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    simulation: bool = False
    marginals: str = "as-is"
    releases: tuple[Origin, ...] = ()

    @classmethod
    def of(cls, manifest: Manifest) -> Origin:
        """What a release says of itself."""
        unit = manifest.unit
        promise = manifest.mu, manifest.epsilon, manifest.delta
        protected = unit.name, unit.readings, unit.max_rows
        ranks = "normal-scores" if manifest.scale == "scores" else "as-is"
        return cls(manifest.title, manifest.form, manifest.n, *protected, *promise, manifest.simulation, ranks)

    @property
    def notes(self) -> tuple[str, ...]:
        """What partial correlations are of, where a release knows its columns by their ranks."""
        return (_OF_RANKS,) if self.marginals == "normal-scores" and self.form in ("moments", "synthetic") else ()

    def to_dict(self) -> dict[str, Any]:
        """As it goes into fit.json; `releases` stands there where there are several."""
        facts = asdict(self)
        each = [{key: one[key] for key in _OF_RELEASE} for one in facts.pop("releases")]
        return {**facts, "releases": each} if each else facts


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """Everything a reader needs to judge the estimate.

    path                 penalties that were tried, each with its score and number of edges
    repaired_by          the largest change of an entry that an indefinite covariance needed
    standard_deviations  what each column was divided by (linear dependence)
    skipped              which penalties were not tried, and why
    distrusted           why nothing is selected, where the release contradicts the model of its error bars
    functions            of the columns that curved dependence was looked for in: 'hermite' or 'cosines'
    ridge, shapes        what smooths the strengths, and the strongest edges' curves (curved dependence)
    categorical          the categorical columns, where there are such
    reading              how ordered ones were read beside them: 'latent', as cuts of a hidden normal
    odds                 for edges with a categorical end, how the odds of its levels change
    left_out             columns that most pairs are not given: determined by others, or with one of unknown dependence
    disagreement         of several releases: whether they differ, over all and in which pairs
    """

    origin: Origin
    dependence: str
    pairs: int
    scale: str
    effective_rows: float
    alpha: float
    alpha_chosen_by: str
    path: list[dict[str, Any]]
    alpha_for_inference: float
    weights: str
    repaired_by: float
    fdr: float
    solver: str
    iterations: int
    duality_gap: float
    smallest_eigenvalue: float
    hidden_columns: list[str]
    notes: list[str]
    standard_deviations: dict[str, float] | None = None
    skipped: str | None = None
    distrusted: str | None = None
    functions: str | None = None
    ridge: float | None = None
    shapes: list[dict[str, Any]] | None = None
    categorical: list[str] | None = None
    reading: str | None = None
    odds: list[dict[str, Any]] | None = None
    left_out: list[str] | None = None
    disagreement: dict[str, Any] | None = None

    @classmethod
    def of(cls, origin: Origin, choice: Choice, columns: int, **rest: Any) -> FitRecord:
        """What the choice of a penalty says, and the rest."""
        path, solution = zip(choice.alphas, choice.scores, choice.edges, strict=True), choice.solution
        return cls(
            origin=origin,
            pairs=columns * (columns - 1) // 2,
            alpha=choice.alpha,
            alpha_chosen_by=choice.method,
            path=[{"alpha": a, "score": s if np.isfinite(s) else None, "edges": count} for a, s, count in path],
            repaired_by=choice.moved,
            skipped=choice.skipped,
            solver=solution.solver,
            iterations=solution.n_iter,
            duality_gap=solution.gap,
            **rest,
        )

    def to_dict(self) -> dict[str, Any]:
        """As it goes into fit.json; what does not apply is left out."""
        own = {key: value for key, value in vars(self).items() if key != "origin" and value is not None}
        return {"hazeglass": __version__, **self.origin.to_dict(), **own}


@dataclass(frozen=True, eq=False)
class Graph:
    """What :func:`hazeglass.recover` returns.

    names      the nodes
    precision  the penalised precision matrix, on the scale named in `fit`; that of all features for curved dependence
    edges      an Arrow table, one row per pair: source, target, precision, partial_correlation, std_error, ci_low,
               ci_high, p_value, q_value, selected (and stability, when stars chose the penalty); above a thousand
               nodes the pairs that are edges, have a precision, or come next in likelihood: half a million, unless all
               were asked for. For curved
               dependence partial_correlation is that of the linear part, precision the signed norm of the pair's
               block, and two more columns follow: strength of the whole dependence, shape ('linear' or 'curved'). So it
               is where columns are categorical: shape is 'levels' where an end has no order, and partial_correlation
               and its certainty are empty there
    fit        how the estimate came about: alpha, solver, duality gap, repairs, the release's unit and mu
               Where fit["distrusted"] says why the release contradicts the model of its error bars, nothing is
               selected, and std_error, ci_low, ci_high, p_value and q_value are empty
    evidence   how strongly the release speaks for each pair: what scores rank by (None: their strength)
    features   names of the rows of `precision` where they are not the nodes (curved dependence)
    lagged     rows in time: who leads whom, one row per directed pair and lag, with the columns of `edges` and with
               lag, coefficient and coefficient_error, on the scale of the columns' scores. `edges` is then who moves
               together now, given the past, and fit["series"] says how strongly every column remembers itself
    """

    names: tuple[str, ...]
    precision: FloatArray
    edges: pa.Table
    fit: Mapping[str, Any]
    evidence: FloatArray | None = None
    features: tuple[str, ...] = ()
    lagged: pa.Table | None = None

    # ------------------------------------------------------------------------------------------------- looking

    @property
    def selected(self) -> pa.Table:
        """The pairs called an edge, strongest first."""
        import pyarrow.compute as pc

        chosen = self.edges.filter(self.edges["selected"])
        strength = pc.abs(chosen[self.strength_column])
        return chosen.take(pc.sort_indices(strength, sort_keys=[("", "descending")]))

    @property
    def arrows(self) -> pa.Table:
        """The directed pairs called an edge, strongest first; refused where rows were not read in time."""
        import pyarrow.compute as pc

        if self.lagged is None:
            raise InputError(
                'arrows are for rows in time: a release with rows = "series", or recover(rows, lags=1). Use selected.'
            )
        chosen = self.lagged.filter(self.lagged["selected"])
        strength = pc.abs(chosen["partial_correlation"])
        return chosen.take(pc.sort_indices(strength, sort_keys=[("", "descending")]))

    @property
    def pairs(self) -> frozenset[frozenset[str]]:
        """The selected edges as a set of unordered pairs of names."""
        from hazeglass.analyst.compare import pairs_of

        return frozenset(pairs_of(self.selected))

    @property
    def partial_correlations(self) -> FloatArray:
        """Partial correlations as a symmetric matrix with ones on the diagonal, 0 for a pair `edges` does not list."""
        return np.eye(len(self.names)) + self._matrix(self.edges, self.edges["partial_correlation"].to_numpy())

    @property
    def adjacency(self) -> npt.NDArray[np.bool_]:
        """Which pairs are selected, as a symmetric matrix."""
        return self._matrix(self.selected, 1.0) > 0

    def strength(self) -> FloatArray:
        """Absolute partial correlations (curved: strengths) with a zero diagonal: the score behind an ROC curve."""
        return self._matrix(self.edges, np.abs(self.edges[self.strength_column].to_numpy()))

    @property
    def strength_column(self) -> str:
        """The column of `edges` that says how strong a dependence is."""
        return "strength" if "strength" in self.edges.column_names else "partial_correlation"

    def components(self) -> list[tuple[str, ...]]:
        """Connected components of the selected edges, the largest first."""
        import networkx as nx

        place = {name: k for k, name in enumerate(self.names)}
        groups = [tuple(sorted(group, key=place.__getitem__)) for group in nx.connected_components(self.to_networkx())]
        return sorted(groups, key=lambda group: (-len(group), group))

    def hubs(self, most: int = 5) -> list[tuple[str, int]]:
        """The nodes with most selected edges."""
        degrees = np.bincount(np.concatenate(self._ends(self.selected)), minlength=len(self.names))
        order = np.argsort(-degrees, kind="stable")[:most]
        return [(self.names[k], int(degrees[k])) for k in order]

    def _ends(self, edges: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The pairs of a table as numbers of nodes."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = pa.array(self.names)
        source, target = (pc.index_in(edges[key], known).to_numpy().astype(np.int64) for key in ("source", "target"))
        return source, target

    def _matrix(self, edges: pa.Table, values: FloatArray | float) -> FloatArray:
        """A symmetric matrix of one value per pair of a table, zero elsewhere."""
        matrix = np.zeros((len(self.names), len(self.names)))
        i, j = self._ends(edges)
        matrix[i, j] = matrix[j, i] = values
        return matrix

    # ----------------------------------------------------------------------------------------------- comparing

    def scores(self, truth: Iterable[Iterable[str]]) -> Scores:
        """AUC, average precision, F1, structural Hamming distance and ROC points against true edges given as pairs."""
        from hazeglass.analyst.compare import scores

        return scores(self, truth)

    def auc(self, truth: Iterable[Iterable[str]]) -> float:
        """Area under the ROC curve of the pairs, ranked by the evidence for them."""
        return self.scores(truth).auc

    def diff(self, other: Graph, *, fdr: float = 0.1) -> GraphDiff:
        """Which pairs differ from this graph to the other, of the same nodes and of other rows."""
        from hazeglass.analyst.compare import diff

        return diff(self, other, fdr=fdr)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        same_nodes = self.names == other.names and np.array_equal(self.precision, other.precision)
        same_lagged = self.lagged == other.lagged  # tables compare by their cells
        return same_nodes and same_lagged and bool(self.edges.equals(other.edges))

    __hash__ = None  # type: ignore[assignment]

    # ------------------------------------------------------------------------------------------------ ways out

    def _edge_matrix(self) -> FloatArray:
        """Signed strengths of the selected edges, zero elsewhere: what pictures show."""
        sign = np.where(self.partial_correlations < 0, -1.0, 1.0)
        return np.where(self.adjacency, sign * self.strength(), 0.0)

    def _unsigned(self) -> npt.NDArray[np.bool_] | None:
        """Which pairs have a strength and no sign: curved ones, and those of levels without an order."""
        if "shape" not in self.edges.column_names:
            return None
        bent = [float(shape in ("curved", "levels")) for shape in self.edges["shape"].to_pylist()]
        return self._matrix(self.edges, np.array(bent)) > 0

    def plot(
        self,
        *,
        layout: str = "paths",
        size: tuple[float, float] | None = None,
        ax: Any = None,
        save: str | Path | None = None,
    ) -> Any:
        """Draw the selected edges with matplotlib; `save` names an .svg, .pdf or .png. Returns the Axes.

        `layout` is 'paths', 'spring', 'community' or 'circle', `size` the figure's in inches.
        """
        from hazeglass.present.plots import plot_graph

        return plot_graph(
            self.names, self._edge_matrix(), unsigned=self._unsigned(), layout=layout, size=size, ax=ax, save=save
        )

    def plot_adjacency(self, *, ax: Any = None, save: str | Path | None = None) -> Any:
        """Draw the matrix of the selected edges' partial correlations, or strengths, ordered by community."""
        from hazeglass.present.plots import plot_adjacency

        return plot_adjacency(self.names, self._edge_matrix(), unsigned=self._unsigned(), ax=ax, save=save)

    def plot_path(self, *, ax: Any = None, save: str | Path | None = None) -> Any:
        """Draw how edges and criterion changed along the penalties that were tried."""
        from hazeglass.present.plots import plot_path

        return plot_path(self.fit["path"], self.fit["alpha"], ax=ax, save=save)

    def to_networkx(self, layer: Literal["now", "lagged"] = "now") -> Any:
        """The selected edges as a networkx.Graph with all columns as edge attributes.

        With layer='lagged' who leads whom, as a DiGraph: of several lags the strongest, its number as `lag`.
        """
        from hazeglass.analyst.export import to_digraph, to_networkx

        return to_digraph(self) if layer == "lagged" else to_networkx(self)

    def to_pandas(self) -> Any:
        """The edge table as a pandas DataFrame."""
        _check_installed("pandas")
        return self.edges.to_pandas()

    def to_polars(self) -> Any:
        """The edge table as a polars DataFrame."""
        _check_installed("polars")
        import polars

        return polars.from_arrow(self.edges)

    def write(self, path: str | Path) -> Path:
        """Write the selected edges in the format the name ends in: .graphml, .gexf, .cyjs (Cytoscape JSON) or .csv."""
        from hazeglass.analyst.export import write

        return write(self, Path(path))

    def save(self, out: str | Path, *, all_pairs: bool = False) -> Path:
        """Write edges.csv, precision.parquet, graph.graphml, fit.json and report.html into the new folder `out`.

        edges.csv holds the selected pairs and the likeliest others, ten thousand in all; with `all_pairs`,
        edges.parquet holds every pair of `edges`.
        """
        from hazeglass.analyst.export import save

        return save(self, Path(out), all_pairs=all_pairs)

    def __repr__(self) -> str:
        alpha, edges = self.fit["alpha"], self.selected.num_rows
        return f"<Graph: {len(self.names)} nodes, {edges} edge{'' if edges == 1 else 's'}, alpha={alpha:.4g}>"

    def _repr_html_(self) -> str:
        """The interactive page for notebooks; of a large graph a short table."""
        from hazeglass.present.pages import Page, render

        edges = [] if self.fit.get("distrusted") else self.selected.slice(0, 20).to_pylist()
        short = render("graph_cell.html", title=repr(self), edges=edges)
        if len(self.names) > _MOST_INLINE or "mu" not in self.fit:  # a fit that someone made by hand has no page
            return short
        from hazeglass.present.report import report

        return f"{short}{Page(report(self.names, self.edges, self.fit, self.lagged))._repr_html_()}"


def _check_installed(library: str) -> None:
    import importlib.util

    if importlib.util.find_spec(library) is None:
        raise MissingExtraError(f"a table of {library} needs {library}. Install it with: pip install {library}")
