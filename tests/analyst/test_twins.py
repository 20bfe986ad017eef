"""Columns that say the same, or one that others make up: their own pairs are few, and no other pair may suffer."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from tests.simulate import simulate

import hazeglass as hg
from hazeglass.analyst.covariance import covariance_of
from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.noisy import NoisyCovariance
from hazeglass.analyst.penalty import Problem, given
from hazeglass.analyst.twins import inferred, views


def chain(seed, rows=30_000):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((rows, 4))
    z[:, 1] += 0.8 * z[:, 0]
    z[:, 2] += 0.8 * z[:, 1]
    return dict(zip("abcd", z.T, strict=True))


def release_of(table, *, epsilon=3.0, seed=0, **kinds):
    columns = [kinds.get(name, hg.Column(name, "continuous", lower=-30, upper=30)) for name in table]
    plan = hg.Plan(title="Twins", form="moments", epsilon=epsilon, delta=1e-6, columns=columns)
    return simulate(pa.table(table), plan, seed)


def edges_of(release, alpha=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = hg.recover(release, alpha=alpha)
    return graph, {(row["source"], row["target"]): row for row in graph.edges.to_pylist()}


def test_columns_with_something_of_their_own_are_seen_as_they_are():
    noisy = covariance_of(release_of(chain(1))).standardised()
    (view,) = views(noisy)
    assert view.noisy is noisy
    assert view.out == ()
    assert view.pairs.all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_copy_of_a_column_leaves_every_other_pair_as_it_was(seed):
    table = chain(seed)
    _, alone = edges_of(release_of(table, seed=seed))
    graph, both = edges_of(release_of({**table, "copy": np.round(table["a"], 4) * 2}, seed=seed))
    (note,) = [one for one in graph.fit["notes"] if "determined by other columns" in one]
    assert note.startswith(("a is", "copy is"))
    for pair, row in alone.items():
        assert both[pair]["std_error"] < 2 * row["std_error"]
        assert abs(both[pair]["partial_correlation"] - row["partial_correlation"]) < 5 * row["std_error"]
        assert both[pair]["selected"] == row["selected"] or row["q_value"] > 1e-3
    assert both["a", "copy"]["partial_correlation"] > 0.9
    assert both["a", "copy"]["selected"]
    assert both["b", "copy"]["selected"]  # as b depends on a, given all but the other of the two
    assert both["c", "copy"]["p_value"] > 1e-4
    assert both["d", "copy"]["p_value"] > 1e-4


def test_a_sum_of_columns_does_not_make_every_interval_useless():
    table = chain(5)
    _, edges = edges_of(release_of({**table, "sum": table["a"] + table["d"]}, epsilon=1.0, seed=5))
    width = [row["ci_high"] - row["ci_low"] for row in edges.values()]
    assert max(width) < 0.5
    assert edges["a", "b"]["selected"]
    assert edges["b", "c"]["selected"]
    assert not edges["c", "d"]["selected"]


@pytest.mark.parametrize("seed", [1, 2])
def test_two_amounts_that_never_occur_together_are_named_and_no_other_pair_suffers(seed):
    """Most rows have neither a gain nor a loss, none has both, and either goes with a larger a."""
    table = chain(seed)
    rng, share = np.random.default_rng(seed), 1 / (1 + np.exp(2 - table["a"]))
    some, gains = rng.random(share.size) < share, rng.random(share.size) < 0.6
    amount = np.floor(np.exp(8 + rng.standard_normal(share.size)))
    kinds = {name: hg.Column(name, "integer", lower=0, upper=99_999) for name in ("gain", "loss")}
    gain = {**table, "gain": np.where(some & gains, amount, 0).astype(np.int64)}
    both = {**gain, "loss": np.where(some & ~gains, amount, 0).astype(np.int64)}
    _, alone = edges_of(release_of(gain, seed=seed, gain=kinds["gain"]))
    graph, edges = edges_of(release_of(both, seed=seed, **kinds))
    (note,) = [one for one in graph.fit["notes"] if "Nothing in this release says" in one]
    assert "gain and loss depend" in note or "loss and gain depend" in note
    assert len(graph.fit["left_out"]) == 1
    for pair, row in alone.items():
        assert edges[pair]["std_error"] < 2 * row["std_error"]
    assert edges["gain", "loss"]["ci_low"] == -1
    assert not edges["gain", "loss"]["selected"]
    for name in ("gain", "loss"):
        assert edges["a", name]["selected"]
        assert edges["d", name]["p_value"] > 1e-4


def test_noise_that_makes_columns_seem_determined_spoils_neither_ranking_nor_intervals():
    p, t, rng = 30, 0.15, np.random.default_rng(0)
    links = np.diag(np.full(p - 1, -0.45), 1)
    whole = np.linalg.inv(np.eye(p) + links + links.T)
    whole /= np.sqrt(np.outer(np.diag(whole), np.diag(whole)))
    noise = np.triu(rng.standard_normal((p, p)) * t, 1)
    noise += noise.T + np.diag(rng.standard_normal(p) * t * np.sqrt(2))
    error = ErrorModel.of_gaussian_rows(whole, 10_000).plus_isotropic(t)
    noisy = NoisyCovariance(tuple(f"x{k}" for k in range(p)), 10_000, whole + noise, error).standardised()
    assert len(views(noisy)) > 1
    problem = Problem.of(noisy)
    found = inferred(noisy, problem, given(problem, 0.5).solution)
    edges = np.eye(p, k=1)[np.triu_indices(p, 1)] > 0
    assert found.left_out == ()
    assert np.median(found.pairs.std_error) < 0.3
    assert np.mean(found.evidence[edges][:, None] > found.evidence[~edges]) > 0.9


def partials(graph):
    return (graph.edges[key].to_pylist() for key in ("source", "target", "partial_correlation"))


@pytest.mark.parametrize("marginals", ["as-is", "normal-scores"])
def test_a_copy_among_rows_leaves_the_pairs_of_all_others_as_they_are(marginals):
    rng = np.random.default_rng(0)
    rows = dict(zip("abcd", rng.standard_normal((4, 500)), strict=True))
    rows["b"] += 0.6 * rows["a"]
    rows["c"] += 0.6 * rows["b"]
    alone = hg.recover(pa.table(rows), marginals=marginals)
    both = rows | {"a2": 2 * rows["a"] + 1, "d2": rows["d"]}
    twice = hg.recover(pa.table(both), marginals=marginals)  # a warning would be an error
    assert sorted(twice.fit["left_out"]) == ["a2", "d2"]
    found = {frozenset(pair[:2]): pair[2] for pair in zip(*partials(twice), strict=True)}
    for source, target, value in zip(*partials(alone), strict=True):
        assert abs(found[frozenset((source, target))] - value) < 1e-3
    assert found[frozenset(("a", "a2"))] > 0.95
    assert found[frozenset(("d", "d2"))] > 0.95
    assert twice.pairs == alone.pairs | {frozenset(("a", "a2")), frozenset(("d", "d2")), frozenset(("a2", "b"))}
