"""What differs between two releases: each by its own noise, nothing where one of them cannot be trusted."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow.csv as pc
import pytest
from scipy.special import ndtr

import hazeglass as hg
from hazeglass.errors import DistrustWarning, InputError
from simulate import simulate
from sites import NAMES, N, P, chain, plan_of, rows_of, sites

pytestmark = pytest.mark.filterwarnings("ignore:releases must be of other rows")  # sites of one title and size

MOVED = chain()
MOVED[0, 1] = MOVED[1, 0] = 0.0
MOVED[0, 2] = MOVED[2, 0] = -0.3


def release(precision, mu=5.0, seed=0, n=N, **more):
    return simulate(rows_of(precision, n, np.random.default_rng(seed)), plan_of(mu, **more), seed)


@pytest.fixture(scope="module")
def diff():
    return hg.compare(release(chain()), release(MOVED, seed=1))


def test_a_difference_has_the_estimates_of_both_sides_and_their_errors_together(diff):
    before, after = hg.recover(release(chain())), hg.recover(release(MOVED, seed=1))
    table = diff.edges
    for side, graph in (("a", before), ("b", after)):
        for column in ("partial_correlation", "std_error", "selected"):
            assert table[f"{column}_{side}"].equals(graph.edges[column])
    difference, error = (table[key].to_numpy() for key in ("difference", "std_error"))
    assert np.allclose(
        difference, table["partial_correlation_b"].to_numpy() - table["partial_correlation_a"].to_numpy()
    )
    assert np.allclose(error**2, table["std_error_a"].to_numpy() ** 2 + table["std_error_b"].to_numpy() ** 2)
    assert np.allclose(table["ci_high"].to_numpy() - table["ci_low"].to_numpy(), 2 * 1.959964 * error)
    assert np.allclose(table["p_value"].to_numpy(), 2 * ndtr(-np.abs(difference / error)))
    assert (table["selected"].to_numpy(zero_copy_only=False) == (table["q_value"].to_numpy() <= 0.1)).all()


def test_what_changed_is_said_in_a_word(diff):
    assert ("x1", "x2") in diff.pairs("lost")
    assert ("x1", "x3") in diff.pairs("gained")
    assert ("x4", "x5") not in diff.pairs()
    assert repr(diff) == f"<GraphDiff: 5 nodes, {len(diff.pairs())} pairs differ>"
    assert bool(diff)
    assert diff.fit["releases"]["a"]["mu"] == 5.0


def test_where_nothing_differs_nothing_is_found_and_intervals_hold_zero():
    inside, found = [], 0
    for seed in range(4):
        same = hg.compare(release(chain(), 1.0, 2 * seed), release(chain(), 0.4, 2 * seed + 1))
        inside.append((same.edges["ci_low"].to_numpy() <= 0) & (same.edges["ci_high"].to_numpy() >= 0))
        found += bool(same)
    assert np.mean(inside) > 0.8
    assert found <= 2


def test_a_side_that_contradicts_its_error_bars_leaves_nothing_selected_and_says_which(tmp_path):
    document = plan_of().to_dict()
    document["release"] |= {"adaptive": False, "clip_radius": 0.3}
    wrong = simulate(rows_of(chain(), N, np.random.default_rng(0)), hg.Plan.from_dict(document), 1)
    with pytest.warns(DistrustWarning, match="release b: "):
        diff = hg.compare(release(MOVED, scale="linear"), wrong)
    assert not diff
    for column in ("std_error", "ci_low", "ci_high", "p_value", "q_value"):
        assert diff.edges[column].null_count == diff.edges.num_rows
    assert diff.edges["difference"].null_count == 0
    diff.save(tmp_path / "d")
    assert "Nothing is selected." in (tmp_path / "d" / "diff.html").read_text(encoding="utf-8")
    diff.plot()


def test_pairs_with_levels_without_an_order_are_not_compared_and_that_is_said():
    document = plan_of(5.0).to_dict()
    document["columns"][0] = {"name": "x1", "kind": "categorical", "levels": ["a", "b", "c"]}
    plan = hg.Plan.from_dict(document)
    made = []
    for k, precision in enumerate((chain(), MOVED)):
        rows = rows_of(precision, N, np.random.default_rng(k))
        words = np.array(list("abc"))[np.digitize(rows["x1"], [-0.5, 0.5])]
        made.append(simulate(rows.assign(x1=words), plan, k))
    diff = hg.compare(*made)
    assert diff.edges["difference"].null_count == P - 1
    assert any("they are not compared" in note for note in diff.fit["notes"])
    assert diff.fit["compared"] == diff.fit["pairs"] - (P - 1)
    assert all("x1" not in pair for pair in diff.pairs())
    diff._repr_html_()


def test_several_releases_on_a_side_are_pooled():
    diff = hg.compare(sites(3, plan_of(3.0)), release(MOVED, seed=1))
    assert len(diff.fit["releases"]["a"]["releases"]) == 3
    assert ("x1", "x3") in diff.pairs("gained")


def test_other_columns_other_scales_and_odd_rates_are_refused_in_one_sentence():
    one = release(chain())
    with pytest.raises(InputError, match="on one scale"):
        hg.compare(one, release(chain(), scale="linear"))
    with pytest.raises(InputError, match=r"the same columns, and release b .'Site'. differs from the first in x5"):
        hg.compare(one, release(chain(), names=NAMES[:4]))
    with pytest.raises(InputError, match="fdr must lie strictly"):
        hg.compare(one, one, fdr=0.0)


def test_a_release_is_not_compared_with_itself(tmp_path):
    rows = rows_of(chain(), 500, np.random.default_rng(0))
    one = hg.publish(pd.DataFrame(rows, columns=NAMES), plan_of(5.0), tmp_path / "a", weak_on_purpose=True)
    with pytest.raises(InputError, match="must be of other rows"):
        hg.compare(one, tmp_path / "a")


def test_a_comparison_is_saved_complete_and_names_are_never_markup(tmp_path):
    odd = ("<b>x</b>", "=1+1", *NAMES[2:])
    sides = []
    for seed, precision in enumerate((chain(), MOVED)):
        rows = rows_of(precision, N, np.random.default_rng(seed)).set_axis(odd, axis=1)
        sides.append(simulate(rows, plan_of(5.0, names=odd), seed))
    diff = hg.compare(*sides)
    diff.save(tmp_path / "d")
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["diff.csv", "diff.html", "diff.json"]
    page = (tmp_path / "d" / "diff.html").read_text(encoding="utf-8")
    assert "<b>x</b>" not in page
    assert not re.search(r"(src|href)=|<script", page)  # fetches and runs nothing
    table = pc.read_csv(tmp_path / "d" / "diff.csv")
    assert table.num_rows == 10
    assert "'=1+1" in table["source"].to_pylist() + table["target"].to_pylist()
    said = json.loads((tmp_path / "d" / "diff.json").read_text())
    assert {frozenset((row["source"], row["target"])) for row in said["differing"]} == set(map(frozenset, diff.pairs()))
    diff.plot(save=tmp_path / "d.png")
    assert (tmp_path / "d.png").stat().st_size > 10_000
    assert diff._repr_html_().startswith("<iframe")


def test_the_command_line_writes_a_folder_and_says_what_differs(tmp_path):
    from typer.testing import CliRunner

    from hazeglass.cli.app import app

    for seed, precision in enumerate((chain(), MOVED)):
        hg.publish(
            rows_of(precision, N, np.random.default_rng(seed)), plan_of(5.0), tmp_path / str(seed), weak_on_purpose=True
        )
    ends = [str(tmp_path / "0"), str(tmp_path / "1")]
    made = CliRunner().invoke(app, ["compare", *ends, "--out", str(tmp_path / "d")])
    assert made.exit_code == 0, made.output
    assert "gained" in made.output
    told = json.loads(CliRunner().invoke(app, ["compare", *ends, "--out", str(tmp_path / "e"), "--json"]).stdout)
    assert told["fit"]["fdr"] == 0.1
    pooled = CliRunner().invoke(app, ["recover", *ends, "--out", str(tmp_path / "g")])
    assert pooled.exit_code == 0, pooled.output
    assert "The 2 releases differ in" in pooled.output
    again = CliRunner().invoke(app, ["compare", *ends, "--out", str(tmp_path / "d")])
    assert again.exit_code == 2


def test_rows_can_be_compared_as_well():
    frames = [rows_of(one, 4000, np.random.default_rng(k)) for k, one in enumerate((chain(), MOVED))]
    assert ("x1", "x3") in hg.compare(*frames).pairs("gained")
    assert isinstance(hg.compare(*frames).edges.to_pandas(), pd.DataFrame)


def test_rows_are_read_by_their_ranks_where_a_release_is_and_that_is_said():
    rows = np.exp(rows_of(chain(), 4000, np.random.default_rng(0)))
    document = plan_of(5.0).to_dict()
    document["columns"] = [{**column, "lower": 0.0, "upper": 100.0} for column in document["columns"]]
    one = simulate(rows, hg.Plan.from_dict(document), 0)
    for diff in (hg.compare(one, rows), hg.compare(rows, one), hg.compare([one], rows)):
        assert not diff
        (note,) = diff.fit["notes"]
        assert note.startswith("Rows were turned into normal numbers by their ranks")
    assert hg.recover(one).fit["notes"][0].startswith("Partial correlations are of ranks")
    mixed = hg.recover(one).diff(hg.recover(rows))
    assert any(note.startswith("One side is of ranks") for note in mixed.fit["notes"])
    assert hg.compare(rows, rows).fit["notes"] == []


def test_where_a_column_is_determined_by_others_on_one_side_alone_nothing_is_compared():
    rng = np.random.default_rng(0)
    sides = []
    for k in range(2):
        rows = rows_of(chain(), N, rng)
        if k:
            rows["x5"] = rows["x4"]  # the same thing twice
        sides.append(simulate(rows, plan_of(2.0), k))
    before, after = map(hg.recover, sides)
    assert (before.fit.get("left_out"), len(after.fit["left_out"])) == (None, 1)
    with pytest.warns(DistrustWarning, match="in one release and are in the other"):
        diff = before.diff(after)
    assert not diff
    assert not after.diff(after).fit["distrusted"]


def test_sites_that_hold_a_column_twice_are_pooled(tmp_path):
    rng = np.random.default_rng(0)
    made = []
    for k in range(3):
        rows = rows_of(chain(), N, rng)
        rows["x5"] = rows["x4"]
        made.append(simulate(rows, plan_of(2.0), k))
    graph = hg.recover(made)
    assert len(graph.fit["left_out"]) == 1
    assert frozenset(("x1", "x2")) in graph.pairs
    assert graph.edges["disagreement_p"].to_numpy().min() > 1e-3
