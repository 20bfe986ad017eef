"""How far a symmetric matrix is from the positive semidefinite cone in the max norm, with proof.

    d(S) = min over W >= 0 of max_ij |W_ij - S_ij|_F / w_ij  =  max over Z >= 0, sum w_ij |Z_ij|_F = 1 of -tr(S Z)

W_ij is an entry, or a block of features. Any W on the left bounds d(S) from above, any Z on the right from below. ADMM
on the left produces both from one eigendecomposition per step, so the loop stops on a certificate and not on a guess.
The penalised likelihood at alpha has a minimum iff alpha > d(S) (docs/maths/solvers.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from hazeglass.errors import UnboundedObjectiveError
from hazeglass.glasso.linalg import FloatArray, as_covariance
from hazeglass.glasso.objective import NO_LIMIT, Clock
from hazeglass.glasso.penalty import Penalty, block_norms, rescale, times

MAX_STEPS = 20_000
CHECK_EVERY = 5
RELATIVE_TOLERANCE = 2e-4
NOTHING = 1e-9  # relative to the largest entry: a distance this small is 0 to rounding


@dataclass(frozen=True, eq=False)
class Distance:
    """lower <= d(S) <= upper; `nearest` is positive semidefinite and lies at `upper`."""

    nearest: FloatArray
    lower: float
    upper: float


def nearest_psd_max_norm(S: ArrayLike) -> tuple[FloatArray, float]:
    """The positive semidefinite matrix nearest to S in the max norm, and its distance (to 3 digits, certified).

    Parameters
    ----------
    S : array of shape (p, p)
        Symmetric, possibly indefinite.

    Returns
    -------
    matrix : array of shape (p, p)
        Positive semidefinite to rounding, with max |matrix - S| equal to `distance`.
    distance : float
        At most 0.02 % above the smallest possible; 0.0 when S is already positive semidefinite.

    Examples
    --------
    >>> matrix, distance = nearest_psd_max_norm([[1.0, 2.0], [2.0, 1.0]])
    >>> round(distance, 3)
    0.5
    """
    matrix = as_covariance(S)
    answer = psd_distance(matrix, np.ones_like(matrix))
    return answer.nearest, answer.upper


def psd_distance(
    S: FloatArray,
    weights: FloatArray,
    *,
    block: int = 1,
    threshold: float | None = None,
    rtol: float = RELATIVE_TOLERANCE,
    max_steps: int = MAX_STEPS,
    clock: Clock = NO_LIMIT,
) -> Distance:
    """Bounds on the weighted distance d(S), within rtol of each other unless steps or time end the search.

    There is one weight per block of `block` rows and columns. Weights may be 0 (that block of S cannot
    move) or infinite (it is free). With `threshold` the search stops as soon as the bounds say on which side of it
    d(S) lies. Where no movement of the weighted entries helps, the upper bound stays infinite.
    """
    eigenvalues, vectors = np.linalg.eigh(S)
    if eigenvalues[0] >= 0:
        return Distance(S.copy(), 0.0, 0.0)
    if np.any((np.repeat(np.diagonal(weights), block) == 0) & (np.diagonal(S) < 0)):
        return Distance(_project(eigenvalues, vectors)[0], float("inf"), float("inf"))
    unit = float(np.max(np.abs(S)))
    target = S / unit
    step = ConeStep(target, weights, block, rho=1.0 / max(-eigenvalues[0] / unit, 1e-3) / S.shape[0])
    best = Distance(_project(eigenvalues / unit, vectors)[0], 0.0, float("inf"))
    goal = None if threshold is None else threshold / unit
    for count in range(max_steps):
        found = step.advance()
        over = clock.over
        if count % CHECK_EVERY and count > CHECK_EVERY and not over:
            continue
        best = _tighten(best, found, target, weights, block)
        if best.upper - best.lower <= max(rtol * best.upper, NOTHING) or _decided(best, goal) or over:
            break
        if count % (4 * CHECK_EVERY) == 3 * CHECK_EVERY:
            step.balance()
    upper = weighted_max(block_norms(best.nearest - target, block), weights)
    return Distance(best.nearest * unit, best.lower * unit, upper * unit)


class ConeStep:
    """One ADMM step: project on the cone, then apply the prox of the norm through the projection on its dual ball."""

    def __init__(self, target: FloatArray, weights: FloatArray, block: int, rho: float) -> None:
        self.target, self.weights, self.block, self.rho = target, weights, block, rho
        self.near = target.copy()
        self.dual = np.zeros_like(target)
        self.primal_miss = self.dual_miss = 0.0

    def advance(self) -> tuple[FloatArray, FloatArray]:
        """Returns a positive semidefinite candidate for W and one (not yet scaled) for Z."""
        psd, rest = _project(*np.linalg.eigh(self.near - self.dual))
        relaxed = 1.6 * psd - 0.6 * self.near
        moved = relaxed + self.dual
        self.dual = project_l1_ball(moved - self.target, self.weights, 1.0 / self.rho, self.block)
        near = moved - self.dual
        self.dual_miss = self.rho * float(np.linalg.norm(near - self.near))
        self.primal_miss = float(np.linalg.norm(psd - near))
        self.near = near
        return psd, rest

    def balance(self) -> None:
        """Keep the two residuals, each relative to its variable, within a factor of 9 of each other."""
        primal = self.primal_miss / max(float(np.linalg.norm(self.near)), 1e-300)
        dual = self.dual_miss / max(self.rho * float(np.linalg.norm(self.dual)), 1e-300)
        factor = float(np.sqrt(max(primal, 1e-300) / max(dual, 1e-300)))
        if 1 / 3 < factor < 3:
            return
        factor = float(np.clip(factor, 0.2, 5.0))
        if 1e-9 < self.rho * factor < 1e9:
            self.rho *= factor
            self.dual /= factor


def _project(eigenvalues: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The projection on the cone, and what is left over (also positive semidefinite, with its sign turned)."""
    low = eigenvalues < 0
    negative = vectors[:, low] * np.sqrt(-eigenvalues[low])
    positive = vectors[:, ~low] * np.sqrt(eigenvalues[~low])
    return positive @ positive.T, negative @ negative.T


