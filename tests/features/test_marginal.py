"""What noisy counts say of a column: a distribution whatever the counts are, and scores that are standard normal."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import kstest

from hazeglass.features.fitting import ALONE, Counts
from hazeglass.features.marginal import (
    MOST_LEAVES,
    Marginal,
    first_borders,
    is_last_round,
    leaf_count,
    levels,
    marginals_of,
    needs_another_look,
    next_borders,
    often_missing,
)
from hazeglass.features.scores import DRAWS, STEPS, score_table

GRID = 2.0**-30


def count(u, borders, noise, rng):
    """Noisy counts of cells on [-1, 1], NaN where they are missing."""
    missing = np.isnan(u)
    exact = np.bincount(np.searchsorted(borders[1:-1], u[~missing], side="right"), minlength=borders.size - 1)
    noisy = np.rint(np.append(exact, missing.sum()) + noise * rng.standard_normal(exact.size + 1))
    return Counts(borders, noisy[:-1], float(noisy[-1]), math.hypot(noise, 0.3))


def look(u, step=0.0, noise=3.0, seed=0):
    """Round after round, as a publisher does."""
    rng = np.random.default_rng(seed)
    rounds = [count(u, first_borders(step), noise, rng)]
    last = False
    while not last:
        known = Marginal(tuple(rounds), step)
        last = is_last_round(len(rounds), [known], ordered=True)
        rounds.append(count(u, next_borders(known, noise / u.size, last=last), noise, rng))
    return Marginal(tuple(rounds), step)


def scores(known, u, seed=1):
    """As the publisher's loop gives them, one array operation after the other."""
    table, rng = score_table(known), np.random.default_rng(seed)
    spread = u + known.step * (rng.random(u.size) - 0.5)
    at = np.where(np.isnan(u), table.first.size - 1, np.searchsorted(table.cuts, spread, side="right"))
    return table.values[table.first[at] + rng.integers(0, table.draws[at])] / STEPS


def lognormal(rng, n):
    return np.exp(rng.standard_normal(n))


def zero_inflated(rng, n):
    return np.where(rng.random(n) < 0.4, 0.0, rng.exponential(size=n))


def two_lumps(rng, n):
    return np.where(rng.random(n) < 0.5, -2.0, 2.0) + 0.2 * rng.standard_normal(n)


CONTINUOUS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lognormal,
    "heavy tails": lambda rng, n: rng.standard_t(3, n),
    "zero-inflated": zero_inflated,
    "two lumps": two_lumps,
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
}
BOUNDS = {"narrow": (3, 0.0), "wide": (100, 0.0), "off-centre": (60, 0.9), "in a corner": (30, -0.95)}


def on_unit(x, bounds):
    """Bounds so many standard deviations wide to either side, the mean at a share of that from their middle."""
    width, off = BOUNDS[bounds]
    return np.clip((x - x.mean()) / x.std() / width + off, -1, 1)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("kind", CONTINUOUS)
def test_scores_of_any_column_within_any_bounds_are_nearly_standard_normal(kind, bounds):
    u = on_unit(CONTINUOUS[kind](np.random.default_rng(3), 20_000), bounds)
    z = scores(look(u), u)
    assert abs(z.mean()) < 0.03
    assert z.var() == pytest.approx(1.0, abs=0.06)
    # Counts say nothing of where in a leaf cells lie: at the edge of an empty stretch, or moved there by a bound.
    assert kstest(z, "norm").statistic < (0.1 if kind == "two lumps" else 0.05 if bounds == "in a corner" else 0.025)


@pytest.mark.parametrize(
    ("lower", "upper", "draw"),
    [
        (0, 1, lambda rng, n: rng.random(n) < 0.5),
        (0, 1, lambda rng, n: rng.random(n) < 0.05),
        (0, 30, lambda rng, n: rng.poisson(1, n)),
        (0, 30, lambda rng, n: rng.poisson(3, n)),
        (0, 10_000, lambda rng, n: rng.poisson(3, n)),
        (0, 10_000, lambda rng, n: rng.poisson(300, n)),
        (0, 2**28, lambda rng, n: np.exp(3 * rng.standard_normal(n)).astype(int) + 1000),
        (-50, 50, lambda rng, n: np.full(n, 7)),
        (0, 2000, lambda rng, n: np.where(rng.random(n) < 0.3, 0, rng.poisson(500, n))),
    ],
)
def test_scores_of_whole_numbers_are_nearly_standard_normal(lower, upper, draw):
    values = np.clip(draw(np.random.default_rng(4), 20_000), lower, upper)
    step = 2 / (upper - lower)
    u = -1 + step * (values - lower)
    z = scores(look(u, step), u)
    assert abs(z.mean()) < 0.03
    assert z.var() == pytest.approx(1.0, abs=0.06)
    assert kstest(z, "norm").statistic < 0.025


