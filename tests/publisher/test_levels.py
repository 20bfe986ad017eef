"""Categorical columns of moments: indicators of their levels beside scores, and a promise that readers derive again."""

import math

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.audit.run import _plan, _stage, run_attacks
from hazeglass.bundle.moments import MOST_INDICATORS
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.errors import BundleError, PlanError
from hazeglass.features.fitting import Counts
from hazeglass.features.marginal import Levels, Marginal, first_borders, needs_another_look, next_borders
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.moments import most_draws, publish_moments
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.rows import Rows
from simulate import simulate

WARDS = ("north", "south", "east")
UNITS = {
    "record": {"protects": "record"},
    "person": {"protects": "person", "id_column": "who", "max_rows": 2},
    "entry": {"protects": "entry"},
    "readings": {"protects": "readings", "readings": 3},
}


def plan(mu=1.0, unit="record", numbers="xyz", **settings):
    columns = [hg.Column(name, "continuous", -4, 4) for name in numbers]
    columns.insert(0, hg.Column("ward", "categorical", levels=WARDS))
    columns.append(hg.Column("side", "categorical", levels=("left", "right")))
    wish = {**UNITS[unit], "form": "moments", **settings}
    return hg.Plan(title="t", mu=mu, columns=tuple(columns), **wish)


def rows(n=400, seed=0, missing=0.1):
    rng = np.random.default_rng(seed)
    wards = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    table = {"ward": [None if rng.random() < missing else WARDS[k] for k in wards]}
    table |= {name: rng.standard_normal(n) for name in "xyz"}
    table["side"] = [("left", "right")[k] for k in rng.integers(0, 2, n)]
    return pa.table({**table, "who": np.arange(n) // 2})


def levels(counts, noise_sd=1.0, missing=0.0):
    step = 2 / (len(counts) - 1)
    return Levels((Counts(first_borders(step, levels=True), np.array(counts, dtype=float), missing, noise_sd),), step)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("numbers", ["", "x", "xyz"])
def test_a_release_with_levels_is_accepted_and_states_how_rows_were_made(tmp_path, unit, numbers):
    wish = plan(unit=unit, numbers=numbers)
    release = hg.publish(rows(), wish, tmp_path / "r", engine="serial", simulate_seed=1)
    again = hg.load(release.path)
    assert again.manifest == release.manifest
    stage = again.manifest.stages[-1]
    assert stage.levels == (3, 2)
    assert stage.scored == len(numbers)
    assert stage.longest**2 == pytest.approx(stage.radius**2 + 2)
    assert len(again.moments()[-1].mean) == len(numbers) + 5
    features = [(one.column, one.power) for one in again.moments()[-1].features]
    assert features[len(numbers) :] == [("ward", 1), ("ward", 2), ("ward", 3), ("side", 1), ("side", 2)]


def test_levels_are_counted_one_by_one_in_every_round():
    release = simulate(rows(missing=0.0), plan(mu=50.0), 1)
    known = release.marginals()[0]
    assert isinstance(known, Levels)
    assert all(one.counts.size == 3 for one in known.rounds)
    true = [rows(missing=0.0)["ward"].to_pylist().count(ward) / 400 for ward in WARDS]
    assert known.shares == pytest.approx(true, abs=0.01)
    assert not needs_another_look(known)
    assert np.array_equal(next_borders(known, 0.1, last=True), known.borders)


def test_many_levels_are_leaves_of_their_own_where_values_of_a_number_share_one():
    assert first_borders(2 / 40, levels=True).size == 42
    assert first_borders(2 / 40).size == 17


def test_no_distribution_is_fitted_to_levels():
    counts = [500.0, 3.0, 400.0, 2.0, 95.0]
    assert levels(counts).shares == pytest.approx(np.array(counts) / 1000, abs=1e-9)
    numbers = Marginal(levels(counts, 200.0).rounds, 0.5)
    assert levels(counts, 200.0).shares == pytest.approx(np.array(counts) / 1000, abs=1e-9)
    assert numbers.shares != pytest.approx(np.array(counts) / 1000, abs=1e-3)


def test_rounds_are_pooled_by_their_noise():
    near, far = levels([600, 400], 1.0).rounds[0], levels([0, 1000], 1000.0).rounds[0]
    assert Levels((far, near), 2.0).shares == pytest.approx([0.6, 0.4], abs=1e-3)


def test_a_missing_level_is_drawn_by_the_released_shares_and_by_nothing_else():
    n = 20_000
    table = pa.table({"ward": pa.array([None] * n, pa.string()), "side": ["left"] * n})
    wish = plan(numbers="")
    encoder = Encoder.of_scores([levels([600, 300, 100]), levels([1, 1])], "columns", b"k" * 32)
    found = []
    for source in (table, table.set_column(1, "side", pa.array(["right"] * n))):
        data = Rows(wish, open_table(source))
        out = np.empty((5, n))
        (block,) = data.blocks()
        encoder.rows(data.cells, block, 0, out)
        assert np.array_equal(out[:3].sum(axis=0), np.ones(n))
        found.append(out)
    assert found[0][:3].mean(axis=1) == pytest.approx([0.6, 0.3, 0.1], abs=0.02)
    assert np.array_equal(found[0][:3], found[1][:3])
    assert np.array_equal(found[0][3:], 1 - found[1][3:])


def test_maps_leave_levels_as_they_are():
    """Strongly dependent numbers are shaped; their map stands in the release with the identity for levels."""
    rng = np.random.default_rng(3)
    table = rows(4000, 3)
    common = rng.standard_normal(4000)
    for name in "xyz":
        table = table.set_column(
            table.column_names.index(name), name, pa.array(common + 0.1 * rng.standard_normal(4000))
        )
    drawn = publish_moments(Rows(plan(5.0), open_table(table)), plan(5.0), Serial(), SeededBits(1))
    mapped = [one for one in drawn.stages if one.map is not None]
    assert mapped
    for one in mapped:
        assert np.array_equal(one.map[3:, 3:], np.eye(5))
        assert not one.map[:3, 3:].any()
        assert not any(one.stage.centre[3:])


def test_no_more_noise_is_drawn_than_the_ledger_is_told(tmp_path):
    wish = plan(5.0)
    release = hg.publish(rows(4000), wish, tmp_path / "r", engine="serial", simulate_seed=2)
    numbers = sum(
        table.num_rows for name in ("moments.parquet", "marginals.parquet") for table in release._groups(name)
    )
    assert numbers <= most_draws(wish)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": "linear"}, 'needs adaptive moments with scale = "scores"'),
        ({"adaptive": False}, "needs adaptive moments"),
        ({"dependence": "curved"}, 'dependence = "linear"'),
    ],
)
def test_what_has_no_meaning_for_levels_is_refused_in_one_sentence(settings, message):
    with pytest.raises(PlanError, match=message):
        plan(**settings)


