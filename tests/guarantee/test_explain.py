"""The words and numbers a reader is shown follow from mu."""

import pytest

from hazeglass.guarantee.gdp import GaussianDP, explain
from hazeglass.guarantee.units import Unit


def test_odds_come_straight_from_the_tradeoff_curve():
    words = explain(GaussianDP(1.0), Unit("record"), 1e-6)
    assert [odds.false_positive_rate for odds in words.odds] == [0.001, 0.01, 0.05]
    assert words.odds[1].true_positive_rate == pytest.approx(0.0924, abs=5e-5)


def test_the_promise_names_unit_epsilon_and_what_is_not_promised():
    words = explain(GaussianDP.from_budget(1.0, 1e-6), Unit("person", max_rows=8), 1e-6)
    assert "each person (all of their rows, at most 8)" in words.promise[0]
    assert "epsilon = 1 at delta = 1e-06" in words.promise[0]
    assert any("population" in sentence for sentence in words.not_promised)


def test_curves_are_monotone():
    words = explain(GaussianDP(0.5), Unit("entry"), 1e-6)
    epsilons = [epsilon for epsilon, _ in words.curve]
    assert epsilons == sorted(epsilons)
    betas = [beta for _, beta in words.tradeoff]
    assert betas == sorted(betas, reverse=True)


def test_the_curves_are_the_promises_own_at_round_numbers():
    guarantee = GaussianDP(0.8)
    words = explain(guarantee, Unit("record"), 1e-6)
    assert [delta for _, delta in words.curve] == [10.0**-k for k in (*range(3, 11), 12)]
    for epsilon, delta in words.curve:
        assert guarantee.delta(epsilon) == pytest.approx(delta, rel=1e-9)
    alphas = [alpha for alpha, _ in words.tradeoff]
    assert alphas == pytest.approx([k / 100 for k in range(101)])
    assert (words.tradeoff[0], words.tradeoff[-1]) == ((0.0, 1.0), (1.0, 0.0))
    assert all(missed == guarantee.tradeoff(alpha) for alpha, missed in words.tradeoff)
    assert [odds.false_positive_rate for odds in words.odds] == [0.001, 0.01, 0.05]
    for odds in words.odds:
        assert odds.true_positive_rate == guarantee.true_positive_rate(odds.false_positive_rate)
    assert f"{100 * words.odds[1].true_positive_rate:.3g} cases of 100" in words.promise[1]