def test_cells_that_follow_the_score_keep_their_order():
    u = np.sort(on_unit(np.random.default_rng(0).standard_normal(5000), "narrow"))
    known = look(u)
    between = (u > known.borders[1]) & (u < known.borders[-2])  # the ends are open, and drawn
    assert np.all(np.diff(scores(known, u)[between]) >= 0)


def test_scores_of_missing_cells_are_drawn_from_the_whole_normal():
    u = on_unit(np.random.default_rng(0).exponential(size=20_000), "wide")
    u[::4] = np.nan
    known = look(u)
    assert known.missing_share == pytest.approx(0.25, abs=0.005)
    z = scores(known, u)
    assert kstest(z[np.isnan(u)], "norm").statistic < 0.025
    assert kstest(z[~np.isnan(u)], "norm").statistic < 0.025


@pytest.mark.parametrize("kind", CONTINUOUS)
@pytest.mark.parametrize("bounds", ["narrow", "off-centre"])
def test_location_and_spread_are_the_columns_own(kind, bounds):
    u = on_unit(CONTINUOUS[kind](np.random.default_rng(5), 50_000), bounds)
    known = look(u, noise=1.0)
    assert known.location == pytest.approx(u.mean(), abs=0.1 * u.std())
    assert known.spread == pytest.approx(u.std(), rel=0.25)


def test_counts_that_noise_explains_leave_the_fitted_normal_and_others_are_believed():
    rng = np.random.default_rng(6)
    normal, skewed = on_unit(rng.standard_normal(2000), "narrow"), on_unit(rng.exponential(size=50_000), "narrow")
    assert look(normal, noise=60.0).weight < 0.3
    assert look(skewed, noise=1.0).weight > 0.97


def test_a_smooth_column_keeps_its_correlations_and_a_coin_two_thirds_of_their_square():
    u = on_unit(np.random.default_rng(0).standard_normal(50_000), "narrow")
    assert look(u, noise=1.0).attenuation == pytest.approx(1.0, abs=0.03)
    coin = np.where(np.random.default_rng(0).random(50_000) < 0.5, -1.0, 1.0)
    assert look(coin, step=2.0, noise=1.0).attenuation == pytest.approx(2 / math.pi, abs=0.01)


# ---------------------------------------------------------------------------------------------- whatever the counts are


def increasing(borders, step):
    return np.all(np.diff(borders) > 0) and borders[0] == -1 - step / 2 and borders[-1] == 1 + step / 2


steps = st.sampled_from([0.0, 2.0, 1.0, 2 / 9, 2 / 1000, 2 / 2**28])
sizes = st.sampled_from([50, 10**6, 2**62])
numbers = sizes.flatmap(lambda most: st.lists(st.integers(-most, most), min_size=33, max_size=40))


@settings(max_examples=60)
@given(steps, numbers, st.sampled_from([0.3, 20.0, 1e6, 1e17]), st.sampled_from([1e-9, 1e-3, 0.3, 1e9]))
def test_any_counts_give_a_distribution_partitions_and_scores(step, given_counts, noise_sd, next_noise):
    borders, rounds = first_borders(step), []
    for number in range(3):
        size = borders.size - 1
        own = np.roll(np.array((given_counts * 8)[: size + 1], dtype=float), number)
        rounds.append(Counts(borders, own[:-1], float(own[-1]), noise_sd))
        known = Marginal(tuple(rounds), step)
        assert increasing(borders, step)
        assert borders.size <= (MOST_LEAVES if number == 2 else 32) + 1
        assert known.cumulative[0] == 0
        assert known.cumulative[-1] == 1
        assert np.all(np.diff(known.cumulative) >= 0)
        assert 0 <= known.weight <= 1
        assert 0 <= known.missing_share <= 0.99
        assert -1 - step / 2 <= known.location <= 1 + step / 2
        assert 0 < known.spread < math.inf
        assert np.all(np.isfinite(known.means))
        assert 0 <= known.attenuation < 1.001
        assert isinstance(needs_another_look(known), bool)
        assert often_missing([known]) in ((), (0,))
        check_table(score_table(known))
        borders = next_borders(known, next_noise, last=number > 0)