def test_more_levels_than_moments_hold_are_to_be_merged():
    many = hg.Column("code", "categorical", levels=tuple(f"c{k}" for k in range(MOST_INDICATORS + 1)))
    with pytest.raises(PlanError, match="at most 127"):
        hg.Plan(title="t", form="moments", protects="record", mu=1.0, columns=(many, *plan().columns))
    hg.Plan(title="t", form="table", protects="record", mu=1.0, columns=(many,))


def test_a_preview_says_what_each_pair_of_kinds_can_show():
    look = plan().preview(20_000)
    sizes = {pair.kinds: pair.detectable for pair in look.kinds}
    assert set(sizes) == {("categorical", "categorical"), ("categorical", "continuous"), ("continuous", "continuous")}
    assert sizes["continuous", "continuous"] < sizes["categorical", "continuous"] < 1
    assert plan().preview(80_000).kinds[0].detectable < look.kinds[0].detectable
    assert (
        hg.Plan(title="t", form="moments", protects="record", mu=1.0, columns=plan().columns[1:3]).preview(99).kinds
        == ()
    )


@pytest.mark.parametrize("unit", ["record", "entry"])
def test_an_attack_on_a_stage_of_scores_and_levels_certifies_no_more_than_is_claimed(unit):
    target = _stage("first", "scores and indicators of levels", _plan(2.0, "moments", unit, levels="wxyz"))
    (finding,) = run_attacks([target], 1 << 13, bits=SeededBits(4), confidence=0.99).findings
    assert 0.8 < finding.ratio <= 1


