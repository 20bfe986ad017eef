import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hazeglass.errors import BudgetExceededError, InputError
from hazeglass.guarantee.budget import RECORD, BudgetFilter, Charge, check_fits, compose, fits, remaining, spent
from hazeglass.guarantee.units import Period, Unit, counts_distance, moments_distance, table_distance

mus = st.lists(st.floats(1e-150, 1e150), max_size=20)


@given(mus)
def test_composition_is_the_root_of_the_sum_of_squares(values):
    # hypot scales, so that squares of 1e150 do not overflow it either
    assert compose(values) == pytest.approx(math.hypot(*values), rel=1e-15, abs=0)


@given(mus, st.randoms())
def test_composition_does_not_depend_on_the_order(values, random):
    shuffled = values[:]
    random.shuffle(shuffled)
    assert compose(shuffled) == compose(values)


@given(st.floats(0.01, 100), st.integers(1, 300))
def test_a_budget_cut_into_equal_shares_can_be_spent_to_the_last_one_and_no_further(total, count):
    share = total / math.sqrt(count)
    assert fits(total, [Charge(share)] * (count - 1), Charge(share))
    assert not fits(total, [Charge(share)] * count, Charge(total * 1e-5))


@given(st.floats(0.01, 100), st.lists(st.floats(0.001, 10), max_size=8))
def test_what_remains_fits_and_more_does_not(total, past):
    charges = list(map(Charge, past))
    left = remaining(total, charges)
    if left > 1e-3:
        assert fits(total, charges, Charge(left * (1 - 1e-12)))
        assert not fits(total, charges, Charge(left * (1 + 1e-6) + 1e-6 * total))
    else:
        assert not fits(total, charges, Charge(0.01 * total))


def test_refusal_is_one_sentence_with_total_spent_and_asked():
    with pytest.raises(BudgetExceededError) as caught:
        check_fits("feeder 12", 1.0, [Charge(0.6)], Charge(0.9))
    message = str(caught.value)
    assert caught.value.exit_status == 3
    for part in ("'feeder 12'", "mu = 1 in total", "0.6 of it is spent", "asks for 0.9", "at most 0.8 is left"):
        assert part in message
    assert message.count(". ") == 0


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_a_charge_without_meaning_is_refused(mu):
    with pytest.raises(InputError, match="positive finite"):
        Charge(mu)


def test_a_total_variation_is_a_probability():
    with pytest.raises(InputError, match="between 0 and 1"):
        Charge(1.0, total_variation=2.0)


@given(st.floats(0.01, 100), st.floats(0.001, 1.0))
def test_a_budget_is_exceeded_by_no_more_than_the_stated_rounding(total, share):
    """Squares may exceed the total's by 2^-40 of it, so that rounded shares still fit; by more they may not."""
    asked = total * math.sqrt(share)
    spent = math.sqrt(total**2 - asked**2) if share < 1 else 0.0
    past = spent * (1 + 0.75 * 2.0**-40), asked * (1 + 0.75 * 2.0**-40)  # squares: 1.5 times the rounding
    assert not fits(total, [Charge(mu) for mu in past[:1] if mu], Charge(past[1]))
    assert Fraction(total) ** 2 * (1 + Fraction(1, 2**40)) < sum(Fraction(mu) ** 2 for mu in past)


def test_the_roots_of_exact_squares_are_exact_at_any_size():
    for exponent in (-500, -52, 0, 3, 52, 500):
        for whole in (1, 3, 2**52 + 1):
            assert compose([math.ldexp(whole, exponent)]) == math.ldexp(whole, exponent)


def test_a_charge_costs_nothing_but_its_mu_unless_it_says_so():
    assert Charge(1.0).total_variation == 0.0
    assert Charge(1.0, total_variation=1.0).total_variation == 1.0


# ------------------------------------------------------------------------- a total that steps are paid from


@given(st.floats(1e-20, 1000), st.lists(st.floats(1e-12, 1.0), max_size=30))
def test_no_steps_spend_more_than_the_total_whatever_shares_they_take(total, shares):
    """In exact fractions: not by a rounding, however many steps there are."""
    budget = BudgetFilter(total)
    taken = [budget.take(share) for share in shares if share < 1.0]
    spent = sum((Fraction(mu) ** 2 for mu in taken), Fraction(0))
    assert spent <= Fraction(total) ** 2
    last = budget.take(1.0)
    assert spent + Fraction(last) ** 2 <= Fraction(total) ** 2
    assert spent + Fraction(last) ** 2 >= Fraction(total) ** 2 * (1 - Fraction(1, 2**50))


@given(st.floats(1e-20, 1000), st.floats(1e-9, 1.0))
def test_a_step_gets_its_share_of_what_is_left(total, share):
    budget = BudgetFilter(total)
    first = budget.take(share)
    assert first == pytest.approx(math.sqrt(share) * total, rel=1e-14)
    assert Fraction(first) ** 2 <= Fraction(share) * Fraction(total) ** 2
    assert budget.left == pytest.approx(total * math.sqrt(max(1 - share, 0)), rel=1e-6, abs=1e-7 * total)