def _tighten(
    best: Distance, found: tuple[FloatArray, FloatArray], S: FloatArray, weights: FloatArray, block: int
) -> Distance:
    """Take over whichever bound improved."""
    nearest, upper, lower = best.nearest, best.upper, best.lower
    candidate = _restore_frozen_diagonal(found[0], S, weights) if block == 1 else found[0]
    here = weighted_max(block_norms(candidate - S, block), weights)
    if here < upper:
        nearest, upper = candidate, here
    Z = found[1]
    paid = float(np.sum(times(weights, block_norms(Z, block))))
    gain = -float(np.vdot(S, Z))
    if gain > 0:
        lower = max(lower, gain / paid if paid > 0 else float("inf"))
    return Distance(nearest, min(lower, upper), upper)


def _restore_frozen_diagonal(psd: FloatArray, S: FloatArray, weights: FloatArray) -> FloatArray:
    """Rescale rows and columns so that variances of weight 0 are met exactly; the result stays in the cone."""
    frozen = (np.diagonal(weights) == 0) & (np.diagonal(S) >= 0) & (np.diagonal(psd) > 0)
    if not np.any(frozen):
        return psd
    factor = np.ones(len(S))
    factor[frozen] = np.sqrt(np.diagonal(S)[frozen] / np.diagonal(psd)[frozen])
    return psd * np.outer(factor, factor)


def _decided(best: Distance, goal: float | None) -> bool:
    """Below d(S), or above it with half of the room left for those who need an interior point."""
    return goal is not None and (best.lower >= goal or best.upper < (goal + best.lower) / 2)


def weighted_max(move: FloatArray, weights: FloatArray) -> float:
    """max move_ij / w_ij over the norms of blocks of a matrix of unit size; weight 0 allows rounding, nothing more."""
    frozen = weights == 0
    if np.any(frozen) and np.max(move[frozen]) > 1e-9:
        return float("inf")
    return float(np.max(move[~frozen] / weights[~frozen], initial=0.0))


def project_l1_ball(V: FloatArray, weights: FloatArray, radius: float, block: int = 1) -> FloatArray:
    """Euclidean projection of V on sum w |U|_F <= radius: U = soft(V, theta w). Weight 0: U = V; infinite: U = 0."""
    norms = block_norms(V, block)
    usual = (weights > 0) & np.isfinite(weights)
    theta = _threshold(norms[usual], weights[usual], radius)
    with np.errstate(invalid="ignore"):
        shrunk = np.maximum(norms - theta * weights, 0.0)
    if theta == 0.0:
        shrunk[np.isinf(weights)] = 0.0
    return rescale(V, shrunk, block)


def _threshold(size: FloatArray, w: FloatArray, radius: float) -> float:
    """theta >= 0 with sum w max(size - theta w, 0) = radius (0 if already smaller).

    The sum is convex and piecewise linear in theta, so Newton's method from 0 climbs to the root in a few exact steps.
    """
    theta = 0.0
    for _ in range(100):
        above = size > theta * w
        excess = float(np.dot(w[above], size[above])) - theta * float(np.dot(w[above], w[above])) - radius
        if excess <= 1e-15 * radius:
            break
        theta += excess / float(np.dot(w[above], w[above]))
    return theta


def refuse_if_unbounded(S: FloatArray, penalty: Penalty, *, proven: bool) -> None:
    """Raise where no estimate exists; return where alpha is above d(S)."""
    alpha = penalty.alpha
    if alpha > 0:
        steps = int(np.clip(1e10 / len(S) ** 3, 50, 20_000))  # a message may take seconds, not minutes
        measure = partial(psd_distance, S, penalty.full() / alpha, block=penalty.block, max_steps=steps)
        distance = measure(threshold=None if proven else alpha)
        if not proven and distance.lower >= alpha:
            proven, distance = True, measure()
    else:
        even = np.ones((penalty.size, penalty.size))
        distance = psd_distance(S, even, block=penalty.block, max_steps=200)
        proven = proven or float(np.linalg.eigvalsh(S)[0]) <= 0
    if proven:
        raise UnboundedObjectiveError(_unbounded_message(alpha, distance, penalty))


def _unbounded_message(alpha: float, distance: Distance, penalty: Penalty) -> str:
    if distance.upper - distance.lower <= 1e-3 * distance.upper:
        size, needed = f"= {distance.upper:.4g}", f"Use alpha > {distance.upper:.4g}"
    elif np.isfinite(distance.upper):
        size = f"lies between {distance.lower:.4g} and {distance.upper:.4g}"
        needed = f"Use alpha > {distance.upper:.4g}"
    else:
        size = f">= {distance.lower:.4g}"
        needed = "Use a larger alpha" if np.all(penalty.diagonal > 0) else "Use penalize_diagonal=True"
    norm = "the max norm" if penalty.block == 1 else "the largest Frobenius norm of a block"
    return (
        f"the penalised likelihood is unbounded at alpha = {alpha:.4g}: an estimate exists only for alpha > d(S), the "
        f"distance of the covariance to the positive semidefinite cone in {norm} (weighted like the penalty), and "
        f"d(S) {size}. {needed}, or repair the covariance first: matrix, distance = nearest_psd_max_norm(S)."
    )
