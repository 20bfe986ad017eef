"""Rows of a network follow its tables, and its truth is the moral graph."""

import numpy as np
import pytest

from hazeglass import datasets
from hazeglass.datasets.loaders import parse
from hazeglass.errors import DataError

V = """network unknown { }
variable rain { type discrete [ 2 ] { yes, no }; }
variable wind { type discrete [ 3 ] { <5, 5-12, 12+ }; }
variable late { type discrete [ 2 ] { yes, no }; }
variable cross { type discrete [ 2 ] { yes, no }; }
probability ( late | rain, wind ) {
  (yes, <5) 0.5, 0.5;
  (no, <5) 0.1, 0.9;
  (yes, 5-12) 0.6, 0.4;
  (no, 5-12) 0.2, 0.8;
  (yes, 12+) 1.0, 0.0;
  (no, 12+) 0.3, 0.7;
}
probability ( rain ) { table 0.25, 0.75; }
probability ( wind ) { table 0.2, 0.3, 0.5; }
probability ( cross | late ) { (yes) 0.9, 0.1; (no) 0.0, 1.0; }
"""


def test_parents_of_one_child_are_joined_in_the_truth():
    pairs = {tuple(sorted(edge)) for edge in parse(V).moral}
    assert pairs == {("late", "rain"), ("late", "wind"), ("rain", "wind"), ("cross", "late")}


def test_rows_have_the_probabilities_of_the_tables():
    network = parse(V)
    rows = network.draw(200_000, 3)
    rain, wind, late, cross = rows.T
    assert network.levels["wind"] == ("<5", "5-12", "12+")
    np.testing.assert_allclose(np.bincount(wind.astype(int)) / len(rows), [0.2, 0.3, 0.5], atol=0.01)
    assert np.mean(late[(rain == 1) & (wind == 2)] == 0) == pytest.approx(0.3, abs=0.01)
    assert np.all(late[(rain == 0) & (wind == 2)] == 0)
    assert np.all(cross[late == 1] == 1)


def test_the_same_seed_gives_the_same_rows_and_another_does_not():
    network = parse(V)
    assert np.array_equal(network.draw(50, 1), network.draw(50, 1))
    assert not np.array_equal(network.draw(50, 1), network.draw(50, 2))


def test_as_many_rows_as_are_asked_for_with_levels_as_words(data_dir):
    found = datasets.load_child(data_dir, rows=70, seed=1)
    table = found.to_arrow()
    assert table.num_rows == 70
    for name in found.columns:
        assert set(table[name].to_pylist()) <= set(found.levels[name])
    with pytest.raises(DataError, match="rows must be at least 1"):
        datasets.load_child(data_dir, rows=0)


def test_missing_cells_of_the_census_stay_missing(data_dir):
    table = datasets.load_adult(data_dir).to_arrow()
    incomplete = sum(None in row.values() for row in table.to_pylist())
    assert incomplete == 2399
    assert table["sex"].to_pylist()[:3] == ["Male", "Male", "Male"]
    assert table["age"].to_pylist()[:3] == [39, 50, 38]
