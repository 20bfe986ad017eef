"""Releases that contradict the model of their error bars select nothing and say so; those that follow it do not."""

import json
import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import t as student

import hazeglass as hg
from hazeglass.analyst import checks
from hazeglass.analyst.covariance import covariance_of
from hazeglass.analyst.penalty import Problem, given
from hazeglass.analyst.pooling import StageMoments, pool
from hazeglass.analyst.twins import inferred
from hazeglass.errors import DistrustWarning
from hazeglass.features.scores import link_of
from simulate import simulate

P = 8
CHAIN = 0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))
BLANK = ("std_error", "ci_low", "ci_high", "p_value", "q_value")


def plan_for(lower, upper, epsilon=1.0, **release):
    columns = [{"name": f"x{k + 1}", "kind": "continuous", "lower": lower, "upper": upper} for k in range(P)]
    release = {"title": "t", "form": "moments", **release}
    return hg.Plan.from_dict({"release": release, "budget": {"epsilon": epsilon, "delta": 1e-6}, "columns": columns})


def gaussian(n, seed, correlation=CHAIN):
    return np.random.default_rng(seed).standard_normal((n, P)) @ np.linalg.cholesky(correlation).T


def heavy(n, seed, freedom=3):
    """Scores of a Student copula: each column normal, whole rows far out together."""
    shrink = np.sqrt(np.random.default_rng(seed + 1000).chisquare(freedom, n) / freedom)
    return ndtri(np.clip(student.cdf(gaussian(n, seed) / shrink[:, None], freedom), 1e-9, 1 - 1e-9))


def test_a_gaussian_copula_is_trusted_whatever_its_margins_are():
    for seed in range(6):
        rows, bounds = gaussian(10_000, seed), (-6, 6)
        if seed % 2:
            rows, bounds = np.exp(rows), (0, 60)
        assert covariance_of(simulate(rows, plan_for(*bounds), seed)).distrusted is None


def partial_correlations(covariance):
    precision = np.linalg.inv(covariance)
    scale = np.sqrt(np.diag(precision))
    return -(precision / np.outer(scale, scale))[np.triu_indices(P, 1)]


@pytest.mark.parametrize("freedom", [2, 4])
def test_rows_that_go_far_out_together_have_wider_error_bars_that_hold(freedom):
    truth = partial_correlations(np.corrcoef(heavy(400_000, 99, freedom), rowvar=False))
    inside = []
    for seed in range(4):
        release = simulate(heavy(30_000, seed, freedom), plan_for(-6, 6), seed)
        noisy = covariance_of(release)
        assert noisy.distrusted is None
        assert 0.15 < noisy.swing < 1.5
        edges = hg.recover(release, alpha=0.3).edges
        inside += [(np.array(edges["ci_low"]) <= truth) & (truth <= np.array(edges["ci_high"]))]
    assert np.mean(inside) > 0.9


def test_gaussian_rows_do_not_swing():
    assert all(covariance_of(simulate(gaussian(30_000, k), plan_for(-6, 6), k)).swing < 0.06 for k in range(4))


def a_stage(radius, noise_sd=0.001):
    return StageMoments(np.zeros(P), 0.8 * CHAIN, noise_sd, noise_sd, np.eye(P), np.zeros(P), radius)


def test_the_doubt_of_undoing_grows_with_what_clipping_took_and_is_none_where_nothing_was_clipped():
    radii = (2.0, 3.0, 4.0, 8.0, None)
    doubts = [checks.doubt([a_stage(radius)], CHAIN, 0.0) for radius in radii]
    assert doubts[0] > doubts[1] > doubts[2] > doubts[3] >= 0
    assert doubts[3] < 1e-4
    assert doubts[4] == 0
    assert checks.doubt([a_stage(4.0)], CHAIN, 0.4) > 2 * doubts[2]  # rows that swing lose more to the same ball
    both = checks.doubt([a_stage(2.0, 0.01), a_stage(None)], CHAIN, 0.0)
    assert both == pytest.approx(doubts[0] / 101)  # stages count as far as they are heard


def test_doubt_is_error_that_no_noise_and_no_number_of_rows_explains():
    pooled = pool([a_stage(3.0)], 10**9)
    without, with_it = (pooled.with_doubt(1.0, shape).error.entry_variance for shape in (0.0, 0.01))
    own = np.diag(pooled.covariance)
    added = (with_it - without) / np.outer(own, own)
    eye = np.eye(P, dtype=bool)
    # E of independent entries, u^2 between two directions as they vary, has such variances whatever directions they are
    correlation = pooled.covariance / np.sqrt(np.outer(own, own))
    assert added[~eye] == pytest.approx(1e-4 * (1 + correlation[~eye] ** 2), rel=1e-6)


def test_rows_that_were_clipped_far_too_short_are_not_trusted():
    marginals = simulate(gaussian(30_000, 0), plan_for(-6, 6), 0).marginals()
    links = [link_of(one.latent_borders, one.coarse) for one in marginals]
    stage = StageMoments(np.zeros(P), 0.5 * np.eye(P), 1e-4, 1e-4, np.eye(P), np.zeros(P), 4.0)
    assert "rows are not as long" in checks.lengths(pool([stage], 30_000), marginals, links, 30_000)


STRONG = 0.7 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))


def skewed_linear(seed, n=20_000):
    rows = -np.log(ndtr(-gaussian(n, seed, STRONG)))
    return rows, covariance_of(simulate(rows, plan_for(0, 20, scale="linear"), seed))


