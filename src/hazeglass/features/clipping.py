"""What clipping rows to a ball does to the moments of Gaussian rows, and how to undo it.

Rows clipped to the l2 ball of radius r have second moments M = E[min(1, r^2/|x|^2) x x^T]. For Gaussian x of mean 0, M
has the covariance's eigenvectors and the eigenvalues m_i = l_i c_i(l), c_i(l) = E[min(1, r^2/sum_k l_k g_k^2) g_i^2],
g normal. The map l -> m is inverted by the fixed-point iteration l_i <- m_i / c_i(l), with a fixed, public sample of g
(Sobol's points, with mean squares of exactly 1: their error in c is below a thousandth).

Rows are clipped about a public centre, which their mean misses by d (in the eigenbasis). Then x_i = d_i + s_i g_i with
s_i^2 = l_i - d_i^2, and the means E[min(1, r/|x|) x_i] join the equations. The pairs d_i d_j that this leaves out
hardly matter where d is short beside the rows. Where it is not, the moments of a sample with the full covariance are
matched entry by entry, starting from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_DRAWS, _MOST_CELLS = 1 << 14, 1 << 20  # lengths of many columns vary less, and fewer draws tell as much of them
_SEED = 20_240_229
_ITERATIONS, _MEMORY = 300, 5
_TOLERANCE = 1e-8
_FAR = 0.1  # a squared mean beyond this share of the rows' squared length needs the full covariance
_MATCHED = 1e-5
_PATIENCE, _GAIN = 30, 0.8  # steps in which the worst entry must come so much closer
LEAST_NOISE = 1e-24  # variance: a stage without any noise still has a finite weight
UNDOING = 0.006  # relative error of undoing, an integral over a sample of points; stages may differ by that


@dataclass(frozen=True, eq=False)
class Widening:
    """Eigenvalues of the second moments before (`narrow`) and after (`wide`), and what they were computed with.

    offset   the unclipped mean about the centre, in the eigenbasis
    squares  g^2, one row per draw
    shrink   min(1, r^2/|x|^2) for each draw
    """

    vectors: FloatArray
    narrow: FloatArray
    wide: FloatArray
    offset: FloatArray
    squares: FloatArray
    shrink: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """The covariance of the rows before they were clipped."""
        return np.asarray((self.vectors * self.wide) @ self.vectors.T - np.outer(self.mean, self.mean))

    def row_covariance(self, n: int, mean_noise_sd: FloatArray) -> FloatArray:
        """The same, unbiased: the squared noise of the mean, subtracted along with the mean, is put back."""
        return np.asarray((self.covariance + np.diag((mean_noise_sd / self.mean_kept) ** 2)) * n / (n - 1))

    @property
    def mean(self) -> FloatArray:
        """The mean of the rows before they were clipped, about the centre of the ball."""
        return np.asarray(self.vectors @ self.offset)

    @property
    def mean_kept(self) -> float:
        """About which share of a mean clipping leaves."""
        return float(np.sqrt(self.shrink).mean())

    @property
    def share_clipped(self) -> float:
        """How many of the rows were longer than the radius."""
        return float(np.mean(self.shrink < 1))


def widen(second: FloatArray, radius: float, mean: FloatArray | None = None) -> Widening | None:
    """Undo clipping, from the second moments and the mean of clipped rows (None: zero) about the centre of the ball.

    None where the iteration does not converge: the rows were clipped beyond telling.
    """
    narrow, vectors = np.linalg.eigh(second)
    if float(np.maximum(narrow, 0.0).sum()) >= radius**2:  # rows in the ball cannot be that long on average
        return None
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # noise may let a step run away: it is given up
        model = _Model(narrow.size, radius, None if mean is None else vectors.T @ mean)
        solved = _fixed_point(lambda now: model.step(narrow, now), np.stack([narrow - model.mean**2, model.mean]))
        if solved is None:
            return None
        spread, offset = solved
        found = Widening(vectors, narrow, spread + offset**2, offset, model.squares, model.shrink(spread, offset))
        far = mean is not None and float(offset @ offset) > _FAR * float(found.wide.sum())
        return _matched(found, second, mean, radius) if far and mean is not None else found


def _fixed_point(step: Callable[[FloatArray], FloatArray], start: FloatArray) -> FloatArray | None:
    """now = step(now) by Anderson's acceleration: a step from the best mixture of the last few."""
    limit = 1e3 * max(float(start[0].max()), np.finfo(float).tiny)
    now = start
    steps: list[FloatArray] = []
    moves: list[FloatArray] = []
    for _ in range(_ITERATIONS):
        after = step(now)
        move = after - now
        if not np.all(np.isfinite(move)) or after[0].max() > limit:
            return None
        if float(np.abs(move).max()) <= _TOLERANCE * float(np.abs(after[0]).max()):
            return after
        steps, moves = [*steps[-_MEMORY:], after], [*moves[-_MEMORY:], move]
        now = _mixed(steps, moves)
    return None


def _mixed(steps: list[FloatArray], moves: list[FloatArray]) -> FloatArray:
    if len(moves) == 1:
        return steps[0]
    differences = np.stack([(move - moves[-1]).ravel() for move in moves[:-1]], axis=1)
    share = np.linalg.lstsq(differences, -moves[-1].ravel(), rcond=1e-10)[0]
    towards = np.stack([(step - steps[-1]).ravel() for step in steps[:-1]], axis=1)
    return np.asarray(steps[-1] + (towards @ share).reshape(steps[-1].shape))