@given(st.floats(1e-3, 100), st.integers(1, 6))
def test_a_part_of_a_budget_can_be_a_budget_of_its_own(total, steps):
    """As counts have theirs: what its steps take together is what the part took."""
    whole = BudgetFilter(total)
    part = BudgetFilter(whole.take(0.15))
    taken = [*(part.take(0.15) for _ in range(steps)), part.take(1.0), whole.take(0.05), whole.take(1.0)]
    assert sum((Fraction(mu) ** 2 for mu in taken), Fraction(0)) <= Fraction(total) ** 2
    assert compose(taken) == pytest.approx(total, rel=1e-12)


def test_a_spent_budget_gives_nothing_that_counts_and_then_nothing_at_all():
    budget = BudgetFilter(2.0)
    assert budget.take(1.0) == 2.0
    assert budget.left == 0
    with pytest.raises(BudgetExceededError, match="nothing is left"):
        budget.take(0.5)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.0000001, math.nan])
def test_a_share_is_some_of_it_and_at_most_all(share):
    with pytest.raises(InputError, match="above 0 and at most 1"):
        BudgetFilter(1.0).take(share)


@pytest.mark.parametrize("total", [0.0, -1.0, math.inf, math.nan])
def test_a_total_is_a_positive_number(total):
    with pytest.raises(InputError, match="positive finite"):
        BudgetFilter(total)


# ------------------------------------------------------------------------------------------------------- periods


def monthly(mu, month, column="month", reading="", unit=RECORD):
    return Charge(mu, unit=unit, period=Period(column, month), cells=month, reading=reading)


some_charges = st.lists(
    st.builds(
        lambda mu, column, month, reading: Charge(mu) if column is None else monthly(mu, month, column, reading),
        st.floats(0.01, 10),
        st.sampled_from([None, "month", "ward"]),
        st.sampled_from("abc"),
        st.sampled_from(["", "other"]),
    ),
    max_size=9,
)


@given(some_charges)
def test_what_is_spent_is_the_worst_that_a_record_in_any_one_period_of_each_column_meets(charges):
    """By brute force: a row has a month and a ward, read in either way, and meets the releases it is in."""
    ways = itertools.product("abc", repeat=4)
    keys = list(itertools.product(("month", "ward"), ("", "other")))
    worst = 0.0
    for own in ways:
        place = dict(zip(keys, own, strict=True))
        met = [
            charge.mu
            for charge in charges
            if charge.period is None or charge.cells == place[charge.period.column, charge.reading]
        ]
        worst = max(worst, math.hypot(*met))
    assert spent(charges) == pytest.approx(worst, rel=1e-12, abs=0)


@given(some_charges, some_charges.filter(bool), st.floats(1, 20))
def test_what_is_left_for_a_release_fits_beside_the_others_and_more_does_not(charges, more, total):
    asked = more[0]
    if spent(charges) > total:
        return
    left = remaining(total, charges, asked)
    if left > 1e-3:
        assert fits(total, charges, replace(asked, mu=left * (1 - 1e-12)))
        assert not fits(total, charges, replace(asked, mu=left * (1 + 1e-6) + 1e-6 * total))
    else:
        assert not fits(total, charges, replace(asked, mu=0.01 * total))


def test_persons_and_columns_are_in_every_period():
    for unit in (Unit("person", max_rows=3), Unit("column")):
        with pytest.raises(InputError, match="periods compose in parallel where a unit is in one"):
            monthly(1.0, "a", unit=unit)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.lists(st.floats(0.1, 5), min_size=6, max_size=6))
def test_readings_that_lie_in_several_periods_cost_no_more_than_all_of_them_in_one(split, mus):
    """k cells, some in each period: what each release lets them move, in units of its noise, by its own sensitivity."""
    whole = max(1, sum(split))
    for distance in (
        lambda k: table_distance(Unit("readings", readings=k), columns=3, rows=50),
        lambda k: moments_distance(Unit("readings", readings=k), columns=3, radius=2.0, mean_weight=0.5),
        lambda k: counts_distance(Unit("readings", readings=k), columns=3),
    ):
        moved = [mu * distance(k) / distance(whole) for k, mu in zip(split, mus, strict=False) if k]
        assert math.hypot(*moved) <= max(mus[: len(split)]) * (1 + 1e-12)


def test_a_refusal_says_of_which_rows_it_speaks():
    charges = [monthly(0.6, "march"), monthly(0.9, "april"), Charge(0.3)]
    with pytest.raises(BudgetExceededError, match=r"0\.67082 of it is spent for the rows of month 'march'") as caught:
        check_fits("feeder 12", 1.0, charges, monthly(0.9, "march"))
    assert "at most 0.741620 is left" in str(caught.value).replace("0.74162 is", "0.741620 is")
