"""Nothing about a release follows from the data but its noised numbers, whatever the data's layout.

For every form, unit and way in, neighbours and other layouts of the same rows are published with the same noise from a
seed, cut into many pieces, and everything in the release is compared. Other layouts of the same rows must give the same
bytes. Of a neighbour's release, every file is made again from the plan, the public facts and the noised numbers in it,
and must be the same bytes again: names, parts, footers, encodings, statistics, stages, radii, statement. The noised
numbers themselves may have moved by no more than the promise pays for.

The gate runs a pairwise cover of plan, way in, change and engine; `make trust` runs all of them.
"""

import itertools
import json
import math
import os
import random
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import hazeglass as hg
from hazeglass.bundle.manifest import Form, Manifest, pooled_rows
from hazeglass.bundle.moments import moments_from_arrow, moments_schema, moments_to_arrow
from hazeglass.bundle.writer import BundleWriter
from hazeglass.compute import cells, lines, pieces, places, tables
from hazeglass.compute.engines import ENGINES
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError, PlanError
from hazeglass.guarantee.units import UNITS
from hazeglass.publisher import clip, moments, parts, publish, synthetic
from hazeglass.publisher.plan_file import PLAN_SCHEMA
from hazeglass.publisher.randomness import SeededBits
from simulate import simulate

from . import layouts
from .layouts import CHANGES, LAYOUTS, PLANS, applies, change, make_plan, sheet

SEED = 20_25
ALL = os.environ.get("HAZEGLASS_TRUST") == "all"
# So small that a few hundred rows fill several of each.
SIZES = {
    (tables, "BLOCK_ROWS"): 64,
    (tables, "_PIECE_ROWS"): 100,
    (lines, "RANGE_BYTES"): 1500,
    (lines, "_CHUNK_BYTES"): 700,
    (parts, "_MOST_PART_ROWS"): 128,
    (parts, "_ROW_GROUP"): 50,
    (parts, "_MOST_NOISE_ROWS"): 64,
    (parts, "_CHUNK_ROWS"): 70,
    (synthetic, "_BLOCK_ROWS"): 150,
    (moments, "_FEWEST_TILE_ROWS"): 32,
    (moments, "_MOST_TILE_ROWS"): 48,
}


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    """Sizes that make many pieces of few rows, and a clock that stands still."""
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), size in SIZES.items():
            assert isinstance(getattr(module, name), int)
            patch.setattr(module, name, size)
        patch.setattr(publish, "datetime", SimpleNamespace(now=lambda zone: datetime(2025, 1, 1, tzinfo=UTC)))
        yield


@pytest.fixture(scope="module")
def small_cluster(cluster):
    """The engine dask with workers that cut as small as this process does."""
    from distributed import Client

    code = "\n".join(f"import {m.__name__}; {m.__name__}.{name} = {size}" for (m, name), size in SIZES.items())
    with Client(cluster, direct_to_workers=True) as client:
        client.run(_run_code, code)
        yield f"dask:{cluster.scheduler_address}"


def _run_code(code):
    exec(code)


# ------------------------------------------------------------------------------------------------ which cases there are


def _cases():
    engines = [engine for engine in ENGINES if engine != "dask" or ALL]
    return [case for case in itertools.product(PLANS, LAYOUTS, CHANGES, engines) if applies(*case[:3])]


def _pairs(case):
    """All pairs of form, unit, way in, change and engine; and each plan with each change."""
    plan, way, kind, engine = case
    wish = PLANS[plan]
    choices = enumerate((wish["form"], wish["protects"], way, kind, engine))
    return [*itertools.combinations(choices, 2), (plan, kind)]


def pairwise(cases):
    """A few of the cases that hold every pair of choices which any of them holds, chosen greedily."""
    holding = defaultdict(list)
    pairs = {case: _pairs(case) for case in cases}
    for case in cases:
        for pair in pairs[case]:
            holding[pair].append(case)
    chosen, covered, rng = [], set(), random.Random(1)
    for pair, candidates in sorted(holding.items(), key=lambda entry: len(entry[1])):
        if pair not in covered:
            some = candidates if len(candidates) <= 40 else rng.sample(candidates, 40)
            best = max(some, key=lambda case: sum(p not in covered for p in pairs[case]))
            chosen.append(best)
            covered.update(pairs[best])
    return chosen


