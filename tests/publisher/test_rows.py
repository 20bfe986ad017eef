"""Rows are read alike by every engine; each piece says which columns held a value, and how many rows it had."""

import numpy as np
import pyarrow as pa
import pytest

from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.errors import DataError
from hazeglass.publisher.cell_kernels import to_lattice, to_unit
from hazeglass.publisher.rows import Cells, Rows


def first_cells(cells, number, blocks):
    return [block[0][0] for block in blocks]


def diagonal(last):
    """Three rows, each with a value in another column."""
    return pa.table(dict(zip("abc", np.where(np.diag([1, 1, last]) > 0, 1.0, np.nan), strict=True)))


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_a_column_that_held_a_value_in_any_piece_is_not_empty(make_plan, monkeypatch, engine):
    monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", 1)
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 1)
    results = list(Rows(make_plan(), open_table(diagonal(1))).run(get_engine(engine), first_cells))
    assert len(results) == 3
    with pytest.raises(DataError, match="'c' holds no value"):
        list(Rows(make_plan(), open_table(diagonal(0))).run(get_engine(engine), first_cells))


def test_rows_that_change_while_being_read_are_refused(make_plan, table):
    rows = Rows(make_plan(), open_table(table))
    rows.source = open_table(table.slice(1))
    with pytest.raises(DataError, match="changed while being read"):
        list(rows.run(get_engine("serial"), first_cells))


def test_progress_counts_rows(make_plan, table, monkeypatch):
    monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", 250)
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 250)
    seen = []
    list(Rows(make_plan(), open_table(table), seen.append).run(get_engine("threads"), first_cells))
    assert seen == [250, 500, 600]


def test_cells_are_clamped_transformed_and_centred(make_plan):
    columns = [
        {"name": "a", "kind": "continuous", "lower": 1.0, "upper": 100.0, "transform": "log"},
        {"name": "b", "kind": "integer", "lower": 0, "upper": 8},
    ]
    block = [np.array([0.1, 10.0, 1e9, np.nan, np.inf]), np.array([-5.0, 2.0, 9.0, np.nan, -np.inf])]
    before = [column.copy() for column in block]
    box = Cells(make_plan(columns_as=columns)).unit_box(block)
    assert box == pytest.approx(np.array([[-1, -1], [0, -0.5], [1, 1], [0, 0], [1, -1]]))
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(block, before, strict=True))


def test_no_cell_leaves_the_box_whatever_rounding_does():
    """The kernel itself, with bounds that clamp nothing: what lies outside by however little comes back to the edge."""
    cells = np.array([1.0, np.nextafter(1.0, 2), 5.0, -np.nextafter(1.0, 2), -5.0, np.inf, -np.inf, np.nan, 0.5])
    out = np.empty_like(cells)
    to_unit(cells, -np.inf, np.inf, 0.0, 1.0, out)
    assert out.tolist() == [1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 0.0, 0.5]
    to_unit(cells, -0.5, 0.25, 0.0, 1.0, out)
    assert out.tolist() == [0.25, 0.25, 0.25, -0.5, -0.5, 0.25, -0.5, 0.0, 0.25]


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 1000])
def test_every_row_is_clipped_by_its_own_length(rows):
    """Stretches of a few hundred rows share memory; a row's neighbours in it must not matter."""
    rng = np.random.default_rng(rows)
    cells = rng.standard_normal((3, rows)) * 10.0 ** rng.uniform(-2, 2, rows)
    lattice = cells.copy()
    to_lattice(lattice, np.zeros(3), np.ones(3), 1.0, 4.0)
    lengths = np.linalg.norm(cells, axis=0)
    assert np.array_equal(lattice, np.rint(cells * np.where(lengths > 4.0, 4.0 / lengths, 1.0)))


def test_one_row_alone_is_never_published(make_plan, table):
    assert Rows(make_plan(), open_table(table.slice(0, 2))).n == 2
    with pytest.raises(DataError, match="at least 2 rows, got 1"):
        Rows(make_plan(), open_table(table.slice(0, 1)))
