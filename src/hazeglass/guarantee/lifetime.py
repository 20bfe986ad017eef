"""Running releases of persons: every release is about all rows so far, and all of them together keep one promise.

With x_s the sums of the rows of period s, what is drawn at period t is y_t = sum_{s <= t} c_{t-s} x_s + z_t, all z_t
independent. The running sum follows from the draws so far, x_1 + ... + x_t = b_{t-1} y_1 + ... + b_0 y_t without the
noise, where b is the series 1 / ((1 - u) c(u)). With c(u) = (1 - u)^(-1/2) both series are the same, and noise is as
large as sum c_k^2, which grows with the logarithm of the number of periods (docs/maths/lifetime.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from hazeglass.errors import InputError

MOST_PERIODS = 120
BITS = 6  # coefficients are multiples of 2^-6, so that sums stay whole numbers of lattice steps


@dataclass(frozen=True)
class Lifetime:
    """Which of how many running releases one is.

    column        says what period a row is in
    periods       all of them, in order
    step          the number of the last period whose rows are in this release, from 1
    bits          coefficients are multiples of 2^-bits
    coefficients  c_0, c_1, ... in these units
    counts        the numbers of rows in the draws so far, with noise, in the same units
    """

    column: str
    periods: tuple[str, ...]
    step: int
    bits: int = BITS
    coefficients: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= len(self.periods) <= MOST_PERIODS or len(set(self.periods)) != len(self.periods):
            raise InputError(f"a lifetime has 2 to {MOST_PERIODS} periods, each once, got {len(self.periods)} names.")
        if not 1 <= self.step <= len(self.periods):
            raise InputError(f"a lifetime of {len(self.periods)} periods has no period number {self.step}.")
        rule = square_root(len(self.periods))
        if not self.coefficients:
            object.__setattr__(self, "coefficients", rule)
        if (self.bits, self.coefficients) != (BITS, rule):
            raise InputError("the coefficients of a lifetime follow from its number of periods, and these do not.")
        if self.counts and len(self.counts) != self.step:
            raise InputError(f"{self.step} draws have {self.step} numbers of rows, got {len(self.counts)}.")

    @property
    def fine(self) -> int:
        """How many units a coefficient of 1 has: lattices are finer by so much."""
        return int(1 << self.bits)

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """What each draw so far counts for in the running sum."""
        c, b = [one / self.fine for one in self.coefficients], [1.0]
        for k in range(1, self.step):
            b.append(1.0 - math.fsum(c[j] * b[k - j] for j in range(1, k + 1)))
        return tuple(reversed(b))

    @property
    def error(self) -> float:
        """The noise of the running sum, in units of the noise of a draw."""
        return math.hypot(*self.weights)

    def distance(self, max_rows: int, *, radius: float, mean_weight: float, count_weight: float) -> float:
        """D with mu = D / tau for all draws of the lifetime together, tau being the noise of each.

        A person has at most `max_rows` rows in all periods together, no longer than `radius`; another person's take
        their place, each in whatever period. A pair of rows in periods s and t moves the draws by the root of
        (G_ss + G_tt) P - 2 G_st Q at most, G the inner products of the columns of C, P the most that a row measures,
        and Q the least that the product of two rows is.
        """
        if not 0 < mean_weight <= radius or count_weight < mean_weight**2 / math.sqrt(2):
            raise InputError("the weights of the mean and of the number of rows are not those that this is proved for.")
        longest = count_weight**2 + mean_weight**2 * radius**2 + radius**4 / 2
        product = count_weight**2 - mean_weight**4 / 2
        c, size = [one / self.fine for one in self.coefficients], len(self.periods)
        farthest = 0.0
        for apart in range(size):  # the inner product of columns s and s + apart, from the last s to the first
            inner, late, own = 0.0, 0.0, math.fsum(c[k] ** 2 for k in range(apart))
            for k in range(size - apart):
                inner += c[k] * c[k + apart]
                late += c[k] ** 2
                own += c[k + apart] ** 2
                farthest = max(farthest, (own + late) * longest - 2 * inner * product, own * longest)
        return max_rows * math.sqrt(farthest)


def square_root(periods: int) -> tuple[int, ...]:
    """The first coefficients of (1 - u)^(-1/2) as multiples of 2^-BITS, none of them below one such.

    >>> square_root(4)
    (64, 32, 24, 20)
    """
    found, value = [], 1.0
    for k in range(periods):
        found.append(max(1, round(value * 2**BITS)))
        value *= (2 * k + 1) / (2 * k + 2)
    return tuple(found)


def running_count_weight(radius: float) -> float:
    """The weight b = r^2 / 4 of the number of rows: it costs 2 parts in 100 of 12 periods' noise.

    In one release more would cost nothing, because a row that is replaced leaves the number of rows as it was. Here the
    other row may be in another period, and both numbers move.
    """
    return radius**2 / 4