CASES = _cases() if ALL else pairwise(_cases())


def test_the_cover_holds_every_pair_of_choices():
    def pairs(cases):
        return {pair for case in cases for pair in _pairs(case)}

    few = pairwise(_cases())
    assert pairs(few) == pairs(_cases())
    assert len(few) < 450


def test_every_form_and_unit_of_the_code_is_published_here():
    forms = get_args(Form)
    assert tuple(PLAN_SCHEMA["properties"]["release"]["properties"]["form"]["enum"]) == forms
    here = {(wish["form"], wish["protects"]) for wish in PLANS.values()}
    for form, unit in itertools.product(forms, UNITS):
        if (form, unit) in here:
            continue
        impossible = False
        try:
            make_plan("table record", form=form, protects=unit, discrete=False)
        except PlanError:
            impossible = True
        assert impossible, f"add a plan for form {form!r} and unit {unit!r} to PLANS in tests/trust/layouts.py"


def test_every_way_in_of_the_code_is_tried_here():
    sources = {layout.source for layout in LAYOUTS.values()}
    for source in tables.SOURCES:
        assert source in sources, f"add a layout that is read as {source!r} to LAYOUTS in tests/trust/layouts.py"
    suffixes = {layout.suffix for layout in LAYOUTS.values()}
    for suffix in places.SUFFIXES:
        assert suffix in suffixes, f"add a layout of files named {suffix} to LAYOUTS in tests/trust/layouts.py"
    assert set(ENGINES) == {"serial", "threads", "dask"}, "say in _cases which engines the gate can afford"


@pytest.mark.parametrize(
    ("place", "name", "added", "check"),
    [
        (tables, "SOURCES", {**tables.SOURCES, "sql": None}, test_every_way_in_of_the_code_is_tried_here),
        (places, "SUFFIXES", {**places.SUFFIXES, ".xlsx": "excel"}, test_every_way_in_of_the_code_is_tried_here),
    ],
)
def test_a_new_way_in_without_a_layout_fails_with_a_sentence(place, name, added, check, monkeypatch):
    monkeypatch.setattr(place, name, added)
    with pytest.raises(AssertionError, match="add a layout"):
        check()


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_read_by_the_source_it_names(name, tmp_path):
    layout = LAYOUTS[name]
    data = layout.make(sheet(3), tmp_path)
    first = next(key for key, make in tables.SOURCES.items() if make(data, layout.text) is not None)
    assert first == layout.source
    for place in places.expand(data) if layout.source == "files" else ():
        assert place.suffix == layout.suffix
    assert sum(1 for _ in tables.blocks(tables.open_table(data, layout.text), ("x1",))) >= 3


# ----------------------------------------------------------------------------------------------------------- publishing


def released(plan, data, engine, folder):
    """Every file of the release, by its name."""
    out = folder / "out"
    hg.publish(data, plan, out, engine=engine, simulate_seed=SEED)
    return files_of(out)


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def base_sheet(plan):
    return sheet(PLANS[plan].get("columns", 3))


def base_release(plan, folder, quoted_newlines=False):
    """Of [text] a release says this alone."""
    text = TextFormat(quoted_newlines=quoted_newlines)
    return released(make_plan(plan, text), layouts.LAYOUTS["arrow"].make(base_sheet(plan), folder), "serial", folder)


@cache
def _cached_base(plan, parent, quoted_newlines):
    folder = parent / f"base {plan} {quoted_newlines}"
    folder.mkdir()
    return base_release(plan, folder, quoted_newlines)


@pytest.fixture
def base_of(tmp_path_factory):
    """The release of a plan that others are compared with, made once."""
    parent = tmp_path_factory.getbasetemp()
    return lambda plan, way="arrow": _cached_base(plan, parent, LAYOUTS[way].text.quoted_newlines)


# ------------------------------------------------------------------------------------------------------------ comparing


