"""`hazeglass audit`: a plan's own mechanism, exit status, JSON and the picture."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import hazeglass as hg
from hazeglass.audit import run
from hazeglass.audit.attack import certify
from hazeglass.audit.run import AuditResult, Finding
from hazeglass.cli.app import app
from hazeglass.present.plots import plot_audit
from hazeglass.publisher import moments, noise


@pytest.fixture
def plan_path(tmp_path, plan_text):
    path = tmp_path / "plan.toml"
    path.write_text(plan_text.replace("epsilon = 1.0\ndelta = 1e-6", "mu = 1.0"))
    return path


@pytest.fixture(autouse=True)
def few_runs(monkeypatch):
    monkeypatch.setattr(run, "QUICK_RUNS", 1 << 16)
    monkeypatch.setattr(run, "structure_attacks", lambda plan: {})  # test_structure.py has them


def hazeglass(*arguments):
    result = CliRunner().invoke(app, ["audit", "--quick", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_plan_is_audited_and_its_claim_stands(plan_path):
    result = hazeglass("--plan", plan_path)
    assert result.exit_code == 0
    assert "No attack refutes a claim" in result.stdout
    assert "counts and stages" in " ".join(result.stdout.split())
    assert all(" s so far" in line for line in result.stderr.splitlines())  # lines of progress, and no bar


def test_json_holds_every_number_of_the_certificate(plan_path):
    found = json.loads(hazeglass("--plan", plan_path, "--json").stdout)
    assert found["claims_hold"] is True
    assert (found["confidence"], found["tests"]) == (0.999, 1)
    finding = found["findings"][0]
    assert (finding["form"], finding["unit"], finding["claimed_mu"]) == ("moments", "record", 1.0)
    assert 0.85 <= finding["ratio"] <= 1
    assert finding["certificate"]["runs"] == 1 << 15
    assert finding["certificate"]["level"] == pytest.approx(0.001)


def test_a_refuted_claim_gives_one_sentence_and_exit_status_1(plan_path, monkeypatch):
    def less(law, size, bits):
        return noise.draw(type(law)(float(round(0.8 * law.scale))), size, bits)

    monkeypatch.setattr(moments, "draw", less)
    result = hazeglass("--plan", plan_path, "--json")
    assert result.exit_code == 1
    assert "an attack refutes 1 of the claims" in result.stderr
    assert "Do not publish" in result.stderr
    assert json.loads(result.stdout)["claims_hold"] is False


def test_the_picture_is_drawn(plan_path, tmp_path):
    for name in ("audit.png", "audit.svg"):
        assert hazeglass("--plan", plan_path, "--out", tmp_path / name).exit_code == 0
        assert (tmp_path / name).stat().st_size > 5000


def test_the_picture_shows_broken_claims_too(tmp_path):
    result = run.run_attacks(list(run.mechanisms(1.0))[:2], 1 << 14)
    apart = certify(np.zeros((4096, 1)), np.ones((4096, 1)), statistics=["all of it"], level=1e-3)
    broken = Finding("table", "entry", "none", 1.0, apart)
    assert broken.ratio > 1
    plot_audit(AuditResult((*result.findings, broken), 0.999, 1.0), save=tmp_path / "broken.png")
    assert (tmp_path / "broken.png").exists()


def test_what_prevents_the_picture_is_said_before_the_audit(plan_path, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "run_attacks", None)
    for name, message in (("a.gif", "saved as .svg"), ("no/where.png", "does not exist")):
        result = hazeglass("--plan", plan_path, "--out", tmp_path / name)
        assert result.exit_code == 2
        assert message in result.stderr
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = hazeglass("--plan", plan_path, "--out", tmp_path / "a.png")
    assert result.exit_code == 2
    assert "need matplotlib" in result.stderr
    assert "hazeglass[plot]" in result.stderr


def test_a_missing_plan_is_named():
    result = hazeglass("--plan", "nowhere.toml")
    assert result.exit_code == 2
    assert "there is no plan 'nowhere.toml'" in result.stderr


@pytest.mark.parametrize("form", ["table", "moments"])
def test_a_plan_too_wide_to_attack_is_refused(make_plan, form):
    plan = make_plan(form=form, protects="readings", readings=10**9)
    with pytest.raises(hg.errors.InputError, match="too many numbers to attack"):
        run.audit(plan, quick=True)


def test_the_audit_without_a_plan_covers_all_mechanisms(monkeypatch):
    seen = {}
    monkeypatch.setattr(run, "run_attacks", lambda targets, runs, **_: seen.update(targets=targets, runs=runs))
    run.audit(quick=True)
    assert len(seen["targets"]) == 3 * 32 + 37
    assert {target.claimed_mu for target in seen["targets"]} >= {0.5, 1.0, 2.0}


def test_progress_is_reported_before_each_attack():
    calls = []
    targets = list(run.mechanisms(2.0))[:3]
    run.run_attacks(targets, 1 << 10, progress=lambda *call: calls.append(call))
    assert [call[1:] for call in calls] == [(0, 3), (1, 3), (2, 3)]
    assert calls[0][0] == "table, entry, rounded"
