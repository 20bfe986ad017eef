"""The recipes of CONTRIBUTING.md work as they are printed, in about twenty lines each."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import hazeglass as hg
from hazeglass.audit.attack import certify
from hazeglass.glasso import components
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.publisher.noise import SeededBits

ROOT = Path(__file__).parents[2]


def recipe(file):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if f"/{file}:" in code)
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith(("import", "from", "#"))]
    assert len(lines) <= 22
    assert not (ROOT / "src/hazeglass" / re.search(r"hazeglass/(\S+):", code)[1]).exists(), "choose another example"
    values = {}
    exec(compile(code, file, "exec"), values)
    return values


def test_a_new_solver_is_found_and_proves_the_same_optimum(monkeypatch):
    monkeypatch.setitem(components.SOLVERS, "prox", recipe("prox.py")["solve"])
    S = np.cov(np.random.default_rng(1).standard_normal((60, 8)), rowvar=False)
    ours, new = (hg.graphical_lasso(S, 0.05, solver=name) for name in ("cd", "prox"))
    assert new.solver == "prox"
    assert new.converged
    np.testing.assert_allclose(new.objective, ours.objective, atol=1e-5)


@pytest.mark.parametrize(("share", "honest"), [(1.0, True), (0.5, False)])
def test_a_new_mechanism_is_attacked_and_only_an_honest_claim_stands(share, honest):
    histogram, runs, claim = recipe("histogram.py")["noisy_histogram"], 3000, GaussianDP(math.sqrt(0.5))
    edges, bits, noised = np.arange(4.0), SeededBits(5), GaussianDP(claim.mu / share)
    # The worst pair of neighbours: one row moves from the first bin to the last.
    sides = [np.array([histogram([0.5, at], edges, noised, bits) for _ in range(runs)]) for at in (0.5, 2.5)]
    scores = [(counts[:, 2] - counts[:, 0]).astype(float)[:, None] for counts in sides]
    found = certify(*scores, statistics=["last minus first"], level=1e-3).mu
    assert (found <= claim.mu) is honest
    assert found > 0.6 * claim.mu


def test_a_new_data_set_can_be_published_and_recovered(tmp_path):
    ring = recipe("ring.py")["make_ring"]()
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "Ring", "form": "moments", "protects": "record"},
            "budget": {"mu": 2.0},
            "columns": [{"name": n, "kind": "continuous", "lower": -8.0, "upper": 8.0} for n in ring.columns],
        }
    )
    release = hg.publish(ring.to_arrow(), plan, tmp_path / "release", simulate_seed=1)
    assert ring.truth <= hg.recover(release).pairs


def test_the_version_stands_in_one_place_and_the_citation_agrees():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert cited == hg.__version__


def test_the_oldest_versions_are_those_that_the_project_promises():
    values = {"__file__": str(ROOT / "constraints" / "generate.py"), "__name__": "generate"}
    exec(compile((ROOT / "constraints" / "generate.py").read_text(encoding="utf-8"), "generate.py", "exec"), values)
    assert (ROOT / "constraints" / "oldest.txt").read_text(encoding="utf-8") == values["text"]()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "RELEASING.md"])
def test_every_make_target_that_a_page_names_exists(page):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make\s+([a-z]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named <= targets
