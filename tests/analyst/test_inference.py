"""Error bars keep their promise where it is hard: heavy noise, strong dependence, clipped rows.

benchmarks/inference.py prints the whole table, from 200 simulations each.
"""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

import hazeglass as hg
from hazeglass.analyst.covariance import covariance_of
from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.inference import evidence, infer, pilot
from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.analyst.penalty import Problem
from simulate import simulate

P, ROWS = 20, 5000


def infer_at(noisy, base):
    return infer(noisy, base.precision, base.blur)


def plan_for(form, mu):
    columns = [{"name": f"x{k + 1}", "kind": "continuous", "lower": -5.0, "upper": 5.0} for k in range(P)]
    return hg.Plan.from_dict({"release": {"title": "t", "form": form}, "budget": {"mu": mu}, "columns": columns})


def two_hubs(rng):
    precision = np.eye(P)
    for hub in (0, 10):
        for leaf in range(hub + 1, hub + 7):
            precision[hub, leaf] = precision[leaf, hub] = rng.uniform(0.15, 0.35) * rng.choice([-1, 1])
    return np.linalg.inv(precision)


def strong_chain(rng):
    return 0.9 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))


def measure(form, mu, covariance_from, simulations):
    """Coverage of all pairs and of edges, and the false-discovery rate at a nominal 10 %."""
    plan, upper, found = plan_for(form, mu), np.triu_indices(P, 1), []
    for seed in range(simulations):
        rng = np.random.default_rng(seed)
        sigma = covariance_from(rng)
        precision = np.linalg.inv(sigma)
        truth = -(precision / np.sqrt(np.outer(np.diag(precision), np.diag(precision))))[upper]
        edges = np.abs(truth) > 1e-9
        root = np.linalg.cholesky(sigma) / np.sqrt(np.diag(sigma))[:, None] * 5 / 3
        release = simulate(rng.standard_normal((ROWS, P)) @ root.T, plan, seed)
        noisy = covariance_of(release).standardised()
        pairs = infer_at(noisy, pilot(noisy, Problem.of(noisy)))
        inside = (pairs.ci_low <= truth) & (truth <= pairs.ci_high)
        called = pairs.q_value <= 0.1
        found.append((inside.mean(), inside[edges].mean(), np.sum(called & ~edges) / max(1, called.sum())))
    return np.mean(found, axis=0)


@pytest.mark.parametrize(
    ("form", "mu"),
    [
        ("table", 9.0),
        ("table", 20.0),
        ("moments", 0.1),
        ("moments", 0.3),
    ],  # noise ten, three, three, one times sampling
)
def test_intervals_cover_and_discoveries_hold_at_heavy_noise(form, mu):
    coverage, of_edges, wrong = measure(form, mu, two_hubs, 30)
    assert 0.93 <= coverage <= 0.97
    assert of_edges > 0.88
    assert wrong <= 0.14  # 0.10 nominal, 30 simulations


def test_evidence_ranks_better_than_sizes_under_heavy_noise_and_as_well_under_little():
    ranked = {0.24: [], 4.0: []}  # mu: epsilon of about 1, and plenty
    for mu, found in ranked.items():
        for seed in range(8):
            rng = np.random.default_rng(seed)
            sigma = two_hubs(rng)
            edges = np.abs(np.linalg.inv(sigma)[np.triu_indices(P, 1)]) > 1e-9
            root = np.linalg.cholesky(sigma) / np.sqrt(np.diag(sigma))[:, None] * 5 / 3
            release = simulate(rng.standard_normal((1000, P)) @ root.T, plan_for("moments", mu), seed)
            noisy = covariance_of(release).standardised()
            problem = Problem.of(noisy)
            base = pilot(noisy, problem)
            sizes = np.abs(infer(noisy, base.precision).partial_correlation)
            found.append([average_precision_score(edges, score) for score in (evidence(noisy, base, problem), sizes)])
    heavy, little = (np.mean(found, axis=0) for found in ranked.values())
    assert heavy[0] > heavy[1] + 0.05
    assert little[0] > little[1] - 0.01


@pytest.mark.parametrize("mu", [900.0, 42.0])
def test_strong_dependence_is_not_shrunk_away(mu):
    """A penalty that suits heavy noise would bias these edges by many standard errors."""
    coverage, of_edges, _ = measure("table", mu, strong_chain, 10)
    assert coverage > 0.92
    assert of_edges > 0.85


def test_error_bars_do_not_depend_on_the_penalty():
    rows = np.random.default_rng(0).standard_normal((500, P))
    release = simulate(rows, plan_for("moments", 5.0), seed=0)
    one, other = (hg.recover(release, alpha=alpha).edges for alpha in (0.05, 0.4))
    for name in ("partial_correlation", "std_error", "p_value", "selected"):
        assert one[name].equals(other[name])
    assert not one["precision"].equals(other["precision"])


def nearly_constant(rng):
    """Three columns of which one cell in a hundred is another, beside five ordinary ones."""
    rows = rng.standard_normal((500, 8))
    rare = rng.random((500, 3)) < 0.01
    rows[:, :3] = np.where(rare, rows[:, :3], 0.5)
    return rows


def missing_more_and_more(rng):
    """None of the first column's cells, nine tenths of the last one's."""
    rows = rng.standard_normal((500, 8))
    rows[rng.random((500, 8)) < np.linspace(0, 0.9, 8)] = np.nan
    return rows


@pytest.mark.parametrize(("rows_of", "seed"), [(nearly_constant, 71002), (missing_more_and_more, 71000)])
def test_columns_that_are_hardly_known_make_no_edges_and_do_not_spoil_the_others(rows_of, seed):
    columns = [hg.Column(f"x{k + 1}", "continuous", lower=-6.0, upper=6.0) for k in range(8)]
    plan = hg.Plan(title="t", form="moments", epsilon=10.0, delta=1e-6, columns=columns)
    noisy = covariance_of(simulate(rows_of(np.random.default_rng(seed)), plan, seed)).standardised()
    pairs = infer_at(noisy, pilot(noisy, Problem.of(noisy)))
    assert pairs.q_value.min() > 0.1
    # Once .004 where the noise of the correlation was 2.4, and intervals from -1 to -1.
    assert pairs.std_error.min() > 0.04
    assert np.all(pairs.ci_high - pairs.ci_low > 1.9 * np.minimum(pairs.std_error, 0.5))


def test_an_interval_never_shrinks_to_the_end_of_the_scale():
    """Where noise puts an estimate at -3, give or take .05, the truth may be anything near -1."""
    covariance = 4 * np.eye(3) - 3
    pairs = infer(
        NoisyCovariance(tuple("abc"), 500, covariance, ErrorModel.of_gaussian_rows(np.eye(3), 500)), np.eye(3)
    )
    assert np.all(pairs.partial_correlation == -1)
    assert np.all(pairs.ci_low == -1)
    assert np.all(pairs.ci_high > -1 + 1.9 * pairs.std_error)
