import math
import os
import threading
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hazeglass.errors import InputError
from hazeglass.guarantee.lattice import (
    DiscreteGaussian,
    RoundedGaussian,
    cumulative_thresholds,
    exp_neg,
    total_variation,
)
from hazeglass.publisher import noise as module
from hazeglass.publisher.kernels import _survives, staircase
from hazeglass.publisher.noise import SecretBits, SeededBits, draw
from lattice_tails import tail

FAMILIES = [RoundedGaussian, DiscreteGaussian]
# Each statistical test fails a right sampler once in a million runs; draws are secret ones, as in a release.
ONE_IN_A_MILLION = 1e-6


class Words:
    """A source that hands out given words, then random ones."""

    simulation = True

    def __init__(self, *words: int) -> None:
        self.words = list(words)
        self.rest = SecretBits()
        self.asked = 0

    def uint64(self, count: int) -> np.ndarray:
        out = np.empty(count, dtype=np.uint64)
        self.fill(out)
        return out

    def fill(self, words: np.ndarray) -> None:
        self.asked += words.size
        self.rest.fill(words)
        for i in range(min(words.size, len(self.words))):
            words[i] = self.words.pop(0)


def chi_square(noise, draws: np.ndarray, cells: int = 400) -> float:
    """The p-value of the draws against the exact probabilities, in cells of about equal mass."""
    scale = noise.scale
    reach = math.ceil(8 * scale) + 2
    k = np.arange(-reach, reach + 1)
    cumulative = np.cumsum(np.exp(noise.log_pmf(k)))
    group = np.minimum((cumulative * cells).astype(int), cells - 1)
    expected = np.bincount(group, weights=np.exp(noise.log_pmf(k)), minlength=cells) * draws.size
    observed = np.bincount(group[np.clip(draws, -reach, reach) + reach], minlength=cells)
    expected, observed = expected[expected > 0], observed[expected > 0]
    while expected.size > 1 and expected[-1] < 25:  # join what is too rare for the approximation
        expected = np.append(expected[:-2], expected[-2:].sum())
        observed = np.append(observed[:-2], observed[-2:].sum())
    while expected.size > 1 and expected[0] < 25:
        expected = np.insert(expected[2:], 0, expected[:2].sum())
        observed = np.insert(observed[2:], 0, observed[:2].sum())
    expected *= observed.sum() / expected.sum()
    return float(stats.chisquare(observed, expected).pvalue)


def moments_agree(noise, draws: np.ndarray) -> None:
    k = np.arange(-math.ceil(40 * noise.scale) - 2, math.ceil(40 * noise.scale) + 3) if noise.scale < 2 else None
    fourth = math.fsum(k.astype(float) ** 4 * np.exp(noise.log_pmf(k))) if k is not None else 3 * noise.variance**2
    square = np.square(draws.astype(np.float64))
    assert abs(draws.mean()) < 5 * math.sqrt(noise.variance / draws.size)
    assert abs(square.mean() - noise.variance) < 5 * math.sqrt((fourth - noise.variance**2) / draws.size)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 3.0, 1000.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_million_draws_follow_the_exact_law(family, scale):
    noise = family(scale)
    draws = draw(noise, 10_000_000, SecretBits())
    assert chi_square(noise, draws) > ONE_IN_A_MILLION
    moments_agree(noise, draws)
    for cut in {1, math.ceil(2 * scale), math.ceil(4 * scale)}:  # tails, one binomial test each
        beyond = int(np.count_nonzero(np.abs(draws) > cut))
        assert stats.binomtest(beyond, draws.size, float(tail(noise, cut))).pvalue > ONE_IN_A_MILLION


