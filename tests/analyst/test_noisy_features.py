"""Curved dependence from rows: polynomials of noisy cells are unbiased, and stated errors are the errors."""

import math

import numpy as np
import pytest

import hazeglass as hg
from hazeglass.analyst.noisy import (
    FEATURES,
    clean_powers,
    covariance_of_features,
    even_moments,
    features_from_powers,
    products_from_powers,
)
from hazeglass.bundle.columns import CellNoise
from hazeglass.errors import InputError
from hazeglass.features.harmonics import to_features
from hazeglass.guarantee.lattice import lattice_noise


def cell_noise(family, scale, step=1.0):
    return CellNoise(family, scale, step, 0.0, lattice_noise(family, scale).variance * step**2)


@pytest.mark.parametrize(
    ("family", "scale"),
    [("discrete-gaussian", 0.5), ("discrete-gaussian", 3.0), ("rounded-gaussian", 0.4), ("rounded-gaussian", 2.5)],
)
def test_deconvolved_powers_are_exactly_unbiased_for_both_families(family, scale):
    """Summed over every value the noise can take: no sampling error, no Gaussian approximation."""
    reach = np.arange(-math.ceil(40 * scale) - 2, math.ceil(40 * scale) + 3)
    mass = np.exp(lattice_noise(family, scale).log_pmf(reach))
    moments = even_moments(cell_noise(family, scale))
    for x in (-2.0, 0.0, 1.0, 3.0):
        expected = mass @ clean_powers(x + reach, moments)
        assert expected == pytest.approx([x**k for k in range(7)], rel=1e-9, abs=1e-6 * scale**6)


def test_closed_moments_agree_with_the_sum_where_they_take_over():
    for family in ("rounded-gaussian", "discrete-gaussian"):
        below, above = (np.array(even_moments(cell_noise(family, scale))) for scale in (60.0, 60.0 + 1e-9))
        assert above == pytest.approx(below, rel=1e-9)
        assert above[0] == pytest.approx(cell_noise(family, 60.0).variance, rel=1e-9)


def test_features_and_products_are_the_hermite_ones():
    z = np.linspace(-2, 2, 9)
    powers = clean_powers(z, (0.0, 0.0, 0.0))
    features = to_features(z[:, None], "hermite")
    assert features_from_powers(powers) == pytest.approx(features)
    assert products_from_powers(powers) == pytest.approx(np.einsum("ra,rb->rab", features, features))
    assert FEATURES.shape == (3, 4)


