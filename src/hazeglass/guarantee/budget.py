"""The arithmetic of a budget: what releases cost together, what is left, and whether one more fits.

Releases of the same data compose as mu = sqrt(mu_1^2 + mu_2^2 + ...), so a budget is spent in squares. The squares are
added as exact fractions: the order of the releases does not matter and no rounding can add up.

Releases of disjoint public periods compose in parallel: a record is in one of them, and is charged for that one alone.
What is spent is then the sum over releases of all rows and, for every column that says what period a row is in, the
largest sum of one period (docs/maths/many.md).

Running releases of persons: every release is about all rows so far, and all of them together keep one promise.

With x_s the sums of the rows of period s, what is drawn at period t is y_t = sum_{s <= t} c_{t-s} x_s + z_t, all z_t
independent. The running sum follows from the draws so far, x_1 + ... + x_t = b_{t-1} y_1 + ... + b_0 y_t without the
noise, where b is the series 1 / ((1 - u) c(u)). With c(u) = (1 - u)^(-1/2) both series are the same, and noise is as
large as sum c_k^2, which grows with the logarithm of the number of periods (docs/maths/lifetime.md).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hazeglass.errors import BudgetExceededError, InputError
from hazeglass.guarantee.units import Period, Unit, check_period

RECORD = Unit("record")
# A mu comes out of a root search and shares of it out of square roots, each right to a few 1e-16. A budget cut into
# shares must be spendable to the last one, so the squares may exceed the total's by this much, once and for all.
_ROUNDING = Fraction(1, 2**40)


@dataclass(frozen=True)
class Charge:
    """What one release costs: the mu it promises its unit, and the total variation between its noise and the ideal (all
    draws together). `id_column` says who is one person, where persons are the unit.

    Of a release of one `period`, `cells` is the canonical form that the period's cells have, and `reading` says how
    cells were read: read otherwise, a row may be in another period of the same column, so only releases that read
    alike are disjoint. `units` says how rows are cut and ids are read, where that can be done in several ways: read
    otherwise, one person may be several, so only releases with the same add up.

    Running releases of one `lifetime` (a digest of their plan) cost the same mu all together, each `step` being made
    once; `follows` is the digest of the event that the step before was charged by.
    """

    mu: float
    label: str = ""
    total_variation: float = 0.0
    unit: Unit = RECORD
    id_column: str | None = None
    period: Period | None = None
    cells: str = ""
    reading: str = ""
    lifetime: str = ""
    step: int = 0
    follows: str = ""
    units: str = ""

    def __post_init__(self) -> None:
        if self.period is not None:
            check_period(self.unit)
        if (self.step > 0) != bool(self.lifetime) or (self.lifetime and (self.unit.name != "person" or self.period)):
            raise InputError("a lifetime is one of persons, and each of its releases has a step from 1 on.")
        if not (math.isfinite(self.mu) and self.mu > 0):
            raise InputError(f"The mu of a release must be a positive finite number, got {self.mu!r}.")
        if not 0 <= self.total_variation <= 1:
            raise InputError(f"A total variation must lie between 0 and 1, got {self.total_variation!r}.")


class BudgetFilter:
    """A total mu that steps are paid from, each deciding how much it takes after seeing what the others released.

    Gaussian mechanisms compose fully adaptively: the promise is the total as long as the squares of what was taken do
    not exceed its square, and they cannot, being added as exact fractions and rounded down.

    >>> budget = BudgetFilter(5.0)
    >>> round(budget.take(0.36), 9), round(budget.take(1.0), 9), budget.left < 1e-6
    (3.0, 4.0, True)
    """

    def __init__(self, total: float) -> None:
        if not (math.isfinite(total) and total > 0):
            raise InputError(f"a total mu must be a positive finite number, got {total!r}.")
        self._left = Fraction(total) ** 2

    @property
    def left(self) -> float:
        """The mu that is left."""
        return _root(self._left)

    def take(self, share: float) -> float:
        """The mu of a step that spends this share of what is left of the square."""
        if not 0 < share <= 1:
            raise InputError(f"a share must be above 0 and at most 1, got {share!r}.")
        wanted = Fraction(share) * self._left
        mu = _root(wanted)
        if Fraction(mu) ** 2 > wanted:  # a root is rounded to the nearest float
            mu = math.nextafter(mu, 0.0)
        if mu <= 0:
            raise BudgetExceededError("the budget is spent: nothing is left for a further step.")
        self._left -= Fraction(mu) ** 2
        return mu


def _square_sum(mus: Iterable[float]) -> Fraction:
    return sum((Fraction(mu) ** 2 for mu in mus), Fraction(0))


def _root(square: Fraction) -> float:
    """The square root to double precision, also where the square itself would not fit a float."""
    # Shifted, by an even number of bits, to at least 128 of them, so that the integer root has 64.
    shift = max(0, 130 - square.numerator.bit_length() + square.denominator.bit_length()) // 2 * 2
    scaled = (square.numerator << shift) // square.denominator
    return math.isqrt(scaled) / (1 << (shift // 2))


def compose(mus: Iterable[float]) -> float:
    """The mu of all releases together.

    >>> compose([3.0, 4.0])
    5.0
    """
    return _root(_square_sum(mus))


def _together(charges: Iterable[Charge]) -> Fraction:
    """The square of what one unit is charged at most by all releases together."""
    always = Fraction(0)
    lifetimes: dict[str, Fraction] = defaultdict(Fraction)
    periods: dict[tuple[str, str], dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for charge in charges:
        if charge.lifetime:
            lifetimes[charge.lifetime] = max(lifetimes[charge.lifetime], Fraction(charge.mu) ** 2)
        elif charge.period is None:
            always += Fraction(charge.mu) ** 2
        else:
            periods[charge.period.column, charge.reading][charge.cells] += Fraction(charge.mu) ** 2
    always += sum(lifetimes.values(), Fraction(0))
    return always + sum((max(own.values()) for own in periods.values()), Fraction(0))


def _beside(charges: Iterable[Charge], asked: Charge) -> list[Charge]:
    """Those that add up with it: all but the releases of other periods of the same column, and of its own lifetime."""
    here = None if asked.period is None else (asked.period.column, asked.reading)
    return [
        charge
        for charge in charges
        if (not charge.lifetime or charge.lifetime != asked.lifetime)
        and (charge.period is None or (charge.period.column, charge.reading) != here or charge.cells == asked.cells)
    ]


def spent(charges: Iterable[Charge]) -> float:
    """The mu that releases have together.

    >>> march, april = (Charge(3.0, period=Period("month", name), cells=name) for name in ("march", "april"))
    >>> spent([march, april]), spent([march, april, Charge(4.0)]), spent([march, march])
    (3.0, 5.0, 4.242640687119285)
    """
    return _root(_together(charges))


def remaining(total: float, charges: Iterable[Charge], asked: Charge | None = None) -> float:
    """The largest mu that still fits a release of all rows, or one of the period that is asked for.

    >>> remaining(5.0, [Charge(3.0)])
    4.0
    """
    known = list(charges) if asked is None else _beside(charges, asked)
    return _root(max(Fraction(total) ** 2 - _together(known), Fraction(0)))


def fits(total: float, charges: Iterable[Charge], asked: Charge) -> bool:
    """Whether all of them together stay within the total, where not all of it is spent already.

    Rounding may take the last release a little beyond, as where a total is two halves, and no other after it.
    """
    known, most = list(charges), Fraction(total) ** 2
    return _together(_beside(known, asked)) < most and _together([*known, asked]) <= most * (1 + _ROUNDING)


def check_fits(dataset: str, total: float, charges: Iterable[Charge], asked: Charge) -> None:
    """Refuse a release that does not fit, in one sentence with the total, what is spent and what was asked."""
    known = list(charges)
    if not fits(total, known, asked):
        beside = _beside(known, asked)
        rows = "" if asked.period is None else f" for the rows of {asked.period.column} {asked.period.value!r}"
        raise BudgetExceededError(
            f"The budget of {dataset!r} is mu = {total:.6g} in total, {spent(beside):.6g} of it is spent{rows}, and "
            f"this release asks for {asked.mu:.6g} where at most {remaining(total, known, asked):.6g} is left."
        )


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
