"""What a release states and charges is at least what was drawn for it, draw by draw."""

import math
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hazeglass as hg
from hazeglass.bundle.moments import whole_scale
from hazeglass.guarantee.lattice import lattice_noise, total_variation
from hazeglass.guarantee.units import SEARCH_STEPS, counts_distance
from hazeglass.publisher import marginals, moments, noise, sums, table
from hazeglass.publisher.ledger import Ledger
from simulate import simulate

FORMS = {
    "table": {"form": "table"},
    "clipped table": {"form": "table", "clip_radius": 1.0},
    "moments": {},
    "curved": {"dependence": "curved"},
    "private radius": {"clip_radius": "private"},
    "entries": {"protects": "entry"},
    "linear": {"scale": "linear"},
    "persons": {"protects": "person", "id_column": "id", "max_rows": 2},
    "synthetic": {"form": "synthetic"},
}


def with_ids(data):
    return data.append_column("id", pa.array(range(data.num_rows)))


@pytest.fixture
def drawn(monkeypatch):
    """Every (noise, size) that is drawn from here on."""
    record = []

    def recording(law, size, bits):
        record.append((law, size))
        return noise.draw(law, size, bits)

    for module in (marginals, moments, sums, table):
        monkeypatch.setattr(module, "draw", recording)
    return record


@given(st.floats(1e-3, 2.0**40))
def test_scales_are_rounded_up_even_where_a_float_was_rounded_down(scale):
    assert whole_scale(scale) > Fraction(scale)
    assert whole_scale(scale) <= scale * (1 + 1e-14) + 1
    assert whole_scale(scale).is_integer()
    rounded = Fraction(noise._rounded_up(scale))
    assert rounded > Fraction(scale)
    assert rounded <= scale * (1 + 1e-14) + 2**-20
    assert (rounded * 2**20).denominator == 1


@pytest.mark.parametrize("name", FORMS)
def test_the_stated_slack_is_no_less_than_that_of_every_draw_nor_is_the_charge(make_plan, table, tmp_path, drawn, name):
    plan = make_plan(**FORMS[name])
    book = Ledger.create(tmp_path / "l.ledger", "d", mu_total=10.0, unit=plan.unit, id_column=plan.id_column)
    release = hg.publish(with_ids(table), plan, tmp_path / "r", engine="serial", ledger=book.path)
    total = sum(size * total_variation(law) for law, size in drawn)
    of_these = (1 + math.exp(plan.epsilon)) * total
    if plan.form == "table":
        assert release.manifest.delta_slack == pytest.approx(of_these, rel=1e-12, abs=0)
    assert release.manifest.delta_slack >= of_these * (1 - 1e-12)  # of the most draws that such a release may take
    (entry,) = book.history()
    draws = sum(size for _, size in drawn)
    if plan.form == "table":
        assert entry.charge.total_variation * 2**100 == draws
    assert entry.charge.total_variation * 2**100 >= draws  # charged before it is known how many rounds and stages come
    assert entry.charge.total_variation >= total
    assert (entry.charge.mu, entry.charge.label) == (plan.guarantee.mu, "Test")


@pytest.mark.parametrize("name", ["moments", "curved", "private radius", "entries", "linear", "persons"])
def test_counts_and_moments_are_drawn_with_at_least_the_noise_they_state(make_plan, table, tmp_path, drawn, name):
    plan = make_plan(**FORMS[name])
    release = hg.publish(with_ids(table), plan, tmp_path / "r", engine="serial")
    counts = release._counts()
    for number, one in enumerate(release.manifest.rounds):
        (law, size) = drawn.pop(0)
        assert size == sum(column.counts.size + 1 for column in counts[number])
        assert law.scale == one.noise_scale >= counts_distance(plan.unit, columns=3) / one.mu
    search = release.manifest.radius_search
    if search is not None:
        (law, size) = drawn.pop(0)
        assert size == SEARCH_STEPS
        assert law.scale == search.noise_scale >= math.sqrt(size) / search.mu
    for stage in release.manifest.stages:
        p = stage.size
        off, diagonal, mean = (drawn.pop(0) for _ in range(3))
        assert (off[1], diagonal[1], mean[1]) == (p * (p - 1) // 2, p, p)
        for (law, _), needed in (
            (off, stage.tau * stage.steps**2),
            (diagonal, math.sqrt(2) * stage.tau * stage.steps**2),
            (mean, stage.tau * stage.steps / stage.mean_weight),
        ):
            assert needed < law.scale <= needed * (1 + 1e-14) + 1
        if stage.count_weight:
            (law, size) = drawn.pop(0)
            assert (size, law.scale >= stage.tau / stage.count_weight) == (1, True)
    assert not drawn


@pytest.mark.parametrize("name", ["moments", "curved", "private radius", "entries", "linear", "persons", "synthetic"])
@pytest.mark.parametrize("mu", [0.01, 1.0, 50.0])
def test_what_rounds_stages_and_searches_cost_together_is_the_budget_and_no_more(make_plan, table, name, mu):
    """In exact fractions; and all of it is spent, to the last rounding."""
    plan = make_plan(budget={"mu": mu}, **FORMS[name])
    manifest = simulate(with_ids(table), plan, seed=4).manifest
    steps = [*manifest.rounds, *manifest.stages, *([manifest.radius_search] if manifest.radius_search else [])]
    spent = sum((Fraction(step.mu) ** 2 for step in steps), Fraction(0))
    assert spent <= Fraction(mu) ** 2
    assert spent >= Fraction(mu) ** 2 * (1 - Fraction(1, 2**40))


@pytest.mark.parametrize("seed", [True, 1.5, "1"])
def test_a_seed_is_a_whole_number(make_plan, table, tmp_path, seed):
    with pytest.raises(hg.errors.InputError, match="simulate_seed must be a whole number"):
        hg.publish(table, make_plan(), tmp_path / "r", simulate_seed=seed)
    assert not (tmp_path / "r").exists()


def test_without_a_seed_bits_are_secret_and_with_one_the_release_says_so(make_plan, table, tmp_path):
    assert not noise.bits_of(None).simulation
    assert noise.bits_of(0).simulation
    assert not hg.publish(table, make_plan(), tmp_path / "r").manifest.simulation
    assert hg.publish(table, make_plan(), tmp_path / "s", simulate_seed=0).manifest.simulation


@pytest.mark.parametrize("mu", [0.3, 3.0])
def test_integers_with_discrete_noise_cost_what_they_may(make_plan, mu):
    """One column, one entry: the discrete Gaussian's own mu* is at most the promise, and not far below."""
    column = {"name": "k", "kind": "integer", "lower": 0, "upper": 7, "noise": "discrete"}
    plan = make_plan(form="table", protects="entry", budget={"mu": mu}, columns_as=[column])
    cell = table.TableMechanism.design(plan, 10).columns[0].cell_noise
    assert mu * 0.999 <= lattice_noise(cell.family, cell.scale).mu(7) <= mu