def test_noisy_rows_give_the_moments_of_the_clean_ones():
    """At noise half as wide as the data, over 40 draws, every entry is within 4.5 standard errors of the clean one."""
    rng = np.random.default_rng(0)
    clean = np.clip(rng.standard_normal((2000, 3)), -2.4, 2.4)
    clean[:, 1] = np.clip(0.6 * clean[:, 0] ** 2 - 0.6 + 0.7 * clean[:, 1], -2.4, 2.4)
    cell = cell_noise("rounded-gaussian", 500.0, 0.001)
    found = []
    for _ in range(40):
        noise = 0.001 * np.rint(500 * rng.standard_normal(clean.shape))
        noisy = clean + noise
        z = (noisy - clean.mean(axis=0)) / clean.std(axis=0)
        powers = [
            clean_powers(
                z[:, k], [m / clean[:, k].std() ** j for m, j in zip(even_moments(cell), (2, 4, 6), strict=True)]
            )
            for k in range(3)
        ]
        features = np.hstack([features_from_powers(power) for power in powers])
        second = features.T @ features / 2000
        for k in range(3):
            second[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = products_from_powers(powers[k]).mean(axis=0)
        found.append(second)
    features = to_features((clean - clean.mean(axis=0)) / clean.std(axis=0), "hermite")
    z = (clean - clean.mean(axis=0)) / clean.std(axis=0)
    if np.abs(z).max() > 2.5:  # the clamp belongs to clean features only
        features = np.hstack([features_from_powers(clean_powers(z[:, k], (0.0, 0.0, 0.0))) for k in range(3)])
    truth = features.T @ features / 2000
    error = np.std(found, axis=0, ddof=1) / np.sqrt(40)
    assert np.abs((np.mean(found, axis=0) - truth) / error).max() < 4.5


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_stated_errors_match_the_spread_over_data_sets(noise):
    """Unrelated columns, one of them skewed: variances of every entry of the block, noise and all."""
    rng = np.random.default_rng(1)
    cells = (cell_noise("rounded-gaussian", 1000.0, noise / 1000) if noise else None,) * 2
    found, stated = [], []
    for _ in range(300):
        rows = rng.standard_normal((500, 2))
        rows[:, 1] = rng.gamma(4.0, 0.5, 500)
        noisy = covariance_of_features(rows + noise * rng.standard_normal(rows.shape), cells, ("a", "b")).standardised()
        found.append(noisy.covariance[:3, 3:].ravel())
        stated.append(np.diag(noisy.error.block_covariances(np.eye(6), 3)[0]))
    ratio = np.var(found, axis=0, ddof=1) / np.mean(stated, axis=0)
    assert np.all((ratio > 0.7) & (ratio < 1.4)), ratio


def test_loud_noise_is_named_in_the_notes():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((3000, 3)) + 0.7 * rng.standard_normal((3000, 3))
    cells = (cell_noise("rounded-gaussian", 1000.0, 0.0007),) * 3
    assert any("heavy tails" in note for note in covariance_of_features(rows, cells, ("a", "b", "c")).notes)


@pytest.fixture
def bent_rows():
    rng = np.random.default_rng(2)
    a = rng.standard_normal(6000)
    b = 0.8 * (a**2 - 1) / np.sqrt(2) + 0.6 * rng.standard_normal(6000)
    return np.column_stack([a, b, rng.standard_normal((6000, 2))])


def test_clean_rows_give_a_graph_and_a_report(bent_rows, tmp_path):
    graph = hg.recover(bent_rows, dependence="curved", fdr=0.01)
    assert graph.pairs == {frozenset({"x1", "x2"})}
    assert graph.selected["shape"].to_pylist() == ["curved"]
    linear = hg.recover(bent_rows, fdr=0.01)
    assert frozenset({"x1", "x2"}) not in linear.pairs
    assert "shape" not in linear.edges.column_names
    page = (graph.save(tmp_path / "g") / "report.html").read_text(encoding="utf-8")
    assert "clean rows" in page
    assert "epsilon of the release" not in page


def test_a_table_release_shows_curved_dependence_through_its_noise(bent_rows, make_plan, tmp_path):
    columns = [{"name": f"x{k}", "kind": "continuous", "lower": -6.0, "upper": 6.0} for k in range(1, 5)]
    plan = make_plan(form="table", protects="entry", columns_as=columns, budget={"mu": 20.0})  # noise sd 0.6 a cell
    release = hg.publish(bent_rows, plan, tmp_path / "r", simulate_seed=1)
    graph = hg.recover(release, dependence="curved", fdr=0.01)
    assert graph.pairs == {frozenset({"x1", "x2"})}
    shape = graph.fit["shapes"][0]
    truth = 0.8 * (np.array(shape["x"]) ** 2 - 1) / np.sqrt(2)
    assert np.abs(np.array(shape["y"]) - truth)[5:-5].max() < 0.2


def test_columns_of_two_values_are_no_trouble():
    rng = np.random.default_rng(3)
    coin = rng.integers(0, 2, 3000).astype(float)
    rows = np.column_stack([coin, rng.standard_normal(3000) * (1 + coin), rng.standard_normal(3000)])
    graph = hg.recover(rows, dependence="curved", fdr=0.01)
    assert graph.pairs == {frozenset({"x1", "x2"})}  # the coin widens x2: nothing linear about it
    assert graph.selected["shape"].to_pylist() == ["curved"]


def test_rows_that_make_no_sense_are_refused(bent_rows, make_plan, table, tmp_path):
    flat = bent_rows.copy()
    flat[:, 2] = 1.0
    with pytest.raises(InputError, match="'x3' is the same in every row"):
        hg.recover(flat, dependence="curved")
    with pytest.raises(InputError, match="missing or infinite"):
        hg.recover(np.where(bent_rows > 2, np.nan, bent_rows))
    release = hg.publish(table, make_plan(), tmp_path / "r", simulate_seed=1)
    with pytest.raises(InputError, match="needs cosines"):
        hg.recover(release, dependence="curved")
    with pytest.raises(InputError, match="dependence must be"):
        hg.recover(release, dependence="bent")
    with pytest.raises(InputError, match="by 'ebic'"):
        hg.recover(bent_rows, dependence="curved", select="stars")