def explained(plan, files, base, folder):
    """The release again, from the plan, the public facts of `base`, and the noised numbers that `files` holds."""
    writer, public = BundleWriter(folder), manifest_of(base)
    if plan.form == "table":
        rows, expected = table_of(files), public
    else:
        rows, expected = _explained_moments(plan, files, public, writer)
    if rows is not None:
        (folder / "data").mkdir()
        size = parts.part_rows(len(plan.columns))
        for number, start in enumerate(range(0, expected.n, size)):
            part = rows.slice(start, min(size, expected.n - start)).combine_chunks()
            path = folder / f"data/part-{number:05d}.parquet"
            # Noisy cells lie on a lattice and repeat, synthetic ones do so only where they are rounded.
            repeating = [f.name for f in part.schema if plan.form == "table" or pa.types.is_integer(f.type)]
            options = {"row_group_size": parts._ROW_GROUP, "use_dictionary": repeating, "compression": "none"}
            pq.write_table(part, path, write_statistics=False, store_schema=False, **options)
    writer.seal(replace(expected, files=()))
    return files_of(folder)


def _explained_moments(plan, files, public, writer):
    found, bits = manifest_of(files), SeededBits(SEED)
    size = public.n if public.persons is None else public.persons
    guarantee, search, spent = plan.guarantee, None, 0.0
    if plan.clip_radius == "private":
        search = _explained_search(plan, found.radius_search, None if public.persons else public.n, bits)
        guarantee, spent = plan.guarantee.share(1 - clip.RADIUS_SHARE), search.total_variation
    if plan.adaptive:
        guarantee = plan.guarantee.share(moments.FIRST_STAGE_SHARE)
    stages, numbers = [moments.first_stage(plan, size, guarantee, search and search.radius)], []
    for k in range(1 + plan.adaptive):
        stage = stages[k]
        # Where persons are protected the number of rows is one of the noised numbers.
        stage = stages[k] = replace(stage, rows=found.stages[k].rows if stage.count_weight else public.n)
        value = _values(files, plan, k, stage)
        empty = np.zeros(len(value.mean), dtype=np.int64)
        only_noise = moments.add_noise(empty, np.zeros((empty.size,) * 2, dtype=np.int64), 0, stage, bits)
        noisy = replace(only_noise.divided(stage.rows), mean=value.mean, second=value.second, stage=stage)
        spent += noisy.total_variation
        numbers.append(noisy.released(plan.names))
        if plan.adaptive and k == 0:
            stages.append(moments.second_stage(plan, size, noisy))
    writer.parquet("moments.parquet", moments_to_arrow(numbers), moments_schema())
    n, rows, note = pooled_rows(stages), None, None
    if plan.form == "synthetic":
        made = synthetic.synthetic_rows(
            stages[-1], numbers[-1], plan.columns, n, int(bits.uint64(1)[0]), plan.round_integers
        )
        rows, note = (
            pa.Table.from_batches(list(publish._synthetic_batches(made, publish._synthetic_schema(plan)))),
            made.note,
        )
    slack = (1 + math.exp(public.epsilon)) * spent
    expected = replace(public, n=n, stages=tuple(stages), radius_search=search, synthetic=note, delta_slack=slack)
    return rows, expected


def _explained_search(plan, found, n, bits):
    """The questions and the radius again, from nothing but the answers."""
    law = clip.RoundedGaussian(found.noise_scale)
    noise = clip.draw(law, clip.SEARCH_STEPS + (n is None), SeededBits(SEED)).tolist()
    counts = iter([rows - drawn for (_, rows), drawn in zip(found.answers, noise, strict=True)])

    class Counts:
        """In the place of the secret counts: each answer less the noise that the search will add again."""

        def __getitem__(self, k):
            return next(counts)

    share = plan.guarantee.share(clip.RADIUS_SHARE)
    return clip.search_radius(Counts(), n, clip.radius_grid(len(plan.columns)), plan.unit, share, bits)


def _values(files, plan, k, stage):
    table = pq.read_table(pa.BufferReader(files["moments.parquet"]))
    return moments_from_arrow(table, k + 1, plan.names, stage.features)


def manifest_of(files):
    return Manifest.from_json(json.loads(files["release.json"]))


def table_of(files):
    names = sorted(name for name in files if name.startswith("data/"))
    return pa.concat_tables([pq.read_table(pa.BufferReader(files[name])) for name in names])


def check_same(found, expected):
    """The same files with the same bytes."""
    assert sorted(found) == sorted(expected)
    for name in ("release.json", *sorted(found)):
        assert found[name] == expected[name], f"{name} differs"


def check_neighbour(plan, base, found, folder, touched):
    """Only noised numbers differ, and by no more than the promise pays for."""
    check_same(found, explained(plan, found, base, folder))
    assert distance(plan, base, found, touched) <= 1 + 1e-9


