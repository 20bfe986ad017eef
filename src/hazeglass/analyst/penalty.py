"""What each pair of columns pays, one problem at any penalty, and the path of penalties that one is chosen from.

Error bars are built on a penalty of their own, the pilot's; how that is chosen for many columns and for fewer stands
here as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass._arrays import Array
from hazeglass.errors import InputError, RepairWarning, SelectionWarning, warn
from hazeglass.glasso import Solution, graphical_lasso
from hazeglass.glasso.distance import MAX_STEPS, Distance, psd_distance
from hazeglass.glasso.linalg import FloatArray, cholesky
from hazeglass.glasso.penalty import block_norms, make_penalty

if TYPE_CHECKING:
    from hazeglass.analyst.noisy import NoisyCovariance

WEIGHTS = ("noise", "uniform")
Weights = str | npt.ArrayLike  # one of WEIGHTS, or what each pair pays
Support = npt.NDArray[np.bool_]
GRID = 20
GAMMA = 0.5  # of the extended criterion
PATIENCE = 7  # penalties without a better score before the path ends
ROUGH = 1e-4  # duality gap per feature along a path of larger blocks: far below what moves a criterion
_NONZERO = 1e-10
_ROUGHLY = 0.02  # two digits of d(S) will do: penalties keep five per cent above it
_SHARE = 0.9  # a repaired matrix lies this share of the penalty from the cone: bounded, and not barely
_FIRST_SPAN, _LONGEST_SPAN = 1e-2, 1e-4
MOST_DEGREE = 60  # neighbours of a column, on average: a denser graph is no longer read
_DISTANCE_STEPS = 2e10  # of the search for the nearest positive semidefinite matrix, times columns cubed
_HALVINGS = 12
_HEAVIEST, _LIGHTEST = 3.0, 0.1  # penalties of the pilot, in standard deviations of an entry
# Noise in a row of the whitened covariance, squared: with less, its inverse is best; with more, it is noise itself.
_LITTLE_NOISE, MOST_NOISE = 0.15, 0.6
_BLUR = 1.3  # measured over chains, random graphs and hubs
_CROWDED = 0.2  # relative error of the precision, squared, from which the heaviest is right
FURTHER = {
    "noise": "noise alone moves an entry by as much",
    "barely": "so near d(S), the distance of an indefinite covariance to the positive semidefinite cone, an estimate "
    "hardly exists",
    "dense": f"a graph with more than {MOST_DEGREE} neighbours per column is no longer read",
    "worse": "the criterion had stopped falling",
    "slow": "the last fit did not arrive in its time",
}


@dataclass(frozen=True, eq=False)
class Problem:
    """One covariance and what its pairs pay: solved at any penalty, repaired where a penalty needs that.

    weights  what each pair of columns pays, times alpha; a pair is a block of size x size entries
    noise    the penalty that is as large as what noise leaves in an entry
    """

    covariance: FloatArray
    weights: FloatArray
    size: int = 1
    penalize_diagonal: bool = True
    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int | None = None
    device: str = "cpu"
    noise: float = 0.0

    @classmethod
    def of(cls, noisy: NoisyCovariance, weights: Weights = "noise", **settings: Any) -> Problem:
        """The problem of a covariance whose error is known; `settings` are the other fields."""
        sd = noisy.block_sd()
        paid = pair_weights(weights, sd)
        pays = ~np.eye(len(sd), dtype=bool) & (paid > 0) & np.isfinite(paid)
        noise = float(np.mean(sd[pays] / paid[pays])) if pays.any() else 0.0
        return cls(noisy.covariance, paid, noisy.size, noise=noise, **settings)

    def fit(self, alpha: float, before: Solution | None = None, tol: float | None = None) -> Solution:
        """One graphical lasso, begun from a neighbour on the path."""
        return graphical_lasso(
            self.covariance,
            alpha,
            weights=self.weights,
            penalize_diagonal=self.penalize_diagonal,
            block_size=self.size,
            solver=self.solver,
            tol=tol or self.tol,
            max_iter=self.max_iter,
            warm_start=before,
            device=self.device,
        )

    @cached_property
    def _nearest(self) -> Distance:
        steps = int(np.clip(_DISTANCE_STEPS / len(self.covariance) ** 3, 20, MAX_STEPS))
        return psd_distance(self.covariance, self.weights, block=self.size, rtol=_ROUGHLY, max_steps=steps)

    def is_safe(self, alpha: float) -> bool:
        """Whether a positive definite start is at hand at this penalty, which is then well above d(S)."""
        penalty = make_penalty(len(self.weights), alpha, self.weights, self.penalize_diagonal, self.size)
        return cholesky(penalty.safe_start(self.covariance)) is not None

    @cached_property
    def distance(self) -> float:
        """d(S): penalties must exceed it for an estimate to exist."""
        if self.penalize_diagonal:
            return self._nearest.upper
        return 0.0 if np.linalg.eigvalsh(self.covariance)[0] > 0 else np.inf

    def at(self, alpha: float) -> Problem:
        """The problem to solve at this penalty: an indefinite covariance moves towards the cone, as far as needed.

        The nearest positive semidefinite matrix W lies at d(S) in the weighted max norm. Going the share t of the way
        leaves (1 - t) d(S), and the penalised likelihood has a maximum once that is below alpha.
        """
        if self.is_safe(alpha):
            return self
        distance = self._nearest.upper
        if distance < alpha or distance == 0:
            return self
        share = 1 - _SHARE * alpha / distance
        return replace(self, covariance=self.covariance + share * (self._nearest.nearest - self.covariance))

    def moved(self, alpha: float) -> float:
        """The largest change of an entry at this penalty."""
        return float(np.abs(self.at(alpha).covariance - self.covariance).max())

    def support(self, solution: Solution) -> Support:
        """Which pairs of columns are edges, the diagonal included."""
        return np.asarray(block_norms(solution.precision, self.size) > _NONZERO)

    def edges(self, solution: Solution) -> int:
        """How many pairs are edges."""
        return int(np.count_nonzero(np.triu(self.support(solution), 1)))


def pair_weights(weights: Weights, sd: FloatArray) -> FloatArray:
    """What each pair of columns pays times alpha, given the standard deviation of its covariance.

    'noise' makes that proportional to the standard deviation, with mean 1 off the diagonal; 'uniform' is 1 for all; a
    (p, p) matrix is taken as it is.
    """
    p = len(sd)
    if not isinstance(weights, str):
        given = np.asarray(weights, dtype=np.float64)
        if given.shape != (p, p):
            raise InputError(f"weights must be {p}x{p}, one number per pair of columns, got {given.shape}.")
        return given
    if weights not in WEIGHTS:
        raise InputError(f"weights must be one of {', '.join(WEIGHTS)}, or a {p}x{p} matrix, got {weights!r}.")
    typical = float(sd[~np.eye(p, dtype=bool)].mean()) if p > 1 else 0.0
    return sd / typical if weights == "noise" and typical > 0 else np.ones((p, p))


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen penalty, its fit, and the criterion along the path (smaller is better).

    stability    how often each pair was an edge over the subsamples, at the chosen penalty (stars only)
    fold_scores  the criterion of every fold along the path, one row per fold (cross-validation only)
    moved        the largest change of an entry that an indefinite covariance needed at the chosen penalty
    skipped      which penalties were not tried, and why
    """

    method: str
    alpha: float
    solution: Solution
    alphas: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    edges: tuple[int, ...] = ()
    stability: FloatArray | None = None
    fold_scores: FloatArray | None = None
    moved: float = 0.0
    skipped: str | None = None


