"""Printed epsilons, the paper's theorem, and what holds."""

import math

import numpy as np
import pytest
from hazeglass_experiments.accounting import DELTA, paper_theorem_epsilon, printed_epsilon, true_epsilon
from hazeglass_experiments.subjects import prepare

from hazeglass import GaussianDP


@pytest.mark.parametrize(
    ("name", "decibels", "printed"),
    [
        ("cell_signalling", 100, 8.55e4),
        ("cell_signalling", 20, 8.55),
        ("lawmakers", 20, 64.04),
        ("chickenpox", 20, 199.0),
        ("soil", 100, 1.34e7),
    ],
)
def test_the_printed_epsilon_appears_to_three_digits(data_dir, name, decibels, printed):
    ours = printed_epsilon(prepare(name, data_dir).rows, decibels)
    assert float(f"{ours:.3g}") == float(f"{printed:.3g}")


@pytest.mark.parametrize("name", ["cell_signalling", "lawmakers", "chickenpox", "soil"])
def test_the_row_printed_as_ten_decibels_is_zero_decibels(data_dir, name):
    rows = prepare(name, data_dir).rows
    assert printed_epsilon(rows, 0) == pytest.approx(printed_epsilon(rows, 20) / 10)
    assert printed_epsilon(rows, 10) == pytest.approx(printed_epsilon(rows, 20) / math.sqrt(10))


def test_the_theorem_is_what_the_paper_writes():
    rows = np.array([[1.0, -2.0], [-1.0, 2.0], [3.0, 0.5], [-3.0, -0.5]])
    n, sigma = 4, rows.std() * 10 ** (-1)
    change = 2 * 6.0**2 / n
    smallest = min(20.0, 8.5) / n**2
    expected = GaussianDP(change / (sigma * math.sqrt(2 * smallest))).epsilon(DELTA)
    assert paper_theorem_epsilon(rows, 20, "continuous") == pytest.approx(expected)


def test_the_discrete_theorem_breaks_down_as_soon_as_a_cell_equals_its_mean():
    rows = np.array([[1.0], [2.0], [3.0]])
    assert paper_theorem_epsilon(rows, 0, "integer") == math.inf


def test_the_true_epsilon_is_that_of_a_gaussian_shift():
    rows = np.random.default_rng(1).uniform(-1, 1, (500, 9))
    span, sigma = rows.max() - rows.min(), rows.std()
    entry, record = (true_epsilon(rows, 0, "continuous", unit) for unit in ("entry", "record"))
    assert entry == pytest.approx(GaussianDP(span / sigma).epsilon(DELTA))
    assert record == pytest.approx(GaussianDP(3 * span / sigma).epsilon(DELTA))


def test_counts_released_without_noise_have_no_epsilon():
    counts = np.random.default_rng(1).integers(0, 5, (50, 3)).astype(float)
    assert true_epsilon(counts, 100, "integer", "entry") == math.inf
    assert math.isfinite(true_epsilon(counts, 0, "integer", "entry"))


def test_the_printed_epsilon_understates_the_true_one(data_dir):
    rows = prepare("cell_signalling", data_dir).rows
    assert true_epsilon(rows, 0, "continuous", "record") > 10_000 * printed_epsilon(rows, 0)


def test_hardly_any_noise_costs_what_the_closed_form_says():
    rows = np.random.default_rng(1).uniform(-1, 1, (500, 9))
    below, above = (true_epsilon(rows, level, "continuous", "entry") for level in (108.0, 110.0))
    assert above / below == pytest.approx(10**0.2, rel=1e-4)  # mu^2 / 2, across the switch to the asymptote