def test_skewed_columns_on_the_linear_scale_have_wider_error_bars_that_hold():
    inside, widths = [], []
    for seed in range(4):
        rows, noisy = skewed_linear(seed)
        found = partial_correlations(noisy.covariance)
        sd = noisy.error.partial_correlation_sd(np.linalg.inv(noisy.covariance))[np.triu_indices(P, 1)]
        inside.append(np.abs(found - partial_correlations(np.corrcoef(rows, rowvar=False))) < 1.96 * sd)
        widths.append(sd)
        assert noisy.distrusted is None
    assert np.mean(inside) > 0.93
    normal = covariance_of(simulate(gaussian(20_000, 5, STRONG), plan_for(-6, 6, scale="linear"), 5))
    plain = normal.error.partial_correlation_sd(np.linalg.inv(normal.covariance))[np.triu_indices(P, 1)]
    assert np.mean(widths) > 1.2 * np.mean(plain)
    assert normal.distrusted is None


def test_pairs_are_ranked_without_what_doubt_about_shapes_adds():
    """Wider error bars are right, and rank worse: they are widest beside the columns that depend on others most."""
    rows, noisy = skewed_linear(0)
    assert noisy.plain is not None
    assert np.array_equal(noisy.plain.covariance, noisy.covariance)
    assert np.all(noisy.plain.error.entry_variance <= noisy.error.entry_variance * (1 + 1e-9))
    graph = hg.recover(simulate(rows, plan_for(0, 20, scale="linear"), 0))
    plain = noisy.plain.standardised()
    own = inferred(plain, Problem.of(plain), given(Problem.of(plain), graph.fit["alpha"]).solution).evidence
    assert np.allclose(graph.evidence, own)
    normal = covariance_of(simulate(gaussian(20_000, 5, STRONG), plan_for(-6, 6, scale="linear"), 5))
    assert normal.plain is None


def test_a_bias_of_clipping_is_borne_until_it_says_more_than_the_error_bars():
    pooled = pool([StageMoments(np.zeros(P), STRONG, 0.01, 0.01, np.eye(P), np.zeros(P), 6.0)], 10_000)
    error = np.sqrt(pooled.error.entry_variance)
    assert checks.biased(pooled, None) is None
    assert checks.biased(pooled, 2.9 * error) is None
    assert "not normal on the linear scale" in checks.biased(pooled, 3.1 * error)
    wider = pooled.with_doubt(1.0, 0.0, error).error.entry_variance
    assert np.all(wider >= pooled.error.entry_variance)
    assert np.sum(wider) > 1.5 * np.sum(pooled.error.entry_variance)


def test_the_public_scale_is_trusted_only_where_hardly_a_row_is_clipped():
    rows = gaussian(5000, 3)
    wide = simulate(rows, plan_for(-10, 10, adaptive=False, clip_radius=1.2), 3)
    tight = simulate(rows, plan_for(-10, 10, adaptive=False, clip_radius=0.28), 3)
    assert covariance_of(wide).distrusted is None
    assert "nothing in this release shows whether they are Gaussian" in covariance_of(tight).distrusted


def test_clipping_that_cannot_be_undone_is_said():
    stage = StageMoments(np.zeros(3), 0.34 * np.eye(3), 0.0, 0.0, np.eye(3), np.zeros(3), 1.0)
    assert "too tightly" in checks.undoing(pool([stage], 1000))
    nearly = StageMoments(np.zeros(3), 0.3295 * np.eye(3), 0.0, 0.0, np.eye(3), np.zeros(3), 1.0)
    found = pool([nearly], 1000)
    assert not found.stages[-1].converged or "more than can be undone" in checks.undoing(found)


def test_early_stages_that_contradict_an_unclipped_last_one_are_left_out():
    rng = np.random.default_rng(5)
    rows = heavy(50_000, 5)

    def stage(radius, t):
        y = rows * np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
        noise = np.triu(t * rng.standard_normal((P, P)), 1)
        second = y.T @ y / len(y) + noise + noise.T
        return StageMoments(y.mean(axis=0), second, t, t, np.eye(P), np.zeros(P), radius)

    stages = [stage(3.0, 0.002), stage(50.0, 0.002)]
    assert checks.agreement(pool(stages, len(rows))) is None  # a wrong scale alone is brought to that of the last
    stages[0].second[0, 1] += 0.05
    stages[0].second[1, 0] += 0.05
    assert checks.agreement(pool(stages, len(rows))) is not None
    assert np.array_equal(checks.agreeing(stages, len(rows)).covariance, pool(stages[1:], len(rows)).covariance)


def test_nothing_is_selected_and_certainty_is_left_out(tmp_path):
    with pytest.warns(DistrustWarning, match="nothing is selected"):
        graph = hg.recover(simulate(gaussian(5000, 3), plan_for(-10, 10, adaptive=False, clip_radius=0.28), 3))
    assert graph.selected.num_rows == 0
    assert graph.pairs == frozenset()
    assert all(graph.edges[name].null_count == graph.edges.num_rows for name in BLANK)
    assert graph.edges["partial_correlation"].null_count == 0
    out = graph.save(tmp_path / "graph")
    assert json.loads((out / "fit.json").read_text())["distrusted"] == graph.fit["distrusted"]
    page = (out / "report.html").read_text()
    assert "Nothing is selected." in page
    assert 'class="stop"' in page
    assert "None" not in page
    assert "nan" not in page
    header, first, *_ = (out / "edges.csv").read_text().splitlines()
    blank = dict(zip(header.replace('"', "").split(","), first.split(","), strict=True))
    assert [blank[name] for name in BLANK] == [""] * 5
    assert blank["selected"] == "false"


def test_a_release_that_follows_the_model_has_no_such_field():
    graph = hg.recover(simulate(gaussian(5000, 7), plan_for(-6, 6), 7))
    assert "distrusted" not in graph.fit
    assert not math.isnan(graph.edges["p_value"][0].as_py())
