"""Rounds of counts, from the first look to a verified release: whatever the cells are, and however wide the bounds."""

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.features.marginal import MOST_ROUNDS, first_borders
from hazeglass.guarantee.units import counts_distance
from hazeglass.publisher.marginals import Encoder, count_noise, exact_counts
from hazeglass.publisher.noise import SecretBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.rows import Rows
from simulate import simulate

N = 300
rng = np.random.default_rng(0)
REAL, WIDE, HUGE = {"kind": "continuous"}, {"lower": -1.0, "upper": 1.0}, {"lower": -1e100, "upper": 1e100}
WHOLE, DIGITS = {"kind": "integer"}, rng.integers(0, 9, N).astype(float)
ZEROS = np.where(rng.random(N) < 0.7, 0.0, rng.exponential(size=N))
EXTREMES = {
    "equal cells": (np.full(N, 0.3), {**REAL, **WIDE}),
    "cells at a bound": (np.full(N, 5.0), {**REAL, **WIDE}),
    "missing cells": (np.full(N, np.nan), {**REAL, **WIDE}),
    "two rows": (np.array([0.0, 1.0]), {**REAL, **WIDE}),
    "tiny bounds": (1e-100 * rng.uniform(-1, 1, N), {**REAL, "lower": -3e-100, "upper": 3e-100}),
    "huge bounds": (rng.standard_normal(N), {**REAL, **HUGE}),
    "cells as wide as huge bounds": (1e100 * rng.uniform(-1, 1, N), {**REAL, **HUGE}),
    "infinite cells": (np.where(rng.random(N) < 0.5, np.inf, -np.inf), {**REAL, **WIDE}),
    "mostly zeros": (ZEROS, {**REAL, "lower": 0.0, "upper": 50.0}),
    "a coin": (rng.integers(0, 2, N).astype(float), {**WHOLE, "lower": 0, "upper": 1}),
    "a coin that never falls": (np.zeros(N), {**WHOLE, "lower": 0, "upper": 1}),
    "digits within 2^29": (DIGITS, {**WHOLE, "lower": 0, "upper": 2**29 - 1}),
    "integers up to 2^50": (rng.integers(0, 2**50, N).astype(float), {**WHOLE, "lower": 0, "upper": 2**50}),
    "digits within 2^50": (DIGITS, {**WHOLE, "lower": -(2**50), "upper": 2**50}),
    "digits within all numbers": (DIGITS, {**WHOLE, **HUGE}),
    "halves of integers": (DIGITS / 2, {**WHOLE, "lower": 0, "upper": 3}),
    "counts on a log scale": (DIGITS + 1, {**WHOLE, "lower": 1, "upper": 1000, "transform": "log"}),
}


@pytest.mark.parametrize("mu", [1e-9, 1.0, 900.0])
@pytest.mark.parametrize("release", [{}, {"scale": "linear"}, {"protects": "entry"}], ids=str)
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_columns_are_released_and_what_is_released_is_accepted(make_plan, tmp_path, name, release, mu):
    """Beside an ordinary column. Warnings are errors here, and a failure after the charge would cost a budget."""
    cells, column = EXTREMES[name]
    columns = [{"name": "x", **column}, {"name": "y", "kind": "continuous", "lower": -4.0, "upper": 4.0}]
    data = pa.table({"x": cells, "y": np.random.default_rng(1).standard_normal(cells.size)})
    form = "moments" if cells.size == 2 or mu == 1.0 else "synthetic"
    plan = make_plan(form=form, columns_as=columns, budget={"mu": mu}, **release)
    made = hg.publish(data, plan, tmp_path / "r", engine="serial", simulate_seed=2)
    again = hg.load(made.path)
    again.check_values()
    assert again.manifest == made.manifest
    for known in again.marginals():
        assert np.all(np.diff(known.borders) > 0)
        assert np.all(np.isfinite([known.location, known.spread, known.weight, known.attenuation]))


@pytest.mark.parametrize("width", [4.0, 400.0, 1e9])
def test_a_column_is_found_within_bounds_of_any_width(make_plan, width):
    """Twice the width costs no more than a look; what is known of the column in the end is the same."""
    columns = [{"name": name, "kind": "continuous", "lower": -width, "upper": width} for name in "ab"]
    values = np.random.default_rng(5).standard_normal((20_000, 2)) + 3
    plan = make_plan(columns_as=columns, budget={"mu": 2.0})
    release = simulate(pa.table({"a": values[:, 0], "b": values[:, 1]}), plan, seed=3)
    assert 2 <= len(release.manifest.rounds) <= MOST_ROUNDS
    if width < 1e6:  # four looks do not go further than that
        known = release.marginals()[0]
        assert known.location * width == pytest.approx(3, abs=0.1)
        assert known.spread * width == pytest.approx(np.clip(values, -width, width).std(), rel=0.15)


def test_cells_are_counted_in_the_leaf_they_lie_in_and_missing_ones_apart(make_plan):
    """At a border, beyond the bounds, and infinite: against numpy's histogram of clamped cells."""
    cells = np.array([-4.0, -4.1, -np.inf, -3.75, -3.7500001, 0.0, 3.9999, 4.0, 9e9, np.inf, np.nan, np.nan])
    plan = make_plan(columns=("a", "b"))
    rows = Rows(plan, open_table(pa.table({"a": cells, "b": cells[::-1]})))
    borders = first_borders(0.0)
    for counts in exact_counts(rows, [borders, borders], Serial()):
        present = np.clip(cells[~np.isnan(cells)], -4, 4) / 4
        inside = np.clip(np.searchsorted(borders, present, side="right") - 1, 0, borders.size - 2)
        assert counts[:-1].tolist() == np.bincount(inside, minlength=borders.size - 1).tolist()
        assert counts[-1] == 2


@pytest.mark.parametrize("unit", [{}, {"protects": "entry"}, {"protects": "readings", "readings": 5}], ids=str)
@pytest.mark.parametrize("mu", [1e-6, 0.37, 80.0])
def test_counts_get_at_least_the_noise_that_their_mu_needs(make_plan, unit, mu):
    plan: Plan = make_plan(**unit)
    noise = count_noise(plan.unit, 3, mu)
    needed = counts_distance(plan.unit, columns=3) / mu
    assert needed <= noise.scale <= needed * (1 + 1e-14) + 1
    assert noise.scale.is_integer()


def test_the_key_of_drawn_scores_is_new_for_every_release_and_in_none_of_them(make_plan, tmp_path, monkeypatch):
    """Where persons are protected, their rows shift with a neighbour's, and nobody may know who drew what."""
    keys, draw = [], SecretBits.key
    monkeypatch.setattr(SecretBits, "key", lambda self: keys.append(draw(self)) or keys[-1])
    data = pa.table({name: np.random.default_rng(2).standard_normal(200) for name in "abc"})
    for number in range(2):
        folder = hg.publish(data, make_plan(), tmp_path / str(number), engine="serial").path
        written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert keys[-1] not in written
        assert keys[-1].hex().encode() not in written
    assert len(set(keys)) == len(keys) == 2
    assert "key" not in repr(Encoder("scores", "columns", key=keys[0]))
