"""Randomised response: a level is released as itself, or as any other with equal probability.

With K levels, each other one with probability q and itself with P = 1 - (K - 1) q, the likelihoods of an answer under
two levels are P and q or the other way round, or equal. The trade-off function has its corners at (q, 1 - P) and
(1 - P, q), and a Gaussian one runs through both of them: the response is mu-GDP for mu = Phi^-1(P) - Phi^-1(q), and for
no smaller mu. q is a whole number of 2^-53, so that uniform bits of that number give it exactly and nothing is lost to
rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

from hazeglass.errors import InputError

BITS = 53  # of the numbers that answers are drawn from: q is a float, exactly
NUMBERS = 1 << BITS


@dataclass(frozen=True)
class RandomisedResponse:
    """`levels` answers (missing is one of them), each but the true one given with probability `other`.

    >>> law = RandomisedResponse(2, 0.25)
    >>> law.kept, round(law.mu, 6)
    (0.75, 1.34898)
    """

    levels: int
    other: float

    def __post_init__(self) -> None:
        whole = self.other * NUMBERS
        if self.levels < 2 or not (whole >= 1 and whole.is_integer() and self.levels * self.ticks <= NUMBERS):
            raise InputError(
                f"a response among {self.levels} levels needs a probability for each other one that is at most that "
                f"of the true one and a multiple of 2^-{BITS}, got {self.other!r}."
            )

    @classmethod
    def for_mu(cls, levels: int, mu: float) -> RandomisedResponse:
        """The one that says most within a promise of `mu`."""
        low, high = 0, NUMBERS // levels  # more than mu, and (all but) nothing
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if cls(levels, middle / NUMBERS).mu <= mu else (middle, high)
        found = cls(levels, high / NUMBERS)
        if found.mu > mu:
            raise InputError(f"mu = {mu:g} is too little for a response among {levels} levels. Raise the budget.")
        return found

    @property
    def ticks(self) -> int:
        """How many of the 2^53 equally likely numbers stand for each other level."""
        return int(self.other * NUMBERS)

    @property
    def kept(self) -> float:
        """The probability P of the true level."""
        return (NUMBERS - (self.levels - 1) * self.ticks) / NUMBERS

    @property
    def mu(self) -> float:
        """The exact GDP parameter; Phi^-1(P) from 1 - P, which keeps its digits where P is all but 1."""
        from scipy.special import ndtri  # a ledger should open at once, without it

        return float(abs(-ndtri((self.levels - 1) * self.other) - ndtri(self.other)))
