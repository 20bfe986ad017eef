"""A lasso that sees no rows, only their covariance, solved until its optimality conditions hold.

    minimise over b:   b' G b / 2 - c' b + sum_k w_k |b_k|          G positive semidefinite, its diagonal positive

Coordinate descent finds the signs; where columns are nearly collinear it then crawls, and the exact active-set method
takes over from where it stands.
"""

from __future__ import annotations

import numpy as np

from hazeglass.glasso.kernels import kernel
from hazeglass.glasso.linalg import FloatArray, cholesky

__all__ = ["conditions_missed_by", "solve_lasso"]

_FIRST_SWEEPS, _LAST_SWEEPS = 200, 5_000
_SINGULAR = 1e-11  # relative: below this an eigenvalue counts as 0


def solve_lasso(G: FloatArray, c: FloatArray, w: FloatArray, tol: float) -> tuple[FloatArray, bool]:
    """The minimiser and whether it meets every optimality condition to `tol`. An infinite weight keeps b_k at 0."""
    b = np.zeros(len(c))
    if gram_lasso(G, c, w, b, c.copy(), tol, _FIRST_SWEEPS) >= 0:
        return b, True
    exact = _active_set(G, c, w, b.copy(), tol)
    if exact is not None:
        return exact, True
    gram_lasso(G, c, w, b, c - G @ b, tol, _LAST_SWEEPS)
    return b, conditions_missed_by(G, c, w, b) <= tol


def conditions_missed_by(G: FloatArray, c: FloatArray, w: FloatArray, b: FloatArray) -> float:
    """Largest violation: |slope_k| <= w_k everywhere, slope_k = w_k sign(b_k) where b_k != 0, with slope = c - G b."""
    slope = c - G @ b
    used = b != 0
    kept = np.max(np.abs(slope[used] - w[used] * np.sign(b[used])), initial=0.0)
    return float(max(kept, np.max(np.abs(slope[~used]) - w[~used], initial=0.0)))


def _active_set(G: FloatArray, c: FloatArray, w: FloatArray, b: FloatArray, tol: float) -> FloatArray | None:
    """Solve on the non-zero entries, drop the first that changes its sign, add the most violated; None if it stalls."""
    active, sign = b != 0, np.sign(b)
    for _ in range(10 * len(b)):
        rows = np.flatnonzero(active)
        move, length = _best_move(G[np.ix_(rows, rows)], c[rows] - w[rows] * sign[rows], b[rows])
        share, first = _until_a_sign_changes(b[rows], sign[rows], move)
        if share < length:
            b[rows] += share * move
            drop = rows[first]
            b[drop], sign[drop], active[drop] = 0.0, 0.0, False
            continue
        if not np.isfinite(length):
            return None  # nothing stops the move: the problem is unbounded
        b[rows] += move
        slope = c - G @ b
        excess = np.where(active, -np.inf, np.abs(slope) - w)
        add = int(np.argmax(excess))
        if excess[add] <= tol:
            return b if conditions_missed_by(G, c, w, b) <= tol else None
        active[add], sign[add] = True, np.sign(slope[add])
    return None


def _best_move(A: FloatArray, rhs: FloatArray, b: FloatArray) -> tuple[FloatArray, float]:
    """The step from b to the minimiser of x' A x / 2 - rhs' x, of length 1; or a direction of endless descent."""
    from scipy.linalg import cho_solve

    if b.size == 0:
        return b, 1.0
    factor = cholesky(A)
    if factor is not None and np.min(np.diagonal(factor)) ** 2 > _SINGULAR * np.max(np.diagonal(A)):
        return np.asarray(cho_solve((factor, False), rhs) - b), 1.0
    values, vectors = np.linalg.eigh(A)
    flat = values <= _SINGULAR * values[-1]
    coordinates = vectors.T @ (rhs - A @ b)
    endless = vectors[:, flat] @ coordinates[flat]
    if np.max(np.abs(endless)) > 1e-9 * np.max(np.abs(rhs)):
        return endless, float("inf")
    return np.asarray(vectors[:, ~flat] @ (coordinates[~flat] / values[~flat])), 1.0


def _until_a_sign_changes(b: FloatArray, sign: FloatArray, move: FloatArray) -> tuple[float, int]:
    """How far along the move the first entry reaches zero, and which; infinity where none does."""
    shrinking = np.flatnonzero(move * sign < 0)
    if shrinking.size == 0:
        return float("inf"), -1
    shares = -b[shrinking] / move[shrinking]
    return float(np.min(shares)), int(shrinking[np.argmin(shares)])


@kernel
def gram_lasso(G, c, w, b, slope, tol, max_iter):  # type: ignore[no-untyped-def]  # pragma: no cover (compiled)
    """Coordinate descent in place on b; `slope` is c - G b. Returns the sweeps done, or -1 when they ran out.

    Sweeps over the non-zero entries until they are settled, then one over all; done when that one finds every
    optimality condition met to `tol`: |slope_k| <= w_k + tol, and slope_k = w_k sign(b_k) to `tol` where b_k != 0.
    """
    p = b.shape[0]
    everything = True
    for sweep in range(max_iter):
        worst = 0.0
        for k in range(p):
            old = b[k]
            if old == 0.0 and (not everything or abs(slope[k]) <= w[k]):
                continue
            pull = 0.0 if old == 0.0 else (w[k] if old > 0.0 else -w[k])
            worst = max(worst, abs(slope[k] - pull) - (w[k] if old == 0.0 else 0.0))
            full = slope[k] + G[k, k] * old
            size = abs(full) - w[k]
            new = 0.0 if size <= 0.0 else (size if full > 0.0 else -size) / G[k, k]
            if new != old:
                step = new - old
                b[k] = new
                for row in range(p):
                    slope[row] -= step * G[k, row]
        if worst <= tol:
            if everything:
                return sweep + 1
            everything = True
        else:
            everything = False
    return -1
