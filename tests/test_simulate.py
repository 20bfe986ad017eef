"""A simulated release is the published one, number for number."""

import numpy as np
import pytest

import hazeglass as hg
from simulate import simulate


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
def test_the_numbers_are_those_of_publish_with_the_same_seed(make_plan, table, tmp_path, form):
    plan = make_plan(form=form)
    published = hg.publish(table, plan, tmp_path / "r", simulate_seed=5, engine="serial")
    simulated = simulate(table, plan, seed=5)
    assert simulated.manifest.simulation
    assert simulated.manifest.delta_slack == published.manifest.delta_slack
    assert simulated.parts == published.parts
    for name in published.parts:
        assert simulated.part_rows(name) == published.part_rows(name) == 600
        np.testing.assert_array_equal(next(simulated.blocks(name)), next(published.blocks(name)))
    if form != "moments":
        assert simulated.table().equals(published.table())
    if form != "table":
        for ours, theirs in zip(simulated.moments(), published.moments(), strict=True):
            np.testing.assert_array_equal(ours.second, theirs.second)
            np.testing.assert_array_equal(ours.mean, theirs.mean)
    assert hg.recover(simulated).edges.equals(hg.recover(published).edges)
