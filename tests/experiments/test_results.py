"""Cells of the paper's tables, near the printed numbers."""

import numpy as np
import pytest
from hazeglass_experiments.attacks import run as attacks
from hazeglass_experiments.cells import Setup
from hazeglass_experiments.figures import graphs
from hazeglass_experiments.honest import run as honest
from hazeglass_experiments.methods import METHODS, best_over
from hazeglass_experiments.solvers import run as solvers
from hazeglass_experiments.table1a import run as table1a
from hazeglass_experiments.table1b import run as table1b
from hazeglass_experiments.table2 import run as table2
from hazeglass_experiments.toy import run as toy

QUICK = Setup(quick=True)


def test_the_chain_of_table_1a():
    found = table1a.measure(QUICK, n=500, run=0)
    assert found["no noise"] == found["100 dB"] == 1.0
    assert found["40 dB"] == pytest.approx(0.993, abs=0.03)
    assert found["20 dB"] == pytest.approx(0.934, abs=0.03)


def test_table_1b_keeps_its_order_on_a_smaller_network():
    sparse, dense = (table1b.measure(QUICK, sparsity=sparsity, run=0)["plain"] for sparsity in (0.95, 0.9))
    assert sparse["no noise"] > 0.9
    assert sparse["20 dB"] > dense["20 dB"]
    assert dense["20 dB"] == pytest.approx(dense["no noise"], abs=0.01)


def test_the_large_networks_have_the_sparsity_asked_for_and_a_valid_precision():
    precision, truth = table1b.random_precision(300, 0.95, 0.1, np.random.default_rng(1))
    assert truth.mean() == pytest.approx(0.05, abs=0.005)
    assert np.linalg.eigvalsh(precision)[0] > 0
    assert precision[0].sum() == pytest.approx(2 * precision[0, 0])


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("cell_signalling", (0.71, 0.70)),
        ("chickenpox", (0.63, 0.63)),
        ("lawmakers", (1.0, 0.87)),
        ("soil", (1.0, 0.99)),
    ],
)
def test_the_papers_own_data_sets_of_table_2(data_dir, name, printed):
    found = [table2.measure(Setup(True, data_dir), name=name, run=run) for run in (0, 1, 2)]
    assert found[0]["no noise"] == pytest.approx(printed[0], abs=0.005)
    assert np.mean([one["20 dB"] for one in found]) == pytest.approx(printed[1], abs=0.04)


def test_every_printed_digit_of_the_small_example():
    found = toy.measure(QUICK)
    records = [toy._digit_record(row, np.array(found["perturbed"])) for row in toy.read_expected(toy.__file__)]
    assert [record["verdict"] for record in records] == ["same"] * 10


def test_noise_fills_trees_but_not_the_signed_cycle():
    found = toy.measure(QUICK)
    assert found["zeros"] > 100
    assert found["zeros_kept"] == 0
    cycle = np.array(found["counterexample"])
    assert abs(cycle[0, 2]) < 1e-15
    assert abs(cycle[0, 1]) > 0.1


@pytest.mark.parametrize("level", ["none", 20])
@pytest.mark.parametrize("name", ["cell_signalling", "grid11", "chickenpox"])
def test_algorithms_1_and_2_agree(data_dir, name, level):
    found = solvers.measure(Setup(True, data_dir), name=name, level=level)
    assert found["relative"] < 1e-4


def test_the_papers_claims_are_refuted(tmp_path):
    found = attacks.measure(QUICK)
    rows, covariance, counts = (one["certified_mu"] for one in found)
    assert rows > 6
    assert covariance > 2.5
    assert counts > 6
    section = attacks.report({"attacks/all": found}, QUICK, tmp_path)
    assert "attacks refute 3 of its 3 claims" in section.text[0]
    assert (tmp_path / "attacks.png").stat().st_size > 5000


def test_a_perfect_covariance_ranks_every_edge_first_by_every_method():
    precision = np.eye(6) + 0.4 * (np.eye(6, k=1) + np.eye(6, k=-1))
    covariance = np.linalg.inv(precision)
    truth = (precision != 0)[np.triu_indices(6, 1)]
    for name in METHODS:
        assert best_over(name, covariance, 1000, truth, [0.1, 0.01])[1] == 1.0, name


def test_edges_lost_and_gained_are_counted_against_no_noise():
    found = {"edges": {"no noise": [[0, 1, 0.5], [1, 2, 0.4]], "20 dB": [[0, 1, 0.5], [0, 2, 0.1]]}}
    assert graphs.changes(found)[1] == {"noise": "20 dB", "edges": 2, "lost": 1, "gained": 1, "overlap": 1 / 3}


def test_an_honest_release_of_moments_beats_the_table(data_dir):
    found = honest.measure(Setup(True, data_dir), name="cell_signalling", run=0)
    assert found["moments 8"]["auc"] > found["table 8"]["auc"]
    assert found["moments 8"]["auc"] > 0.65
