"""Nothing about a release follows from the data but its noised numbers, whatever the data's layout.

For every form, unit and way in, neighbours and other layouts of the same rows are published with the same noise from a
seed, cut into many pieces, and everything in the release is compared. Other layouts of the same rows must give the same
bytes. Of a neighbour's release, every file is made again from the plan, the public facts and the noised numbers in it,
and must be the same bytes again: names, parts, footers, encodings, statistics, rounds of counts, leaves, stages, maps,
radii, statement (rules.py). What is noised may have moved by no more than the promise pays for: for the questions that
one release asked, the exact answers for a neighbour are compared with its own, and rows of others are the same bits.

The gate runs a pairwise cover of plan, way in, change and engine; `make trust` runs all of them.
"""

import hashlib
import itertools
import math
import os
import random
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import hazeglass as hg
from hazeglass.bundle import promise, reader, synthetic
from hazeglass.bundle import writer as written
from hazeglass.bundle.columns import KINDS, response_of
from hazeglass.bundle.followed import known_columns
from hazeglass.bundle.manifest import Form
from hazeglass.bundle.writer import BundleWriter
from hazeglass.compute import cells, lines, places, readings, tables
from hazeglass.compute.engines import ENGINES
from hazeglass.compute.pieces import in_memory
from hazeglass.compute.text import TextFormat
from hazeglass.errors import BundleError, DataError, PlanError
from hazeglass.features.shaping import Shape
from hazeglass.guarantee.units import UNITS
from hazeglass.publisher import marginals, moments, publish, sums
from hazeglass.publisher import sums as exact
from hazeglass.publisher import table as parts
from hazeglass.publisher.moments import _draw
from hazeglass.publisher.noise import SeededBits, draw
from hazeglass.publisher.plan_file import PLAN_SCHEMA
from hazeglass.publisher.rows import Cells, Rows
from hazeglass.publisher.sums import PieceSums
from simulate import simulate

from . import layouts
from .layouts import CHANGES, LAYOUTS, PLANS, applies, change, make_plan, sheet
from .rules import SEED, Bits, Counted, follow, manifest_of, progress_of, write_again