def distance(plan, base, found, touched):
    """How far the noised numbers moved, as a share of what the promise allows; with the same noise that is exact."""
    first, second = manifest_of(base), manifest_of(found)
    if plan.form == "table":
        moved, rows = 0.0, np.zeros(first.n, dtype=bool)
        for column, old, new in zip(first.columns, table_of(base).columns, table_of(found).columns, strict=True):
            gap = (new.to_numpy() - old.to_numpy()) / (column.cell_noise.step * column.cell_noise.scale)
            moved, rows = moved + float(gap @ gap), rows | (gap != 0)
        assert rows.sum() <= touched  # in their own places: the order of the others does not hang on them
        return math.sqrt(moved) / first.mu
    one, other = first.stages[0], second.stages[0]
    if one.radius != other.radius:  # a bought one, which is a noised number itself
        return 0.0
    old, new = (_values(files, plan, 0, one) for files in (base, found))
    upper = np.triu_indices(len(old.mean))
    moved = [
        (new.mean * other.rows - old.mean * one.rows) / (old.mean_noise_sd * one.rows),
        ((new.second * other.rows - old.second * one.rows) / (old.second_noise_sd * one.rows))[upper],
        np.array([(other.rows - one.rows) * one.count_weight / one.tau]),
    ]
    return math.sqrt(sum(float(part @ part) for part in moved)) / one.mu


def touched_rows(plan, base):
    """How many rows of a table one unit has."""
    return {"entry": 1, "record": 1, "readings": layouts.READINGS, "person": layouts.MAX_ROWS, "column": base.rows}[
        plan.protects
    ]


def check_case(case, base, folder, engine):
    name, way, kind, _ = case
    layout, rows = LAYOUTS[way], base_sheet(name)
    plan = make_plan(name, layout.text)
    (folder / "data").mkdir()
    neighbour = change(plan, rows, kind, "/".join(case))
    found = released(plan, layout.make(neighbour, folder / "data"), engine, folder)
    if kind == "nothing":
        check_same(found, base)
    else:
        (folder / "again").mkdir()
        check_neighbour(plan, base, found, folder / "again", touched_rows(plan, rows))


@pytest.mark.parametrize("case", CASES, ids=" / ".join)
def test_only_noised_numbers_differ(case, base_of, tmp_path, request):
    engine = request.getfixturevalue("small_cluster") if case[3] == "dask" else case[3]
    check_case(case, base_of(*case[:2]), tmp_path, engine)


@pytest.mark.parametrize("plan", PLANS)
def test_every_file_of_a_release_follows_from_its_noised_numbers(plan, base_of, tmp_path):
    base = base_of(plan)
    check_same(base, explained(make_plan(plan), base, base, tmp_path))
    if make_plan(plan).form != "moments":
        assert len([name for name in base if name.startswith("data/")]) >= 3


# ------------------------------------------------------------------------------------- what is printed, and how it ends

FILE_CASES = [
    case
    for case in _cases()
    if LAYOUTS[case[1]].source == "files" and case[3] == "threads" and ("," not in case[0] or "stated" in case[0])
]


def _each_choice_once(cases):
    """A few of the cases that hold every plan, every way in and every change."""
    chosen, missing = [], {(k, choice) for case in cases for k, choice in enumerate(case)}
    for case in random.Random(2).sample(cases, len(cases)):
        if len(missing.intersection(enumerate(case))) >= (2 if len(chosen) < 14 else 1):
            chosen.append(case)
            missing.difference_update(enumerate(case))
    assert not missing
    return chosen


