"""Attacks on structure: infinity where neighbours differ with certainty, nothing where they do not."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from old_writer import OldWriter
from typer.testing import CliRunner

from hazeglass.audit import run
from hazeglass.audit.run import Target, _plan, structures
from hazeglass.audit.structure_attack import NO_DIFFERENCE, PAIRS, StructureAttack, structure_attacks
from hazeglass.cli.app import app

OLD = OldWriter()
MENDED = OldWriter(copies_batches=False, keeps_order=False, counts_rows=False, refuses=False)
# Each defect, the form in which it shows, and the attacks that must see it.
DEFECTS = {
    "copies_batches": (
        "table",
        {"batches in memory", "files and row groups", "spelling of numbers", "a column beside the plan"},
        "rows in each row group",
    ),
    "keeps_order": ("table", {"order of the rows"}, "order of the rows"),
    "counts_rows": ("moments", {"rows of one person"}, "release.json: n"),
    "refuses": (
        "moments",
        {"text in a cell", "a ragged line", "a stray quote", "a column's only value", "a missing id"},
        "exit status",
    ),
}
# What else shows a number of rows: a row without an id belongs to nobody.
ALSO = {"counts_rows": {"a missing id", "a ragged line"}}
UNITS = {"table": "record", "moments": "person", "synthetic": "record"}


def attacks(form, publish):
    return structure_attacks(_plan(1.0, form, UNITS[form]), publish)


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_old_writer_is_told_apart_with_certainty(defect):
    form, names, fact = DEFECTS[defect]
    for name in names:
        certificate = attacks(form, OLD)[name].certify(0.001)
        assert certificate.mu == math.inf, name
        assert fact in certificate.statistic


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_alone_is_seen_by_the_attacks_made_for_it_and_by_no_other(defect):
    form, names, _ = DEFECTS[defect]
    publish = replace(MENDED, **{defect: True})
    found = {name for name, attack in attacks(form, publish).items() if attack.differences()}
    assert found == names | ALSO.get(defect, set())


@pytest.mark.parametrize("form", ["table", "moments"])
def test_a_writer_without_the_defects_shows_no_difference(form):
    for name, attack in attacks(form, MENDED).items():
        certificate = attack.certify(0.001)
        assert (certificate.mu, certificate.statistic) == (0.0, NO_DIFFERENCE), name


OURS = [pytest.param(target, id=f"{target.form}, {target.noise}") for target in structures(1.0)]


@pytest.mark.parametrize("target", OURS)
def test_what_hazeglass_publishes_shows_no_difference(target):
    finding = run.run_attacks([target], 0).findings[0]
    assert finding.structural
    assert (finding.certified_mu, finding.certificate.statistic) == (0.0, NO_DIFFERENCE)


def test_every_pair_is_tried_on_some_form():
    assert {target.noise for target in structures(1.0)} == set(PAIRS)
    assert {target.form for target in structures(1.0)} == {f"structure of {form}" for form in UNITS}


def test_what_is_random_is_no_difference_and_what_is_printed_counts(make_plan):
    rng = np.random.default_rng(1)

    def publish(data, plan, out):
        out.mkdir()
        (out / "release.json").write_text(json.dumps({"noise": rng.normal(), "created": f"{rng.normal()}"}))
        sys.stderr.write(f"{data} rows\n" if loud else f"publisher only: {data} rows\n")

    attack = StructureAttack(make_plan(), lambda plan, folder: (1, 2), publish)
    loud = False
    assert attack.differences() == []
    loud = True
    assert attack.differences() == ["what is printed"]


def test_every_audit_looks_at_structure(make_plan, monkeypatch):
    seen = []
    monkeypatch.setattr(run, "run_attacks", lambda targets, runs, **_: seen.append([t.noise for t in targets]))
    run.audit(make_plan(form="table"))
    run.audit()
    assert all({"order of the rows", "files and row groups", "text in a cell"} <= set(names) for names in seen)


@pytest.mark.parametrize(("publish", "status"), [(OLD, 1), (MENDED, 0)])
def test_the_command_says_in_words_what_it_found(publish, status, tmp_path, plan_text, monkeypatch):
    (tmp_path / "plan.toml").write_text(plan_text)
    attack = attacks("table", publish)["batches in memory"]
    target = Target("structure of table", "record", "batches in memory", 1.0, lambda: attack)
    monkeypatch.setattr(run, "targets_of", lambda plan: iter([target]))
    monkeypatch.setattr(run, "structures_of", lambda plan: iter([]))
    command = ["audit", "--quick", "--plan", str(tmp_path / "plan.toml")]
    shown, as_json = CliRunner().invoke(app, command), CliRunner().invoke(app, [*command, "--json"])
    assert shown.exit_code == as_json.exit_code == status
    found = json.loads(as_json.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))["findings"][0]
    assert found["structural"] is True
    if publish is OLD:
        assert "Told apart with certainty" in shown.stdout
        assert "where mu is infinite" in shown.stderr
        assert (found["certified_mu"], found["holds"]) == ("infinity", False)
    else:
        assert NO_DIFFERENCE in " ".join(shown.stdout.split())
        assert (found["certified_mu"], found["holds"]) == (0.0, True)
        assert found["certificate"]["statistic"] == NO_DIFFERENCE