def check_table(table):
    assert np.all(np.diff(table.cuts) > 0)
    assert table.first.size == table.draws.size == table.cuts.size + 2
    assert set(table.draws.tolist()) <= {1, DRAWS}
    assert np.array_equal(table.first + table.draws, [*table.first[1:], table.values.size])
    assert np.abs(table.values).max() <= 6 * STEPS
    assert np.all(np.diff(table.values[: table.first[-1]]) >= 0)  # a higher cell, or draw, never has a lower score
    assert np.all(np.diff(table.values[table.first[-1] :]) >= 0)


@settings(max_examples=40)
@given(steps, numbers, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_quantiles_invert_the_distribution_to_one_part_in_a_billion(step, given_counts, shares):
    borders = first_borders(step)
    own = np.array((given_counts * 2)[: borders.size], dtype=float)
    known = Marginal((Counts(borders, own[:-1], float(own[-1]), 5.0),), step)
    level = np.array(shares)
    at = known.quantile(level)
    assert np.all(known.cdf(at + GRID) >= level - 1e-12)
    below = at - 2 * GRID
    assert np.all((known.cdf(below) <= level + 1e-12) | (below < borders[0]))
    assert np.all(np.diff(known.quantile(np.sort(level))) >= 0)
    assert known.cdf(known.borders) == pytest.approx(known.cumulative, abs=1e-9)


@pytest.mark.parametrize("cells", [0.3, -1.0, 1.0, math.nan])
@pytest.mark.parametrize("rows", [2, 1000])
def test_equal_or_missing_cells_are_found_and_never_divided_by(cells, rows):
    known = look(np.full(rows, cells), noise=1e-6)
    assert known.spread > 0
    assert np.all(np.isfinite(scores(known, np.full(1000, cells))))
    if math.isnan(cells):
        assert known.missing_share == 0.99
    elif rows > 2:
        assert known.location == pytest.approx(cells, abs=0.01)


def test_partitions_follow_the_cells_however_wide_the_bounds_are():
    u = on_unit(np.random.default_rng(1).standard_normal(20_000), "wide")
    known = look(u)
    assert np.sum(np.abs(known.borders) < 0.03) > 10
    assert np.max(known.shares) < 0.25


def test_round_numbers_that_people_write_are_found_and_known_to_say_less():
    """Amounts in fifties say 1.4 % less of what lies behind them; 32 leaves hold several each, and saw nothing."""
    rng = np.random.default_rng(2)
    z = rng.standard_normal(50_000)
    x = 50 * np.round(np.exp(0.6 * z + 6) / 50)
    step = 2 / 5000
    u = np.clip(x, 0, 5000) * step - 1
    known = look(u, step)
    assert 1 - np.corrcoef(z, scores(known, u))[0, 1] ** 2 == pytest.approx(0.0137, abs=0.002)
    assert known.attenuation < 0.997


def test_the_values_of_a_whole_numbered_column_stand_in_the_middle_of_their_leaves():
    borders = first_borders(2 / 9)
    assert (borders[:-1] + borders[1:]) / 2 == pytest.approx(-1 + 2 / 9 * np.arange(10))
    many = first_borders(2 / 999)
    assert many.size == 17
    assert (many + 1) / (2 / 999) + 0.5 == pytest.approx(np.rint((many + 1) / (2 / 999) + 0.5))


@pytest.mark.parametrize("noise", [1e-9, 1e-4, 1e-2, 0.1, 1.0, 100.0])
def test_borders_lie_where_counts_can_tell_and_no_further_out(noise):
    shares = levels(leaf_count(noise), noise)
    assert 6 <= shares.size - 1 == leaf_count(noise) <= MOST_LEAVES
    assert np.all(np.diff(shares) > 0)
    assert shares == pytest.approx(1 - shares[::-1])
    assert np.diff(ndtri(shares[1:-1])) == pytest.approx(np.diff(ndtri(shares[1:3]))[0])
    assert shares[1] == pytest.approx(np.clip(3 * noise, 1e-4, 0.2))


def test_cells_are_often_missing_where_noise_does_not_explain_it_also_where_all_of_them_are():
    rng, u = np.random.default_rng(0), np.linspace(-1, 1, 4000)
    shares = (0.0, 0.004, 0.1, 0.98, 1.0)
    columns = [look(np.where(np.arange(4000) < share * 4000, math.nan, u), noise=2.0) for share in shares]
    assert often_missing(columns) == (2, 3, 4)
    assert often_missing([look(np.where(rng.random(4000) < 0.01, math.nan, u), noise=100.0)]) == ()


def test_the_tail_of_the_normal_has_the_scores_it_should():
    """The table's entries in an undrawn interval are the mean of the normal there, so that variances are right."""
    table = score_table(look(on_unit(np.random.default_rng(2).standard_normal(50_000), "narrow"), noise=1.0))
    missing = table.values[table.first[-1] :] / STEPS
    assert missing.size == DRAWS
    assert missing.mean() == pytest.approx(0, abs=1e-3)
    assert missing.var() == pytest.approx(1, abs=0.01)
    assert ndtr(missing) == pytest.approx((np.arange(DRAWS) + 0.5) / DRAWS, abs=2e-3)


def loud_rounds(columns, noise, seed):
    """Two rounds of counts of every column, as a publisher makes them."""
    rng, known, rounds = np.random.default_rng(seed), None, []
    for last in (False, True):
        borders = (
            [next_borders(one, noise / u.size, last=last) for one, u in zip(known, columns, strict=True)]
            if known
            else None
        )
        borders = borders or [first_borders(0.0)] * len(columns)
        rounds.append([count(u, cuts, noise, rng) for u, cuts in zip(columns, borders, strict=True)])
        known = known_of(rounds, columns[0].size)
    return rounds, known


def known_of(rounds, rows):
    return marginals_of(list(zip(*rounds, strict=True)), [0.0] * len(rounds[0]), [False] * len(rounds[0]), rows)


def off(known, spread):
    """Errors of the fitted log scales, root mean square."""
    return math.sqrt(np.mean([math.log(one.fitted[1] / own) ** 2 for one, own in zip(known, spread, strict=True)]))


def test_columns_that_are_alike_tell_each_other_where_they_lie_when_counts_are_loud():
    rng = np.random.default_rng(1)
    columns = np.clip(rng.standard_normal((20, 1000)) / 3, -1, 1)
    rounds, known = loud_rounds(list(columns), 150.0, 2)
    alone = [Marginal(tuple(own), 0.0) for own in zip(*rounds, strict=True)]
    assert off(known, np.full(20, 1 / 3)) < min(0.2, off(alone, np.full(20, 1 / 3)) / 2)
    assert np.sqrt(np.mean(np.square([one.location for one in known]))) < 0.1


def test_columns_that_differ_keep_their_own_places_when_counts_are_loud():
    rng = np.random.default_rng(3)
    spread, place = np.geomspace(0.02, 0.3, 8), rng.permutation(np.linspace(-0.6, 0.6, 8))
    columns = np.clip(place[:, None] + spread[:, None] * rng.standard_normal((8, 5000)), -1, 1)
    _, known = loud_rounds(list(columns), 60.0, 4)
    assert known[0].usual is not ALONE
    assert off(known, spread) < 0.25
    assert np.max(np.abs([one.fitted[0] for one in known] - place) / np.maximum(spread, 0.1)) < 0.5


def test_loud_counts_alone_make_no_cells_missing():
    rng = np.random.default_rng(5)
    columns = list(np.clip(rng.standard_normal((20, 1000)) / 3, -1, 1))
    for seed in range(5):
        assert often_missing(loud_rounds(columns, 120.0, seed)[1]) == ()


def test_a_secret_number_of_rows_is_what_the_counts_of_all_columns_add_up_to():
    rng = np.random.default_rng(6)
    columns = list(np.clip(rng.standard_normal((20, 1000)) / 3, -1, 1))
    rounds, _ = loud_rounds(columns, 40.0, 7)
    known = known_of(rounds, None)
    assert {one.rows for one in known} == {known[0].rows}
    assert abs(known[0].rows - 1000) < 4 * 40.0 * math.sqrt(17 / 20)
