"""The factorisation of the running sum, and how far one person moves all draws together, by brute force."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from hazeglass.errors import InputError
from hazeglass.guarantee.budget import MOST_PERIODS, Charge, Lifetime, fits, remaining, running_count_weight, spent
from hazeglass.guarantee.units import Unit, moments_distance


def lifetime_of(periods, step=None):
    return Lifetime("month", tuple(map(str, range(1, periods + 1))), step or periods)


def strategy(periods):
    """C, column by column."""
    c = np.array(lifetime_of(periods).coefficients) / 64
    return np.array([[c[t - s] if t >= s else 0.0 for s in range(periods)] for t in range(periods)])


@pytest.mark.parametrize("periods", [2, 3, 12, 47, MOST_PERIODS])
def test_the_draws_so_far_give_the_running_sum(periods):
    decoder = np.tril(np.ones((periods, periods))) @ np.linalg.inv(strategy(periods))
    for step in {1, 2, periods // 2 + 1, periods}:
        own = lifetime_of(periods, step)
        assert np.allclose(own.weights, decoder[step - 1, :step], atol=1e-12)
        assert own.error == pytest.approx(np.linalg.norm(decoder[step - 1]))


def test_twelve_running_sums_have_less_than_twice_the_noise_of_one_release():
    """1.851 by the factorisation, 1.89 with a number of rows that is released beside; 3.46 by independent shares."""
    largest_column = np.linalg.norm(strategy(12)[:, 0])
    assert largest_column * lifetime_of(12).error == pytest.approx(1.851, abs=0.001)
    for share in (0.05, 0.3, 0.5):  # of the mean's weight, which is at most half the radius
        weights = {"radius": 1.3, "mean_weight": 1.3 * share}
        whole = lifetime_of(12).distance(7, count_weight=running_count_weight(1.3), **weights)
        one = moments_distance(Unit("person", max_rows=7), columns=4, **weights)
        ratios = [whole * lifetime_of(12, step).error / one for step in range(1, 13)]
        assert ratios == sorted(ratios)
        assert 1.85 < ratios[-1] < 1.9 < math.sqrt(12)


def contribution(row, a, b):
    """What a row adds to the sums of its period, in units of the noise of a draw."""
    second = np.outer(row, row)
    upper = second[np.triu_indices(len(row), 1)]
    return np.concatenate([[b], a * row, upper, np.diag(second) / math.sqrt(2)])


@pytest.mark.parametrize(("p", "share"), [(2, 0.1), (3, 0.5)])
@pytest.mark.parametrize("periods", [2, 5])
def test_no_two_persons_move_all_draws_farther_than_the_formula_and_some_just_as_far(p, share, periods):
    """The farthest are alike, all rows of one in one period and all of the other in one; others are not farther."""
    r, most, C = 1.2, 3, strategy(periods)
    a, b = share * r, running_count_weight(r)
    claimed = lifetime_of(periods).distance(most, radius=r, mean_weight=a, count_weight=b)
    rng = np.random.default_rng(p + periods)

    def distance(v, here, there, times=1):
        rows = v.reshape(-1, p)
        rows = rows * np.minimum(1, r / np.linalg.norm(rows, axis=1, keepdims=True))
        moved = np.zeros((periods, contribution(rows[0], a, b).size))
        for sign, row, period in zip([1] * len(here) + [-1] * len(there), rows, (*here, *there), strict=True):
            moved[period] += times * sign * contribution(row, a, b)
        return float(np.linalg.norm(C @ moved))

    def farthest(here, there, tries, times=1):
        starts = 3 * rng.standard_normal((tries, p * (len(here) + len(there))))
        climbs = (minimize(lambda v: -distance(v, here, there, times), start, method="L-BFGS-B") for start in starts)
        return max(-climb.fun for climb in climbs)

    alike = [((s,), (t,)) for s, t in itertools.combinations_with_replacement(range(periods), 2)]
    any_rows = [tuple(rng.integers(0, periods, rng.integers(1, most + 1)) for _ in range(2)) for _ in range(8)]
    found = [farthest(*pair, 6, most) for pair in alike]
    assert claimed * (1 - 1e-4) <= max(found) <= claimed * (1 + 1e-9)
    assert max(farthest(*pair, 1) for pair in any_rows) <= claimed
    assert max(distance(np.ones(p * most), (s,) * most, ()) for s in range(periods)) <= claimed


@pytest.mark.parametrize(
    "wrong",
    [
        {"periods": ("1",)},
        {"periods": ("1", "1")},
        {"step": 4},
        {"step": 0},
        {"coefficients": (64, 32, 23)},
        {"bits": 7},
        {"counts": (1,)},
    ],
)
def test_a_lifetime_that_no_rule_gives_cannot_be_made(wrong):
    with pytest.raises(InputError):
        replace(lifetime_of(3), **wrong)


def test_weights_that_the_proof_does_not_cover_are_refused():
    for weights in ({"mean_weight": 1.1, "count_weight": 1.0}, {"mean_weight": 1.0, "count_weight": 0.5}):
        with pytest.raises(InputError, match="proved for"):
            lifetime_of(3).distance(1, radius=1.0, **weights)


def draw_of(lifetime, step, mu):
    return Charge(mu, unit=Unit("person", max_rows=2), id_column="id", lifetime=lifetime, step=step)


@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 12)), max_size=20, unique=True),
    others=st.lists(st.floats(0.01, 2.0), max_size=4),
)
def test_a_lifetime_is_charged_once_however_many_of_its_periods_are_drawn(steps, others):
    mus = {"a": 0.5, "b": 0.7, "c": 1.1}
    charges = [draw_of(name, step, mus[name]) for name, step in steps] + [Charge(mu) for mu in others]
    expected = math.hypot(*(mus[name] for name in {name for name, _ in steps}), *others)
    assert spent(charges) == pytest.approx(expected)
    total = max(expected, 0.01)
    for name in {name for name, _ in steps}:
        assert fits(total, charges, draw_of(name, 13, mus[name]))
    assert not fits(total, charges, draw_of("d", 1, 0.3))
    assert remaining(2 * total, charges) == pytest.approx(math.sqrt(4 * total**2 - expected**2))


def test_a_charge_of_a_lifetime_is_one_of_persons():
    with pytest.raises(InputError, match="one of persons"):
        Charge(1.0, lifetime="x", step=1)
    with pytest.raises(InputError, match="one of persons"):
        Charge(1.0, step=1)
