"""Graphical lasso on an accelerator: proximal gradient steps of Barzilai-Borwein length.

One step T+ = soft(T - t (S - W), t lambda) with W the inverse of T costs one factor and one inverse, all of it matrix
products. What the step leaves, D = W + (T - T+)/t, lies in the dual box and is complementary to T+, so the gap of the
pair (T+, D) is second order in the step. Steps begin in float32 with the tensor cores' short products; where those do
not arrive, proximal Newton steps follow (float64, the quadratic model minimised in float32), then plain steps in
float64. The certificate is always two Cholesky factors in float64. Derivation: docs/maths/solvers.md.
Importing this file imports torch: do it where a device was asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from hazeglass.glasso.device.linalg import logdet, logdet_and_inverse, mirror, row_blocks
from hazeglass.glasso.objective import Attempt, Certificate

MAX_ITER = 2_000
MEMORY = 5  # a step may raise the objective above the last one, not above the highest of so many
SUFFICIENT = 1e-4
HALVINGS = 12  # of one step, before the precision is called spent
FEW, MANY, INNER_TOL = 10, 30, 0.2  # steps on a Newton model that is hardly trusted, or trusted; and when it is enough
FORBIDDEN = 1e30  # stands for an infinite penalty: infinity times zero is no number


@dataclass(frozen=True)
class Rung:
    """One precision: how iterates are stored, and whether products may use the tensor cores' short format.

    The next rung is climbed after `patience` steps that did not halve the estimated gap, or after `limit` steps.
    """

    dtype: torch.dtype
    short_products: bool
    rounding: float
    patience: int
    limit: int
    second_order: bool = False


LADDER = (
    Rung(torch.float32, True, 2e-4, patience=10, limit=25),
    Rung(torch.float64, True, 1e-13, patience=20, limit=100, second_order=True),
    Rung(torch.float64, False, 1e-13, patience=100, limit=MAX_ITER),
)


@dataclass(eq=False)
class DeviceProblem:
    """S and the penalty in units where the fitted variances S_ii + lambda_ii are 1."""

    S: Tensor
    rate: Tensor  # 1 / fitted standard deviation
    alpha: float
    off: Tensor | None  # what each pair pays where it is not alpha for all

    def paid(self, rows: slice, dtype: torch.dtype) -> Tensor:
        """The penalty of some rows; the diagonal's is 0 because S has it already."""
        rate = self.rate.to(dtype)
        if self.off is None:
            paid = (self.alpha * rate[rows, None]) * rate
        else:
            paid = (self.off[rows].to(dtype) * rate[rows, None] * rate).clamp_(max=FORBIDDEN)
        paid[:, rows].fill_diagonal_(0.0)
        return paid

    def linear(self, T: Tensor) -> float:
        """tr(S T) + penalty(T), in float64."""
        total = torch.zeros((), dtype=torch.float64, device=T.device)
        for rows in row_blocks(T.shape[0]):
            entries = T[rows].double()
            total += torch.vdot(self.S[rows].flatten(), entries.flatten())
            total += torch.vdot(self.paid(rows, torch.float64).flatten(), entries.abs().flatten())
        return float(total)


@dataclass(frozen=True, eq=False)
class DeviceCertificate(Certificate):
    """A certified pair on the device; or a precision along which the objective falls for ever."""

    unbounded: bool = False


def make_problem(S: Tensor, diagonal: Tensor, alpha: float, off: Tensor | None) -> DeviceProblem:
    """Scale S (float64, on the device) to unit fitted variances. `diagonal` is what its diagonal pays."""
    rate = (S.diagonal() + diagonal).rsqrt()
    scaled = S * rate
    scaled *= rate[:, None]
    scaled.fill_diagonal_(1.0)
    return DeviceProblem(scaled, rate, alpha, off)


def solve(problem: DeviceProblem, *, tol: float, max_iter: int | None = None, start: Tensor | None = None) -> Attempt:
    """Climb the ladder of precisions until a certificate says gap <= tol * p. `start` is a precision in S's units."""
    limit = max_iter or MAX_ITER
    T = first_guess(problem) if start is None else (start / problem.rate / problem.rate[:, None]).float()
    step, used = 1.0, 0
    best: DeviceCertificate | None = None
    for rung in LADDER:
        with _products(rung.short_products):
            descent = Descent(problem, T, rung, step)
            best = descent.run(tol, min(rung.limit, limit - used), best)
        T, step, used = descent.T, descent.step, used + descent.count
        if used >= limit or (best is not None and (best.unbounded or best.gap <= tol * T.shape[0])):
            break
    best = best or certificate(problem, T, descent.dual)
    return Attempt(_in_own_units(best, problem.rate), used, best.unbounded, f"prox on {T.device.type}")