@pytest.mark.parametrize("scale", [4097.0, 8191.0, 1e5, 123456789.0, 1e11])
@pytest.mark.parametrize("family", FAMILIES)
def test_large_scales_follow_the_law_as_well(family, scale):
    noise = family(scale)
    draws = draw(noise, 1_000_000, SecretBits())
    moments_agree(noise, draws)
    if scale <= 1e5:
        assert chi_square(noise, draws, cells=1000) > ONE_IN_A_MILLION
    else:  # at such a scale a cell of the normal distribution holds 1e5 integers and more: its quantiles are the cells
        cells = np.floor(stats.norm.cdf(draws / scale) * 1000).astype(int)
        assert stats.chisquare(np.bincount(np.clip(cells, 0, 999), minlength=1000)).pvalue > ONE_IN_A_MILLION
    low_bits = np.bincount(draws & 7, minlength=8)  # at such a scale the remainders are uniform
    assert stats.chisquare(low_bits).pvalue > ONE_IN_A_MILLION
    for cut in (int(3 * scale), int(4 * scale)):
        beyond = int(np.count_nonzero(np.abs(draws) > cut))
        assert stats.binomtest(beyond, draws.size, float(tail(noise, cut))).pvalue > ONE_IN_A_MILLION


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [257.0, 512.0, 600.0])
def test_the_staircase_follows_the_law_where_every_probability_can_be_tested(family, scale):
    noise = family(scale)
    draws = draw(noise, 2_000_000, SecretBits())
    assert chi_square(noise, draws, cells=2000) > ONE_IN_A_MILLION
    moments_agree(noise, draws)
    at_zero = int(np.count_nonzero(draws == 0))
    assert stats.binomtest(at_zero, draws.size, math.exp(float(noise.log_pmf(0)))).pvalue > ONE_IN_A_MILLION


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [0.3, 3.0, 1000.0])
def test_table_draws_equal_the_definition_word_by_word(family, scale, monkeypatch):
    monkeypatch.setattr(module, "TABLE_LIMIT", 4096.0)
    noise = family(scale)
    table = cumulative_thresholds(noise)
    words = SeededBits(5).uint64(2000)
    want = [table.value(int(word) << 64) for word in words]
    assert draw(noise, 2000, SeededBits(5)).tolist() == want


def test_low_words_are_drawn_only_where_the_high_word_equals_a_threshold():
    noise = RoundedGaussian(1.0)
    table = cumulative_thresholds(noise)
    j = -table.first  # P(X <= 0)
    high, low = int(table.high[j]), int(table.low[j])
    assert draw(noise, 1, Words(high, low)).tolist() == [1]
    assert draw(noise, 1, Words(high, low - 1)).tolist() == [0]
    source = Words(high + 1, high - 1)
    assert draw(noise, 2, source).tolist() == [1, 0]
    assert source.asked == 2


def test_a_draw_settled_by_its_low_word_stands_between_its_neighbours():
    noise = RoundedGaussian(1.0)
    table = cumulative_thresholds(noise)
    high, low = (int(part[-table.first]) for part in (table.high, table.low))
    below, above = 1 << 60, (1 << 64) - (1 << 60)
    neighbours = [table.value(word << 64) for word in (below, above)]
    for last, value in ((low, 1), (low - 1, 0)):
        source = Words(below, high, above, high, last, last)
        assert draw(noise, 4, source).tolist() == [neighbours[0], value, neighbours[1], value]
        assert source.asked == 6  # one low word for each that needs it


def test_zero_has_one_sign_in_the_exact_arithmetic_too():
    """In the discrete family the first place of the first stair is 0; with both signs it would come twice as often."""
    stairs = module._staircase(DiscreteGaussian(1e6))
    assert module._settle(stairs, [0, 0, (1 << 64) - 1], SeededBits(1)) == 0
    assert module._settle(stairs, [0, 1, (1 << 64) - 1], SeededBits(1)) is None
    place = 1 << (64 - stairs.block_bits)  # the place beside it keeps both
    assert module._settle(stairs, [0, place, (1 << 64) - 1], SeededBits(1)) == 1
    assert module._settle(stairs, [0, place | 1, (1 << 64) - 1], SeededBits(1)) == -1


