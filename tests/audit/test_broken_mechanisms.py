"""Mechanisms broken on purpose: the audit catches each of them, and passes the same mechanism unbroken."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from hazeglass.audit import moments_attack
from hazeglass.audit.attack import certify
from hazeglass.audit.moments_attack import attack_loop
from hazeglass.audit.run import _plan, mechanisms, parts, run_attacks, targets_of
from hazeglass.guarantee.budget import BudgetFilter
from hazeglass.publisher import marginals, moments, noise, rows, sums, table
from hazeglass.publisher.noise import SeededBits

RUNS = 1 << 16
HONEST_ROWS, HONEST_SCORES, HONEST_SUMS = sums.lattice_rows, marginals.Encoder._scores, moments.exact_sums
HONEST_SHAPE, HONEST_TABLE = moments.next_shape, marginals._table


def target(form, unit, noise="rounded", mu=1.0):
    known = itertools.chain(mechanisms(mu), parts())
    return next(t for t in known if (t.form, t.unit, t.noise) == (form, unit, noise))


def audit(*mechanism, **mu):
    return run_attacks([target(*mechanism, **mu)], RUNS, bits=SeededBits(1)).findings[0]


def audit_prepared(monkeypatch, place, broken, *mechanism):
    """Break the noise when the attack is set up: what was published before is not what is attacked."""
    chosen = target(*mechanism)
    attack = chosen.attack()
    monkeypatch.setattr(place, "draw", broken)
    return run_attacks([replace(chosen, attack=lambda: attack)], RUNS, bits=SeededBits(1)).findings[0]


def audit_loop(attack, runs):
    """Real releases take a tenth of a second each."""
    sides = (attack.scores(side, runs, SeededBits(side)) for side in (0, 1))
    return certify(*sides, statistics=attack.statistics, level=0.01)


IN_TIME = ("moments", "record", "counts and stages, stacked rows")
SMALL = [
    ("table", "entry", "rounded"),
    ("table", "record", "discrete"),
    ("table", "record", "rounded, clipped"),
    ("moments", "entry", "one stage"),
    ("moments", "record", "one stage"),
    ("moments", "record", "counts and stages"),
    IN_TIME,
    ("one round of counts", "person", "rounded"),
    ("one stage", "record", "scores through a map"),
    ("one stage", "record", "cosines of ranks"),
    ("one stage", "entry", "which cells are there"),
    ("one stage", "person", "scores drawn inside leaves"),
]


@pytest.mark.parametrize("mechanism", SMALL)
def test_noise_ten_per_cent_too_small_is_caught(monkeypatch, mechanism):
    assert audit(*mechanism).holds

    def less(law, size, bits):
        return noise.draw(type(law)(0.9 * law.scale), size, bits)

    for place in (table, moments, marginals):
        monkeypatch.setattr(place, "draw", less)
    found = audit(*mechanism)
    assert not found.holds
    assert found.ratio == pytest.approx(1 / 0.9, abs=0.09)


def test_counts_that_get_no_noise_of_their_own_are_caught_in_a_whole_release(monkeypatch):
    found = audit_prepared(monkeypatch, marginals, lambda law, size, bits: np.zeros(size, dtype=np.int64), *SMALL[5])
    assert found.ratio > 3


def test_too_little_noise_on_the_answers_of_the_radius_search_is_caught(monkeypatch):
    monkeypatch.setattr(sums, "draw", lambda law, size, bits: noise.draw(type(law)(0.8 * law.scale), size, bits))
    searches = [target("radius search", "person")]
    assert not run_attacks(searches, 2 * RUNS, bits=SeededBits(1)).findings[0].holds


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
    monkeypatch.setattr(sums, "lattice_rows", lambda x, centre, stage: np.rint((x - centre[:, None]) * stage.steps))
    assert audit("table", "record", "rounded, clipped").ratio > 1.5
    assert audit("moments", "record", "one stage").ratio > 1.5
    assert audit("moments", "record", "counts and stages").ratio > 1.5
    assert audit("moments", "person", "counts and stages, linear scale").ratio > 1.5
    assert not audit("one stage", "person", "cosines of ranks").holds  # they are bounded anyway


def test_forgotten_bounds_are_caught(monkeypatch):
    def unclamped(self, block, **_):
        columns = zip(self.plan.columns, block, strict=True)
        return np.column_stack([(cells - column.centre) / column.half_width for column, cells in columns])

    def into(self, block, out=None):
        box = unclamped(self, block)
        if out is not None:
            out[:] = box.T
        return box

    monkeypatch.setattr(rows.Cells, "unit_box", into)
    assert audit("table", "entry").ratio > 5
    assert audit("moments", "entry", "one stage").ratio > 5


def test_scores_outside_their_box_are_caught(monkeypatch):
    monkeypatch.setattr(marginals, "_table", lambda known, features, box: HONEST_TABLE(known, features, None))
    for unit in ("entry", "readings"):
        assert audit("moments", unit, "counts and stages").ratio > 1.5


def centred_before_clipping(x, centre, stage):
    return HONEST_ROWS(x, centre + x.mean(axis=1), stage)


def centred_after_clipping(x, centre, stage):
    z = HONEST_ROWS(x, centre, stage)
    return np.rint(z - z.mean(axis=1)[:, None])


@pytest.mark.parametrize("centred", [centred_before_clipping, centred_after_clipping])
@pytest.mark.parametrize("unit", ["entry", "readings", "record", "person"])
def test_centring_by_the_datas_own_mean_is_caught(monkeypatch, centred, unit):
    monkeypatch.setattr(sums, "lattice_rows", centred)
    assert audit("moments", unit, "one stage").ratio > 1.3


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


@pytest.mark.parametrize("place", [moments, marginals])
def test_noise_shared_by_two_steps_is_caught(monkeypatch, place):
    """As if every stage, or every round, took its words from the beginning of one key's stream."""
    calls = itertools.count()
    draws = 3 if place is moments else 1  # a step: off the diagonal, on it, the mean

    def shared(law, size, bits):
        call = next(calls)  # three steps in the release
        return noise.draw(law, size, SeededBits(draws * (call // (3 * draws)) + call % draws))

    found = audit_prepared(monkeypatch, place, shared, "moments", "record", "counts and stages, linear scale")
    assert found.certificate.statistic.startswith("contrast of steps")
    assert found.ratio > 3


def test_a_filter_that_overspends_is_caught(monkeypatch):
    def overspending(self, share):
        return math.sqrt(share * self._left)  # and forgets that something is gone

    monkeypatch.setattr(BudgetFilter, "take", overspending)
    for mechanism in (
        ("moments", "record", "counts and stages"),
        ("synthetic", "record", "counts and stages"),
        IN_TIME,
    ):
        assert not audit(*mechanism).holds


def test_a_filter_that_never_charges_for_seasons_and_what_follows_is_caught(monkeypatch):
    monkeypatch.setattr(BudgetFilter, "take", lambda self, share: math.sqrt(share * self._left))
    days = {"rows": "series", "order_column": "t", "order_step": "1 day", "seasons": ["weekday"]}
    targets = targets_of(_plan(2.0, "moments", "record", names="ab", **days))
    assert run_attacks(list(targets), 1 << 14, bits=SeededBits(1)).findings[0].ratio > 1.05


# ---------------------------------------------------------------------------------------------- what depends on what


@pytest.mark.slow
def test_a_centre_from_the_exact_mean_is_caught(monkeypatch):
    """Each stage is as noisy as it should be; but the next one's centre, which is released, has no noise."""
    attack, seen = attack_loop(_plan(2.0, "moments", "record", names="ab"), 400), []

    def remembering(rows, stage, *others):
        seen.append((HONEST_SUMS(rows, stage, *others), stage, rows.n))
        return seen[-1][0]

    def from_exact(before, radius, mean, *others, **more):
        (first, *_), stage, n = seen[-1]
        return HONEST_SHAPE(before, radius, first / stage.steps / n, *others, **more)

    assert audit_loop(attack, 200).mu < 2
    monkeypatch.setattr(moments, "exact_sums", remembering)
    monkeypatch.setattr(moments, "next_shape", from_exact)
    found = audit_loop(attack, 200)
    assert found.statistic == "centre of the second stage"
    assert found.mu > 3


def draws_by(monkeypatch, words):
    """Scores drawn with words that follow from the cells (columns x rows) of the block."""

    def broken(self, units, key, start, out):
        found = np.broadcast_to(words(units)[:, None], units.T.shape).astype(np.uint32)
        monkeypatch.setattr(marginals, "_words", lambda key, columns, start, rows: found)
        HONEST_SCORES(self, units, key, start, out)

    monkeypatch.setattr(marginals.Encoder, "_scores", broken)


@pytest.mark.parametrize("unit", ["entry", "readings"])
def test_a_draw_that_depends_on_another_cell_of_the_row_is_caught(monkeypatch, unit):
    assert audit("one stage", unit, "scores drawn inside leaves").holds
    draws_by(monkeypatch, lambda units: np.where(units[0] < 0, 0, 0xFFFFFFFF))
    assert not audit("one stage", unit, "scores drawn inside leaves").holds


@pytest.mark.parametrize("unit", ["record", "person"])
def test_a_draw_that_depends_on_another_row_is_caught(monkeypatch, unit):
    changed = {"record": 1, "person": 3}[unit]
    run = changed + moments_attack.OTHERS  # rows of one run

    def words(units):
        of_first = units[1].reshape(-1, run)[:, 0]
        return np.repeat(np.where(of_first < 0, 0, 0xFFFFFFFF), run)

    draws_by(monkeypatch, words)
    assert audit("one stage", unit, "scores drawn inside leaves").ratio > 1.1
