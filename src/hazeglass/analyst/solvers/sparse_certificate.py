"""The duality gap of a sparse T and a feasible W, from T's non-zeros and one Cholesky factor.

With T > 0 and M = T W - I similar to the symmetric E = T^(1/2) W T^(1/2) - I:

    gap(T, W) = [tr(S T) + penalty(T) - tr(W T)] + [tr(E) - log det(I + E)]

The first bracket is complementary slackness; the second is at most |E|^2 / (2 (1 - |E|)) when |E| < 1, which
also proves W > 0. The Frobenius norm of E is at most that of any matrix similar to it: D M D^-1 with
D = sqrt(diag(W)), whose entries have no unit. So W is never factored. Derivation: docs/maths/solvers.md.
"""

from __future__ import annotations

from hazeglass.analyst.solvers.cd_kernel import add_rows
from hazeglass.analyst.solvers.compiled import kernel


@kernel
def inverse_miss(start, column, entry, W, sd, enough, row):  # type: ignore[no-untyped-def]
    """Squared Frobenius norm of D (T W - I) D^-1; row is scratch.

    It ends early with a part of the sum where that is more than enough and the whole promises to stay below 0.2.
    """
    p = W.shape[0]
    total = 0.0
    for i in range(p):
        for j in range(p):
            row[j] = 0.0
        begin, end = start[i], start[i + 1]
        add_rows(W, column[begin:end], entry[begin:end], end - begin, row)
        row[i] -= 1.0
        here = 0.0
        for j in range(p):
            scaled = row[j] / sd[j]
            here += scaled * scaled
        total += here * sd[i] * sd[i]
        if total > enough and total * p < 0.2 * (i + 1):
            break
    return total
