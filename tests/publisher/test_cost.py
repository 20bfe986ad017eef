"""What a release states and charges is at least what was drawn for it, draw by draw."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hazeglass as hg
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.lattice import RoundedGaussian, lattice_noise
from hazeglass.guarantee.sensitivity import Unit
from hazeglass.publisher import moments, noise, publish, radius, table
from hazeglass.publisher.ledger_file import Ledger
from hazeglass.publisher.randomness import SeededBits
from hazeglass.publisher.rehearse import rehearse

FORMS = {
    "table": {"form": "table"},
    "clipped table": {"form": "table", "clip_radius": 1.0},
    "moments": {},
    "curved": {"dependence": "curved"},
    "private radius": {"clip_radius": "private"},
    "entries": {"protects": "entry"},
    "synthetic": {"form": "synthetic"},
}


@pytest.fixture
def drawn(monkeypatch):
    """Every (noise, size) that is drawn from here on."""
    record = []

    def recording(law, size, bits):
        record.append((law, size))
        return noise.draw(law, size, bits)

    for module in (moments, radius, table):
        monkeypatch.setattr(module, "draw", recording)
    return record


@pytest.mark.parametrize("name", FORMS)
def test_the_stated_slack_is_that_of_every_draw_and_the_charge_is_no_less(make_plan, table, tmp_path, drawn, name):
    plan = make_plan(**FORMS[name])
    book = Ledger.create(tmp_path / "l.ledger", "d", mu_total=10.0, unit=plan.unit)
    release = hg.publish(table, plan, tmp_path / "r", engine="serial", ledger=book.path)
    total = sum(size * noise.total_variation(law) for law, size in drawn)
    assert release.manifest.delta_slack == pytest.approx((1 + math.exp(plan.epsilon)) * total, rel=1e-12)
    (entry,) = book.history()
    draws = sum(size for _, size in drawn)
    assert draws <= entry.charge.total_variation * 2**100 <= draws + radius.SEARCH_STEPS
    assert entry.charge.total_variation >= total
    assert (entry.charge.mu, entry.charge.label) == (plan.guarantee.mu, "Test")


@pytest.mark.parametrize("name", ["moments", "curved", "private radius", "entries"])
def test_moments_are_drawn_with_at_least_the_noise_they_state(make_plan, table, tmp_path, drawn, name):
    plan = make_plan(**FORMS[name])
    release = hg.publish(table, plan, tmp_path / "r", engine="serial")
    search = release.manifest.radius_search
    if search is not None:
        (law, size) = drawn.pop(0)
        assert size == radius.SEARCH_STEPS
        assert law.scale == search.noise_scale >= math.sqrt(size) / search.mu
    for stage in release.manifest.stages:
        p = 3 * (3 if stage.features == "hermite" else 1)
        off, diagonal, mean = (drawn.pop(0) for _ in range(3))
        assert (off[1], diagonal[1], mean[1]) == (p * (p - 1) // 2, p, p)
        for (law, _), needed in (
            (off, stage.tau * stage.steps**2),
            (diagonal, math.sqrt(2) * stage.tau * stage.steps**2),
            (mean, stage.tau * stage.steps / stage.mean_weight),
        ):
            assert needed < law.scale <= needed * (1 + 1e-14) + 1
    assert not drawn


@given(st.floats(1e-3, 2.0**40))
def test_scales_are_rounded_up_even_where_a_float_was_rounded_down(scale):
    assert moments._whole(scale) > Fraction(scale)
    assert moments._whole(scale) <= scale * (1 + 1e-14) + 1
    assert moments._whole(scale).is_integer()
    rounded = Fraction(table._rounded_up(scale))
    assert rounded > Fraction(scale)
    assert rounded <= scale * (1 + 1e-14) + 2**-20
    assert (rounded * 2**20).denominator == 1


@given(st.integers(1, 50), st.floats(1e-4, 10.0), st.integers(2, 10**6))
def test_a_radius_is_searched_for_with_noise_for_all_its_answers(max_rows, mu, n):
    grid = radius.radius_grid(4)
    within = np.linspace(0, n, grid.size).astype(np.int64)
    unit = Unit("person", max_rows=max_rows)
    found = radius.search_radius(within, n, grid, unit, GaussianDP(mu), SeededBits(1))
    needed = Fraction(max_rows) ** 2 * radius.SEARCH_STEPS / Fraction(mu) ** 2
    assert Fraction(found.noise_scale) ** 2 >= needed
    assert found.noise_scale <= math.sqrt(needed) * (1 + 1e-9) + 1
    assert len(found.answers) == radius.SEARCH_STEPS
    assert found.radius in grid
    law = RoundedGaussian(found.noise_scale)
    assert found.total_variation == pytest.approx(radius.SEARCH_STEPS * noise.total_variation(law))


class _Silent:
    """No noise at all, to see what is asked."""

    simulation = True

    def uint64(self, count):
        return np.full(count, 1 << 63, dtype=np.uint64)

    def fill(self, words):
        words[:] = np.uint64(1 << 63)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.949, 0.951, 1.0])
def test_without_noise_the_search_ends_at_the_first_radius_that_holds_95_per_cent(share):
    """Up to `share` of the rows lie within the k-th radius, the others within the last alone."""
    grid, n = radius.radius_grid(4), 100_000
    for k in range(0, 64, 7):
        within = np.full(64, int(share * n))
        within[:k] = 0
        within[63] = n
        found = radius.search_radius(within, n, grid, Unit("record"), GaussianDP(100.0), _Silent())
        assert found.radius == (grid[k] if share > 0.95 else grid[63])
        assert all(abs(answer - within[np.searchsorted(grid, r)]) <= 1 for r, answer in found.answers)


def test_the_grid_reaches_from_a_sixty_fourth_of_the_box_to_all_of_it():
    grid = radius.radius_grid(9)
    assert len(grid) == 64 == 2**radius.SEARCH_STEPS
    assert (grid[0], grid[-1]) == (pytest.approx(3 / 64), pytest.approx(3.0))
    assert np.all(np.diff(np.log(grid)) == pytest.approx(math.log(64) / 63))


def test_rows_as_long_as_a_radius_lie_within_it(make_plan):
    from hazeglass.compute.engines import Serial
    from hazeglass.compute.tables import open_table
    from hazeglass.publisher.rows import Rows

    data = pa.table({"a": [4.0, 2.0, 0.0], "b": [0.0, 0.0, 0.0], "c": [0.0, 0.0, 0.0]})
    rows = Rows(make_plan(), open_table(data))
    counts = radius.rows_within(rows, np.array([0.25, 0.5, 0.75, 1.0]), Serial())
    assert counts.tolist() == [1, 2, 2, 3]


@pytest.mark.parametrize("seed", [True, 1.5, "1"])
def test_a_seed_is_a_whole_number(make_plan, table, tmp_path, seed):
    with pytest.raises(hg.errors.InputError, match="simulate_seed must be a whole number"):
        hg.publish(table, make_plan(), tmp_path / "r", simulate_seed=seed)
    assert not (tmp_path / "r").exists()


def test_without_a_seed_bits_are_secret_and_with_one_the_release_says_so(make_plan, table, tmp_path):
    assert not publish._bits(None).simulation
    assert publish._bits(0).simulation
    assert not hg.publish(table, make_plan(), tmp_path / "r").manifest.simulation
    assert hg.publish(table, make_plan(), tmp_path / "s", simulate_seed=0).manifest.simulation


@pytest.mark.parametrize("form", ["table", "moments"])
def test_a_rehearsal_draws_and_charges_nothing(make_plan, table, tmp_path, drawn, form):
    book = Ledger.create(tmp_path / "l.ledger", "d", mu_total=1.0)
    seen = rehearse(table, make_plan(form=form), tmp_path / "r", ledger=book.path, engine="serial")
    assert (seen.rows, seen.mu_left) == (600, 1.0)
    assert not drawn
    assert book.history() == []
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("mu", [0.3, 3.0])
def test_integers_with_discrete_noise_cost_what_they_may(make_plan, mu):
    """One column, one entry: the discrete Gaussian's own mu* is at most the promise, and not far below."""
    column = {"name": "k", "kind": "integer", "lower": 0, "upper": 7, "noise": "discrete"}
    plan = make_plan(form="table", protects="entry", budget={"mu": mu}, columns_as=[column])
    cell = table.TableMechanism.design(plan, 10).columns[0].cell_noise
    assert mu * 0.999 <= lattice_noise(cell.family, cell.scale).mu(7) <= mu
