"""Rows are what release.json says of them: noisy cells on their lattice, made-up rows with the moments beside them."""

import contextlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle.synthetic import synthetic_rows
from hazeglass.errors import BundleError

from .forgery import reseal, write_part

PART = "data/part-00000.parquet"
COUNTS = [{"name": "k", "kind": "integer", "lower": -5, "upper": 100_000}]


def refused(release, message):
    """By verify, and wherever rows come out."""
    forged = hg.load(reseal(release.path))
    for read in (forged.check_values, forged.table):
        with pytest.raises(BundleError, match=message):
            read()


@pytest.mark.parametrize("change", [{}, {"clip_radius": 1.0}, {"protects": "entry"}])
def test_rows_without_noise_are_no_table(make_plan, table, tmp_path, change):
    release = hg.publish(table, make_plan(form="table", **change), tmp_path / "r")
    release.check_values()
    write_part(table, release.path / PART)
    refused(release, "column 'a' holds a cell off its lattice")


def test_one_cell_off_its_lattice_is_found(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(form="table"), tmp_path / "r")
    rows = release.table()
    cells = rows["b"].to_numpy().copy()
    cells[-1] += release.columns[1].cell_noise.step / 1000
    write_part(rows.set_column(1, "b", pa.array(cells)), release.path / PART)
    refused(release, "column 'b' holds a cell off its lattice")
    with pytest.raises(BundleError, match="off its lattice"):
        list(hg.load(release.path).blocks(PART))


@pytest.mark.parametrize("change", [{}, {"clip_radius": 1.0}, {"protects": "entry"}])
def test_rows_on_the_lattice_but_without_noise_are_no_table(make_plan, table, tmp_path, change):
    """The data vary less than noise that hides them."""
    release = hg.publish(table, make_plan(form="table", **change), tmp_path / "r")
    columns = zip(table.columns, release.columns, strict=True)
    rounded = [c.centre + c.cell_noise.step * np.rint(raw.to_numpy() / c.cell_noise.step) for raw, c in columns]
    write_part(pa.table(dict(zip("abc", rounded, strict=True))), release.path / PART)
    refused(release, "column 'a' varies less than its noise does")


