"""Stages are centred by released numbers alone, and rounding keeps clipped rows in their ball: a reader sees to it."""

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.errors import BundleError

from .forgery import reseal


def coarse_lattice(steps):
    """A lattice of so many steps in half a column's range, with noise in proportion, so that mu is as it was."""

    def change(document):
        for column in document["columns"]:
            spec = column["cell_noise"]
            half = 4.0
            scale = spec["scale"] * steps / (half / spec["step"])
            spec.update(step=half / steps, scale=scale, variance=(scale**2 + 1 / 12) * (half / steps) ** 2)

    return change


def test_the_lattice_of_a_clipped_table_keeps_rows_in_their_ball(make_plan, table, tmp_path):
    """On three steps the row (1, 1, 1)/sqrt(3) of length 1 would be rounded to one of length 1.15."""
    release = hg.publish(table, make_plan(form="table", clip_radius=1.0), tmp_path / "r")
    assert hg.load(reseal(release.path)).manifest == release.manifest
    for steps, message in ((3, "so coarse that rounded rows may be longer; 18 are needed"), (40.5, "several lattices")):
        reseal(release.path, coarse_lattice(steps))
        with pytest.raises(BundleError, match=message):
            hg.load(release.path)
        reseal(release.path, coarse_lattice(1000))


def test_the_lattice_of_clipped_moments_keeps_rows_in_their_ball(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(clip_radius=1.0), tmp_path / "r")
    for steps, message in ((2, "on another lattice"), (1, "rounded rows may be longer; 2 are needed")):
        reseal(release.path, lambda document, steps=steps: document["stages"][0].update(steps=steps))
        with pytest.raises(BundleError, match=message):
            hg.load(release.path)


def test_the_columns_of_a_clipped_table_share_a_lattice(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(form="table", clip_radius=1.0), tmp_path / "r")

    def change(document):
        honest = [dict(column["cell_noise"]) for column in document["columns"]]
        coarse_lattice(100)(document)
        document["columns"][0]["cell_noise"] = honest[0]

    reseal(release.path, change)
    with pytest.raises(BundleError, match="several lattices"):
        hg.load(release.path)


@pytest.mark.parametrize("columns", [1, 40])
@pytest.mark.parametrize("change", [{}, {"protects": "person", "id_column": "id", "max_rows": 3}])
def test_every_honest_stage_follows_from_the_ones_before(make_plan, tmp_path, columns, change):
    rng = np.random.default_rng(columns)
    names = [f"c{k}" for k in range(columns)]
    rows = {name: rng.standard_normal(300) * 10.0 ** rng.integers(-3, 1) for name in names}
    for budget in ({"epsilon": 0.01, "delta": 1e-6}, {"epsilon": 50.0, "delta": 1e-6}):
        plan = make_plan(columns=names, budget=budget, **change)
        place = tmp_path / str(budget["epsilon"])
        hg.load(hg.publish(pa.table({**rows, "id": np.arange(300) // 3}), plan, place, weak_on_purpose=True).path)


@pytest.mark.parametrize(
    ("form", "change", "message"),
    [
        ("table", lambda d: d.update(clip_radius=1.0), "a cell then moves its whole row"),
        ("moments", lambda d: d["stages"][0].update(clipped=True), "no plan leads to"),
        ("moments", lambda d: d["stages"][0].update(radius=1e-9), "no plan leads to"),
    ],
)
@pytest.mark.parametrize("unit", [{"protects": "entry"}, {"protects": "readings", "readings": 3}])
def test_rows_are_clipped_for_records_and_persons_only(make_plan, table, tmp_path, form, change, message, unit):
    release = hg.publish(table, make_plan(form=form, **unit), tmp_path / "r")
    reseal(release.path, change)
    with pytest.raises(BundleError, match=message):
        hg.load(release.path)
