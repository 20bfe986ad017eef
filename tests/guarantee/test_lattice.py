import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from hazeglass.errors import InputError
from hazeglass.guarantee.lattice import (
    ENUMERATION_LIMIT,
    DiscreteGaussian,
    RoundedGaussian,
    cumulative_thresholds,
    lattice_noise,
    staircase_thresholds,
    total_variation_of,
)
from lattice_tails import tail

FAMILIES = [RoundedGaussian, DiscreteGaussian]
SCALES = [2.0**-6, 0.3, 0.5, 1.0, 1.9, 2.1, 3.0, 1000.0]


def log_tail(noise, k):
    """log P(X > k) by summing logarithms outwards in."""
    far = np.arange(k + 1, k + 60 * math.ceil(noise.scale) + 60)
    return special.logsumexp(noise.log_pmf(far))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", SCALES)
def test_probabilities_sum_to_one_and_give_the_variance_and_the_tails(family, scale):
    noise = family(scale)
    k = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
    p = np.exp(noise.log_pmf(k))
    assert math.fsum(p) == pytest.approx(1, abs=1e-14)
    assert math.fsum(k * k * p) == pytest.approx(noise.variance, rel=1e-12, abs=1e-300)
    for cut in (0, math.ceil(scale), 3 * math.ceil(scale)):
        assert math.fsum(p[np.abs(k) > cut]) == pytest.approx(tail(noise, cut), rel=1e-11, abs=1e-300)