ALL = os.environ.get("HAZEGLASS_TRUST") == "all"
# So small that a few hundred rows fill several of each.
SIZES = {
    (tables, "BLOCK_ROWS"): 64,
    (tables, "_PIECE_ROWS"): 100,
    (lines, "RANGE_BYTES"): 1500,
    (lines, "_CHUNK_BYTES"): 700,
    (written, "_MOST_PART_ROWS"): 128,
    (written, "_ROW_GROUP"): 50,
    (parts, "_MOST_NOISE_ROWS"): 64,
    (parts, "_CHUNK_ROWS"): 70,
    (synthetic, "_BLOCK_ROWS"): 150,
    (exact, "_FEWEST_TILE_ROWS"): 32,
    (exact, "_MOST_TILE_ROWS"): 48,
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
    """All pairs of form, unit, way in, change and engine; and each plan with each sort of change.

    Beside a way in, all changes of a person's number of rows are one choice: the rows that are left are read alike.
    """
    plan, way, kind, engine = case
    wish, sort = PLANS[plan], layouts.sort_of(kind)
    choices = enumerate((wish["form"], wish["protects"], sort if sort == "rows" else kind, engine))
    seen = itertools.combinations((*choices, (4, way)), 2)
    return [*seen, (plan, sort), (wish["form"], kind), (wish["protects"], kind)]


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
    assert len(few) < 400


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


def test_every_kind_of_the_code_is_published_here_with_missing_cells_of_either_meaning():
    for form in get_args(Form):
        here = [column for name in PLANS if PLANS[name]["form"] == form for column in make_plan(name).columns]
        kinds = {column.kind for column in here}
        for kind in KINDS:
            assert kind in kinds, f"add a plan with {kind} columns in form {form!r} to PLANS in tests/trust/layouts.py"
        assert {column.missing for column in here} == {"random", "informative"}


def test_every_way_in_of_the_code_is_tried_here():
    sources = {layout.source for layout in LAYOUTS.values()}
    for source in set(tables.SOURCES) - {"warehouse"}:  # it gives no rows: tests/warehouse has neighbours and layouts
        assert source in sources, f"add a layout that is read as {source!r} to LAYOUTS in tests/trust/layouts.py"
    suffixes = {layout.suffix for layout in LAYOUTS.values()}
    for suffix in places.SUFFIXES:
        assert suffix in suffixes, f"add a layout of files named {suffix} to LAYOUTS in tests/trust/layouts.py"
    assert set(ENGINES) == {"serial", "threads", "dask"}, "say in _cases which engines the gate can afford"


@pytest.mark.parametrize(
    ("place", "name", "added", "check"),
    [
        (tables, "SOURCES", {**tables.SOURCES, "sql": None}, test_every_way_in_of_the_code_is_tried_here),
        (places, "SUFFIXES", {**places.SUFFIXES, ".ods": "excel"}, test_every_way_in_of_the_code_is_tried_here),
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
    data = in_memory(data) if type(data).__module__.partition(".")[0] not in tables._KNOWN else data
    first = next(key for key, make in tables.SOURCES.items() if make(data, layout.text) is not None)
    assert first == layout.source
    for place in places.expand(data) if layout.source == "files" else ():
        assert place.suffix == layout.suffix
    assert sum(1 for _ in tables.blocks(tables.open_table(data, layout.text), ("x1",))) >= 3


# ----------------------------------------------------------------------------------------------------------- publishing


def released(plan, data, engine, folder):
    """Every file of the release, by its name; progress was told what follows from them."""
    out, told = folder / "out", []
    hg.publish(data, plan, out, engine=engine, simulate_seed=SEED, progress=told.append)
    files = files_of(out)
    assert told == list(progress_of(manifest_of(files))), "progress"
    return files


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def base_sheet(plan):
    return sheet(PLANS[plan].get("columns", 3), PLANS[plan].get("missing", ()))


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
        rows, expected = write_again(plan, public, files, writer)
    if rows is not None:
        (folder / "data").mkdir()
        size = written.part_rows(len(plan.columns))
        for number, start in enumerate(range(0, expected.n, size)):
            part = rows.slice(start, min(size, expected.n - start)).combine_chunks()
            path = folder / f"data/part-{number:05d}.parquet"
            # Noisy cells lie on a lattice and repeat, unless the noise is narrower than a step.
            repeating = [one.name for one in expected.columns if one.cell_noise and one.cell_noise.scale >= 1]
            options = {"row_group_size": written._ROW_GROUP, "use_dictionary": repeating, "compression": "none"}
            pq.write_table(part, path, write_statistics=False, store_schema=False, **options)
    writer.seal(replace(expected, files=()))
    return files_of(folder)


def table_of(files):
    names = sorted(name for name in files if name.startswith("data/"))
    return pa.concat_tables([pq.read_table(pa.BufferReader(files[name])) for name in names])


def check_same(found, expected):
    """The same files with the same bytes."""
    assert sorted(found) == sorted(expected)
    for name in ("release.json", *sorted(found)):
        assert found[name] == expected[name], f"{name} differs"


def check_neighbour(plan, base, found, folder, touched):
    """Only noised numbers differ, and those of a table by no more than the promise pays for."""
    check_same(found, explained(plan, found, base, folder))
    if plan.form == "table":
        assert table_distance(base, found, touched) <= 1 + 1e-9


def table_distance(base, found, touched):
    """How far the noised cells moved, as a share of what the promise allows; with the same noise that is exact."""
    manifest = manifest_of(base)
    moved, rows = 0.0, np.zeros(manifest.n, dtype=bool)
    for column, old, new in zip(manifest.columns, table_of(base).columns, table_of(found).columns, strict=True):
        gap = new.to_numpy() - old.to_numpy()
        if column.response is None:
            gap = gap / (column.cell_noise.step * column.cell_noise.scale)
        else:  # another level, with the same draw
            gap = (gap != 0) * response_of(column).mu
        moved, rows = moved + float(gap @ gap), rows | (gap != 0)
    assert rows.sum() <= touched  # in their own places: the order of the others does not hang on them
    return math.sqrt(moved) / manifest.mu


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
    data = layout.make(neighbour, folder / "data")
    found = released(plan, data, engine, folder)
    if kind == "nothing":
        check_same(found, base)
        return
    (folder / "again").mkdir()
    check_neighbour(plan, base, found, folder / "again", touched_rows(plan, rows))
    if plan.form != "table":
        check_answers(name, base, blocks_of(plan, data), labels(plan, rows, neighbour))


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


# ------------------------------------------------------------------- how far one unit moves what is asked of the rows


def blocks_of(plan, data):
    """The rows as the mechanism sees them, read once."""
    return list(Rows(plan, tables.open_table(data, plan.text)).blocks())


@cache
def _base_blocks(name):
    return blocks_of(make_plan(name), LAYOUTS["arrow"].make(base_sheet(name), Path()))


def labels(plan, base, neighbour):
    """Which row of the base each used row is, so that it keeps its draws; other rows have draws of their own.

    Draws are independent and alike, so that who has which does not show: docs/maths/marginals.md.
    """
    if plan.protects != "person":
        return np.arange(base.rows)
    most = plan.max_rows
    places = {base.origin[row]: place for place, row in enumerate(base.used(most))}
    found = [places.pop(neighbour.origin[row], None) for row in neighbour.used(most)]
    return np.array([layouts.ROWS + k if place is None else place for k, place in enumerate(found)])


@contextmanager
def drawn_for(labels):
    """Rows draw as these rows of the base do."""
    draws = marginals._words

    def words(key, columns, start, rows):
        return draws(key, columns, 0, 2 * layouts.ROWS)[labels[start : start + rows]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "_words", words)
        yield


def entries(plan, asked, blocks, labels):
    """What a stage takes moments of, row by row, before it is mapped and clipped."""
    width = asked.stage.size // (asked.stage.lags + 1)
    found, start = np.empty((width, labels.size)), 0
    with drawn_for(labels):
        for block in blocks:
            some = np.empty((width, block[0].size))
            asked.encoder.rows(Cells(plan), block, start, some)
            found[:, start : start + block[0].size] = some
            start += block[0].size
    return found


def check_others(plan, asked, own, blocks, labels):
    """Rows of others, and where one column is protected other columns too, are the same bits."""
    first = entries(plan, asked, own, np.arange(sum(block[0].size for block in own)))
    second = np.full((len(first), 2 * layouts.ROWS), np.nan)
    second[:, labels] = entries(plan, asked, blocks, labels)
    differs = first != second[:, : first.shape[1]]
    rows = {"entry": 1, "readings": layouts.READINGS, "record": 1, "person": layouts.MAX_ROWS}[plan.protects]
    assert differs.any(axis=0).sum() <= rows, "rows of others differ"
    if plan.protects in ("entry", "readings"):
        apart = 1 if all(column.ordered for column in plan.columns) else 2  # a level goes and another comes
        assert differs.any(axis=1).sum() <= apart * plan.unit.together, "other columns differ"


def answers(plan, followed, blocks, labels):
    """The exact answers to every question that a release asked: secret integers before noise."""
    cells, rows = Cells(plan), sum(block[0].size for block in blocks)
    assert rows == labels.size
    with drawn_for(labels):
        if followed.search is not None:
            grid = sums.radius_grid(len(plan.columns))
            within = np.cumsum(sums._PieceLengths(tuple(grid))(cells, 0, iter(blocks)))
            yield within[[int(np.argmin(np.abs(grid - radius))) for radius, _ in followed.search.answers]]
        for asked in followed.rounds:
            work = marginals._PieceCounts(tuple(one[1:-1] for one in asked.borders))
            yield np.concatenate(work(cells, 0, iter(blocks)))
        for asked in followed.stages:
            found = PieceSums(asked.stage, asked.encoder, asked.answer.map)(cells, 0, iter(blocks))
            yield found.first, found.second, found.count


def in_noise(asked, one, other):
    """How far apart two exact answers are, in units of the noise that the question gets."""
    if isinstance(asked, Counted):
        return float(np.linalg.norm(other - one)) / asked.noise.scale
    stage, (first, second, rows) = asked.stage, (b - a for a, b in zip(one, other, strict=True))
    lower = np.tril_indices(stage.size, -1)
    moved = [
        first * stage.mean_weight / stage.steps,
        second[lower] / stage.steps**2,
        np.diag(second) / (math.sqrt(2) * stage.steps**2),
        np.array([rows * stage.count_weight]),
    ]
    return float(np.linalg.norm(np.concatenate(moved))) / stage.tau


def own_answers(name, followed):
    """Those of the base itself, and its number of rows."""
    plan, blocks = make_plan(name), _base_blocks(name)
    return list(answers(plan, followed, blocks, np.arange(sum(block[0].size for block in blocks))))


def check_answers(name, base, blocks, labels):
    """Each answer moved by no more than its mu, whatever was replaced."""
    plan = make_plan(name)
    followed = follow(plan, manifest_of(base), base)
    first, second = own_answers(name, followed), list(answers(plan, followed, blocks, labels))
    if followed.search is not None:
        assert np.abs(second.pop(0) - first.pop(0)).max() <= plan.unit.max_rows
    for asked, one, other in zip([*followed.rounds, *followed.stages], first, second, strict=True):
        mu = asked.mu if isinstance(asked, Counted) else asked.stage.mu
        assert in_noise(asked, one, other) <= mu * (1 + 1e-9), "more than the promise pays for"
    for asked in followed.stages[:2]:  # of presence and of what follows; later ones encode alike
        check_others(plan, asked, _base_blocks(name), blocks, labels)


def check_noise_of_moments(name, base):
    """Every noised number is the exact one plus what the stated noise law makes of the seed's words."""
    plan, public = make_plan(name), manifest_of(base)
    followed = follow(plan, public, base)
    exact = own_answers(name, followed)
    if followed.search is not None:
        noise = sums.RoundedGaussian(followed.search.noise_scale)
        noisy = exact.pop(0) + draw(noise, len(followed.search.answers), Bits())
        assert [answer for _, answer in followed.search.answers] == noisy.tolist()
    for asked, one in zip([*followed.rounds, *followed.stages], exact, strict=True):
        if isinstance(asked, Counted):
            assert np.array_equal(asked.answer, one + draw(asked.noise, one.size, Bits(asked.place)))
            continue
        noisy = moments.add_noise(*one, asked.stage, Bits(asked.place))
        if asked.stage.count_weight:
            assert asked.stage.rows == np.clip(noisy.rows, *_row_numbers(plan, public))
        noisy = noisy.divided(asked.stage.rows)
        assert np.array_equal(asked.answer.mean, noisy.mean)
        assert np.array_equal(asked.answer.second, noisy.second)


def _row_numbers(plan, public):
    """Between which numbers of rows the truth lies, as everybody knows."""
    if plan.rows == "series":
        return 2, public.n if public.persons is None else public.persons * plan.max_rows
    least = len(plan.columns) + 2 if plan.form == "synthetic" else 2
    return max(least, 0 if plan.persons else public.persons), public.persons * plan.max_rows


@pytest.mark.parametrize("name", [name for name, wish in PLANS.items() if wish["form"] != "table"])
def test_every_noised_moment_and_count_has_the_noise_it_states(name, base_of):
    check_noise_of_moments(name, base_of(name))


def test_the_plans_lead_to_all_that_released_numbers_decide(base_of):
    """Two to four rounds, one to several stages, with maps and without, presence, drawn scores."""
    made = {name: manifest_of(base_of(name)) for name, wish in PLANS.items() if wish["form"] != "table"}
    adaptive = {name: one for name, one in made.items() if one.rounds}
    assert len({len(one.rounds) for one in adaptive.values()}) >= 2
    assert {1, 2, 3, 8} <= {len([s for s in one.stages if s.features != "presence"]) for one in adaptive.values()}
    presence = {(one.unit.name, one.scale) for one in made.values() if one.stages[0].features == "presence"}
    assert presence == {("entry", "scores"), ("record", "scores"), ("record", "linear"), ("person", "scores")}
    assert "presence" not in {s.features for s in made["moments record, cells missing in one column"].stages}
    mapped = {(one.form, one.unit.name, one.scale) for one in made.values() if one.stages[-1].mapped}
    assert mapped >= {
        ("moments", "person", "linear"),
        ("moments", "person", "scores"),
        ("moments", "record", "scores"),
        ("synthetic", "record", "linear"),
    }


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
        patch.setattr(publish, "bits_of", lambda seed: SeededBits(SEED))
        done = CliRunner().invoke(app, ["publish", data, "--plan", "plan.toml", "--engine", "threads", *options])
    # How long the machine takes is told every few seconds, and is no fact about the cells.
    others = [line for line in done.stderr.splitlines() if " s so far" not in line]
    public = [line for line in others if not line.startswith("publisher only:")]
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
    """Every cell of a table moves from seed to seed as far as its stated noise says."""
    plan = make_plan(name, order=None if "person" in name else "kept")
    data = LAYOUTS["arrow"].make(base_sheet(name), Path())
    numbers, stated = [], []
    for seed in range(seeds):
        release = simulate(data, plan, seed)
        columns = release.tables.values()
        numbers.append(np.concatenate([np.concatenate([c.to_numpy() for c in part.columns]) for part in columns]))
        sds = [0.1 if one.response else math.sqrt(one.cell_noise.variance) for one in release.manifest.columns]
        stated.append(np.concatenate([np.repeat(sds, part.num_rows) for part in columns]))
    assert np.all(np.std(numbers, axis=0) > 0.2 * np.mean(stated, axis=0))


@pytest.mark.parametrize("name", [name for name, wish in PLANS.items() if wish["form"] == "table"])
def test_every_released_cell_has_the_noise_it_states(name):
    check_noise(name)


# --------------------------------------------------------------------------------------- the test itself is put to test


def _one_part_for_all_batches(batches, schema, repeating, writer, engine):
    first, *rest = batches
    writer.parquet("data/part-00000.parquet", iter([first, *rest]), first.schema)


def _dictionaries_for_some(self, name, table, repeating):
    path = self.folder / name
    path.parent.mkdir(exist_ok=True)
    many = table.column(0)[0].as_py() > 0
    repeating = repeating if many else []
    options = {"compression": "none", "use_dictionary": repeating, "write_statistics": False, "store_schema": False}
    pq.write_table(table, path, row_group_size=written._ROW_GROUP, **options)


def _refusing(column, text):
    found, unread = cells.number_column(column, text)
    if unread:
        raise DataError("a cell is no number")
    return found, unread


def _telling(describe):
    return lambda rows, *args, **kwargs: replace(
        describe(rows, *args, **kwargs), title=f"{rows.unread.total()} cells could not be read"
    )


def _titled(describe, title):
    return lambda *args, **kwargs: replace(describe(*args, **kwargs), title=title())


def _from_zero(pieces):
    return lambda self, key=b"": (replace(piece, start=0) for piece in pieces(self, key))


def _without_noise_on_rows(add_noise):
    return lambda first, second, rows, stage, bits: replace(
        add_noise(first, second, rows, stage, bits), rows=np.array(rows)
    )


# What a wrong could use: the exact answers to the latest questions.
EXACT: dict[str, Any] = {"counts": [np.zeros(1)], "sums": (np.zeros(1), np.zeros((1, 1)))}


def _remembering(name, ask):
    def asked(*args):
        EXACT[name] = ask(*args)
        return EXACT[name]

    return asked


def _trusting(manifest, rounds, moments):
    """A reader that does not compute again what follows from released numbers, so that it cannot refuse it."""
    return known_columns(manifest, rounds)


def _known_exactly(known):
    def better(counts, plan, size):
        last = [
            replace(one, counts=exact[:-1].astype(float), missing=float(exact[-1]))
            for one, exact in zip(counts[-1], EXACT["counts"], strict=True)
        ]
        return known([*counts[:-1], last], plan, size)

    return better


def _by_exact_sums(next_shape):
    def better(before, radius, mean, second, *others, **more):
        first, products, _ = EXACT["sums"]
        return next_shape(before, radius, mean + 1e-9 * first, second + 1e-9 * products, *others, **more)

    return better


def _keyed_by_cells(scores):
    def better(self, units, key, start, out):
        scores(self, units, hashlib.sha256(key + np.nan_to_num(units).tobytes()).digest(), start, out)

    return better


def _nearer(standard_of):
    def better(columns):
        found = standard_of(columns)
        return replace(found, centre=tuple(c + 1e-6 * float(EXACT["counts"][0][-1]) for c in found.centre))

    return better


def _slightly_larger(radius):
    def better(self, *others, **more):
        return radius(self, *others, **more) + 1e-9 * float(EXACT["sums"][0][0])

    return better


COUNTS = (marginals, "exact_counts", _remembering("counts", marginals.exact_counts))
SUMS = (moments, "exact_sums", _remembering("sums", moments.exact_sums))
TRUSTING = (reader, "check_followed", _trusting)


def _exact_missing():
    return sum(int(one[-1]) for one in EXACT["counts"])


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
        [(readings, "number_column", _refusing)],
        ("moments entry", "pandas objects", "text", "serial"),
    ),
    "a manifest that tells of cells": (
        [(publish, "describe", _telling(publish.describe))],
        ("moments record", "csv", "text", "serial"),
    ),
    "rounds that follow from exact counts": (
        [
            COUNTS,
            TRUSTING,
            (marginals, "is_last_round", lambda n, known, ordered: n == 3 or (n > 0 and _exact_missing() % 2 > 0)),
        ],
        ("moments record", "csv", "missing", "serial"),
    ),
    "leaves that follow from exact counts": (
        [COUNTS, TRUSTING, (marginals, "_known", _known_exactly(marginals._known))],
        ("moments record", "csv", "value", "serial"),
    ),
    "a map and a centre that follow from exact sums": (
        [SUMS, TRUSTING, (moments, "next_shape", _by_exact_sums(moments.next_shape))],
        ("moments record", "csv", "value", "serial"),
    ),
    "a radius that follows from exact sums": (
        [
            SUMS,
            TRUSTING,
            (Shape, "radius", _slightly_larger(Shape.radius)),
        ],
        ("moments record", "csv", "value", "serial"),
    ),
    "a location that follows from exact counts": (
        [COUNTS, TRUSTING, (moments, "standard_of", _nearer(moments.standard_of))],
        ("moments record, linear", "csv", "missing", "serial"),
    ),
    "presence where cells are missing, noise or not": (
        [COUNTS, TRUSTING, (marginals, "often_missing", lambda columns: tuple(range(_exact_missing() % 2 + 2)))],
        ("moments record", "csv", "missing", "serial"),
    ),
    "draws that follow from cells": (
        [(marginals.Encoder, "_scores", _keyed_by_cells(marginals.Encoder._scores))],
        ("moments record", "arrow", "value", "serial"),
    ),
    "draws that follow from how rows are cut": (
        [(marginals.Encoder, "_scores", _keyed_by_cells(marginals.Encoder._scores))],
        ("moments record", "several parquet", "nothing", "serial"),
    ),
    "draws that begin anew with every piece": (
        [(Rows, "_used_pieces", _from_zero(Rows._used_pieces))],
        ("moments record", "several csv", "nothing", "serial"),
    ),
    "a manifest that tells how many cells are missing": (
        [COUNTS, (publish, "describe", _titled(publish.describe, lambda: f"{_exact_missing()} cells are missing"))],
        ("moments record", "csv", "missing", "serial"),
    ),
    "progress that tells how many cells are missing": (
        [COUNTS, (Rows, "_marks", lambda self: [self.n + _exact_missing()])],
        ("moments record", "csv", "missing", "serial"),
    ),
    "sizes that follow from a person's number of rows": (
        [TRUSTING, (Rows, "public_size", property(lambda self: self.n))],
        ("moments person", "csv", "fewer rows", "serial"),
    ),
    "counts with the noise of one row for all of a person's": (
        [(place, "counts_distance", lambda unit, columns: math.sqrt(2 * columns)) for place in (marginals, promise)],
        ("moments person", "csv", "value", "serial"),
    ),
}


@pytest.mark.parametrize("wrong", WRONGS)
def test_a_wrong_is_noticed(wrong, tmp_path, monkeypatch):
    changes, case = WRONGS[wrong]
    for k, expectation in enumerate((nullcontext(), pytest.raises((AssertionError, BundleError, DataError)))):
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


def _without_noise_on_missing(draw):
    def drawn(noise, count, bits):
        found = draw(noise, count, bits)
        found[:33][-1] = 0  # behind the first column's leaves, in the first round
        return found

    return drawn


@pytest.mark.parametrize(
    ("place", "name", "mutant"),
    [
        (moments, "add_noise", _without_noise_on_rows(moments.add_noise)),
        (marginals, "draw", _without_noise_on_missing(marginals.draw)),
        (marginals, "draw", lambda noise, count, bits: draw(noise, count, bits) // 2),
        (moments, "_draw", lambda noise, shape, bits: _draw(noise, shape, bits) // 2),
    ],
    ids=["a number of rows without noise", "missing cells without noise", "counts with half", "sums with half"],
)
def test_noise_that_is_not_what_is_stated_is_noticed(place, name, mutant, tmp_path, monkeypatch):
    base = tmp_path / "1"
    base.mkdir()
    check_noise_of_moments("moments person", base_release("moments person", base))
    with monkeypatch.context() as patch:
        patch.setattr(place, name, mutant)
        (tmp_path / "2").mkdir()
        made = base_release("moments person", tmp_path / "2")
    with pytest.raises(AssertionError):
        check_noise_of_moments("moments person", made)