# ------------------------------------------------------------------------------------------------------------ forgeries


FORGERIES = {
    "fewer levels": (lambda stage: stage.update(levels=[2, 2], centre=stage["centre"][1:]), "no plan leads to"),
    "levels for numbers": (lambda stage: stage.update(levels=[3, 3]), "no plan leads to"),
    "no levels": (lambda stage: stage.update(levels=[]), "no plan leads to"),
    "less noise": (lambda stage: stage.update(tau=stage["tau"] * 0.9), "whose noise gives"),
    "a smaller ball": (lambda stage: stage.update(radius=stage["radius"] * 0.9), "whose noise gives"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_stage_of_levels_is_refused(tmp_path, name):
    from bundle.forgery import reseal

    release = hg.publish(rows(), plan(), tmp_path / "r", engine="serial", simulate_seed=1)
    change, message = FORGERIES[name]
    reseal(release.path, lambda document: change(document["stages"][-1]))
    with pytest.raises(BundleError, match=message):
        hg.load(release.path)


def test_the_noise_of_a_stage_pays_for_every_column_of_levels():
    stage = simulate(rows(), plan(numbers="xyz"), 1).manifest.stages[-1]
    assert stage.tau * stage.mu == pytest.approx(stage.radius**2 + 2 + stage.mean_weight**2)
    assert stage.mean_weight <= stage.longest
    assert not math.isclose(stage.longest, stage.radius)


# ------------------------------------------------------------------------------------------------------- synthetic rows


def dependent(n, seed=5):
    """ward drives side, strongly, and x, by its level; y and z are alone."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    side = (rng.random(n) < np.array([0.15, 0.5, 0.9])[ward]).astype(int)
    table = {"ward": [WARDS[k] for k in ward], "x": np.array([-1.0, 0.5, 1.0])[ward] + rng.standard_normal(n)}
    table |= {name: rng.standard_normal(n) for name in "yz"}
    return pa.table({**table, "side": [("left", "right")[k] for k in side], "who": np.arange(n) // 2})


@pytest.mark.parametrize("unit", UNITS)
def test_synthetic_rows_with_levels_are_drawn_again_by_readers(tmp_path, unit):
    release = hg.publish(rows(), plan(unit=unit, form="synthetic"), tmp_path / "r", engine="serial", simulate_seed=1)
    again = hg.load(release.path)
    again.check_values()
    table = again.table()
    assert set(table["ward"].to_pylist()) <= {0, 1, 2}
    assert set(table["side"].to_pylist()) <= {0, 1}


def test_synthetic_rows_have_the_shares_and_the_dependence_of_the_rows():
    n = 30_000
    real, made = dependent(n), simulate(dependent(n), plan(100.0, form="synthetic"), 3).table()
    ward, side = (np.array([known.index(cell) for cell in real[name].to_pylist()]) for name, known in LEVELS.items())
    fake_ward, fake_side = made["ward"].to_numpy(), made["side"].to_numpy()
    for k in range(3):
        assert np.mean(fake_ward == k) == pytest.approx(np.mean(ward == k), abs=0.01)
        assert made["x"].to_numpy()[fake_ward == k].mean() == pytest.approx(
            real["x"].to_numpy()[ward == k].mean(), abs=0.1
        )
        assert fake_side[fake_ward == k].mean() == pytest.approx(side[ward == k].mean(), abs=0.06)
        assert abs(made["y"].to_numpy()[fake_ward == k].mean()) < 0.05


LEVELS = {"ward": WARDS, "side": ("left", "right")}


def test_other_levels_than_the_numbers_give_are_refused(tmp_path):
    import pyarrow.parquet as pq

    from bundle.forgery import reseal, write_part

    release = hg.publish(rows(), plan(form="synthetic"), tmp_path / "r", engine="serial", simulate_seed=1)
    (path,) = (release.path / "data").glob("*.parquet")
    table = pq.read_table(path)
    other = (table["ward"].to_numpy() + 1) % 3
    write_part(table.set_column(0, "ward", pa.array(other)), path, use_dictionary=False)
    reseal(release.path)
    with pytest.raises(BundleError, match=r"not those that the released numbers|bytes"):
        hg.load(release.path).check_values()