def test_whole_numbers_without_noise_are_no_table(make_plan, tmp_path):
    release = hg.publish(pa.table({"k": np.arange(900)}), make_plan(form="table", columns_as=COUNTS), tmp_path / "r")
    step = int(release.columns[0].cell_noise.step)
    write_part(pa.table({"k": -5 + np.arange(900) // 9 * step}), release.path / PART)
    refused(release, "column 'k' varies less than its noise does")


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_cell_that_no_noise_reaches_is_found(make_plan, table, tmp_path, sign):
    release = hg.publish(table, make_plan(form="table"), tmp_path / "r")
    noise, rows = release.columns[1].cell_noise, release.table()
    for scales, expected in ((13.4, None), (14.0, "column 'b' holds a cell that no noise reaches")):
        cells = rows["b"].to_numpy().copy()
        cells[7] = sign * noise.step * np.rint((4 / noise.step) + scales * noise.scale)
        write_part(rows.set_column(1, "b", pa.array(cells)), release.path / PART)
        if expected is None:
            hg.load(reseal(release.path)).check_values()
        else:
            refused(release, expected)


def test_noise_that_numbers_cannot_hold_is_none(make_plan, table, tmp_path):
    """Far from 0, 64-bit numbers are farther apart than the noise is wide, and everything lies on such a lattice."""
    release = hg.publish(
        table, make_plan(form="table", protects="entry", budget={"mu": 20.0}), tmp_path / "r", weak_on_purpose=True
    )

    def far(document):
        for column in document["columns"]:
            column.update(lower=column["lower"] + 2.0**52, upper=column["upper"] + 2.0**52)
            column["cell_noise"]["offset"] = 2.0**52

    reseal(release.path, far)
    with pytest.raises(BundleError, match="lost in the rounding of 64-bit numbers"):
        hg.load(release.path)


def test_whole_numbers_lie_on_their_lattice_too(make_plan, tmp_path):
    release = hg.publish(pa.table({"k": np.arange(200)}), make_plan(form="table", columns_as=COUNTS), tmp_path / "r")
    assert release.columns[0].cell_noise.step > 1
    release.check_values()
    honest = release.table()
    write_part(pa.table({"k": np.arange(200)}), release.path / PART)
    refused(release, "column 'k' holds a cell off its lattice")
    write_part(honest.cast(pa.schema([("k", pa.float64())])), release.path / PART)
    with pytest.raises(BundleError, match="numbers of the right kind"):
        hg.load(reseal(release.path))


@pytest.mark.parametrize(
    ("columns", "change", "message"),
    [
        (None, {"offset": 0.5}, "its lattice starts elsewhere"),
        (None, {"offset": 1e300}, "its lattice starts elsewhere"),
        (COUNTS, {"offset": 0.0}, "its lattice starts elsewhere"),
        (COUNTS, {"step": 12.5, "variance": (1 / 12 + 300.0**2) * 12.5**2, "scale": 300.0}, "no whole steps apart"),
    ],
)
def test_a_lattice_lies_where_the_bounds_put_it(make_plan, table, tmp_path, columns, change, message):
    rows = table if columns is None else pa.table({"k": np.arange(200)})
    release = hg.publish(rows, make_plan(form="table", columns_as=columns), tmp_path / "r")
    reseal(release.path, lambda document: document["columns"][0]["cell_noise"].update(change))
    with pytest.raises(BundleError, match=message):
        hg.load(release.path)


@pytest.mark.parametrize(
    "column",
    [
        {"kind": "continuous", "lower": 1e6, "upper": 1e6 + 1, "transform": "log"},
        {"kind": "continuous", "lower": -1e90, "upper": 3e99},
        {"kind": "continuous", "lower": 1e-90, "upper": 2e-90},
        {"kind": "integer", "lower": 0, "upper": 1, "noise": "discrete"},
        {"kind": "integer", "lower": -(2**40), "upper": 2**40},
        {"kind": "integer", "lower": 0, "upper": 1000, "transform": "sqrt"},
    ],
)
@pytest.mark.parametrize("mu", [0.01, 1.0, 30.0])
def test_honest_cells_lie_on_their_lattice_wherever_it_is(make_plan, tmp_path, column, mu):
    plan = make_plan(form="table", protects="entry", budget={"mu": mu}, columns_as=[{"name": "x", **column}])
    rows = np.random.default_rng(1).uniform(column["lower"], column["upper"], 5000)
    hg.load(hg.publish(pa.table({"x": rows}), plan, tmp_path / "r", weak_on_purpose=True).path).check_values()


# ------------------------------------------------------------------------------------------------------- synthetic rows


SYNTHETIC = {
    "scores": {},
    "linear": {"scale": "linear"},
    "one stage": {"adaptive": False},
    "entries": {"protects": "entry"},
    "a private radius": {"clip_radius": "private"},
    "a tight radius": {"adaptive": False, "clip_radius": 0.05},
}


@pytest.mark.parametrize("rows", [12, 600])
@pytest.mark.parametrize("budget", [{"epsilon": 0.1, "delta": 1e-6}, {"epsilon": 30.0, "delta": 1e-6}])
@pytest.mark.parametrize("name", SYNTHETIC)
def test_rows_that_follow_from_their_moments_are_accepted_and_others_are_not(
    make_plan, table, tmp_path, name, budget, rows
):
    plan = make_plan(form="synthetic", budget=budget, **SYNTHETIC[name])
    release = hg.publish(table.slice(0, rows), plan, tmp_path / "r", weak_on_purpose=True)
    release.check_values()
    assert release.table().num_rows == rows
    made = release.table().to_pandas()
    one = made.copy()
    one.iloc[rows // 2, 1] += made["b"].std() / 10
    for other in (made * 1.05, one, made.iloc[::-1]):
        other.columns = ["a", "b", "c"]
        write_part(pa.Table.from_pandas(other, preserve_index=False), release.path / PART)
        refused(release, "are not those that the released numbers")


def test_the_raw_rows_are_no_synthetic_ones(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(form="synthetic"), tmp_path / "r")
    write_part(table, release.path / PART)
    refused(release, "are not those that the released numbers")


@pytest.mark.parametrize("width", [3, 400])
def test_rounded_rows_may_differ_by_their_rounding_and_no_more(make_plan, tmp_path, width):
    columns = [{"name": name, "kind": "integer", "lower": 0, "upper": width} for name in "ab"]
    rows = pa.table({name: np.random.default_rng(k).integers(0, width, 900) for k, name in enumerate("ab")})
    plan = make_plan(form="synthetic", columns_as=columns, round_integers=True)
    release = hg.publish(rows, plan, tmp_path / "r")
    release.check_values()
    assert str(release.table().schema.field("a").type) == "int64"
    moved = release.table().to_pandas() + max(2, width // 20)
    write_part(pa.Table.from_pandas(moved, preserve_index=False), release.path / PART)
    refused(release, "are not those that the released numbers")


@pytest.mark.parametrize("scale", ["scores", "linear"])
def test_another_seed_is_found_out(make_plan, table, tmp_path, scale):
    release = hg.publish(table, make_plan(form="synthetic", scale=scale), tmp_path / "r")
    reseal(release.path, lambda document: document["synthetic"].update(seed=document["synthetic"]["seed"] ^ 1))
    with pytest.raises(BundleError, match="are not those that the released numbers"):
        hg.load(release.path).check_values()


def test_one_raw_row_among_a_million_made_up_cells_is_found(make_plan, tmp_path):
    """Not one cell may be another than rounding makes it: a single row is a person's."""
    rng = np.random.default_rng(0)
    rows = pa.table({name: rng.standard_normal(20_000) for name in "abc"})
    release = hg.publish(rows, make_plan(form="synthetic"), tmp_path / "r", engine="serial")
    made = release.table().to_pandas()
    made.iloc[12_345] = [1.234, -0.567, 0.89]
    write_part(pa.Table.from_pandas(made, preserve_index=False), release.path / PART)
    refused(release, "are not those that the released numbers")


def test_what_another_computer_rounds_otherwise_is_accepted(make_plan, table, tmp_path):
    """A tenth of what is allowed, before ranks become cells; and last bits of the cells."""
    for name, release in (("s", {}), ("l", {"scale": "linear"}), ("p", {"adaptive": False})):
        made = hg.publish(table, make_plan(form="synthetic", **release), tmp_path / name)
        rows = synthetic_rows(made.manifest, made.moments(), made.marginals())
        other = replace(rows, mean=rows.mean + 1e-4 * np.sqrt(np.diag(rows.root @ rows.root)))
        cells = np.concatenate(list(other.blocks())) * (1 + 1e-15)
        write_part(pa.table(dict(zip("abc", cells.T, strict=True))), made.path / PART)
        hg.load(reseal(made.path)).check_values()


@pytest.mark.parametrize(("factor", "sure"), [(1e100, True), (1e-300, False), (-1.0, False)])
def test_moments_that_no_rows_have_end_in_a_sentence(make_plan, table, tmp_path, factor, sure):
    """Where clipping cannot be undone there may be nothing to compare with; nothing else is raised all the same."""
    release = hg.publish(table, make_plan(form="synthetic", adaptive=False), tmp_path / "r")
    part = release.path / "moments.parquet"
    honest = pq.read_table(part)
    write_part(honest.set_column(5, "value", pa.array(honest["value"].to_numpy() * factor)), part)
    expected = pytest.raises(BundleError, match="too large") if sure else contextlib.suppress(BundleError)
    with expected:
        hg.load(reseal(release.path)).check_values()
