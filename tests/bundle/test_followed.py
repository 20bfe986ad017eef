"""What a release was made with follows from numbers released before it, and from nothing else: a reader follows again.

A map, a centre or a border that does not could be the data's own. So a forger moves each of them, with every hash, size
and statement made anew; the numbers that carry noise are free, and everything else is not.
"""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.errors import BundleError

from .forgery import reseal, write_part

PLANS = {
    "shaped": {"budget": {"mu": 5.0}},
    "linear": {"budget": {"mu": 5.0}, "scale": "linear"},
    "missing": {"budget": {"mu": 5.0}},
    "curved": {"dependence": "curved"},
    "entries": {"protects": "entry"},
    "missing entries": {"protects": "entry", "budget": {"mu": 5.0}},
    "persons": {"protects": "person", "id_column": "id", "max_rows": 2, "budget": {"mu": 5.0}},
    "synthetic": {"form": "synthetic", "budget": {"mu": 5.0}},
    "one stage": {"adaptive": False},
    "table": {"form": "table"},
}


def rows(missing):
    """Three columns that follow one another closely, so that shaping has something to do."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal((3000, 1)) + 0.15 * rng.standard_normal((3000, 3))
    if missing:
        values[rng.random(3000) < 0.3, :2] = np.nan
    return pa.table({**dict(zip("abc", values.T, strict=True)), "id": np.arange(3000)})


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Each of the releases, made once."""
    folder, made = tmp_path_factory.mktemp("honest"), {}

    def release(name, make_plan):
        if name not in made:
            data = rows("missing" in name)
            made[name] = hg.publish(data, make_plan(**PLANS[name]), folder / name, engine="serial", simulate_seed=6)
        return made[name]

    return release


@pytest.fixture
def forge(honest, make_plan, tmp_path):
    """A copy of a release with a part and the manifest changed, and everything else made to fit."""

    def made(name, change=lambda document: None, part=None, change_part=None):
        folder = tmp_path / "forged"
        shutil.copytree(honest(name, make_plan).path, folder)
        if part is not None:
            table = pq.read_table(folder / part)
            schema = table.schema
            changed = change_part(table.to_pylist())
            write_part(pa.Table.from_pylist(changed, schema), folder / part)
        return reseal(folder, change)

    return made


@pytest.mark.parametrize("name", PLANS)
def test_an_honest_release_is_accepted_also_when_it_is_sealed_again(forge, name):
    hg.load(forge(name)).check_values() if PLANS[name].get("form") == "synthetic" else hg.load(forge(name))


def test_the_releases_are_what_the_forgeries_below_need(honest, make_plan):
    made = {name: honest(name, make_plan).manifest for name in PLANS}
    assert len(made["shaped"].stages) > 2
    assert made["shaped"].stages[-1].mapped
    assert made["linear"].stages[-1].mapped
    assert made["missing"].stages[0].features == made["missing entries"].stages[0].features == "presence"
    assert len(made["shaped"].rounds) > 1


def stage(number, **change):
    return lambda document: document["stages"][number].update(change)


def nudge(number, key):
    def change(document):
        document["stages"][number][key][1] += 1e-3

    return change


def scaled(number, key, factor):
    def change(document):
        document["stages"][number][key] *= factor

    return change


def cheaper_stage(document):
    """Half the noise, and the mu that this gives, as a careful forger would write it."""
    document["stages"][-1]["tau"] /= 2
    document["stages"][-1]["mu"] *= 2


def larger_radius(document):
    """With the noise that it needs."""
    one = document["stages"][-1]
    distance = one["radius"] ** 2 + one["mean_weight"] ** 2
    one["radius"] *= 1.5
    one["tau"] *= (one["radius"] ** 2 + one["mean_weight"] ** 2) / distance
    one["steps"] = int(2**16 / one["radius"])


def without_presence(document):
    del document["stages"][0]


def with_presence(document):
    first = {**document["stages"][0], "features": "presence", "of": [0, 1], "centre": [0.0, 0.0], "mapped": False}
    document["stages"].insert(0, {**first, "radius": 2**0.5})


def too_many_stages(document):
    document["stages"] = document["stages"][:1] + [document["stages"][-1]] * 8


def more_stages_than_any(document):
    document["stages"] += [document["stages"][-1]] * 9


def larger_box(document):
    document["stages"][-1]["box"] = 2.0


def standard(key, change):
    def forged(document):
        document["standard"][key] = change(document["standard"][key])

    return forged