def test_variances_agree_with_the_published_check_values():
    assert DiscreteGaussian(0.5).variance == pytest.approx(0.2150, abs=5e-5)
    assert DiscreteGaussian(1.0).variance == pytest.approx(0.9999998, abs=5e-8)
    # s^2 + 1/12 is NOT exact at scale 1: the wrapped Gaussian leaves (4 + 1/pi^2) exp(-2 pi^2) = 1.1e-8.
    missing = 1 + 1 / 12 - RoundedGaussian(1.0).variance
    assert missing == pytest.approx((4 + 1 / math.pi**2) * math.exp(-2 * math.pi**2), rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_variance_is_continuous_where_the_closed_form_takes_over(family):
    below, above = family(math.nextafter(2.0, 0)).variance, family(2.0).variance
    assert below == pytest.approx(above, rel=4e-15)


@pytest.mark.parametrize("scale", [1e6, 1e10, 2.0**58])
@pytest.mark.parametrize("family", FAMILIES)
def test_log_pmf_keeps_its_digits_at_large_scales(family, scale):
    k = np.array([0, 1, scale // 3, 5 * scale])
    want = -0.5 * (k / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(family(scale).log_pmf(k), want, rtol=0, atol=1e-11)


@pytest.mark.parametrize("scale", [0.3, 1.0, 50.0])
def test_rounded_log_pmf_equals_the_difference_of_tails_far_out(scale):
    noise = RoundedGaussian(scale)
    for k in (1, 5, 20 * math.ceil(scale), 200 * math.ceil(scale)):
        inner, outer = special.log_ndtr(-(k - 0.5) / scale), special.log_ndtr(-(k + 0.5) / scale)
        assert noise.log_pmf(k) == pytest.approx(inner + math.log1p(-math.exp(outer - inner)), rel=1e-11, abs=0)


def test_tail_of_the_discrete_family_is_continuous_where_the_sum_ends():
    k = np.array([0, 1000, 4096, 20000, 40000])
    np.testing.assert_allclose(
        tail(DiscreteGaussian(math.nextafter(ENUMERATION_LIMIT, 1e9)), k),
        tail(DiscreteGaussian(ENUMERATION_LIMIT), k),
        rtol=1e-10,
    )


# ---- mu


@pytest.mark.parametrize("scale", [0.3, 1.0, 1000.0, 1e10])
def test_rounded_mu_is_shift_over_scale(scale):
    for shift in (0, 1, -3, 10**6):
        assert RoundedGaussian(scale).mu(shift) == abs(shift) / scale


@pytest.mark.parametrize(("scale", "excess"), [(1.0, 0.046), (2.0, 0.011), (4.0, 0.0026)])
def test_discrete_mu_exceeds_shift_over_scale_by_the_published_amount(scale, excess):
    assert DiscreteGaussian(scale).mu(1) * scale - 1 == pytest.approx(excess, rel=0.04)


@pytest.mark.parametrize("scale", [2.0**-6, 0.3, 1.0, 1.99, 2.0, 7.3, 60.0])
@pytest.mark.parametrize("shift", [1, 2, 5, 31])
def test_discrete_mu_dominates_every_threshold_test_and_is_attained(scale, shift):
    noise = DiscreteGaussian(scale)
    # in log tails, by another route than the module's, and further out than it looks
    z = {}
    for t in range(-30 * math.ceil(scale) - 2, 30 * math.ceil(scale) + shift + 2):
        upper = -special.ndtri_exp(log_tail(noise, max(t, -t - 1)))
        z[t] = upper if t >= 0 else -upper
    brute = max(z[t] - z[t - shift] for t in z if t - shift in z)
    claimed = noise.mu(shift)
    reach = math.ceil(13.5 * scale)
    assert claimed >= brute * (1 - 1e-13)
    if shift <= 2 * reach + 1:
        assert claimed <= brute * (1 + 2e-10)


def test_discrete_mu_is_a_bound_where_enumeration_ends():
    inside, outside = DiscreteGaussian(ENUMERATION_LIMIT), DiscreteGaussian(math.nextafter(ENUMERATION_LIMIT, 1e9))
    for shift in (1, 100, 50_000):
        assert inside.mu(shift) <= outside.mu(shift) <= inside.mu(shift) * (1 + 3 / ENUMERATION_LIMIT**2)
    assert DiscreteGaussian(1e9).mu(10**9) == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("scale", [4097.0, 5000.5, 1e7 / 3, 2.0**58])
@pytest.mark.parametrize("shift", [1, -1, 3, 10**6 + 1])
def test_the_bound_is_never_rounded_below_its_exact_value(scale, shift):
    """mu^2 (scale^2 - 4) >= shift^2, in fractions: the law of docs/maths/lattice.md without any rounding."""
    mu = Fraction(DiscreteGaussian(scale).mu(shift))
    assert mu**2 * (Fraction(scale) ** 2 - 4) >= shift**2
    assert mu**2 * (Fraction(scale) ** 2 - 4) <= shift**2 * (1 + Fraction(1, 2**48))


@pytest.mark.parametrize("scale", [0.3, 0.7, 3.0, 7.3])
def test_a_shift_beyond_the_table_is_never_rounded_below_its_bounds(scale):
    noise = DiscreteGaussian(scale)
    for shift in (1000, -1001, 31_415):
        # mu(1) was rounded up by 2^-33 already, so the product with it may lose a last bit
        units = abs(shift) * Fraction(noise.mu(1)) * (1 - Fraction(1, 2**50))
        tightest = min(Fraction(abs(shift) + 1) / Fraction(scale), units)
        assert tightest <= Fraction(noise.mu(shift)) <= tightest * (1 + Fraction(1, 2**48))


def test_no_shift_costs_nothing():
    assert DiscreteGaussian(3.0).mu(0) == DiscreteGaussian(1e9).mu(0) == RoundedGaussian(3.0).mu(0) == 0.0


@settings(max_examples=40, deadline=None)
@given(scale=st.floats(2.0**-6, 300), shift=st.integers(1, 2000))
def test_discrete_mu_lies_between_its_proven_bounds(scale, shift):
    mu = DiscreteGaussian(scale).mu(shift)
    assert mu <= (shift + 1) / scale * (1 + 1e-9)
    assert mu >= shift / scale * (1 - 1e-9)
    assert mu <= shift * DiscreteGaussian(scale).mu(1) * (1 + 1e-9)  # a shift is a sum of unit shifts


# ---- tables


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [2.0**-6, 0.3, 1.0, 3.0, 100.0, 1000.0])
def test_thresholds_are_the_cumulative_probabilities(family, scale):
    noise = family(scale)
    table = cumulative_thresholds(noise)
    values = table.first + np.arange(len(table.high))
    tails = tail(noise, np.where(values < 0, -values - 1, values)) / 2
    want = np.where(values < 0, tails, 1 - tails)
    np.testing.assert_allclose(table.high / 2.0**64, want, rtol=0, atol=2e-15)
    assert 0 < total_variation_of(len(table.high)) < 2.0**-100


def test_thresholds_of_the_discrete_family_agree_with_decimals_to_their_last_bit():
    table = cumulative_thresholds(DiscreteGaussian(3.0))
    with localcontext() as context:
        context.prec = 80
        weights = {k: (Decimal(-k * k) / 18).exp() for k in range(-100, 101)}
        total, below = sum(weights.values()), Decimal(0)
        cumulative = {}
        for k, weight in weights.items():
            below += weight
            cumulative[k] = below / total
        for j in range(len(table.high)):
            threshold = (int(table.high[j]) << 64) | int(table.low[j])
            assert abs(threshold - cumulative[table.first + j] * 2**128) < Decimal("1.02")


def test_a_uniform_integer_becomes_the_value_between_its_thresholds():
    table = cumulative_thresholds(RoundedGaussian(1.0))
    assert table.first <= table.value(0) <= -12  # P(X <= -13) is below 2^-118
    assert 12 <= table.value(2**128 - 1) <= -table.first
    assert table.value(2**127) == 0
    for j in range(len(table.high)):
        threshold = (int(table.high[j]) << 64) | int(table.low[j])
        if threshold > 0:
            assert table.value(threshold - 1) <= table.first + j < table.value(threshold)


def test_the_stairs_cover_the_half_normal_up_to_the_tail():
    table = staircase_thresholds(Fraction(1, 256))
    assert len(table.high) + 1 == 3456
    assert table.value(0) == 0
    assert table.value(2**128 - 1) <= 3455


@pytest.mark.parametrize(
    "scale", [0.0, -1.0, math.nan, math.inf, math.nextafter(2.0**58, math.inf), math.nextafter(2.0**-6, 0)]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_scale_without_meaning_is_refused(family, scale):
    with pytest.raises(InputError, match="noise scale must lie between"):
        family(scale)


def test_families_are_found_by_name_and_others_refused():
    assert lattice_noise("rounded-gaussian", 3) == RoundedGaussian(3.0)
    assert lattice_noise("discrete-gaussian", 3) == DiscreteGaussian(3.0)
    with pytest.raises(InputError, match="rounded-gaussian, discrete-gaussian"):
        lattice_noise("laplace", 3)


def test_a_table_beyond_its_limit_is_refused():
    with pytest.raises(InputError, match="up to 4096"):
        cumulative_thresholds(RoundedGaussian(5000.0))


@pytest.mark.parametrize("scale", [1.5, 2.0, 3.7, 300.0, 4096.0, 5000.0])
@pytest.mark.parametrize("shift", [1, 7, 4000, 10**6])
def test_a_mu_that_need_not_be_exact_is_near(scale, shift):
    noise = DiscreteGaussian(scale)
    assert noise.mu(shift, exact=False) == pytest.approx(noise.mu(shift), rel=1e-7)
