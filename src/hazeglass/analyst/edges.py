"""The table of edges: one row per pair, those that were selected and the likeliest others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.blocks import pair_kinds, ridge_strength, strengths
from hazeglass.analyst.inference import PairInference
from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.analyst.penalty import Choice
from hazeglass.errors import DistrustWarning, warn
from hazeglass.glasso.linalg import FloatArray
from hazeglass.glasso.penalty import block_norms

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_PAIRS = 500_000  # in a graph's table: every pair of a thousand columns
_MOST_DIFFERING = 60  # pairs of several releases that fit.json names
CERTAINTY = ("std_error", "ci_low", "ci_high", "p_value", "q_value")


def edge_table(
    noisy: NoisyCovariance,
    choice: Choice,
    pairs: PairInference,
    fdr: float,
    *,
    all_pairs: bool,
    apart: FloatArray | None = None,
) -> pa.Table:
    """One row per pair; for blocks the strength of the whole dependence and its shape as well, for several releases
    whether they agree."""
    import pyarrow as pa

    rows, columns = np.triu_indices(len(noisy.names), 1)
    precision, selected = choice.solution.precision, pairs.q_value <= fdr
    if noisy.size == 1:
        entries = precision[rows, columns]
    else:  # the norm of the block, with the sign that the linear part gives it
        norms = block_norms(precision, noisy.size)[rows, columns]
        entries = np.where(pairs.partial_correlation > 0, -norms, norms)
    kept = slice(None) if all_pairs else _listed(selected | (entries != 0), pairs.p_value)
    table = pair_columns(noisy.names, (rows, columns), entries, pairs, fdr, kept)
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
    if apart is not None:
        table["disagreement_p"] = apart[kept]
    return pa.table(table)


def pair_columns(
    names: Sequence[str],
    ends: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    entries: FloatArray,
    pairs: PairInference,
    fdr: float,
    kept: npt.NDArray[np.intp] | slice,
) -> dict[str, Any]:
    """What the table says of any graph's pairs; those `kept`, in that order."""
    import pyarrow as pa

    known = pa.array(names)
    table = {name: known.take(pa.array(end[kept])) for name, end in zip(("source", "target"), ends, strict=True)}
    table |= {"precision": entries[kept], "partial_correlation": pairs.partial_correlation[kept]}
    table |= {name: getattr(pairs, name)[kept] for name in CERTAINTY}
    return {**table, "selected": pairs.q_value[kept] <= fdr}


def disagreement_record(noisy: NoisyCovariance, p_value: FloatArray, fdr: float) -> dict[str, Any] | None:
    """Whether several releases have one graph: of all pairs together Simes' p-value, and the pairs that differ."""
    from scipy.stats import false_discovery_control

    if noisy.distrusted is not None:
        return None
    q_value, (i, j) = false_discovery_control(p_value), np.triu_indices(len(noisy.names), 1)
    differing = np.flatnonzero(q_value <= fdr)
    some = differing[np.argsort(p_value[differing], kind="stable")][:_MOST_DIFFERING]
    return {
        "p_value": float(q_value.min()),
        "pairs_that_differ": int(differing.size),
        "most": [[noisy.names[i[k]], noisy.names[j[k]], float(p_value[k])] for k in some],
    }


def doubted(edges: pa.Table, why: str) -> pa.Table:
    """The same pairs, none of them selected, and nothing said of how sure their estimates are; and a warning."""
    warn(f"nothing is selected, because error bars would be wrong: {why}.", DistrustWarning)
    return without_certainty(edges)


def without_certainty(edges: pa.Table) -> pa.Table:
    import pyarrow as pa

    for name in (name for name in (*CERTAINTY, "disagreement_p") if name in edges.column_names):
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