CLAIMS = {
    "a first stage about another centre": ("shaped", nudge(0, "centre"), "no plan leads to"),
    "a last stage about another centre": ("shaped", nudge(-1, "centre"), "centres that do not follow"),
    "a linear stage about another centre": ("linear", nudge(-1, "centre"), "centres that do not follow"),
    "a centre where cells are protected": ("entries", nudge(0, "centre"), "no plan leads to"),
    "a centre of cosines": ("curved", nudge(0, "centre"), "no plan leads to"),
    "a map that is left out": ("shaped", stage(-1, mapped=False), "holds a map where release.json states none"),
    "a map of the first stage": ("shaped", stage(0, mapped=True), "no plan leads to"),
    "a map of cosines": ("curved", stage(0, mapped=True), "no plan leads to"),
    "a larger radius with its noise": ("shaped", larger_radius, "radii that do not follow|other noise"),
    "a larger radius of cosines": ("curved", larger_radius, "radii that do not follow|other noise"),
    "a larger radius": ("shaped", scaled(-1, "radius", 1.1), "whose noise gives"),
    "less noise": ("shaped", scaled(-1, "tau", 0.5), "whose noise gives"),
    "a stage that costs less": ("shaped", scaled(0, "mu", 0.5), "whose noise gives"),
    "a stage with less noise that says what it costs": ("shaped", cheaper_stage, "only gives mu"),
    "less noise on cells": ("entries", scaled(0, "tau", 0.5), "whose noise gives"),
    "a finer lattice": ("shaped", scaled(-1, "steps", 2), "on another lattice than its noise asks for"),
    "a finer lattice of cells": ("entries", scaled(0, "steps", 2), "on another lattice than its noise asks for"),
    "rows that are not clipped": ("shaped", stage(-1, clipped=False), "no plan leads to"),
    "a box around records": ("shaped", stage(-1, clipped=False, box=1.0), "no plan leads to"),
    "a larger box around cells": ("entries", larger_box, "no plan leads to"),
    "no box around cells": ("entries", stage(0, box=None), "no plan leads to"),
    "clipped cells": ("entries", stage(0, clipped=True, box=None), "no plan leads to"),
    "another radius of the box": ("entries", scaled(0, "radius", 2.0), "no plan leads to"),
    "another radius of presence": ("missing", scaled(0, "radius", 0.9), "no plan leads to"),
    "presence that is left out": ("missing", without_presence, "holds .* rows|row groups"),
    "presence that nobody asked for": ("shaped", with_presence, "holds .* rows|whose noise gives|presence where"),
    "presence of other columns": ("missing", stage(0, of=[0, 2]), "names a column|presence where the counts"),
    "presence of one column twice": ("missing", stage(0, of=[1, 1]), "no plan leads to"),
    "presence of a column there is not": ("missing", stage(0, of=[0, 3]), "no plan leads to"),
    "presence at the end": ("missing", lambda d: d["stages"].reverse(), "no plan leads to"),
    "nothing but presence": ("missing", lambda d: d["stages"].__delitem__(slice(1, None)), "no plan leads to"),
    "columns of some": ("shaped", stage(-1, of=[0, 1, 2]), "no plan leads to"),
    "more stages than there can be": ("shaped", too_many_stages, "no plan leads to|holds .* rows"),
    "more stages than any release has": ("shaped", more_stages_than_any, "not a valid manifest: stages"),
    "two stages of cells": ("entries", lambda d: d["stages"].append(d["stages"][0]), "no plan leads to"),
    "two stages of cosines": ("curved", lambda d: d["stages"].append(d["stages"][0]), "no plan leads to"),
    "two stages about the public centre": ("one stage", lambda d: d["stages"].append(d["stages"][0]), "no plan leads"),
    "cosines in synthetic rows": ("synthetic", stage(-1, features="cosines"), "no plan leads to"),
    "cosines on the linear scale": ("curved", lambda d: d.update(scale="linear"), "no plan leads to"),
    "moments without a scale": ("shaped", lambda d: d.update(scale=None), "no plan leads to"),
    "counts of a public scale": ("shaped", lambda d: d.update(scale="public"), "no plan leads to"),
    "scores without counts": ("one stage", lambda d: d.update(scale="scores"), "no plan leads to"),
    "a standard of scores": (
        "shaped",
        lambda d: d.update(standard={"centre": [0.0] * 3, "scale": [1.0] * 3, "largest": 64.0}),
        "no plan leads to",
    ),
    "no standard of the linear scale": ("linear", lambda d: d.update(standard=None), "no plan leads to"),
    "other locations": ("linear", standard("centre", lambda c: [c[0] + 1e-4, *c[1:]]), "locations that do not follow"),
    "other spreads": ("linear", standard("scale", lambda c: [c[0] * 1.01, *c[1:]]), "spreads that do not follow"),
    "a standard too short": ("linear", standard("scale", lambda c: c[1:]), "no plan leads to"),
    "other ends of the linear scale": ("linear", standard("largest", lambda c: 2 * c), "no plan leads to"),
    "a round less": ("shaped", lambda d: d["rounds"].pop(), "counts of every column|row groups"),
    "a round more": ("shaped", lambda d: d["rounds"].append(d["rounds"][0]), "counts of every column|only gives mu"),
    "no rounds": ("shaped", lambda d: d.update(rounds=[]), "no plan leads to"),
    "more rounds than there can be": ("shaped", lambda d: d["rounds"].extend(d["rounds"] * 4), "not a valid manifest"),
    "a round that costs less": ("shaped", lambda d: d["rounds"][0].update(mu=1e-3), "counts of another mu"),
    "a round with less noise": ("shaped", lambda d: d["rounds"][-1].update(noise_scale=1.0), "counts of another mu"),
    "a search for a radius": (
        "shaped",
        lambda d: d.update(
            radius_search={
                "mu": 1.0, "quantile": 0.95, "noise_scale": 3.0, "answers": [], "radius": 1.0, "total_variation": 1e-33
            }
        ),
        "no plan leads to",
    ),
    "a table with a scale": ("table", lambda d: d.update(scale="scores"), "of moments only"),
    "a table with counts": ("table", lambda d: d.update(rounds=[{"mu": 1.0, "noise_scale": 3.0}]), "of moments only"),
    "a table with a standard": (
        "table",
        lambda d: d.update(standard={"centre": [0.0] * 3, "scale": [1.0] * 3, "largest": 64.0}),
        "of moments only",
    ),
    "persons whose rows are public": ("persons", stage(-1, count_weight=0.0), "does not protect the number of rows"),
    "persons whose rows have less noise": ("persons", scaled(-1, "count_weight", 3.0), "protect the number of rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_a_manifest_that_states_another_mechanism_is_refused(forge, name):
    plan, change, message = CLAIMS[name]
    with pytest.raises(BundleError, match=message):
        hg.load(forge(plan, change))


def last_round(table):
    return max(row["round"] for row in table)


def move_border(table):
    """The border between two leaves of the last round, on both sides of it."""
    at = next(k for k, row in enumerate(table) if row["round"] == last_round(table)) + 3
    table[at]["upper"] += 1e-3
    table[at + 1]["lower"] += 1e-3
    return table


def merge_leaves(table):
    at = next(k for k, row in enumerate(table) if row["round"] == last_round(table)) + 3
    table[at].update(upper=table[at + 1]["upper"], count=table[at]["count"] + table[at + 1]["count"])
    return table[: at + 1] + table[at + 2 :]


def other_counts(number):
    """Of the first round, from which the partition of the next follows; or of the last one."""

    def change(table):
        wanted = 1 if number == 0 else last_round(table)
        leaves = [row for row in table if row["round"] == wanted and row["column"] == "b"][:-1]
        for row, other in zip(leaves[: len(leaves) // 2], reversed(leaves), strict=False):  # as many rows as before
            moved = row["count"] // 8
            row["count"] -= moved
            other["count"] += moved
        return table

    return change


def first_leaf_gone(table):
    return table[1:]


def more_cells_than_rows(table):
    return [{**row, "count": row["count"] + 9999} for row in table]


PARTS = {
    "more cells than rows": ("shaped", "marginals.parquet", more_cells_than_rows, "a count that no noise reaches"),
    "a border moved": ("shaped", "marginals.parquet", move_border, "partitions that do not follow"),
    "two leaves in one": ("shaped", "marginals.parquet", merge_leaves, "partitions that do not follow"),
    "a leaf gone": ("shaped", "marginals.parquet", first_leaf_gone, "partitions that do not follow"),
    "other counts in the first round": (
        "shaped",
        "marginals.parquet",
        other_counts(0),
        "partitions that do not follow",
    ),
    "other counts behind a linear scale": ("linear", "marginals.parquet", other_counts(-1), "that do not follow"),
    "columns in another order": (
        "shaped",
        "marginals.parquet",
        lambda table: sorted(table, key=lambda row: (row["round"], row["column"] != "b")),
        "counts of every column in order",
    ),
    "a column that is none": (
        "shaped",
        "marginals.parquet",
        lambda table: [{**row, "column": row["column"].replace("c", "z")} for row in table],
        "counts of every column in order",
    ),
    "missing cells that were not counted": (
        "shaped",
        "marginals.parquet",
        lambda table: [row for row in table if (row["lower"], row["upper"]) != (0, 0)],
        "counts of every column in order",
    ),
    "another map": (
        "shaped",
        "moments.parquet",
        lambda table: [{**row, "map": row["map"] * (1.01 if row["stage"] > 1 else 1)} for row in table],
        "maps that do not follow",
    ),
    "another linear map": (
        "linear",
        "moments.parquet",
        lambda table: [{**row, "map": row["map"] * (1.01 if row["stage"] > 1 else 1)} for row in table],
        "maps that do not follow",
    ),
    "a map of means": (
        "shaped",
        "moments.parquet",
        lambda table: [{**row, "map": row["map"] + (row["right"] is None)} for row in table],
        "holds a map where release.json states none",
    ),
    "a map of a first stage": (
        "shaped",
        "moments.parquet",
        lambda table: [{**row, "map": 2 * row["map"]} for row in table],
        "holds a map where release.json states none",
    ),
    "other moments before the last stage": (
        "shaped",
        "moments.parquet",
        lambda table: [{**row, "value": row["value"] + 150 / 3000 * (row["stage"] == 1)} for row in table],
        "that do not follow",
    ),
    "moments off their lattice": (
        "shaped",
        "moments.parquet",
        lambda table: [{**row, "value": row["value"] + 1e-13 * (row["stage"] > 1)} for row in table],
        "off its lattice, without noise",
    ),
    "means off their lattice": (
        "curved",
        "moments.parquet",
        lambda table: [{**row, "value": row["value"] + 1e-9 * (row["right"] is None)} for row in table],
        "off its lattice, without noise",
    ),
    "noise of one entry that is a little smaller": (
        "shaped",
        "moments.parquet",
        lambda table: [*table[:-1], {**table[-1], "noise_sd": table[-1]["noise_sd"] * 0.995}],
        "other noise",
    ),
    "stages in another order": (
        "shaped",
        "moments.parquet",
        lambda table: [{**row, "stage": {1: 2, 2: 1}.get(row["stage"], row["stage"])} for row in table],
        "other noise|holds a map|do not follow",
    ),
    "a stage that is none": (
        "shaped",
        "moments.parquet",
        lambda table: [{**row, "stage": row["stage"] + 1} for row in table],
        "other noise|every entry once|holds a map",
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_do_not_follow_are_refused(forge, name):
    plan, part, change, message = PARTS[name]
    with pytest.raises(BundleError, match=message):
        hg.load(forge(plan, part=part, change_part=change))


@pytest.mark.parametrize("numbers", [{"map": 0.0}, {"map": 1e-200, "value": 1e100}])
def test_rows_that_cannot_be_made_again_are_refused_in_a_sentence(forge, monkeypatch, numbers):
    """Of a map that stretches one way a million times as far as another, the short way may be stated as no way."""

    def change(table):
        diagonal = {1: {}, **{row["stage"]: numbers for row in table if row["stage"] > 1}}
        return [
            {**row, "map": 0.0} if row["left"] != row["right"] else {**row, **diagonal[row["stage"]]} for row in table
        ]

    for check in ("check_followed", "check_moments"):
        monkeypatch.setattr(f"hazeglass.bundle.reader.{check}", lambda released, *rest: released)
    with pytest.raises(BundleError, match=r"no rows can be made of|are not those that the released numbers"):
        hg.load(forge("synthetic", part="moments.parquet", change_part=change)).check_values()


@pytest.mark.parametrize("plan", ["missing", "missing entries"])
def test_presence_that_the_counts_ask_for_cannot_be_left_out_of_part_and_manifest(forge, plan):
    def rest(table):
        return [{**row, "stage": row["stage"] - 1} for row in table if row["stage"] > 1]

    with pytest.raises(BundleError, match="counts presence where the counts do not ask for it"):
        hg.load(forge(plan, without_presence, "moments.parquet", rest))


@pytest.mark.parametrize("name", ["marginals.parquet", "moments.parquet"])
def test_counts_and_moments_are_there_where_they_were_made(forge, name):
    without = forge("shaped")
    (without / name).unlink()
    with pytest.raises(BundleError, match=f"must hold {name}"):
        hg.load(reseal(without))


def test_counts_beside_moments_on_the_public_scale_are_refused(forge, honest, make_plan):
    folder = forge("one stage")
    shutil.copy(honest("shaped", make_plan).path / "marginals.parquet", folder)
    with pytest.raises(BundleError, match="holds no other parts"):
        hg.load(reseal(folder))


@pytest.mark.parametrize("version", ["1.0", "2.0", "2.7"])
def test_an_old_format_is_refused_in_one_sentence_that_names_who_reads_it(forge, version):
    folder = forge("shaped", lambda document: document.update(format_version=version))
    with pytest.raises(BundleError) as refusal:
        hg.load(folder)
    assert f"hazeglass 0.{version[0]} reads it" in str(refusal.value)
    assert json.loads((folder / "release.json").read_text())["format_version"] == version