class Descent:
    """T, its inverse W and the dual point of the last step, in one precision."""

    def __init__(self, problem: DeviceProblem, T: Tensor, rung: Rung, step: float) -> None:
        self.problem, self.rung, self.step = problem, rung, step
        self.S = problem.S.to(rung.dtype)
        self.count = 0
        self.T = T.to(rung.dtype)
        self.dual = torch.empty_like(self.T)
        self._spare = torch.empty_like(self.T)
        self.linear = float("inf")  # tr(S T) + penalty(T): p at the solution, and <= 0 proves that there is none
        self.inner_step, self.leap_size = 0.1, 1.0
        self.W, height = self._begin()
        self.heights = deque([height], maxlen=MEMORY)

    def run(self, tol: float, max_iter: int, best: DeviceCertificate | None) -> DeviceCertificate | None:
        """Step until certified, or until steps stop helping in this precision."""
        goal = tol * self.T.shape[0]
        trust, lowest, since = 1.0, float("inf"), 0
        while self.count < max_iter and self.count - since <= self.rung.patience:
            if self.rung.second_order:
                self.leap()
            estimate = self.advance()
            if estimate is None:
                break
            if estimate * trust <= goal or self.linear <= 0:
                found = certificate(self.problem, self.T, self.dual)
                trust = 1.2 * found.gap / max(estimate, 1e-300)
                best = found if best is None or found.gap < best.gap else best
                if found.unbounded or found.gap <= goal:
                    return found
            if estimate < lowest / 2:
                lowest, since = estimate, self.count
        return best

    def advance(self) -> float | None:
        """One accepted step; returns half the squared distance of dual and inverse, which estimates the gap."""
        self.count += 1
        p = self.T.shape[0]
        for _ in range(HALVINGS):
            linear, moved = self._propose()
            inverse = self.dual.copy_(self._spare)
            log_determinant = logdet_and_inverse(inverse)
            if log_determinant is not None:
                height = linear - log_determinant
                allowed = max(self.heights) - SUFFICIENT * moved / (2.0 * self.step) + self.rung.rounding * p
                if height <= allowed:
                    self.heights.append(height)
                    self.linear = linear
                    return self._accept(inverse)
            self.step /= 2.0
        return None

    def leap(self) -> None:
        """One proximal Newton step: the quadratic model is minimised in float32, the step checked in this precision.

        Far from the solution the model is only trusted for a part of the way, and so not minimised far.
        """
        patience = FEW if self.leap_size < 1.0 else MANY
        target, self.inner_step = Model(self).minimise(self.inner_step, patience)
        for _ in range(HALVINGS):
            torch.sub(target, self.T, out=self._spare).mul_(self.leap_size).add_(self.T)
            inverse = self.dual.copy_(self._spare)
            log_determinant = logdet_and_inverse(inverse)
            if log_determinant is not None:
                height = self.problem.linear(self._spare) - log_determinant
                if height <= self.heights[-1] + self.rung.rounding * self.T.shape[0]:
                    self.T, self._spare = self._spare, self.T
                    self.W, self.dual = inverse, self.W
                    self.heights = deque([height], maxlen=MEMORY)
                    self.leap_size = min(1.0, 4.0 * self.leap_size)
                    return
            self.leap_size /= 2.0

    def _propose(self) -> tuple[float, float]:
        """The next T into the spare matrix; returns tr(S T) + penalty(T), and the squared length of the step."""
        sums = torch.zeros(2, dtype=torch.float64, device=self.T.device)
        for rows in row_blocks(self.T.shape[0]):
            paid = self.problem.paid(rows, self.T.dtype)
            new = self._spare[rows]
            torch.sub(self.W[rows], self.S[rows], out=new)
            new.mul_(self.step).add_(self.T[rows])
            _soften(new, paid * self.step)
            sums[0] += torch.sum(self.S[rows] * new + paid * new.abs(), dtype=torch.float64)
            sums[1] += torch.sum((new - self.T[rows]).square_(), dtype=torch.float64)
        linear, moved = sums.tolist()
        return linear, moved

    def _accept(self, inverse: Tensor) -> float:
        """Take the step: the dual point replaces the old inverse, and the next length comes from what changed."""
        sums = torch.zeros(4, dtype=torch.float64, device=self.T.device)
        for rows in row_blocks(self.T.shape[0]):
            step = self._spare[rows] - self.T[rows]
            change = self.W[rows] - inverse[rows]
            sums[0] += torch.sum(step * step, dtype=torch.float64)
            sums[1] += torch.sum(step * change, dtype=torch.float64)
            sums[2] += torch.sum(change * change, dtype=torch.float64)
            self.W[rows].sub_(step, alpha=1.0 / self.step)
            sums[3] += torch.sum((self.W[rows] - inverse[rows]).square_(), dtype=torch.float64)
        squared, mixed, changed, missed = sums.tolist()
        self.T, self._spare = self._spare, self.T
        self.W, self.dual = inverse, self.W
        if mixed > 0:
            self.step = mixed / changed if self.count % 2 else squared / mixed
        return 0.5 * float(missed)

    def _begin(self) -> tuple[Tensor, float]:
        """The inverse of T and the objective; the off-diagonal of T is halved until it is positive definite."""
        while True:
            W = self.T.clone()
            log_determinant = logdet_and_inverse(W)
            if log_determinant is not None:
                return W, self.problem.linear(self.T) - log_determinant
            diagonal = self.T.diagonal().clone()
            self.T = self.T * 0.5
            self.T.diagonal().copy_(diagonal)


