"""Compiled: a lasso that sees no rows, only their covariance.

minimise over b:   b' G b / 2 - c' b + sum_k w_k |b_k|          G positive semidefinite, its diagonal positive
"""

from __future__ import annotations

from hazeglass.glasso.compiled import kernel

__all__ = ["gram_lasso"]


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
