"""The certificate is honest: it exceeds the true mu no more often than it says, and it is not far below either."""

import numpy as np
import pytest
from scipy.stats import beta, binom

import hazeglass as hg
from hazeglass.audit.attack import certify, upper_rate


def gaussian_scores(rng, mu, runs, statistics=1):
    """The first statistic is as good as mu-GDP allows; the others are noise."""
    under, neighbour = rng.standard_normal((runs, statistics)), rng.standard_normal((runs, statistics))
    neighbour[:, 0] += mu
    return under, neighbour


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("statistics", [1, 6])
def test_the_bound_exceeds_the_true_mu_at_most_as_often_as_stated(mu, statistics):
    rng = np.random.default_rng(11)
    level, trials = 0.2, 150
    names = [str(k) for k in range(statistics)]
    bounds = [
        certify(*gaussian_scores(rng, mu, 300, statistics), statistics=names, level=level).mu for _ in range(trials)
    ]
    assert sum(bound > mu for bound in bounds) <= binom.ppf(0.9999, trials, level)


def test_no_difference_certifies_nothing_more_often_than_stated():
    rng = np.random.default_rng(12)
    certified = [certify(*gaussian_scores(rng, 0.0, 300, 4), statistics="abcd", level=0.1).mu > 0 for _ in range(150)]
    assert sum(certified) <= binom.ppf(0.9999, 150, 0.1)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_with_many_runs_the_bound_is_close(mu):
    scores = gaussian_scores(np.random.default_rng(13), mu, 1 << 18)
    certificate = certify(*scores, statistics=["z"], level=1e-5)
    assert 0.9 * mu < certificate.mu <= mu
    assert certificate.runs == 1 << 17
    rate = certificate.false_positives / certificate.runs
    assert 0.02 < rate < 0.6  # a moderate threshold


@pytest.mark.parametrize("sign", [1, -1])
def test_either_direction_is_found(sign):
    under, neighbour = gaussian_scores(np.random.default_rng(14), 2.0, 20_000)
    certificate = certify(sign * under, sign * neighbour, statistics=["z"], level=1e-3)
    assert certificate.above == (sign > 0)
    assert certificate.mu > 1.7


def test_the_strongest_statistic_is_found():
    under, neighbour = gaussian_scores(np.random.default_rng(15), 1.5, 20_000, 3)
    certificate = certify(under[:, ::-1], neighbour[:, ::-1], statistics=["x", "y", "z"], level=1e-3)
    assert certificate.statistic == "z"


def test_sides_that_never_overlap_certify_as_much_as_the_runs_allow():
    runs = 2000
    certificate = certify(np.zeros((runs, 1)), np.ones((runs, 1)), statistics=["z"], level=0.01)
    limit = 1 - 0.005 ** (1 / (runs // 2))  # no error in so many runs
    assert certificate.mu == pytest.approx(-2 * np.sqrt(2) * _erfinv(2 * limit - 1), rel=1e-9)
    assert (certificate.false_positives, certificate.false_negatives) == (0, 0)


def _erfinv(x):
    from scipy.special import erfinv

    return erfinv(x)


def test_constant_scores_certify_nothing():
    assert certify(np.ones((100, 1)), np.ones((100, 1)), statistics=["z"], level=0.01).mu == 0


def test_upper_rates_are_those_of_clopper_and_pearson():
    errors = np.array([0, 1, 5, 99, 100])
    expected = [beta.ppf(0.99, k + 1, 100 - k) if k < 100 else 1.0 for k in errors]
    assert upper_rate(errors, 100, 0.01) == pytest.approx(expected, rel=1e-9)
    for k, rate in zip(errors[:-1], upper_rate(errors, 100, 0.01)[:-1], strict=True):
        assert binom.cdf(k, 100, rate) == pytest.approx(0.01, rel=1e-6)


def test_scores_of_the_wrong_shape_are_refused():
    with pytest.raises(hg.errors.InputError, match=r"shape \(runs, 2\)"):
        certify(np.zeros((10, 1)), np.zeros((10, 1)), statistics=["a", "b"], level=0.1)
    with pytest.raises(hg.errors.InputError, match="at least 2 runs"):
        certify(np.zeros((1, 1)), np.zeros((1, 1)), statistics=["a"], level=0.1)
