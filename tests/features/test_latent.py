"""Latent correlations from scores: rows of known correlation, scored by another code, give it back."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import poisson

from hazeglass.features.harmonics import cosines
from hazeglass.features.scores import latent_correlations, link_of, link_through

ROWS = 1_000_000
KINDS = {
    "halves": ([0.5, 0.5], [True, True]),
    "rare": ([0.95, 0.05], [True, True]),
    "poisson 1": (poisson.pmf(np.arange(12), 1), [True] * 12),
    "mixed": ([0.3, 0.2, 0.3, 0.2], [True, False, False, True]),
    "tails": ([0.04, 0.92, 0.04], [True, False, True]),
    "smooth": ([0.25] * 4, [False] * 4),
}


def cumulative(shares):
    found = np.concatenate([[0.0], np.cumsum(shares)])
    return found / found[-1]


def link(kind, box=math.inf):
    shares, drawn = KINDS[kind]
    return link_of(ndtri(cumulative(shares)), np.array(drawn), box)


def scored(z, kind, rng, box=math.inf):
    """The score of a cell: its own place, or drawn from the leaf's part of the normal."""
    shares, drawn = KINDS[kind]
    ends = cumulative(shares)
    leaf = np.clip(np.searchsorted(ends, ndtr(z), side="right") - 1, 0, len(shares) - 1)
    inside = ndtri(ends[leaf] + (ends[leaf + 1] - ends[leaf]) * rng.random(len(z)))
    return np.clip(np.where(np.array(drawn)[leaf], inside, z), -box, box)


@pytest.mark.parametrize("box", [math.inf, 1.0])
@pytest.mark.parametrize(
    ("one", "other"),
    [("halves", "halves"), ("rare", "halves"), ("poisson 1", "mixed"), ("tails", "tails"), ("mixed", "smooth")],
)
def test_the_correlation_behind_scores_comes_back(one, other, box):
    rng = np.random.default_rng(1)
    links = [link(one, box), link(other, box)]
    for rho in (-0.4, 0.2, 0.7):
        z = rng.standard_normal((ROWS, 2))
        z[:, 1] = rho * z[:, 0] + math.sqrt(1 - rho**2) * z[:, 1]
        values = np.corrcoef(scored(z[:, 0], one, rng, box), scored(z[:, 1], other, rng, box))
        found, slope = latent_correlations(values, links)
        assert found[0, 1] == pytest.approx(rho, abs=max(0.003, 4 * slope[0, 1] / math.sqrt(ROWS)))
        assert found[0, 0] == slope[0, 0] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_attenuation_and_variance_are_those_of_scores(kind):
    rng = np.random.default_rng(2)
    z = rng.standard_normal(ROWS)
    for box in (math.inf, 1.0):
        found, score = link(kind, box), scored(z, kind, rng, box)
        assert found.variance == pytest.approx(score.var(), rel=0.01)
        assert found.attenuation == pytest.approx(np.corrcoef(z, score)[0, 1], abs=0.005)
    assert link(kind).smooth == (kind == "smooth")


def test_a_column_that_says_nothing_has_a_finite_link():
    """All of its cells in one drawn leaf, as far as the counts can tell."""
    nothing = link_of(np.array([-np.inf, np.inf]), np.array([True]))
    smooth = link_of(np.array([-np.inf, np.inf]), np.array([False]))
    values, slope = latent_correlations(np.array([[1.0, 0.01], [0.01, 1.0]]), [nothing, smooth])
    assert np.all(np.isfinite(values))
    assert np.all(np.isfinite(slope))
    assert slope[0, 1] > 20  # and next to nothing is known of its correlations


def test_slopes_are_those_of_the_curve():
    pair = [link("poisson 1"), link("mixed")]
    for value in (-0.5, -0.1, 0.1, 0.3, 0.6):
        steps = [np.array([[1, v], [v, 1]]) for v in (value - 0.01, value + 0.01)]
        low, high = (latent_correlations(step, pair)[0][0, 1] for step in steps)
        assert low < high
        slope = latent_correlations(np.array([[1, value], [value, 1]]), pair)[1][0, 1]
        assert slope >= 0.98 * (high - low) / 0.02


def test_a_correlation_beyond_what_scores_can_have_stays_below_one():
    pair = [link("halves"), link("halves")]
    for value in (-0.99, 0.99):
        found, slope = latent_correlations(np.array([[1, value], [value, 1]]), pair)
        assert 0.99 < abs(found[0, 1]) < 1
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("kind", ["halves", "rare", "poisson 1", "mixed"])
def test_an_error_of_the_shares_moves_correlations_as_sensitivities_say(kind):
    """Scores are made with shares that are a little wrong, and divided by their own deviation."""
    shares, drawn = (np.array(part) for part in KINDS[kind])
    rng, wrong = np.random.default_rng(3), shares.copy()
    wrong[0] += 0.004
    wrong[-1 if kind != "poisson 1" else 1] -= 0.004
    believed = link_of(ndtri(cumulative(wrong)), drawn)
    z = rng.standard_normal(4 * ROWS)
    true, seen = cumulative(shares), cumulative(wrong)
    leaf = np.clip(np.searchsorted(true, ndtr(z), side="right") - 1, 0, len(shares) - 1)
    place = (ndtr(z) - true[leaf]) / (true[leaf + 1] - true[leaf])
    place = np.where(drawn[leaf], rng.random(len(z)), place)
    score = ndtri(seen[leaf] + (seen[leaf + 1] - seen[leaf]) * place)
    kappa = np.mean(z * score) / score.std() / believed.attenuation - 1
    at = ndtr(believed.places)
    error = np.interp(at, seen, true) - at  # of F, at each place
    assert believed.sensitivity @ error == pytest.approx(kappa, abs=0.15 * abs(kappa) + 0.002)
    assert believed.variance_sensitivity @ -error == pytest.approx(score.var() - 1, abs=0.003)


def test_a_sum_of_cosines_is_nearly_the_score_itself():
    z = np.linspace(-8, 8, 4001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    itself = (cosines(z) * (z * density)[:, None]).sum(axis=0)
    found = link_through(lambda x: cosines(x) @ itself)
    assert found.attenuation > 0.97
    assert found.variance == pytest.approx(itself @ itself, rel=0.01)


def test_scores_that_are_all_drawn_from_one_piece_say_nothing_and_leave_finite_errors():
    nothing = link_of(np.array([-math.inf, math.inf]), np.array([True]))
    found, slope = latent_correlations(np.array([[1.0, 0.3], [0.3, 1.0]]), [nothing, link("halves")])
    assert np.all(np.isfinite(found))
    assert np.all(np.isfinite(slope))
    assert slope[0, 1] > 10


def test_noise_beyond_what_any_correlation_gives_is_no_certainty():
    """The farther out the noisy value, the smaller its error would seem, were it divided by the value itself."""
    links = [link("rare"), link("rare")]
    slopes = []
    for value in (0.7, 2.0, 50.0):
        found, slope = latent_correlations(np.array([[1.0, value], [value, 1.0]]), links)
        assert found[0, 1] == pytest.approx(0.995, abs=0.005)
        slopes.append(slope[0, 1])
    assert slopes[0] == pytest.approx(slopes[1]) == pytest.approx(slopes[2])
    assert slopes[0] > 0.5
