"""Many columns: a release of moments to a graph, by the path for many columns, on the CPU or on a device.

That path is for scores that are as good as their columns: continuous, with hardly a cell missing. Whatever else there
is (levels, coarse columns, tables, curves) is recovered as fewer columns are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hazeglass._arrays import leading, to_host
from hazeglass.analyst import checks
from hazeglass.analyst.covariance import Measured, clipping_notes
from hazeglass.analyst.edges import doubted, pair_columns
from hazeglass.analyst.graph import FitRecord, Graph, Origin
from hazeglass.analyst.inference import PairInference
from hazeglass.analyst.large import Estimate
from hazeglass.analyst.large_inference import LargeAnswer, LargePairs, recover_large
from hazeglass.analyst.large_pooling import pool_many
from hazeglass.analyst.noisy import hidden_note
from hazeglass.analyst.pooling import StageMoments, is_loud
from hazeglass.analyst.scored import distortions, swing_shares
from hazeglass.features.marginal import often_missing
from hazeglass.glasso.linalg import FloatArray, blank

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 500  # columns from which this path is taken


def is_for_many(measured: Measured) -> bool:
    """Whether the columns are what this path supposes."""
    if measured.scale != "scores" or not measured.stages or measured.levels or measured.signs is not None:
        return False
    if not math.isinf(measured.box) or often_missing(measured.marginals):
        return False
    smooth = all(link.smooth for link in measured.links or ())
    return smooth and not any(one.coarse.any() for one in measured.marginals)


@dataclass(frozen=True, eq=False)
class LargeTask:
    """What is asked of a graph of many columns."""

    measured: Measured
    origin: Origin
    alpha: float | None
    fdr: float
    weights: str
    device: str
    tell: Callable[[str, float], None]

    def graph(self) -> Graph:
        """The whole way."""
        measured, p = self.measured, len(self.measured.names)
        stages = [self._on_device(stage) for stage in measured.stages]
        self.tell("correcting the covariance", 0.1)
        known, undone = pool_many(stages, measured.n)
        swing = self._swing(stages[0], known)
        known = replace(known, weights=_with_swing(known, swing))
        distrusted = self._distrusted(known, undone)
        del stages
        bent, astray = np.array([distortions(one, (None, 1.0)) for one in measured.marginals]).T
        shares = swing_shares(swing)
        answer = recover_large(
            known,
            alpha=self.alpha,
            uniform=self.weights == "uniform",
            bent=bent,
            astray=shares * astray if shares > 0 else None,
            tell=self.tell,
        )
        precision = blank(p)
        i, j, values = answer.entries
        precision[i, j] = precision[j, i] = values
        edges = _edges(measured.names, answer.pairs, precision, self.fdr)
        if distrusted is not None:
            edges = doubted(edges, distrusted)
        record = self._record(answer, known.share_clipped, distrusted)
        return Graph(measured.names, precision, edges, record.to_dict())

    def _on_device(self, stage: StageMoments) -> StageMoments:
        identity = np.count_nonzero(stage.map) == len(stage.map) and bool(np.all(np.diag(stage.map) == 1))
        second: Any = stage.second
        through: Any = None if identity else stage.map
        if self.device != "cpu":
            import torch

            second = torch.as_tensor(np.ascontiguousarray(second), device=self.device)
            if through is not None:
                through = torch.as_tensor(np.ascontiguousarray(through), device=self.device)
        return replace(stage, second=second, map=through)

    def _swing(self, first: StageMoments, known: Estimate) -> float:
        """How much more often rows are long than Gaussian ones (checks.swing)."""
        if first.radius is None:
            return 0.0
        variance = to_host(known.covariance.diagonal())
        values = _spectrum(known)
        found = checks.swing_of(first, float(variance.sum()), known.trace_variance(), values, self.marginal_error)
        return checks.more_sampling(found) - 1

    @cached_property
    def marginal_error(self) -> float:
        """What noise in the counts leaves in the sum of the scores' variances, squared."""
        return float(sum(map(checks.variance_error, self.measured.marginals, self.measured.links or [])))

    def _distrusted(self, known: Estimate, undone: bool) -> str | None:
        if not undone:
            return checks.TOO_TIGHT
        found = checks.contradicting(known.distrust)
        if found is not None or is_loud(self.measured.stages[-1]):
            return found
        p, variance = len(self.measured.names), to_host(known.covariance.diagonal())
        error = math.sqrt(known.trace_variance() + self.marginal_error) / p
        return checks.odd_lengths(float(variance.mean()) - 1, error, self.measured.n)

    def _record(self, answer: LargeAnswer, clipped: float, distrusted: str | None) -> FitRecord:
        names, radius = self.measured.names, self.measured.stages[-1].radius
        hidden = tuple(name for name, out in zip(names, answer.hidden.tolist(), strict=True) if out)
        notes = [hidden_note(hidden, 1)] if hidden else []
        return FitRecord.of(
            self.origin,
            answer.choice,
            len(names),
            dependence="linear",
            scale="correlation",
            standard_deviations=dict(zip(names, answer.deviations.tolist(), strict=True)),
            effective_rows=answer.rows,
            alpha_for_inference=answer.alpha_for_inference,
            weights=self.weights,
            fdr=self.fdr,
            smallest_eigenvalue=answer.smallest,
            hidden_columns=list(hidden),
            notes=[*self.origin.notes, *notes, *clipping_notes(radius, clipped)],
            distrusted=distrusted,
        )


def _with_swing(known: Estimate, swing: float) -> tuple[float, ...]:
    """Weights of the errors, sampling's so much larger; what every row leaves, and nothing of the noise."""
    weights = list(known.weights)
    weights[known.noise :] = [weight * (1 + swing) for weight in weights[known.noise :]]
    return tuple(weights)


def _spectrum(known: Estimate) -> FloatArray:
    """Eigenvalues of the correlations as far as lengths of rows know them: the leading ones, and two of the others.

    Lengths vary by the sum of their squares; what noise adds to that is taken off.
    """
    S, p = known.covariance, len(known.covariance)
    scale = p / float(S.diagonal().sum())
    squares = (float((S * S).sum()) - known.total_variance()) * scale**2
    top = np.maximum(leading(S, min(12, p // 4), 1e-3)[0] * scale, 0.0)
    rest = p - len(top)
    mean = max((p - float(top.sum())) / rest, 0.0)
    apart = math.sqrt(min(max((squares - float(np.square(top).sum())) / rest - mean**2, 0.0), mean**2))
    others = np.full(rest, mean + apart)
    others[: rest // 2] = mean - apart
    values = np.concatenate([top, others])
    return np.asarray(values * p / values.sum())


def _edges(names: Sequence[str], found: LargePairs, precision: FloatArray, fdr: float) -> pa.Table:
    """The pairs that were kept, in the order of the columns."""
    import pyarrow as pa

    order, entries = np.lexsort((found.j, found.i)), precision[found.i, found.j]
    pairs = PairInference.of(found.estimate, found.error, found.p_value, found.q_value)
    return pa.table(pair_columns(names, (found.i, found.j), entries, pairs, fdr, order))
