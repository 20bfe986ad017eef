"""Randomised response: its mu is exact, and no smaller one would do."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from hazeglass.errors import InputError
from hazeglass.guarantee.gdp import NUMBERS, RandomisedResponse


def tradeoff_corners(law):
    """Errors of both kinds of every likelihood-ratio test between the first two of the levels."""
    first, second = np.full(law.levels, law.other), np.full(law.levels, law.other)
    first[0] = second[1] = law.kept
    for chosen in itertools.product([False, True], repeat=law.levels):  # answers that speak for the second level
        yield first[list(chosen)].sum(), second[[not one for one in chosen]].sum()


@pytest.mark.parametrize("levels", [2, 3, 5, 8])
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0])
def test_no_test_is_better_than_the_gaussian_one_and_one_is_as_good(levels, mu):
    law = RandomisedResponse.for_mu(levels, mu)
    assert law.kept + (levels - 1) * law.other == pytest.approx(1.0, abs=1e-15)
    gaps = [
        missed - ndtr(ndtri(1 - alarm) - law.mu) for alarm, missed in tradeoff_corners(law) if 1e-12 < alarm < 1 - 1e-12
    ]
    assert min(gaps) >= -1e-12
    assert min(gaps) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("levels", [2, 3, 7, 301])
@pytest.mark.parametrize("mu", [1e-6, 0.05, 0.7, 3.0, 10.0])
def test_a_promise_is_kept_and_not_wasted(levels, mu):
    law = RandomisedResponse.for_mu(levels, mu)
    assert mu * (1 - 1e-5) <= law.mu <= mu
    assert law.other * NUMBERS == law.ticks
    assert law.kept >= law.other


def test_it_is_the_response_of_an_epsilon():
    epsilon, levels = 1.3, 4
    kept, other = np.exp(epsilon) / (np.exp(epsilon) + levels - 1), 1 / (np.exp(epsilon) + levels - 1)
    law = RandomisedResponse.for_mu(levels, float(ndtri(kept) - ndtri(other)))
    assert law.kept == pytest.approx(kept)
    assert law.other == pytest.approx(other)


def test_a_huge_budget_still_leaves_a_doubt_and_none_at_all_is_refused():
    assert RandomisedResponse.for_mu(3, 1000.0).ticks == 1
    with pytest.raises(InputError, match="Raise the budget"):
        RandomisedResponse.for_mu(3, 1e-20)


@pytest.mark.parametrize(
    ("levels", "other"), [(2, 0.6), (3, 0.0), (3, -0.1), (1, 0.1), (3, 2.0**-54), (2, float("nan"))]
)
def test_a_response_that_cannot_be_is_refused(levels, other):
    with pytest.raises(InputError, match="a response among"):
        RandomisedResponse(levels, other)
