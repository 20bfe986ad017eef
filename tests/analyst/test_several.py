"""Several releases pooled: the same as all rows where there is no noise, honest error bars, and whether they agree."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.csv as pc
import pytest

import hazeglass as hg
from hazeglass.analyst.several import Several, disagreement, is_several
from hazeglass.compute.engines import Serial
from hazeglass.errors import HazeglassWarning, InputError
from hazeglass.publisher.ledger import Ledger
from simulate import simulate
from sites import NAMES, N, P, chain, plan_of, rows_of, sites

pytestmark = pytest.mark.filterwarnings("ignore:releases must be of other rows")  # sites of one title and size


def partials(precision):
    scale = np.sqrt(np.diag(precision))
    return -(precision / np.outer(scale, scale))[np.triu_indices(len(precision), 1)]


def estimates(graph):
    return graph.edges["partial_correlation"].to_numpy()


@pytest.mark.parametrize("form", ["moments", "table"])
@pytest.mark.parametrize("scale", ["scores", "linear"])
def test_without_noise_sites_say_what_all_their_rows_say(form, scale):
    if form == "table" and scale == "linear":
        pytest.skip("a table has no scale")
    rng = np.random.default_rng(1)
    frames = [rows_of(chain(), 800, rng) for _ in range(3)]
    release = {} if form == "table" else {"scale": scale}
    parts = [simulate(frame, plan_of(300.0, form, **release), k) for k, frame in enumerate(frames)]
    pooled = hg.recover(parts)
    within = np.mean([frame.corr().to_numpy() for frame in frames], axis=0)
    assert np.abs(estimates(pooled) - partials(np.linalg.inv(within))).max() < (0.03 if form == "table" else 0.012)
    whole = hg.recover(pd.concat(frames))
    ratio = pooled.edges["std_error"].to_numpy() / whole.edges["std_error"].to_numpy()
    assert 0.93 < ratio.min() < ratio.max() < 1.3  # what undoing may get wrong, sites share


def test_one_release_pooled_with_none_is_itself_and_rows_are_no_releases():
    (one,) = sites(1)
    assert np.abs(estimates(hg.recover([one])) - estimates(hg.recover(one))).max() < 0.01
    assert not is_several([[1.0, 2.0]])
    assert not is_several([])
    assert is_several(["a", one])


def test_intervals_hold_and_sites_agree_where_they_are_alike():
    inside, apart = [], []
    for seed in range(3):
        graph = hg.recover(sites(4, seed=seed))
        truth, edges = partials(chain()), graph.edges
        inside.append((edges["ci_low"].to_numpy() <= truth) & (truth <= edges["ci_high"].to_numpy()))
        apart.append(edges["disagreement_p"].to_numpy())
        assert graph.fit["disagreement"]["p_value"] > 1e-4
    assert np.mean(inside) > 0.85
    assert 0.0 < np.mean(np.array(apart) < 0.2) < 0.45


def test_more_sites_leave_less_error_and_a_quiet_one_counts_for_more():
    few, many = hg.recover(sites(2)), hg.recover(sites(8))
    error = [np.mean(one.edges["std_error"].to_numpy()) for one in (few, many)]
    assert 1.6 < error[0] / error[1] < 2.6
    loud, quiet = sites(1, plan_of(0.05)), sites(1, plan_of(20.0), chain(-0.5), seed=2)
    both = hg.recover([*loud, *quiet])
    assert both.edges["partial_correlation"][0].as_py() < -0.2  # the quiet one's sign


def test_a_difference_of_level_between_sites_makes_no_edge():
    apart = np.eye(P)
    shifted = sites(4, precision=apart, shifts=[-3.0, -1.0, 1.0, 3.0], plan=plan_of(5.0))
    assert hg.recover(shifted).selected.num_rows <= 1
    rng = np.random.default_rng(0)
    rows = pd.concat([rows_of(apart, N, rng, shift) for shift in (-3.0, -1.0, 1.0, 3.0)])
    assert hg.recover(rows).selected.num_rows == P * (P - 1) // 2  # all rows together say otherwise


def test_a_site_that_differs_is_found_and_the_pair_is_named(tmp_path):
    other = chain()
    other[0, 1] = other[1, 0] = 0.5
    mixed = [*sites(3, plan_of(3.0)), *sites(1, plan_of(3.0), other, seed=9)]
    graph = hg.recover(mixed)
    found = graph.fit["disagreement"]
    assert found["p_value"] < 1e-6
    assert ["x1", "x2"] in [pair[:2] for pair in found["most"]]
    graph.save(tmp_path / "g")
    page = (tmp_path / "g" / "report.html").read_text(encoding="utf-8")
    assert "The releases do not agree." in page
    assert "4 releases of together 6,000 rows" in page
    header = pc.read_csv(tmp_path / "g" / "edges.csv").column_names
    assert "disagreement_p" in header
    fit = json.loads((tmp_path / "g" / "fit.json").read_text())
    assert [(one["mu"], one["n"], one["unit"]) for one in fit["releases"]] == [(3.0, N, "record")] * 4
    assert fit["mu"] is None


def test_the_test_of_agreement_is_unmoved_by_what_all_sites_share():
    """Its p-value is that of differences: the same error in every release leaves it as it was."""
    noisy = Several.of(sites(4)).covariance(Serial(), curved=False)
    precision = np.linalg.inv(noisy.covariance)
    shared = 0.05 * np.outer(np.arange(P), np.arange(P)) / P**2
    moved = [replace(part, covariance=part.covariance + shared) for part in noisy.parts]
    assert np.allclose(disagreement(noisy.parts, precision), disagreement(moved, precision))


def test_columns_may_come_in_another_order():
    rng = np.random.default_rng(0)
    frame = rows_of(chain(), N, rng)
    turned = NAMES[::-1]
    parts = [simulate(frame, plan_of(50.0), 1), simulate(frame[list(turned)], plan_of(50.0, names=turned), 2)]
    graph = hg.recover(parts)
    assert graph.names == NAMES
    assert np.abs(estimates(graph) - partials(np.linalg.inv(frame.corr().to_numpy()))).max() < 0.03
    assert graph.edges["disagreement_p"].to_numpy().min() > 0.01


def test_a_site_whose_noise_hides_a_column_is_left_out_and_named():
    good, lost = sites(3), simulate(rows_of(chain(), 60, np.random.default_rng(5)), plan_of(0.05), 77)
    lost = replace(lost, manifest=replace(lost.manifest, title="Tiny"))
    graph = hg.recover([*good, lost])
    assert any("Tiny is left out" in note for note in graph.fit["notes"])
    assert graph.fit["n"] == 3 * N + 60  # what was given
    assert np.isfinite(estimates(graph)).all()


def categorical():
    document = plan_of().to_dict()
    document["columns"][0] = {"name": "x1", "kind": "categorical", "levels": ["a", "b", "c"]}
    rows = rows_of(chain(), N, np.random.default_rng(0))
    return simulate(rows.assign(x1=np.array(list("abc"))[np.arange(N) % 3]), hg.Plan.from_dict(document), 1)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: simulate(rows_of(chain(), N, np.random.default_rng(0)), plan_of(scale="linear"), 1), "on one scale"),
        (
            lambda: simulate(rows_of(chain(), N, np.random.default_rng(0)), plan_of(names=NAMES[:4]), 1),
            "the same columns, and release 2 .'Site'. differs from the first in x5",
        ),
        (categorical, "levels without one .x1."),
        (lambda: simulate(rows_of(chain(), N, np.random.default_rng(0)), plan_of(dependence="curved"), 1), "curves"),
    ],
)
def test_what_cannot_be_pooled_is_said_in_one_sentence(other, message):
    with pytest.raises(InputError, match=message):
        hg.recover([*sites(1), other()])


def test_the_same_release_twice_is_refused(tmp_path):
    rows = rows_of(chain(), 300, np.random.default_rng(0))
    hg.publish(rows, plan_of(), tmp_path / "a")
    with pytest.raises(InputError, match="given twice"):
        hg.recover([tmp_path / "a", str(tmp_path / "a")])
    with pytest.raises(InputError, match="needs rows to hold out"):
        hg.recover(sites(2), select="cv")
    with pytest.raises(InputError, match="ranks the rows of one table"):
        hg.recover(sites(2), marginals="normal-scores")
    with pytest.raises(InputError, match="straight-line"):
        hg.recover(sites(2), dependence="curved")


def test_where_one_release_contradicts_its_error_bars_nothing_is_selected():
    document = plan_of().to_dict()
    document["release"] |= {"adaptive": False, "clip_radius": 0.3}
    wrong = simulate(rows_of(chain(), N, np.random.default_rng(0)), hg.Plan.from_dict(document), 1)
    linear = [simulate(rows_of(chain(), N, np.random.default_rng(k)), plan_of(scale="linear"), k) for k in (1, 2)]
    wrong = replace(wrong, manifest=replace(wrong.manifest, title="Clipped"))
    with pytest.warns(hg.errors.DistrustWarning, match="Clipped"):
        graph = hg.recover([*linear, wrong])
    assert graph.selected.num_rows == 0
    assert graph.edges["disagreement_p"].null_count == graph.edges.num_rows
    assert "disagreement" not in graph.fit


def test_releases_that_may_be_of_the_same_rows_are_used_with_a_warning(tmp_path):
    rows = rows_of(chain(), 300, np.random.default_rng(0))
    ledger = Ledger.create(tmp_path / "l", "ward", mu_total=5.0).path
    one, two = (hg.publish(rows, replace(plan_of(), title=t), tmp_path / t, ledger=ledger) for t in "ab")
    with pytest.warns(HazeglassWarning, match="'a' and 'b' may be of the same ones: one ledger"):
        hg.recover([one, two])
    with pytest.warns(HazeglassWarning, match="'a' and 'b' may be of the same ones"):
        hg.compare(one, two)
    with pytest.warns(HazeglassWarning, match="'Site' and 'Site' may be of the same ones"):
        hg.compare(*sites(2))
    others = [replace(part, manifest=replace(part.manifest, title=t)) for part, t in zip(sites(2), "ab", strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hg.recover(others)