def printed(name, way, data, folder, *options):
    """Exit status, standard output, and what else than the publisher may see of standard error."""
    from hazeglass.cli.app import app

    plan = make_plan(name, LAYOUTS[way].text)
    if not (folder / "plan.toml").exists():
        plan.save(folder / "plan.toml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(publish, "_bits", lambda seed: SeededBits(SEED))
        done = CliRunner().invoke(app, ["publish", data, "--plan", "plan.toml", "--engine", "threads", *options])
    public = [line for line in done.stderr.splitlines() if not line.startswith("publisher only:")]
    return done.exit_code, done.stdout, public


def printed_by_all(name, way, data, folder):
    """The same for a rehearsal, for a release, and for one reported as JSON; and the release's files.

    Where the number of rows is a noised number, every mention of it reads N.
    """
    told = [printed(name, way, data, folder, "--out", "out", *more) for more in (["--dry-run"], [])]
    files = files_of(folder / "out")
    (folder / "out").rename(folder / "first")
    told.append(printed(name, way, data, folder, "--out", "out", "--json"))
    check_same(files_of(folder / "out"), files)
    if make_plan(name).form != "table" and PLANS[name]["protects"] == "person":
        n = manifest_of(files).n
        told = [
            (status, out.replace(f"{n:,} rows", "N rows").replace(f'"n": {n}', '"n": N'), err)
            for status, out, err in told
        ]
    return told, files


@pytest.mark.parametrize("case", _each_choice_once(FILE_CASES), ids=" / ".join)
def test_what_is_printed_is_the_same_for_neighbours(case, base_of, tmp_path):
    name, way, kind, _ = case
    seen = []
    for sub, changed in (("one", "nothing"), ("other", kind)):
        folder = tmp_path / sub
        (folder / "data").mkdir(parents=True)
        rows = change(make_plan(name), base_sheet(name), changed, "/".join(case))
        seen.append(printed_by_all(name, way, LAYOUTS[way].make(rows, folder / "data"), folder))
    assert seen[0][0] == seen[1][0]
    assert [status for status, _, _ in seen[0][0]] == [0, 0, 0]
    check_same(seen[0][1], base_of(name, way))
    (tmp_path / "again").mkdir()
    plan = make_plan(name)
    check_neighbour(plan, base_of(name, way), seen[1][1], tmp_path / "again", touched_rows(plan, base_sheet(name)))


# ------------------------------------------------------------------------------------- order, and noise on every number


def check_order(way, order, engine, folder):
    """A table sorted by a column is released in an order that has nothing to do with it, unless the plan says so."""
    rows = replace(sheet(3), columns={**sheet(3).columns, "x1": np.linspace(-4, 4, layouts.ROWS).tolist()})
    plan = make_plan("table record", LAYOUTS[way].text, mu=1000.0, order=order)
    x = table_of(released(plan, LAYOUTS[way].make(rows, folder), engine, folder))["x1"].to_numpy()
    rank = np.argsort(np.argsort(x))
    correlation = np.corrcoef(rank, np.arange(rank.size))[0, 1]
    beside = float(np.mean(np.abs(np.diff(rank)) <= 5))  # rows that follow each other and did so before
    if order == "kept":
        assert correlation > 0.99
    else:
        assert abs(correlation) < 5 / math.sqrt(rank.size)
        assert beside < 0.08  # 10 of 400 ranks are as near as that


@pytest.mark.parametrize("order", ["shuffled", "kept"])
@pytest.mark.parametrize("engine", ["serial", "threads"])
@pytest.mark.parametrize("way", ["csv", "parquet", "arrow, chunked", "dask"])
def test_the_order_of_a_table_is_secret_unless_the_plan_says_otherwise(way, engine, order, tmp_path):
    check_order(way, order, engine, tmp_path)


@pytest.mark.parametrize("stated", [{}, {"persons": 9}])
def test_no_noisy_number_of_rows_makes_a_synthetic_release_fail(stated, tmp_path):
    """Four rows of three columns have no covariance that other rows could have."""
    few = sheet(3).taking([row for row, person in enumerate(sheet(3).columns["x4"]) if person < 104])
    plan = make_plan("synthetic record", mu=0.05, protects="person", id_column="x4", max_rows=3, **stated)
    found = {
        hg.publish(layouts.LAYOUTS["arrow"].make(few, tmp_path), plan, tmp_path / str(seed), simulate_seed=seed).n
        for seed in range(8)
    }
    assert min(found) == len(plan.columns) + 2
    assert len(found) > 1


def check_noise(name, seeds=16):
    """Every released number moves from seed to seed as far as its stated noise says."""
    plan = make_plan(name, **({"order": "kept"} if PLANS[name]["form"] == "table" else {}))
    data = LAYOUTS["arrow"].make(base_sheet(name), Path())
    numbers, stated = [], []
    for seed in range(seeds):
        release = simulate(data, plan, seed)
        found = release.manifest
        if plan.form == "table":
            columns = release.tables.values()
            numbers.append(np.concatenate([np.concatenate([c.to_numpy() for c in part.columns]) for part in columns]))
            sds = [math.sqrt(column.cell_noise.variance) for column in found.columns]
            stated.append(np.concatenate([np.repeat(sds, part.num_rows) for part in columns]))
            continue
        values = release.tables["moments.parquet"]
        persons = [(s.rows, s.tau / s.count_weight) for s in found.stages if s.count_weight]
        asked = [(found.radius_search.answers[0][1], found.radius_search.noise_scale)] if found.radius_search else []
        numbers.append(np.concatenate([values["value"].to_numpy(), [value for value, _ in persons + asked]]))
        stated.append(np.concatenate([values["noise_sd"].to_numpy(), [sd for _, sd in persons + asked]]))
    assert np.all(np.std(numbers, axis=0) > 0.2 * np.mean(stated, axis=0))


@pytest.mark.parametrize("name", PLANS)
def test_every_released_number_has_the_noise_it_states(name):
    check_noise(name)


# --------------------------------------------------------------------------------------- the test itself is put to test


def _one_part_for_all_batches(batches, schema, repeating, writer, engine):
    first, *rest = batches
    writer.parquet("data/part-00000.parquet", iter([first, *rest]), first.schema)


def _dictionaries_for_some(self, name, table, row_group, repeating):
    path = self.folder / name
    path.parent.mkdir(exist_ok=True)
    many = table.column(0)[0].as_py() > 0
    repeating = repeating if many else []
    options = {"compression": "none", "use_dictionary": repeating, "write_statistics": False, "store_schema": False}
    pq.write_table(table, path, row_group_size=row_group, **options)


def _refusing(column, text):
    found, unread = cells.number_column(column, text)
    if unread:
        raise DataError("a cell is no number")
    return found, unread


def _telling(describe):
    return lambda rows, *args, **kwargs: replace(
        describe(rows, *args, **kwargs), title=f"{rows.unread.total()} cells could not be read"
    )


def _without_noise_on_rows(add_noise):
    return lambda first, second, rows, stage, bits: replace(
        add_noise(first, second, rows, stage, bits), rows=np.array(rows)
    )


def _recut_pieces(batches, rows):
    return (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)


WRONGS = {
    "row groups that follow the batches": (
        [(publish, "write_parts", _one_part_for_all_batches)],
        ("table record, order kept", "parquet", "nothing", "serial"),
    ),
    "parts that follow the batches": (
        [(parts, "recut", _recut_pieces)],
        ("table record, order kept", "several csv", "nothing", "serial"),
    ),
    "dictionaries for some": (
        [(BundleWriter, "table", _dictionaries_for_some)],
        ("table record", "csv", "value", "serial"),
    ),
    "a cell that makes it fail": (
        [(pieces, "number_column", _refusing)],
        ("moments entry", "pandas objects", "text", "serial"),
    ),
    "a manifest that tells of cells": (
        [(publish, "describe", _telling(publish.describe))],
        ("moments record", "csv", "text", "serial"),
    ),
}


@pytest.mark.parametrize("wrong", WRONGS)
def test_a_wrong_is_noticed(wrong, tmp_path, monkeypatch):
    changes, case = WRONGS[wrong]
    for k, expectation in enumerate((nullcontext(), pytest.raises((AssertionError, DataError)))):
        folder = tmp_path / str(k)
        (folder / "base").mkdir(parents=True)
        with expectation, monkeypatch.context() as patch:
            for place, name, mutant in changes if k else []:
                patch.setattr(place, name, mutant)
            check_case(case, base_release(case[0], folder / "base"), folder, case[3])


def test_an_order_that_is_kept_although_it_should_not_be_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "bucket_count", lambda rows, columns: 1)
    monkeypatch.setattr(parts.Buckets, "in_order", lambda self, shuffled, bits, schema: self.bucket(0))
    with pytest.raises(AssertionError):
        check_order("csv", "shuffled", "serial", tmp_path)


def test_an_order_shuffled_in_short_stretches_only_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_permutation", lambda size, bits: np.arange(size))
    with pytest.raises(AssertionError):
        check_order("csv", "shuffled", "serial", tmp_path)


def test_a_number_of_rows_without_noise_is_noticed(monkeypatch):
    monkeypatch.setattr(moments, "add_noise", _without_noise_on_rows(moments.add_noise))
    with pytest.raises(AssertionError):
        check_noise("moments person")