class _Model:
    """Draws of g, and one step of the fixed-point iteration for the spreads s^2 and the offsets d."""

    def __init__(self, columns: int, radius: float, mean: FloatArray | None) -> None:
        draws = _normal_points(columns)
        squares = draws**2
        scale = squares.mean(axis=0)
        self.squares = squares / scale
        self.draws = None if mean is None else draws / np.sqrt(scale)
        self.mean = np.zeros(columns) if mean is None else mean
        self.radius = radius

    def step(self, narrow: FloatArray, now: FloatArray) -> FloatArray:
        """Spreads and offsets that would explain the clipped moments if rows kept their present lengths."""
        spread, offset = now
        shrink = self.shrink(spread, offset)
        kept = shrink @ self.squares / len(shrink)
        if self.draws is None:
            return np.stack([narrow / kept, offset])
        deviation, root = np.sqrt(np.maximum(spread, 0.0)), np.sqrt(shrink)
        drawn_along = deviation * (root @ self.draws) / len(shrink)
        new_offset = (self.mean - drawn_along) / root.mean()
        across = 2 * offset * deviation * (shrink @ self.draws) / len(shrink)
        return np.stack([(narrow - new_offset**2 * shrink.mean() - across) / kept, new_offset])

    def shrink(self, spread: FloatArray, offset: FloatArray) -> FloatArray:
        """min(1, r^2/|x|^2) for every draw."""
        positive = np.maximum(spread, 0.0)
        lengths = self.squares @ positive
        if self.draws is not None:
            lengths += self.draws @ (2 * offset * np.sqrt(positive)) + float(offset @ offset)
        return np.asarray(self.radius**2 / np.maximum(lengths, self.radius**2))


def _matched(start: Widening, second: FloatArray, mean: FloatArray, radius: float) -> Widening | None:
    """Move covariance and mean until a clipped sample of the Gaussian has the given moments in every entry."""
    normal = _white_sample(len(mean))
    wide, centre = start.covariance + np.outer(start.mean, start.mean), start.mean
    best, since = np.inf, 0
    for number in range(_ITERATIONS):
        spread = wide - np.outer(centre, centre)
        if not np.all(np.isfinite(spread)):
            return None
        values, vectors = np.linalg.eigh(spread)
        # The symmetric root: eigenvectors of nearly round rows turn with every step, and the sample would with them.
        rows = centre + normal @ (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        shrink = radius**2 / np.maximum(np.einsum("ij,ij->i", rows, rows), radius**2)
        clipped = np.sqrt(shrink)[:, None] * rows
        missed = second - clipped.T @ clipped / len(rows)
        miss = float(np.abs(missed).max() / np.abs(second).max())
        if not miss <= 1e3:  # nor where it is not a number
            return None
        if miss <= _MATCHED:
            return _in_eigenbasis(second, wide, centre, rows, shrink)
        if miss < _GAIN * best:
            best, since = miss, number
        elif number - since >= _PATIENCE:
            return None
        wide = wide + missed / shrink.mean()
        centre = centre + (mean - clipped.mean(axis=0)) / np.sqrt(shrink).mean()
    return None


@lru_cache(1)
def _normal_points(columns: int, least: int = 2) -> FloatArray:
    """Points that fill the normal distribution more evenly than draws would; not to be written to."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    draws = max(least, min(_DRAWS, _MOST_CELLS // columns))
    points = qmc.Sobol(columns, scramble=True, seed=_SEED).random_base2(draws.bit_length() - 1)
    found = np.asarray(ndtri(np.clip(points, 1e-12, 1 - 1e-12)))
    found.flags.writeable = False
    return found


def _white_sample(columns: int) -> FloatArray:
    """The fixed sample with mean exactly 0 and covariance exactly I."""
    draws = _normal_points(columns, 4 * columns)
    draws = draws - draws.mean(axis=0)
    return np.asarray(draws @ np.linalg.inv(np.linalg.cholesky(draws.T @ draws / len(draws))).T)


def _in_eigenbasis(
    second: FloatArray, wide: FloatArray, mean: FloatArray, rows: FloatArray, shrink: FloatArray
) -> Widening:
    values, vectors = np.linalg.eigh(wide)
    squares = ((rows - mean) @ vectors) ** 2
    squares /= np.maximum(squares.mean(axis=0), np.finfo(float).tiny)
    narrow = np.einsum("ia,ij,ja->a", vectors, second, vectors)
    return Widening(vectors, narrow, values, vectors.T @ mean, squares, shrink)


# ------------------------------------------------------------------------------------------- several stages together


def stage_scales(values: FloatArray, noise: FloatArray) -> FloatArray:
    """What to multiply each stage's covariance by so that its variances are, over all, those of the last.

    How much length clipping took from rows depends on how their lengths are distributed, and a wrong model of that
    leaves a wrong scale before it leaves anything else. Correlations do not depend on the scale. `noise` are variances.
    """
    own, variance = np.diagonal(values, axis1=1, axis2=2), np.diagonal(noise, axis1=1, axis2=2)
    weight = 1 / (variance + variance[-1])
    square = np.sum(weight * own**2, axis=1)
    clean = square - np.sum(weight * variance, axis=1)
    told = clean > square / 2  # else there is more noise than variance, and one scale is as good as another
    found = np.where(told, np.sum(weight * own * own[-1], axis=1) / np.where(told, clean, 1.0), 1.0)
    found[-1] = 1.0
    return np.asarray(np.clip(found, 0.5, 2.0))


def stage_doubts(values: FloatArray, noise: FloatArray) -> FloatArray:
    """Variances of every stage's entries about the rows' covariance: by noise, and by undoing its clipping."""
    own = np.abs(np.diagonal(values, axis1=1, axis2=2))
    return noise + UNDOING**2 * own[:, :, None] * own[:, None, :]
