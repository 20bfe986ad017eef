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
def slackness(start, column, entry, S, lam, diagonal, W, sd):  # type: ignore[no-untyped-def]
    """(first bracket, tr(S T) + penalty(T), stationarity) in one walk over the non-zeros of T."""
    p = S.shape[0]
    full = lam.shape[0] > 1
    slack = linear = worst = 0.0
    for i in range(p):
        paid = lam[i] if full else lam[0]
        for a in range(start[i], start[i + 1]):
            j = column[a]
            t = entry[a]
            if i == j:
                pays = S[i, i] + diagonal[i]
                linear += pays * t
                slack += (pays - W[i, i]) * t
                continue
            sign = 1.0 if t > 0 else -1.0
            pull = S[i, j] + sign * paid[j]
            linear += pull * t
            slack += (pull - W[i, j]) * t
            off = abs(pull - W[i, j]) / (sd[i] * sd[j])
            worst = off if off > worst else worst
    return slack, linear, worst


@kernel
def inverse_miss(start, column, entry, W, sd, row):  # type: ignore[no-untyped-def]
    """Squared Frobenius norm of D (T W - I) D^-1; row is scratch."""
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
    return total


@kernel
def scatter(start, column, entry, T):  # type: ignore[no-untyped-def]
    """Write the compressed rows into the zero matrix T."""
    for i in range(T.shape[0]):
        for a in range(start[i], start[i + 1]):
            T[i, column[a]] = entry[a]
