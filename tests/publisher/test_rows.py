"""Rows are read alike by every engine; no cell makes reading fail, and the publisher alone hears what was missing."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError
from hazeglass.publisher.kernels import to_lattice, to_unit
from hazeglass.publisher.rows import Cells, Rows


def first_cells(cells, start, blocks):
    return [block[0][0] for block in blocks]


def diagonal(last):
    """Three rows, each with a value in another column."""
    return pa.table(dict(zip("abc", np.where(np.diag([1, 1, last]) > 0, 1.0, np.nan), strict=True)))


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_the_publisher_is_told_of_a_column_without_numbers_and_nothing_fails(make_plan, monkeypatch, engine, capsys):
    monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", 1)
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 1)
    rows = Rows(make_plan(), open_table(diagonal(1)))
    assert len(list(rows.run(get_engine(engine), first_cells))) == 3
    rows.tell_publisher()
    assert capsys.readouterr().err == ""
    rows = Rows(make_plan(), open_table(diagonal(0)))
    assert len(list(rows.run(get_engine(engine), first_cells))) == 3
    rows.tell_publisher()
    assert capsys.readouterr().err == "publisher only: column 'c' holds no number at all.\n"


def test_the_publisher_is_told_how_many_cells_could_not_be_read(make_plan, tmp_path, capsys):
    (tmp_path / "d.csv").write_bytes(b"a,b,c,other\n1,two,3,\n1,2,3,\n1,2,3\n\n1,NA,\xff,x\n1,deux,3,y\n")
    rows = Rows(make_plan(), open_table(tmp_path / "d.csv"))
    list(rows.run(get_engine("serial"), first_cells))
    assert rows.n == 6
    rows.tell_publisher()
    assert capsys.readouterr().err.splitlines() == [
        "publisher only: lines that are no rows and count as rows of missing cells: 1. If quoted cells hold line ends, "
        "the plan must say so: [text] quoted_newlines = true.",
        "publisher only: cells of column 'b' that are no numbers and count as missing: 2.",
        "publisher only: cells of column 'c' that are no numbers and count as missing: 1.",
    ]


def test_a_line_of_names_that_the_plan_takes_for_a_row_is_asked_about(make_plan, tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a,b,c\n1,2,3\n4,x,6\n")
    for header, asked in ((True, 0), (False, 1)):
        text = TextFormat() if header else TextFormat(header=False, names=("a", "b", "c"))
        plan = replace(make_plan(), text=text)
        rows = Rows(plan, open_table(tmp_path / "d.csv", plan.text))
        list(rows.run(get_engine("serial"), first_cells))
        rows.tell_publisher()
        assert capsys.readouterr().err.count("begin with a line of names?") == asked


def test_rows_that_change_while_being_read_are_refused(make_plan, table):
    rows = Rows(make_plan(), open_table(table))
    rows.source = open_table(table.slice(1))
    with pytest.raises(DataError, match="changed while they were read"):
        list(rows.run(get_engine("serial"), first_cells))


@pytest.mark.parametrize("piece", [1, 7, 250, 1000])
def test_progress_counts_hundredths_however_the_rows_are_cut(make_plan, table, monkeypatch, piece):
    monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", piece)
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", piece)
    seen, beside = [], table.append_column("d", table.column(0))
    for data in (table, beside):
        list(Rows(make_plan(), open_table(data), seen.append).run(get_engine("threads"), first_cells))
    assert seen == 2 * list(range(6, 601, 6))


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


def test_marginals_see_missing_cells_and_whole_numbers_before_their_transform_where_ranks_count(make_plan):
    columns = [
        {"name": "a", "kind": "continuous", "lower": 1.0, "upper": 100.0, "transform": "log"},
        {"name": "b", "kind": "integer", "lower": 1, "upper": 9, "transform": "log"},
    ]
    block = [np.array([0.1, 10.0, 1e9, np.nan]), np.array([-5.0, 3.0, 9.0, np.nan])]
    scores, linear = (Cells(make_plan(columns_as=columns, scale=scale)) for scale in ("scores", "linear"))
    assert scores.units(block)[0] == pytest.approx([-1, 0, 1, np.nan], nan_ok=True)
    assert scores.units(block)[1] == pytest.approx([-1, -0.5, 1, np.nan], nan_ok=True)
    assert linear.units(block)[1] == pytest.approx([-1, 0, 1, np.nan], nan_ok=True)


def test_no_cell_leaves_the_box_whatever_rounding_does():
    """The kernel itself, with bounds that clamp nothing: what lies outside by however little comes back to the edge."""
    cells = np.array([1.0, np.nextafter(1.0, 2), 5.0, -np.nextafter(1.0, 2), -5.0, np.inf, -np.inf, np.nan, 0.5])
    out = np.empty_like(cells)
    to_unit(cells, -np.inf, np.inf, 0.0, 1.0, 0.0, out)
    assert out.tolist() == [1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 0.0, 0.5]
    to_unit(cells, -0.5, 0.25, 0.0, 1.0, np.nan, out)
    assert np.isnan(out[7])
    assert out[[0, 1, 2, 3, 4, 5, 6, 8]].tolist() == [0.25, 0.25, 0.25, -0.5, -0.5, 0.25, -0.5, 0.25]


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 1000])
def test_every_row_is_clipped_by_its_own_length(rows):
    """Stretches of a few hundred rows share memory; a row's neighbours in it must not matter."""
    rng = np.random.default_rng(rows)
    cells = rng.standard_normal((3, rows)) * 10.0 ** rng.uniform(-2, 2, rows)
    lattice = cells.copy()
    to_lattice(lattice, np.zeros(3), 1.0, 4.0)
    lengths = np.linalg.norm(cells, axis=0)
    assert np.array_equal(lattice, np.rint(cells * np.where(lengths > 4.0, 4.0 / lengths, 1.0)))


def test_one_row_alone_is_never_published(make_plan, table):
    assert Rows(make_plan(), open_table(table.slice(0, 2))).n == 2
    with pytest.raises(DataError, match="at least 2 rows, got 1"):
        Rows(make_plan(), open_table(table.slice(0, 1)))
