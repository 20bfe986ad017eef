"""Mechanisms broken on purpose: the audit catches each of them, and passes the same mechanism unbroken."""

import itertools

import numpy as np
import pytest

from hazeglass.audit.run import mechanisms, parts, run_attacks
from hazeglass.publisher import clip, moments, noise, rows, table
from hazeglass.publisher.randomness import SeededBits

RUNS = 1 << 16
HONEST_ROWS = moments.lattice_rows


def audit(form, unit, noise="rounded", mu=1.0):
    target = next(t for t in mechanisms(mu) if (t.form, t.unit, t.noise) == (form, unit, noise))
    return run_attacks([target], RUNS, bits=SeededBits(1)).findings[0]


SMALL = [
    ("table", "entry", "rounded"),
    ("table", "record", "discrete"),
    ("table", "record", "rounded, clipped"),
    ("moments", "entry", "rounded"),
    ("moments", "record", "rounded"),
    ("moments", "record", "rounded, two stages"),
]


@pytest.mark.parametrize("mechanism", SMALL)
def test_noise_ten_per_cent_too_small_is_caught(monkeypatch, mechanism):
    assert audit(*mechanism).holds

    def less(law, size, bits):
        return noise.draw(type(law)(0.9 * law.scale), size, bits)

    monkeypatch.setattr(table, "draw", less)
    monkeypatch.setattr(moments, "draw", less)
    found = audit(*mechanism)
    assert not found.holds
    assert found.ratio == pytest.approx(1 / 0.9, abs=0.09)


def test_too_little_noise_on_the_answers_of_the_radius_search_is_caught(monkeypatch):
    monkeypatch.setattr(clip, "draw", lambda law, size, bits: noise.draw(type(law)(0.8 * law.scale), size, bits))
    assert not run_attacks(list(parts()), 2 * RUNS, bits=SeededBits(1)).findings[0].holds


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_floating_point_noise_is_caught_by_its_lowest_bits(monkeypatch, mu):
    rng = np.random.default_rng(2)

    def float_noise(column, unit_box, bits):
        cells = column.centre + column.half_width * unit_box
        return cells + np.sqrt(column.cell_noise.variance) * rng.standard_normal(cells.size)

    monkeypatch.setattr(table, "_noisy_reals", float_noise)
    found = audit("table", "entry", mu=mu)
    assert found.certificate.statistic == "lowest bit"
    assert found.certified_mu > mu + 0.5


def test_a_forgotten_clip_is_caught(monkeypatch):
    def unclipped(x, *, steps, radius):
        return np.rint(x * steps)

    monkeypatch.setattr(table, "clip_to_lattice", unclipped)
    monkeypatch.setattr(moments, "clip_to_lattice", unclipped)
    monkeypatch.setattr(
        moments,
        "standardise_to_lattice",
        lambda x, centre, scale, *, steps, radius, out: np.rint((x - centre) / scale * steps),
    )
    assert audit("table", "record", "rounded, clipped").ratio > 1.5
    assert audit("moments", "record").ratio > 1.5
    assert audit("moments", "record", "rounded, two stages").ratio > 1.5
    assert audit("moments", "record", "rounded, curved").ratio > 1.5


def test_forgotten_bounds_are_caught(monkeypatch):
    def unclamped(self, block, **_):
        columns = zip(self.plan.columns, block, strict=True)
        return np.column_stack([(cells - column.centre) / column.half_width for column, cells in columns])

    monkeypatch.setattr(rows.Cells, "unit_box", unclamped)
    assert audit("table", "entry").ratio > 5
    assert audit("moments", "entry").ratio > 5


def centred_before_clipping(unit_box, centre, scale, stage, **_):
    return HONEST_ROWS(unit_box, centre + unit_box.mean(axis=0), scale, stage)


def centred_after_clipping(unit_box, centre, scale, stage, **_):
    z = HONEST_ROWS(unit_box, centre, scale, stage)
    return np.rint(z - z.mean(axis=0))


@pytest.mark.parametrize("centred", [centred_before_clipping, centred_after_clipping])
@pytest.mark.parametrize("unit", ["entry", "readings", "record", "person"])
def test_centring_by_the_datas_own_mean_is_caught(monkeypatch, centred, unit):
    monkeypatch.setattr(moments, "lattice_rows", centred)
    assert audit("moments", unit).ratio > 1.3


def test_noise_shared_by_two_columns_is_caught(monkeypatch):
    draw_noise, seeds = table.TableMechanism.noise, itertools.count()

    def shared(self, rows, bits):
        seed = next(seeds)
        monkeypatch.setattr(table, "draw", lambda law, size, bits: noise.draw(law, size, SeededBits(seed)))
        return draw_noise(self, rows, bits)

    monkeypatch.setattr(table.TableMechanism, "noise", shared)
    for family in ("rounded", "discrete", "rounded, clipped"):
        assert audit("table", "record", family).ratio > 5


@pytest.mark.parametrize(("unit", "count"), [("readings", 6), ("column", 8)])
def test_noise_shared_by_the_rows_of_a_unit_is_caught(monkeypatch, unit, count):
    def shared(law, size, bits):
        return np.repeat(noise.draw(law, size // count, bits), count)

    monkeypatch.setattr(table, "draw", shared)
    assert audit("table", unit).ratio > 5


def test_noise_shared_by_two_releases_is_caught(monkeypatch):
    calls = itertools.count()
    monkeypatch.setattr(table, "draw", lambda law, size, bits: noise.draw(law, size, SeededBits(next(calls) // 2)))
    found = audit("table twice", "entry")
    assert found.certificate.statistic == "contrast of the releases"
    assert found.ratio > 5


def test_noise_shared_by_two_stages_is_caught(monkeypatch):
    calls = itertools.count()

    def shared(law, size, bits):
        call = next(calls)  # three draws a stage: off the diagonal, on it, the mean
        return noise.draw(law, size, SeededBits(3 * (call // 6) + call % 3))

    monkeypatch.setattr(moments, "draw", shared)
    found = audit("moments", "record", "rounded, two stages")
    assert found.certificate.statistic == "contrast of the stages"
    assert found.ratio > 3
