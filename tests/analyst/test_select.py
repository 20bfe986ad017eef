"""Every way of choosing a penalty works on every release it applies to, and says so when it does not."""

import math
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.analyst import penalty
from hazeglass.analyst.error_model import ErrorModel
from hazeglass.analyst.penalty import PenaltyPath, Problem, given, pair_weights
from hazeglass.errors import InputError, RepairWarning, SelectionWarning

CHAIN = {frozenset(pair) for pair in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"))}


def chain_rows(n, seed=0, names="abcde"):
    rng = np.random.default_rng(seed)
    columns = [rng.standard_normal(n)]
    for _ in names[1:]:
        columns.append(0.6 * columns[-1] + 0.8 * rng.standard_normal(n))
    return pa.table(dict(zip(names, columns, strict=True)))


@pytest.fixture(params=["table", "moments", "synthetic"])
def release(request, make_plan, tmp_path):
    mu = 25.0 if request.param == "table" else 1.0
    return hg.publish(
        chain_rows(8000),
        make_plan(form=request.param, columns="abcde", budget={"mu": mu}),
        tmp_path / "r",
        simulate_seed=3,
    )


@pytest.mark.parametrize("select", ["ebic", "stars", "cv", "mse"])
@pytest.mark.filterwarnings("ignore::hazeglass.errors.SelectionWarning")
def test_every_choice_keeps_the_chain(release, select):
    if select in ("cv", "mse") and release.form != "table":
        with pytest.raises(InputError, match="needs rows to hold out"):
            hg.recover(release, select=select)
        return
    graph = hg.recover(release, select=select)
    support = {
        frozenset((graph.names[i], graph.names[j]))
        for i, j in zip(*np.nonzero(np.triu(graph.precision, 1)), strict=True)
    }
    assert support >= CHAIN
    assert graph.fit["alpha_chosen_by"] == select
    assert ("stability" in graph.edges.column_names) == (select == "stars")


def test_stability_separates_edges_from_the_rest(make_plan, tmp_path):
    release = hg.publish(
        chain_rows(20_000), make_plan(columns="abcde", budget={"mu": 1.0}), tmp_path / "r", simulate_seed=3
    )
    edges = hg.recover(release, select="stars").edges.to_pylist()
    true = [e["stability"] for e in edges if frozenset((e["source"], e["target"])) in CHAIN]
    assert min(true) == 1.0


def test_weights_follow_the_noise_of_each_entry():
    error = ErrorModel.of_gaussian_rows(np.diag([1.0, 1.0, 9.0]), 1000)
    weights = pair_weights("noise", np.sqrt(error.entry_variance))
    assert weights[0, 2] == pytest.approx(3 * weights[0, 1])
    assert weights[~np.eye(3, dtype=bool)].mean() == pytest.approx(1)


def test_repair_moves_no_farther_than_the_penalty_needs():
    rng = np.random.default_rng(0)
    for _ in range(20):
        S = rng.standard_normal((8, 8)) * 0.5
        S = (S + S.T) / 2
        np.fill_diagonal(S, 1.0)
        problem = Problem(S, np.ones((8, 8)))
        distance = problem.distance
        if distance == 0:
            continue
        assert problem.moved(1.01 * distance) == 0
        for share in (0.2, 0.6, 0.95):
            repaired = problem.at(share * distance)
            assert repaired.distance < share * distance
            assert problem.moved(share * distance) <= distance * (1 - 0.89 * share)
            solution = repaired.fit(share * distance)
            assert solution.converged
            assert np.linalg.eigvalsh(solution.precision)[0] > 0


def test_a_penalty_below_the_distance_is_repaired_and_reported():
    S = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.warns(RepairWarning, match=r"alpha = 0\.001.*d\(S\) = 0\.2"):
        choice = given(Problem(S, np.ones((3, 3))), 0.001)
    assert 0.2 < choice.moved < 0.28
    assert np.linalg.eigvalsh(choice.solution.precision)[0] > 0


def test_a_path_starts_empty_and_stays_above_the_distance():
    rng = np.random.default_rng(1)
    S = np.eye(6) + 0.2 * rng.standard_normal((6, 6))
    S = (S + S.T) / 2
    np.fill_diagonal(S, 1.0)
    path = PenaltyPath(Problem(S, np.ones((6, 6))))
    list(path.fits())
    assert np.count_nonzero(np.triu(path.solutions[0].precision, 1)) == 0
    assert min(path.alphas) > path.problem.distance
    while path.can_extend:
        list(path.fits())
    assert path.alphas == sorted(path.alphas, reverse=True)


@pytest.mark.slow
def test_every_bounded_fit_of_500_indefinite_matrices_converges():
    """Random symmetric noise on a chain, p from 5 to 100, above the distance: nothing crashes, hangs or loses PD."""
    rng = np.random.default_rng(2)
    for k in range(500):
        p = int(rng.integers(25, 101)) if k % 25 == 0 else int(rng.integers(5, 25))
        S = 0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
        noise = np.triu(rng.standard_normal((p, p)), 1) * 10 ** rng.uniform(-2, 0)
        S = S + noise + noise.T
        problem = Problem(S, np.ones((p, p)))
        alpha = max(rng.uniform(1.05, 2) * problem.distance, 0.02)
        solution = problem.fit(alpha)
        assert solution.gap <= 1e-6 * p * 1.01, (k, p, alpha)
        assert np.linalg.eigvalsh(solution.precision)[0] > 0


def test_choosing_the_smallest_penalty_warns():
    """A tight cluster wants every edge at any penalty."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((4000, 1)) + 0.3 * rng.standard_normal((4000, 4))
    with pytest.warns(SelectionWarning, match="smallest penalty"):
        graph = hg.recover(rows, select="cv")
    assert math.isfinite(graph.fit["alpha"])


def noisy_problem(p=40, noise=0.15, seed=0):
    """A chain seen through so much noise that its covariance is indefinite."""
    rng = np.random.default_rng(seed)
    S = 0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    dirt = np.triu(noise * rng.standard_normal((p, p)), 1)
    return Problem(S + dirt + dirt.T, np.ones((p, p)), noise=noise)


def test_a_path_ends_where_noise_alone_moves_an_entry_as_much_and_says_so():
    problem = noisy_problem(noise=0.02)
    path = PenaltyPath(problem, least=problem.noise)
    list(path.fits())
    assert 0.02 <= min(path.alphas) < 0.03
    assert "noise alone" in path.skipped
    list(path.fits())  # a criterion that is still falling asks for more
    assert min(path.alphas) < 0.02
    assert path.skipped is None or "noise" not in path.skipped


def test_a_path_keeps_away_from_where_an_estimate_hardly_exists_and_never_measures_the_distance(monkeypatch):
    def measured(*_, **__):
        raise AssertionError("d(S) was measured")

    problem = noisy_problem()
    distance = problem.distance
    monkeypatch.setattr(penalty, "psd_distance", measured)
    again = Problem(problem.covariance, problem.weights)
    path = PenaltyPath(again)
    list(path.fits())
    assert min(path.alphas) > 1.05 * distance
    assert all(fit.converged for fit in path.solutions)
    assert "d(S)" in path.skipped
    assert PenaltyPath(again, [1.0, 0.5]).skipped is None


def test_a_path_ends_where_a_graph_is_too_dense_to_be_read(monkeypatch):
    monkeypatch.setattr(penalty, "MOST_DEGREE", 4)
    path = PenaltyPath(noisy_problem(noise=0.02))
    counts = [path.problem.edges(fit) for fit in path.fits()]
    assert counts[-1] > 2 * 40 >= counts[-2]
    assert not path.can_extend
    assert "no longer read" in path.skipped


def test_a_fit_that_takes_too_long_ends_the_path(monkeypatch):
    path = PenaltyPath(noisy_problem(noise=0.02))
    fit = Problem.fit
    monkeypatch.setattr(Problem, "fit", lambda *given: replace(fit(*given), converged=given[1] > 0.3))
    fits = list(path.fits())
    assert [one.converged for one in fits] == [True] * (len(fits) - 1) + [False]
    assert "did not arrive in its time" in path.skipped


def test_fit_json_says_which_penalties_were_not_tried():
    graph = hg.recover(np.column_stack([chain_rows(3000)[name].to_numpy() for name in "abcde"]))
    assert re.fullmatch(
        r"Penalties below 0\.\d+ were not tried: (the criterion|noise alone) .*\.", graph.fit["skipped"]
    )
    assert min(step["alpha"] for step in graph.fit["path"]) >= 0.9 / math.sqrt(3000)
