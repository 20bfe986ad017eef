"""statement.html says what an approver must know, in every form, without a script."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.present.statement import intruder_page, statement


@pytest.mark.parametrize("release", [{}, {"form": "table"}, {"form": "synthetic"}, {"clip_radius": "private"}])
def test_the_page_answers_the_approvers_questions(make_plan, table, tmp_path, release):
    made = hg.publish(table, make_plan(**release), tmp_path / "r")
    page = (made.path / "statement.html").read_text(encoding="utf-8")
    questions = ("What is released", "The promise", "What is not promised", "What the promise rests on", "How to check")
    reasons = ("bounds below are public", "number of rows is public", "each record (one whole row)", "1.83 %")
    proofs = ("sha256sum -c SHA256SUMS", hg.__version__, made.manifest.files[0].sha256, f"{made.manifest.epsilon:.4g}")
    for words in (*questions, *reasons, *proofs):
        assert words in page, words
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert not re.search(r"\b(src|href|action)\s*=|url\(", page)


def test_a_hostile_title_and_name_are_text(make_plan, table, tmp_path):
    hostile = '<script>alert(1)</script>" onload="x'
    columns = [{"name": hostile, "kind": "continuous", "lower": -4.0, "upper": 4.0}]
    columns += [{"name": name, "kind": "continuous", "lower": -4.0, "upper": 4.0} for name in "bc"]
    plan = make_plan(columns_as=columns)
    made = hg.publish(table.rename_columns([hostile, "b", "c"]), plan, tmp_path / "r")
    page = (made.path / "statement.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_columns_treated_alike_share_a_line_and_many_files_are_counted(make_plan, table, tmp_path):
    made = hg.publish(table, make_plan(form="table"), tmp_path / "r")
    many = replace(made.manifest, files=made.manifest.files * 20)
    page = statement(many)
    assert "<bdi>a</bdi>, <bdi>b</bdi>, <bdi>c</bdi></td>" in page
    assert "And 14 more" in page


def test_the_reason_for_the_bounds_stands_beside_them(make_plan, table, tmp_path):
    columns = [{"name": name, "kind": "continuous", "lower": -4.0, "upper": 4.0} for name in "abc"]
    made = hg.publish(table, make_plan(columns_as=columns), tmp_path / "without")
    assert "why they are public" not in (made.path / "statement.html").read_text(encoding="utf-8")
    columns[0]["reason"] = "the meter's range <4>"
    made = hg.publish(table, make_plan(columns_as=columns), tmp_path / "with")
    assert hg.load(made.path).columns[0].reason == "the meter's range <4>"
    page = (made.path / "statement.html").read_text(encoding="utf-8")
    assert "the meter&#39;s range &lt;4&gt;</td>" in page
    assert "no reason given</td>" in page


def test_cells_of_several_lines_are_said_to_need_a_well_written_file(make_plan, table, tmp_path):
    from hazeglass.compute.text import TextFormat

    for quoted_newlines in (True, False):
        plan = replace(make_plan(), text=TextFormat(quoted_newlines=quoted_newlines))
        made = hg.publish(table, plan, tmp_path / str(quoted_newlines))
        assert made.manifest.quoted_newlines is quoted_newlines
        assert ("a file without a stray quote" in statement(made.manifest)) is quoted_newlines


def test_a_simulation_warns(make_plan, table, tmp_path):
    made = hg.publish(table, make_plan(), tmp_path / "r", simulate_seed=1)
    page = (made.path / "statement.html").read_text(encoding="utf-8")
    assert "This is a simulation" in page
    for promised in ("GDP", "Gaussian differential privacy", "operating system", "accus", "<svg", "each record"):
        assert promised not in page
    assert "Protected: nothing." in page


def test_bounds_are_shown_as_they_are(make_plan, tmp_path):
    columns = [{"name": "k", "kind": "integer", "lower": 1234567, "upper": 23456789}]
    rows = pa.table({"k": [2_000_000, 3_000_000]})
    made = hg.publish(rows, make_plan(form="table", columns_as=columns), tmp_path / "r")
    for name in ("statement.html", "croissant.json", "datapackage.json"):
        page = (made.path / name).read_text(encoding="utf-8")
        assert "1234567" in page
        assert "23456789" in page


def finding(mu, certified, holds=True):
    return SimpleNamespace(
        form="moments", unit="record", noise="stages", claimed_mu=mu, certified_mu=certified, holds=holds
    )


def test_the_test_of_an_intruder_says_what_was_tried_and_what_came_of_it():
    found = SimpleNamespace(findings=[finding(0.5, 0.4), finding(0.5, 0.0)], broken=(), confidence=0.999)
    page = intruder_page("Ward <7>", "each record", True, found)
    assert "Ward &lt;7&gt;" in page
    assert "2 attacks on the mechanism of this plan, in a quick run" in page
    assert "at most 59.9 of 100 cases" in page
    assert page.count("<td>holds</td>") == 2
    broken = finding(0.5, math.inf, holds=False)
    page = intruder_page(
        "x", "each record", False, SimpleNamespace(findings=[broken], broken=[broken], confidence=0.999)
    )
    assert "<td>BROKEN</td>" in page
    assert "Do not publish with this plan" in page


def test_moments_are_said_to_hold_counts_and_stages_alike_are_told_once(make_plan, table, tmp_path):
    made = hg.publish(table, make_plan(form="moments"), tmp_path / "r")
    page = (made.path / "statement.html").read_text(encoding="utf-8")
    assert page.count("noisy counts of each column&#39;s cells, noisy means") == 2, "at the top, and for the board"
    stage = made.manifest.stages[-1]
    alike = statement(replace(made.manifest, stages=(stage, replace(stage, radius=2.5), replace(stage, mu=0.125))))
    lengths = f"mu = {stage.mu:.4g} each for the columns, lengths {stage.radius:.4g}, 2.5; mu = 0.125 for the columns"
    assert f"Moments were taken in 3 stages: {lengths}, length" in alike
    plain = statement(replace(made.manifest, rounds=()))
    assert "noisy counts" not in plain