def given(problem: Problem, alpha: float) -> Choice:
    """Fit at the user's penalty; where that is too small for an indefinite covariance, move it as little as needed."""
    if alpha == 0 or not problem.penalize_diagonal:
        return Choice("given", alpha, problem.fit(alpha))
    moved = problem.moved(alpha)
    if moved > 0:
        warn(
            f"no estimate exists at alpha = {alpha:.3g}: the corrected covariance is indefinite, d(S) = "
            f"{problem.distance:.3g}. It was moved by at most {moved:.3g} per entry; or use a larger alpha.",
            RepairWarning,
        )
    return Choice("given", alpha, problem.at(alpha).fit(alpha), moved=moved)


class PenaltyPath:
    """Decreasing penalties with their fits: those given, or so many from the one that empties the graph.

    The latter go down to `least`, the smallest that is worth trying at first, and on demand further, but only as far as
    estimates are found without trouble. They end where a graph is too dense to be read or a fit takes too long. Where a
    given penalty is too small for an indefinite covariance, that is moved.
    """

    def __init__(self, problem: Problem, alphas: int | npt.ArrayLike = GRID, least: float = 0.0) -> None:
        self.problem, self._stopped, self._extended, self._barely = problem, "", False, False
        self._tol = problem.tol if problem.size == 1 else max(problem.tol, ROUGH)
        norms = block_norms(problem.covariance, problem.size)
        off = ~np.eye(len(norms), dtype=bool) & (problem.weights > 0)
        self.top = 1.0001 * float((norms[off] / problem.weights[off]).max(initial=1e-3))
        self.floor = self._lowest(_LONGEST_SPAN * self.top)
        least = max(self.floor, min(least, self.top))
        self.alphas: list[float] = []
        self.solutions: list[Solution] = []
        self._grid = int(alphas) if isinstance(alphas, int | np.integer) else 0
        if isinstance(alphas, int | np.integer):
            if alphas < 1:
                raise InputError(f"alphas must be at least one penalty, got {alphas}.")
            bottom = _FIRST_SPAN * self.top if self.floor <= _FIRST_SPAN * self.top else least
            grid = _geometric(self.top, bottom, self._grid)
            self._next = [alpha for alpha in grid if alpha >= 0.999 * least]
            self._noisy = least > max(self.floor, bottom) or (bottom == least > self.floor)
        else:
            wanted = np.sort(np.asarray(alphas, dtype=np.float64).ravel())[::-1]
            if wanted.size == 0 or not np.all(np.isfinite(wanted) & (wanted > 0)):
                raise InputError("alphas must be a number of penalties, or penalties > 0.")
            self._next = wanted.tolist()

    @property
    def can_extend(self) -> bool:
        """Whether smaller penalties than the last are worth trying and have an estimate."""
        return self._grid > 0 and not self._stopped and self.alphas[-1] > 1.001 * self.floor

    def _lowest(self, wanted: float) -> float:
        """The wanted penalty, or the smallest above it at which an estimate is found without trouble."""
        if self.problem.is_safe(wanted):
            return wanted
        self._barely = True
        return least_safe(self.problem.is_safe, wanted, max(self.top, wanted), _HALVINGS)

    def fits(self) -> Iterator[Solution]:
        """Fit the penalties that are next, two decades of them at first, one more each time; largest first."""
        if self.alphas:
            self._extended, last = True, self.alphas[-1]
            self._next = _geometric(last / 1.3, max(last / 10, self.floor), max(1, self._grid // 2))
        p = len(self.problem.weights)
        for alpha in self._next:
            before = self.solutions[-1] if self.solutions else None
            self.solutions.append(self.problem.at(alpha).fit(alpha, before, self._tol))
            self.alphas.append(alpha)
            yield self.solutions[-1]
            dense = self.problem.edges(self.solutions[-1]) > MOST_DEGREE * p / 2
            if self._grid and (dense or not self.solutions[-1].converged):
                self._stopped = "dense" if dense else "slow"
                return

    def enough(self) -> None:
        """No smaller penalty is worth trying: the criterion has stopped falling."""
        self._stopped = "worse"

    @property
    def _end(self) -> str:
        """Why no smaller penalties were tried, a key of FURTHER; empty where nothing forbade it."""
        if self._stopped or not self._grid:
            return self._stopped
        if self._noisy and not self._extended:
            return "noise"
        return "barely" if self._barely and self.alphas[-1] <= 1.01 * self.floor else ""

    @property
    def skipped(self) -> str | None:
        """Which penalties were not tried, and why."""
        return f"Penalties below {self.alphas[-1]:.3g} were not tried: {FURTHER[self._end]}." if self._end else None

    def choice(
        self,
        method: str,
        scores: list[float],
        best: int,
        stability: FloatArray | None = None,
        fold_scores: FloatArray | None = None,
    ) -> Choice:
        """The chosen point of the path."""
        alpha, solution = self.alphas[best], self.solutions[best]
        if self._tol > self.problem.tol:
            solution = self.problem.at(alpha).fit(alpha, solution)
        counts = tuple(self.problem.edges(fit) for fit in self.solutions)
        moved = self.problem.moved(alpha)
        return Choice(
            method,
            alpha,
            solution,
            tuple(self.alphas),
            tuple(scores),
            counts,
            stability,
            fold_scores,
            moved,
            self.skipped,
        )

    def warn_at_the_edge(self, method: str, best: int) -> None:
        """Say so when the best penalty is the smallest that could be tried, and what that means."""
        if best < len(self.alphas) - 1 or len(self.alphas) == 1:
            return
        if not self.can_extend and self.alphas[best] > 1.001 * self.floor:
            why = "smaller ones were not given"
        elif self._end:
            why = f"smaller ones were not tried, because {FURTHER[self._end]}. Pass alpha to go lower"
        else:
            why = "nearly every pair is an edge there. Pass alpha to go lower, or use fdr to choose edges"
        warn(f"{method} chose the smallest penalty, {self.alphas[best]:.3g}: {why}.", SelectionWarning)


def _geometric(top: float, bottom: float, size: int) -> list[float]:
    """Decreasing penalties; a single one where the floor has passed the top."""
    return [bottom] if bottom >= top else [float(alpha) for alpha in np.geomspace(top, bottom, size)]


def least_safe(is_safe: Callable[[float], bool], low: float, high: float, halvings: int) -> float:
    """About the smallest penalty between two that is safe, if `high` is and `low` is not."""
    for _ in range(halvings):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_safe(middle) else (middle, high)
    return high


# ----------------------------------------------------------------------------------------- what error bars are built on


@dataclass(frozen=True, eq=False)
class Pilot:
    """The precision that error bars are built on, and the penalty it was found with (0: none, a plain inverse).

    blur  how much larger than of first order the variance of what is made of it is: noise in an inverse multiplies
    """

    precision: Array
    alpha: float
    blur: float = 0.0


@dataclass(frozen=True, eq=False)
class Whitened(ABC):
    """A covariance S in coordinates in which it is nearly the identity and its error nearly even.

    back   W, with W S W^T near the identity
    share  the error's own mean square, summed over the entries of a row: what noise leaves in the identity
    """

    back: Array
    share: float

    @property
    def ridge(self) -> float:
        """What to add to the eigenvalues: 2 v makes (r / (1 + r))^2 + v / (1 + r)^4 about as small as it can be."""
        return min(1.0, 2 * self.share)

    @property
    def risk(self) -> float:
        """The mean square by which the inverse misses the truth, in these coordinates."""
        return (self.ridge / (1 + self.ridge)) ** 2 + self.share / (1 + self.ridge) ** 4

    @abstractmethod
    def inverse(self) -> Array:
        """With the ridge, which keeps it finite."""

    @abstractmethod
    def gaps(self, precision: Array) -> tuple[float, float]:
        """How far another estimate is from inverting the covariance: the mean square, and the largest in size."""

    def missed(self, precision: Array) -> float:
        """The risk of another estimate, by how far it is from inverting the covariance beyond what noise explains.

        What it misses may lie in few directions, and be much there: noise of mean square v is at most 2 sqrt(v) in one.
        """
        square, largest = self.gaps(precision)
        return max(square - self.share, max(largest / 2 - math.sqrt(self.share), 0.0) ** 2)

    def pilot(self, noise: float, sparse: Callable[[], Pilot]) -> Pilot:
        """The inverse where noise is little, else a sparse fit, unless that misses more than the inverse."""
        if noise < _LITTLE_NOISE:
            return Pilot(self.inverse(), 0.0, _BLUR * noise)
        found = sparse()
        if noise < MOST_NOISE and self.risk < self.missed(found.precision):
            del found  # of many columns its memory counts
            return Pilot(self.inverse(), 0.0, _BLUR * noise)
        return found


def sparse_pilot(fit: Callable[[float], Pilot], error: Callable[[Array], float]) -> Pilot:
    """A graphical lasso whose penalty is as light as the noise allows; `fit` takes it in deviations of an entry.

    The relative error of the precision, squared (`error`), says what to fear: noise where the penalty is light, the
    penalty where it is heavy.
    """
    heavy = fit(_HEAVIEST)
    lighter = _HEAVIEST * math.sqrt(error(heavy.precision) / _CROWDED)
    return heavy if lighter >= _HEAVIEST else fit(max(_LIGHTEST, lighter))