def test_an_undecided_coin_is_settled_with_more_bits():
    """The coin's first 64 bits are those of 1 - exp(-g): the next 128 decide."""
    noise = RoundedGaussian(1e6)
    stairs = module._staircase(noise)
    first_word, place = 1 << 63, 1 << 62
    stair = stairs.table.thresholds.value(first_word << 64)
    f = Fraction(place, 1 << 63)
    gamma = Fraction(1, 2 * 256**2) * f * (2 * stair + f)
    border = (1 << 192) - exp_neg(gamma, 192)
    coin, rest = border >> 128, border & ((1 << 128) - 1)
    kept = Words(first_word, place << 1, coin)
    value = module._settle(stairs, [first_word, place << 1, coin], Words(0, 0, 0, (rest >> 64) + 1, 0))
    assert value == math.floor(Fraction(10**6) * (stair + f) / 256 + Fraction(1, 2))
    assert module._settle(stairs, [first_word, place << 1, coin], Words(0, 0, 0, (rest >> 64) - 1, 0)) is None
    assert draw(noise, 1, kept).size == 1
    assert kept.asked > 3 + 5 - 1  # the try and the five words that settle it


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kept", [True, False])
def test_a_settled_try_takes_its_place_among_the_draws_or_leaves_it_to_the_next(family, kept):
    noise = family(1e6)
    stairs = module._staircase(noise)
    clear, place = (1 << 64) - 1, 1 << 62  # the highest coin keeps every try
    before, after = [1 << 61, 5 << 50, clear], [1 << 60, 7 << 51, clear]
    stair = stairs.table.thresholds.value(1 << 127)
    f = Fraction(place, 1 << 63)
    border = (1 << 192) - exp_neg(stairs.step**2 / 2 * f * (2 * stair + f), 192)
    undecided = [1 << 63, place << 1, border >> 128]
    more = [0, 0, 0, *([clear, clear] if kept else [0, 0])]  # the rest of the coin
    first, settled, last = (module._settle(stairs, words, Words(*more)) for words in (before, undecided, after))
    assert (settled is not None) == kept
    words = [*before, *undecided, *after * 8]  # as many as two draws ask for at once
    assert draw(noise, 2, Words(*words, *more)).tolist() == [first, settled if kept else last]
    assert draw(noise, 3, Words(*words, *after, *more)).tolist()[-1] == last


@pytest.mark.parametrize("scale", [257.0, 4097.0, 1e7, 2.0**58])
def test_fast_and_exact_arithmetic_agree_on_every_try(scale):
    """Each try of the compiled loop, worked out again with integers of any length."""
    for family in FAMILIES:
        noise = family(scale)
        stairs = module._staircase(noise)
        words = SeededBits(11).uint64(6000)
        expected = []
        for t in range(0, 6000, 3):
            value = module._settle(stairs, [int(word) for word in words[t : t + 3]], SeededBits(1))
            if value is not None:
                expected.append(value)
        got = draw(noise, 500, Words(*(int(word) for word in words)))
        assert got.tolist() == expected[:500]


def one_try(stairs, words):
    """What the compiled loop makes of three words: a value, None for a rejection, or "undecided"."""
    table, out = stairs.table, np.zeros(1, dtype=np.int64)
    constants = (np.uint64(stairs.curve), stairs.block_bits, np.uint64(stairs.mantissa), stairs.exponent)
    shift = np.uint64(64 - module._GUIDE_BITS)
    done, _, undecided = staircase(
        np.array(words, dtype=np.uint64), table.thresholds.high, table.guide, shift, *constants, out
    )
    return "undecided" if undecided else int(out[0]) if done else None


@settings(max_examples=400, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    scale=st.sampled_from([257.0, 511.99, 4097.3, 123456.789, 1e11, 2.0**58 - 64, 2.0**58]),
    place=st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2, 3, 2**64 - 2, 2**64 - 1, 2**63])),
    threshold=st.integers(0, 3000),
    nudge=st.integers(-2, 2),
    coin=st.one_of(st.integers(0, 2**64 - 1), st.integers(2**60 - 2, 2**60 + 2), st.none()),
    offset=st.integers(-3000, 3000),
)
def test_what_the_compiled_loop_decides_no_further_bit_could_change(
    family, scale, place, threshold, nudge, coin, offset
):
    """Words on and beside every border: of a stair, of the coin, of a place; settled with all zeros and all ones."""
    stairs = module._staircase(family(scale))
    word = int(stairs.table.thresholds.high[threshold]) + nudge
    word = min(max(word, 0), 2**64 - 1)
    if coin is None:  # beside the border of the coin
        stair = stairs.table.thresholds.value(word << 64)
        f = Fraction(place >> 1, 2**63)
        if stairs.block_bits >= 0:
            f = Fraction((place >> 1) >> (63 - stairs.block_bits), 2**stairs.block_bits)
        border = (1 << 64) - exp_neg(stairs.step**2 / 2 * f * (2 * stair + f), 64)
        coin = min(max(border + offset, 0), 2**64 - 1)
    words = [word, place, coin]
    decided = one_try(stairs, words)
    zeros, ones = (module._settle(stairs, words, Words(*[fill] * 5)) for fill in (0, 2**64 - 1))
    if decided != "undecided":
        assert decided == zeros == ones
    elif coin > 2**61:  # the coin was clear, so a border of the stair or of the rounding was hit
        assert nudge == 0 or (family is RoundedGaussian and zeros != ones)