class Model:
    """The quadratic model around T: <S - W, X - T> + 1/2 tr(W (X - T) W (X - T)) + penalty(X), in float32."""

    def __init__(self, descent: Descent) -> None:
        self.T, self.W = descent.T.float(), descent.W.float()
        self.slope = (descent.S - descent.W).float()
        self.paid = torch.empty_like(self.T)
        for rows in row_blocks(self.T.shape[0]):
            self.paid[rows] = descent.problem.paid(rows, torch.float32)

    def minimise(self, step: float, max_iter: int) -> tuple[Tensor, float]:
        """Proximal gradient steps of Barzilai-Borwein length, two products each; returns X and the last length."""
        X, grad = self.T.clone(), self.slope.clone()
        new, fresh = torch.empty_like(X), torch.empty_like(X)
        values = deque([float("inf")], maxlen=MEMORY)
        first = 0.0
        for count in range(max_iter):
            torch.sub(X, grad, alpha=step, out=new)
            _soften(new, self.paid * step)
            torch.addmm(self.slope, self.W @ (new - self.T), self.W, out=fresh)
            value, squared, mixed, changed = self._measure(X, grad, new, fresh)
            if value > max(values):
                step /= 4.0
                continue
            values.append(value)
            X, new = new, X
            grad, fresh = fresh, grad
            first = first or squared / step**2
            done = squared <= (INNER_TOL * step) ** 2 * first
            if mixed > 0:
                step = mixed / changed if count % 2 else squared / mixed
            if done:
                break
        return X, step

    def _measure(self, X: Tensor, grad: Tensor, new: Tensor, fresh: Tensor) -> list[float]:
        """The model's value at `new`, and the squares and product of what changed in X and in the slope."""
        moved, s, y = new - self.T, new - X, fresh - grad
        value = 0.5 * (_dot(self.slope, moved) + _dot(fresh, moved)) + _dot(self.paid, new.abs())
        sums: list[float] = torch.stack([value, _dot(s, s), _dot(s, y), _dot(y, y)]).tolist()
        return sums


def _dot(A: Tensor, B: Tensor) -> Tensor:
    return torch.dot(A.flatten(), B.flatten())


def certificate(problem: DeviceProblem, T: Tensor, dual: Tensor) -> DeviceCertificate:
    """Prove in float64 how good T is, with the dual point clipped into the box; an infinite gap where that fails."""
    wide = T.to(torch.float64, copy=True)
    mirror(wide)  # rounding leaves the halves slightly apart
    linear = problem.linear(wide)
    log_determinant = logdet(wide.clone())
    if log_determinant is not None and linear <= 0:
        return DeviceCertificate(wide, wide, float("inf"), float("inf"), float("inf"), unbounded=True)
    D = torch.empty_like(problem.S)
    kkt = torch.zeros((), dtype=torch.float64, device=D.device)
    for rows in row_blocks(D.shape[0]):
        S, paid, sign = problem.S[rows], problem.paid(rows, torch.float64), wide[rows].sign()
        torch.minimum(torch.maximum(dual[rows].double(), S - paid), S + paid, out=D[rows])
        kkt = torch.maximum(kkt, ((D[rows] - S - paid * sign) * sign).abs().max())
    mirror(D)
    dual_logdet = logdet(D.clone())
    if log_determinant is None or dual_logdet is None:
        return DeviceCertificate(wide, D, float("inf"), float("inf"), float("inf"))
    objective = linear - log_determinant
    gap = max(objective - dual_logdet - D.shape[0], 0.0)
    return DeviceCertificate(wide, D, objective, gap, float(kkt))


def first_guess(problem: DeviceProblem) -> Tensor:
    """The solution if the graph had no cycles: from the thresholded S, entry by entry (Fattahi and Sojoudi 2019)."""
    T = torch.empty_like(problem.S, dtype=torch.float32)
    extra = torch.zeros(T.shape[0], dtype=torch.float32, device=T.device)
    for rows in row_blocks(T.shape[0]):
        shared = problem.S[rows].float()
        shared[:, rows].fill_diagonal_(0.0)
        _soften(shared, problem.paid(rows, torch.float32))
        shared.clamp_(-0.9, 0.9)
        T[rows] = -shared / (1.0 - shared.square())
        extra[rows] = -(T[rows] * shared).sum(dim=1)
    T.diagonal().copy_(1.0 + extra)
    return T


def _soften(x: Tensor, paid: Tensor) -> None:
    """Move x towards zero by paid, in place."""
    x.sub_(torch.minimum(torch.maximum(x, -paid), paid))


def _in_own_units(answer: Certificate, rate: Tensor) -> Certificate:
    T = answer.precision * rate
    T *= rate[:, None]
    W = answer.covariance / rate
    W /= rate[:, None]
    objective = answer.objective - 2.0 * float(rate.log().sum())
    return Certificate(T, W, objective, answer.gap, answer.kkt)


@contextmanager
def _products(short: bool) -> Iterator[None]:
    """Let float32 products use the tensor cores' short format, or not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if short else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
