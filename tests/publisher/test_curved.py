"""Curved moments: cosines of ranks, bounded and nearly unclipped, in which curved dependence shows."""

import math

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.errors import PlanError
from hazeglass.features.harmonics import cosines


@pytest.fixture(scope="module")
def parabola(tmp_path_factory):
    """b depends on a through its square, c on nothing."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal(30_000)
    b = (a**2 - 1) / math.sqrt(2) * 0.7 + 0.7 * rng.standard_normal(30_000)
    data = pa.table({"a": a, "b": b, "c": rng.standard_normal(30_000)})
    columns = tuple(hg.Column(name, "continuous", -8.0, 8.0) for name in "abc")
    plan = hg.Plan(title="t", form="moments", dependence="curved", columns=columns, mu=0.5)
    return hg.publish(data, plan, tmp_path_factory.mktemp("curved") / "r", simulate_seed=3)


def test_a_curved_dependence_is_seen_where_the_linear_part_sees_nothing(parabola):
    """The second cosine of a, an even function, goes with the first of b; the first of a, an odd one, does not."""
    (moments,) = parabola.moments()
    at = {(feature.column, feature.power): k for k, feature in enumerate(moments.features)}
    noise = moments.second_noise_sd[0, 1]
    assert abs(moments.second[at["a", 2], at["b", 1]]) > 0.4
    for left, right in ((("a", 1), ("b", 1)), (("a", 2), ("c", 1)), (("b", 1), ("c", 2))):
        assert abs(moments.second[at[left], at[right]]) < 5 * math.hypot(noise, 1 / math.sqrt(30_000))


def test_cosines_keep_their_size_because_hardly_a_row_is_clipped(parabola):
    (moments,), (stage,) = parabola.moments(), parabola.manifest.stages
    assert stage.radius**2 >= 1.3 * 9
    assert np.diag(moments.second) == pytest.approx(1.0, abs=0.1)
    assert np.abs(cosines(np.linspace(-6, 6, 1000))).sum(axis=1).max() < stage.radius * 3


def test_curved_moments_survive_the_file_and_state_their_noise(parabola):
    (moments,), (stage,) = parabola.moments(), parabola.manifest.stages
    assert moments.mean.shape == (9,)
    assert moments.map is None
    assert (stage.features, stage.size, stage.mapped) == ("cosines", 9, False)
    assert moments.second_noise_sd[0, 1] == pytest.approx(stage.tau / parabola.n, rel=1e-6)
    assert hg.load(parabola.path).manifest == parabola.manifest


def test_curved_needs_adaptive_moments_of_scores(make_plan):
    for release in ({"form": "table"}, {"protects": "entry"}, {"form": "synthetic"}, {"scale": "linear"}):
        with pytest.raises(PlanError, match="curved"):
            make_plan(dependence="curved", **release)
