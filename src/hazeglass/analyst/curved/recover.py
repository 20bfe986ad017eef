"""From blocks of features to a graph: the curved counterpart of analyst/recover.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass.analyst.curved.blocks import FeatureBlocks
from hazeglass.analyst.curved.inference import CurvedInference, infer_blocks
from hazeglass.analyst.curved.ridge import noise_ridge, ridge_strength
from hazeglass.analyst.curved.select import Refit, effective_rows, group_ebic, support_of
from hazeglass.analyst.curved.shapes import shape_of
from hazeglass.analyst.graph import Graph
from hazeglass.analyst.penalties import Weights, pair_weights
from hazeglass.analyst.selection import Choice
from hazeglass.glasso import Solution, graphical_lasso
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["recover_curved"]

_MOST_SHAPES = 60  # strongest edges whose curve goes into fit.json and the report
_POWERS = {1: "", 2: "^2", 3: "^3"}
_TOLERANCE = 1e-6


def recover_curved(
    blocks: FeatureBlocks, record: dict[str, Any], *, alpha: float | None, fdr: float, weights: Weights
) -> Graph:
    """Choose, fit, test and draw; `record` is what fit.json says of the data."""
    refit = Refit(blocks, pair_weights(weights, blocks.block_sd()))
    choice = group_ebic(refit) if alpha is None else _given(refit, alpha)
    final = _polished(refit, choice)
    # Error bars stand on an estimate free of the penalty's pull, on the graph that the penalty chose.
    found = infer_blocks(blocks, refit.fit(support_of(final, blocks.size)))
    strength = ridge_strength(blocks)
    edges = _edge_table(blocks, final, found, strength, fdr)
    fit = {
        **record,
        **_fit_record(blocks, choice, final, weights, fdr),
        "alpha_for_inference": refit.pull,
        "shapes": _shapes(blocks, found, strength, fdr),
    }
    features = tuple(f"{name}{_POWERS[power]}" for name in blocks.names for power in range(1, blocks.size + 1))
    return Graph(blocks.names, final.precision, edges, fit, features=features)


def _given(refit: Refit, alpha: float) -> Choice:
    blocks = refit.blocks
    found = graphical_lasso(blocks.covariance, alpha, weights=refit.weights, block_size=blocks.size)
    return Choice("given", alpha, found)


def _polished(refit: Refit, choice: Choice) -> Solution:
    """The chosen fit to the tolerance that fit.json states; the path itself is solved more roughly."""
    blocks = refit.blocks
    if choice.solution.gap <= _TOLERANCE * len(blocks.covariance):
        return choice.solution
    return graphical_lasso(
        blocks.covariance,
        choice.alpha,
        weights=refit.weights,
        block_size=blocks.size,
        tol=_TOLERANCE,
        warm_start=choice.solution,
    )


def _edge_table(
    blocks: FeatureBlocks, solution: Solution, found: CurvedInference, strength: FloatArray, fdr: float
) -> pa.Table:
    """The columns of every graph, then the strength of the whole dependence and its shape."""
    import pyarrow as pa

    names, size, linear = blocks.names, blocks.size, found.linear
    i, j = np.triu_indices(len(names), 1)
    norms = block_norms(solution.precision, size)[i, j]
    return pa.table(
        {
            "source": [names[k] for k in i],
            "target": [names[k] for k in j],
            "precision": np.where(linear.partial_correlation > 0, -norms, norms),
            "partial_correlation": linear.partial_correlation,
            "std_error": linear.std_error,
            "ci_low": linear.ci_low,
            "ci_high": linear.ci_high,
            "p_value": linear.p_value,
            "q_value": linear.q_value,
            "selected": linear.q_value <= fdr,
            "strength": strength[i, j],
            "shape": np.where(found.curved, "curved", "linear"),
        }
    )


def _shapes(blocks: FeatureBlocks, found: CurvedInference, strength: FloatArray, fdr: float) -> list[dict[str, Any]]:
    """Curves of the selected edges, the strongest first."""
    upper = np.triu_indices(len(blocks.names), 1)
    selected = np.flatnonzero(found.linear.q_value <= fdr)
    strongest = selected[np.argsort(-strength[upper][selected], kind="stable")][:_MOST_SHAPES]
    return [
        {**shape_of(blocks, found, int(pair)).to_dict(), "shape": "curved" if found.curved[pair] else "linear"}
        for pair in strongest
    ]


def _fit_record(blocks: FeatureBlocks, choice: Choice, final: Solution, weights: Weights, fdr: float) -> dict[str, Any]:
    return {
        "dependence": "curved",
        "scale": "whitened features",
        "effective_rows": effective_rows(blocks),
        "alpha": choice.alpha,
        "alpha_chosen_by": choice.method,
        "path": [
            {"alpha": alpha, "score": score if np.isfinite(score) else None, "edges": count}
            for alpha, score, count in zip(choice.alphas, choice.scores, choice.edges, strict=True)
        ],
        "ridge": noise_ridge(blocks),
        "weights": weights if isinstance(weights, str) else "given",
        "fdr": fdr,
        "solver": final.solver,
        "iterations": final.n_iter,
        "duality_gap": final.gap,
        "smallest_eigenvalue": float(np.linalg.eigvalsh(blocks.covariance)[0]),
        "hidden_columns": list(blocks.hidden),
        "notes": list(blocks.notes),
    }