@pytest.mark.parametrize("gamma", [0, 1, 5_000, 2**40 + 1, 2**55 + 12345, 2**59 + 987654321, 2**60 - 9])
def test_the_coin_is_decided_only_where_no_rounding_could_change_it_and_everywhere_else(gamma):
    """g is known to 8 units, U to one: beside the border the answer must be left open, a little further off not."""
    with localcontext() as context:
        context.prec = 60
        least, most = (2**64 * (1 - (Decimal(-g) / 2**64).exp()) for g in (gamma, gamma + 8))
    answers = set()
    for offset in [*range(-60, 61), *range(-1100, 1101, 50), -5000, 5000]:
        u = int(least) + offset
        if u < 0:
            continue
        answer = _survives(np.uint64(u), np.uint64(gamma))
        answers.add(answer)
        assert answer != 1 or u >= most
        assert answer != 0 or u + 1 <= least
        assert answer >= 0 or abs(offset) < 1100
    assert answers == ({1, 0, -1} if gamma > 2000 else {1, -1})


def test_the_tests_of_fit_notice_noise_one_percent_too_small():
    draws = draw(RoundedGaussian(990.0), 2_500_000, SecretBits())  # a million would miss it once in fifteen times
    assert chi_square(RoundedGaussian(1000.0), draws) < ONE_IN_A_MILLION
    with pytest.raises(AssertionError):
        moments_agree(RoundedGaussian(1000.0), draws)


@pytest.mark.parametrize("family", FAMILIES)
def test_total_variation_is_below_the_promised_bound_at_every_scale(family):
    for scale in (2.0**-6, 0.3, 1.0, 256.0, 257.0, 1000.0, 4096.0, 4097.0, 8191.9, 1e7, 2.0**58):
        assert 0 < total_variation(family(scale)) <= 2.0**-100


@pytest.mark.parametrize("family", FAMILIES)
def test_total_variation_is_the_sum_of_its_reasons(family):
    """As the docstring has it: thresholds and the mass beyond, times 4 for a staircase, and what a bound leaves out."""
    per_threshold = Fraction(65, 64) / 2**128

    def stated(scale):
        return Fraction(total_variation(family(scale)))

    for scale in (0.3, 1.0, 256.0):
        count = 2 * (math.ceil(Fraction(27, 2) * Fraction(scale)) + 1)
        assert float(stated(scale)) == pytest.approx(
            float(count * per_threshold + Fraction(1, 2**130)), rel=1e-14, abs=0
        )
    for scale in (257.0, 4096.0, 4097.0, 1e9):
        width = Fraction(1, 256) if family is RoundedGaussian else 2 ** (math.frexp(scale)[1] - 9) / Fraction(scale)
        assert Fraction(1, 512) <= width <= Fraction(1, 256)
        reasons = 4 * (math.ceil(Fraction(27, 2) / width) * per_threshold + Fraction(1, 2**130)) + Fraction(1, 2**129)
        if family is DiscreteGaussian and scale > 4096:
            reasons += Fraction(1, 2**110)
        assert float(stated(scale)) == pytest.approx(float(reasons), rel=1e-14, abs=0)


def test_threads_draw_at_once_without_sharing_anything():
    results: list[np.ndarray] = []
    noise, bits = RoundedGaussian(1e9), SecretBits()
    threads = [threading.Thread(target=lambda: results.append(draw(noise, 20_000, bits))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = np.concatenate(results)
    assert every.size == 120_000
    assert np.unique(every).size > 119_900  # 120000^2 / (2 * 3.5e9) = 2 chance repeats


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_children_of_a_fork_draw_other_noise_than_the_parent():
    noise, bits = RoundedGaussian(2.0**40), SecretBits()
    seen = draw(noise, 1000, bits).tolist()
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, draw(noise, 1000, bits).tobytes())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            seen += np.frombuffer(pipe.read(), dtype=np.int64).tolist()
        os.waitpid(child, 0)
        seen += draw(noise, 1000, bits).tolist()
    assert len(seen) == 7000
    assert len(set(seen)) == 7000


def test_no_draws_and_fewer():
    assert draw(RoundedGaussian(3.0), 0, SecretBits()).size == 0
    assert draw(RoundedGaussian(1e9), 0, SecretBits()).size == 0
    with pytest.raises(InputError, match="must not be negative"):
        draw(RoundedGaussian(3.0), -1, SecretBits())
