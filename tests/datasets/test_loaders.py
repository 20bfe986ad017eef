"""Each data set is the one its entry describes; four of them give the paper's printed epsilon."""

import csv

import numpy as np
import pytest

from hazeglass import datasets
from hazeglass.datasets.dataset import CATALOGUE
from hazeglass.datasets.loaders import TRUTHS
from hazeglass.errors import DataError

EDGES = {
    "cell-signalling": 17,
    "chickenpox": 41,
    "grid11": 10,
    "grid115": 114,
    "grid8": 6,
    "asia": 10,
    "child": 30,
    "insurance": 70,
}


def load(name, data_dir, **options):
    return getattr(datasets, f"load_{name.replace('-', '_')}")(data_dir, **options)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_loader_gives_what_its_entry_announces(name, data_dir):
    known, found = CATALOGUE[name], load(name, data_dir)
    assert found.data.shape == (known.rows, known.columns)
    assert len(set(found.columns)) == known.columns
    assert np.all(np.isfinite(found.data)) == (name != "adult")
    assert found.kind == known.kind
    whole = np.all(found.data[np.isfinite(found.data)] % 1 == 0)
    assert (found.kind in ("integer", "categorical", "mixed")) == bool(whole)
    assert (found.name, found.licence, found.source) == (name, known.licence, known.source)
    assert (len(found.truth) if found.truth else None) == EDGES.get(name)
    for values in found.column_info.values():
        assert len(values) == known.columns
    for values in found.row_info.values():
        assert len(values) == known.rows


@pytest.mark.parametrize(
    ("name", "printed"),
    [("cell-signalling", "8.55e+04"), ("lawmakers", "6.40e+05"), ("chickenpox", "1.99e+06"), ("soil", "1.34e+07")],
)
def test_the_printed_epsilon_at_100_db_is_met_to_every_digit(name, printed, data_dir):
    X = load(name, data_dir).scaled()
    sigma = X.std() * 10 ** (-100 / 20)
    assert f"{2 * (X.max() - X.min()) ** 2 / (len(X) * sigma):.2e}" == printed


@pytest.mark.parametrize("name", EDGES)
def test_the_truth_in_the_order_of_the_columns(name, data_dir):
    found = load(name, data_dir)
    matrix = found.truth_matrix()
    assert np.array_equal(matrix, matrix.T)
    assert matrix.sum() == 2 * EDGES[name]
    i, j = np.argwhere(matrix)[0]
    assert frozenset((found.columns[i], found.columns[j])) in found.truth


def test_lines_make_trees(data_dir):
    """As many lines as buses less one, and every bus reached: no cycle."""
    for name in ("grid11", "grid115", "grid8"):
        matrix = load(name, data_dir).truth_matrix()
        reached = np.linalg.matrix_power(matrix.astype(float) / 2 + np.eye(len(matrix)), len(matrix)) > 0
        assert matrix.sum() == 2 * (len(matrix) - 1)
        assert reached.all()


@pytest.mark.parametrize(
    ("which", "file"), [("bnlearn17", "directed17"), ("cdt18", "directed18"), ("undirected19",) * 2]
)
def test_the_three_graphs_of_the_cells_are_those_of_their_sources(which, file, data_dir):
    with (data_dir / "sachs" / f"edges_{file}.csv").open() as source:
        rows = {frozenset((row["from"], row["to"])) for row in csv.DictReader(source)}
    assert rows == TRUTHS[which]
    assert load("cell-signalling", data_dir).truth_matrix(which).sum() == 2 * len(rows)


def test_other_choices_of_columns_and_rows(data_dir):
    assert load("lawmakers", data_dir, members=76).data.shape == (10, 76)
    assert set(load("lawmakers", data_dir, members=76).column_info["party"]) == {"D", "R"}
    assert load("fmri", data_dir, subject=5, regions="all").data.shape == (176, 110)
    assert load("movielens", data_dir, movies=20).columns == load("movielens", data_dir).columns[:20]
    fixed, solar = load("grid8", data_dir), load("grid8", data_dir, variant="solar")
    assert fixed.truth == solar.truth
    assert not np.array_equal(fixed.data, solar.data)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lawmakers", {"members": 5}, "73 .* or 76"),
        ("fmri", {"subject": 9}, "1 to 5"),
        ("fmri", {"regions": "few"}, "'msdl39' or 'all'"),
        ("movielens", {"movies": 1}, "between 2 and 3706"),
        ("grid8", {"variant": "wind"}, "'fixed' or 'solar'"),
    ],
)
def test_a_choice_that_does_not_exist_is_named(name, options, message, tmp_path):
    with pytest.raises(DataError, match=message):
        load(name, tmp_path, **options)


def test_a_data_set_without_a_truth_says_so(data_dir):
    with pytest.raises(DataError, match=r"movielens has no true graph. It has these guesses: genre"):
        load("movielens", data_dir).truth_matrix()
    with pytest.raises(DataError, match="must be one of genre, got 'director'"):
        load("movielens", data_dir).truth_matrix("director")


def test_z_scores_divide_by_n_and_counts_stay_counts(data_dir):
    cells = load("cell-signalling", data_dir).scaled()
    assert np.allclose(cells.std(axis=0), 1.0)
    assert np.allclose(cells.mean(axis=0), 0.0)
    pox = load("chickenpox", data_dir)
    assert np.array_equal(pox.scaled(), pox.data)
