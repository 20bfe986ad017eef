"""A clip radius bought with 5 % of the budget: close to the quantile, and no neighbour can move it beyond its price."""

import math

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.publisher.radius import SEARCH_STEPS, radius_grid


def rows(n, sd, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.standard_normal(n) * sd for name in "abc"})


def test_the_radius_is_near_the_95_percent_quantile(make_plan, tmp_path):
    data = rows(50_000, 0.5)
    release = hg.publish(data, make_plan(clip_radius="private"), tmp_path / "r")
    lengths = np.linalg.norm(np.column_stack([data[n].to_numpy() for n in "abc"]) / 4, axis=1)
    search = release.manifest.radius_search
    ratio = radius_grid(3)[1] / radius_grid(3)[0]
    assert search.radius == pytest.approx(np.quantile(lengths, 0.95), rel=2 * (ratio - 1))
    assert release.manifest.stages[0].radius == search.radius


def test_the_split_adds_up_and_is_in_the_manifest(make_plan, tmp_path):
    release = hg.publish(rows(500, 1.0), make_plan(clip_radius="private"), tmp_path / "r")
    search, stage = release.manifest.radius_search, release.manifest.stages[0]
    assert search.mu**2 == pytest.approx(0.05 * release.guarantee.mu**2)
    assert math.hypot(search.mu, stage.mu) == pytest.approx(release.guarantee.mu)
    assert len(search.answers) == SEARCH_STEPS == 6


def test_the_answers_carry_the_noise_their_price_needs(make_plan, tmp_path):
    """One row moves a count by at most 1: as many times (1/scale)^2 as counts are answered is at most mu^2."""
    for unit, extra in (("record", {}), ("person", {"id_column": "who", "max_rows": 5})):
        data = rows(300, 1.0).append_column("who", pa.array(range(300)))
        plan = make_plan(clip_radius="private", protects=unit, **extra)
        search = hg.publish(data, plan, tmp_path / unit).manifest.radius_search
        moved = extra.get("max_rows", 1)
        answers = SEARCH_STEPS + (unit == "person")  # how many rows there are is asked as well
        assert len(search.answers) == answers
        assert 0.95 * search.mu <= math.sqrt(answers) * moved / search.noise_scale <= search.mu


def test_answers_are_noisy_counts(make_plan, tmp_path):
    data = rows(4000, 0.5)
    lengths = np.linalg.norm(np.column_stack([data[n].to_numpy() for n in "abc"]) / 4, axis=1)
    z = []
    for k in range(40):
        plan = make_plan(clip_radius="private", budget={"mu": 0.5})
        search = hg.publish(data, plan, tmp_path / str(k)).manifest.radius_search
        z += [(answer - np.sum(lengths <= radius)) / search.noise_scale for radius, answer in search.answers]
    assert abs(np.mean(z)) < 5 / math.sqrt(len(z))
    assert np.var(z) == pytest.approx(1, abs=5 * math.sqrt(2 / len(z)))
