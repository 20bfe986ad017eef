"""Normal scores: a Gaussian copula is recovered whatever the margins, counts and ties included, or refused."""

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.analyst.source import normal_scores
from hazeglass.errors import InputError
from hazeglass.guarantee.lattice import DiscreteGaussian


@pytest.fixture
def copula():
    """Hidden normals on the chain 0 - 1 - 2 - 3, correlations of neighbours 0.5."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((20_000, 4))
    for k in (1, 2, 3):
        z[:, k] = 0.5 * z[:, k - 1] + np.sqrt(0.75) * z[:, k]
    return z


def hidden_correlations(rows, noise=None):
    scores = normal_scores(rows, np.zeros(4) if noise is None else noise, tuple("abcd"))
    covariance = np.cov(scores.values, rowvar=False) - np.diag(scores.noise)
    deviations = np.sqrt(np.diag(covariance))
    return covariance / np.outer(deviations, deviations)


def test_scores_do_not_depend_on_increasing_transforms(copula):
    bent = np.column_stack([np.exp(copula[:, 0]), copula[:, 1] ** 3, copula[:, 2], np.arctan(copula[:, 3])])
    assert normal_scores(bent, np.zeros(4), tuple("abcd")).values == pytest.approx(
        normal_scores(copula, np.zeros(4), tuple("abcd")).values
    )


def test_counts_show_the_correlations_of_the_hidden_normals(copula):
    """Coarse counts, one of them with three values only; Pearson's correlation of the same columns is far off."""
    counts = np.column_stack(
        [
            np.floor(np.exp(1.5 * copula[:, 0])),
            np.clip(np.round(copula[:, 1]), -1, 1),
            copula[:, 2],
            np.floor(2 * np.exp(copula[:, 3])),
        ]
    )
    truth = 0.5 ** np.abs(np.subtract.outer(range(4), range(4)))
    assert np.abs(hidden_correlations(counts) - truth).max() < 0.035
    assert np.abs(np.corrcoef(counts, rowvar=False) - truth).max() > 0.1


def test_small_noise_in_the_cells_is_corrected_and_large_noise_refused(copula):
    rng = np.random.default_rng(1)
    skewed = np.exp(0.7 * copula)
    variance = 0.08 * skewed.var(axis=0)
    noisy = skewed + np.sqrt(variance) * rng.standard_normal(skewed.shape)
    truth = 0.5 ** np.abs(np.subtract.outer(range(4), range(4)))
    corrected = np.abs(hidden_correlations(noisy, variance) - truth)
    uncorrected = np.abs(hidden_correlations(noisy) - truth)
    assert corrected.max() < 0.06
    assert corrected.mean() < 0.6 * uncorrected.mean()
    with pytest.raises(InputError, match=r"needs noise below 10 %.*30 %.*'as-is'"):
        normal_scores(noisy, 4 * variance, tuple("abcd"))


def test_recover_finds_the_chain_in_skewed_counts(copula):
    counts = np.floor(np.exp(2 * copula[:4000]))
    graph = hg.recover(counts, marginals="normal-scores", fdr=0.01)
    assert graph.pairs == {frozenset({f"x{k}", f"x{k + 1}"}) for k in (1, 2, 3)}
    assert graph.fit["marginals"] == "normal-scores"
    assert "Ties were corrected" in graph.fit["notes"][0]
    curved = hg.recover(counts, marginals="normal-scores", dependence="curved", fdr=0.01)
    assert curved.pairs == graph.pairs


def test_releases_without_rows_and_unknown_names_are_refused(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(), tmp_path / "r", simulate_seed=1)
    with pytest.raises(InputError, match="needs rows to rank"):
        hg.recover(release, marginals="normal-scores")
    with pytest.raises(InputError, match="marginals must be one of"):
        hg.recover(release, marginals="ranks")
    plan = make_plan(form="table", protects="entry", budget={"mu": 60.0})
    quiet = hg.publish(table, plan, tmp_path / "t", simulate_seed=1)
    assert hg.recover(quiet, marginals="normal-scores").pairs >= {frozenset("ab"), frozenset("bc")}
    with pytest.raises(InputError, match="rows without noise"):
        hg.recover(quiet, marginals="normal-scores", dependence="curved")


def test_integer_columns_go_end_to_end_with_the_exact_discrete_variance(make_plan, tmp_path):
    """Half a step of discrete noise has variance 0.215, not 0.25: with sigma^2 every variance would come out low."""
    rng = np.random.default_rng(3)
    a = rng.poisson(1.0, 40_000)
    b = a // 2 + rng.poisson(1.0, 40_000)
    counts = np.column_stack([a, b, rng.poisson(1.0, 40_000)]).clip(0, 10)
    columns = [{"name": name, "kind": "integer", "lower": 0, "upper": 10, "noise": "discrete"} for name in "abc"]
    plan = make_plan(form="table", protects="entry", columns_as=columns, budget={"mu": 24.0})
    release = hg.publish(pa.table(list(counts.T), names=list("abc")), plan, tmp_path / "r", simulate_seed=4)
    noise = release.columns[0].cell_noise
    assert noise.family == "discrete-gaussian"
    assert noise.step == 1
    assert 0.35 < noise.scale < 0.55
    assert noise.variance == pytest.approx(DiscreteGaussian(noise.scale).variance, rel=1e-12)
    graph = hg.recover(release, fdr=0.01)
    assert graph.pairs == {frozenset("ab")}
    variances = np.array(list(graph.fit["standard_deviations"].values())) ** 2
    error = 2 * np.sqrt(noise.variance * counts.var(axis=0) / 40_000)
    assert np.all(np.abs(variances - counts.var(axis=0, ddof=1)) < 3.5 * error)
    assert noise.scale**2 - noise.variance > 5 * error.max()
    assert hg.recover(release, dependence="curved", fdr=0.01).pairs == {frozenset("ab")}
