"""Curved moments: the features are orthonormal, the rows stay in their ball, and curved dependence is seen."""

import math

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.analyst.covariance import covariance_of
from hazeglass.analyst.shape import ridge_strength
from hazeglass.errors import PlanError


@pytest.fixture
def parabola(make_plan, tmp_path):
    """b depends on a through its square, c on nothing."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal(30_000)
    b = (a**2 - 1) / math.sqrt(2) * 0.7 + 0.7 * rng.standard_normal(30_000)
    data = pa.table({"a": a, "b": b, "c": rng.standard_normal(30_000)})
    columns = [{"name": n, "kind": "continuous", "lower": -8.0, "upper": 8.0} for n in "abc"]
    plan = make_plan(dependence="curved", columns_as=columns, budget={"mu": 0.5})
    return hg.publish(data, plan, tmp_path / "r", simulate_seed=3)


def test_a_curved_dependence_is_seen_where_the_linear_part_sees_nothing(parabola):
    scores = ridge_strength(covariance_of(parabola, curved=True).standardised())
    assert scores[0, 1] > 5 * max(scores[0, 2], scores[1, 2])
    assert hg.recover(parabola, dependence="linear").strength()[0, 1] < 0.15


def test_curved_moments_survive_the_file_and_state_their_noise(parabola):
    first, second = parabola.moments()
    assert second.mean.shape == (9,)
    assert first.mean.shape == (3,)
    stage = parabola.manifest.stages[1]
    assert stage.features == "hermite"
    assert stage.radius == pytest.approx(3.0)
    assert second.second_noise_sd[0, 1] == pytest.approx(stage.tau / parabola.n, rel=1e-6)


def test_curved_needs_adaptive_moments(make_plan):
    with pytest.raises(PlanError, match="curved"):
        make_plan(form="table", dependence="curved")
    with pytest.raises(PlanError, match="curved"):
        make_plan(dependence="curved", protects="entry")
