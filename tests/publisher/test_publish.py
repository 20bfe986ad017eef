"""A rehearsal refuses what a publication would, and does nothing else."""

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.errors import BudgetExceededError, BundleError, DataError, InputError, OutputError, PlanError
from hazeglass.publisher import moments, table
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.publish import publish, rehearse


@pytest.fixture(autouse=True)
def no_draws(monkeypatch):
    def refuse(*_):
        raise AssertionError("a rehearsal must not draw")

    for module in (moments, table):
        monkeypatch.setattr(module, "draw", refuse)


@pytest.fixture
def rows():
    return pa.table({name: [1.0, 2.0, 3.0, 4.0, 5.0] for name in "abc"})


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
def test_nothing_is_drawn_charged_or_written(make_plan, rows, tmp_path, form):
    book = Ledger.create(tmp_path / "l.ledger", "d", mu_total=1.0)
    plan, progress = make_plan(form=form), []
    seen = rehearse(rows, plan, tmp_path / "r", ledger=book.path, engine="serial", progress=progress.append)
    assert (seen.plan, seen.rows, seen.mu_left) == (plan, 5, 1.0)
    assert progress == [1, 2, 3, 4, 5]
    assert book.history() == []
    assert [path.name for path in tmp_path.iterdir()] == ["l.ledger"]


def test_a_plan_may_be_a_path_and_a_ledger_is_no_must(rows, plan_text, tmp_path):
    (tmp_path / "plan.toml").write_text(plan_text)
    seen = rehearse(rows, tmp_path / "plan.toml", tmp_path / "r", engine="serial")
    assert seen.plan.names == ("a", "b", "c")
    assert seen.mu_left is None


def test_what_does_not_fit_the_budget_is_refused(make_plan, rows, tmp_path):
    book = Ledger.create(tmp_path / "l.ledger", "d", mu_total=0.1)
    with pytest.raises(BudgetExceededError):
        rehearse(rows, make_plan(), tmp_path / "r", ledger=book.path, engine="serial")


def test_a_place_that_is_taken_is_refused(make_plan, rows, tmp_path):
    with pytest.raises(OutputError, match="already exists"):
        rehearse(rows, make_plan(), tmp_path, engine="serial")


@pytest.mark.parametrize("data", ["in", "in/**/*.parquet", "in/*/*.parquet", "in/**", "in/../in"])
@pytest.mark.parametrize("release", [publish, rehearse])
def test_an_output_inside_the_input_is_refused(make_plan, rows, tmp_path, monkeypatch, data, release):
    """A release in form of a table would be more rows of it the next time."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for place in ("in", "in/deep"):
        pq.write_table(rows, tmp_path / place / "x.parquet")
    monkeypatch.chdir(tmp_path)
    for out in ("in/r", tmp_path / "in" / "deep" / "r"):
        with pytest.raises(OutputError, match="outside the input"):
            release(data, make_plan(), out, engine="serial")
    (tmp_path / "elsewhere").symlink_to("in")
    with pytest.raises(OutputError, match="outside the input"):
        release("in", make_plan(), "elsewhere/r", engine="serial")


def test_an_output_beside_the_input_is_none_inside_it(make_plan, rows, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(rows, tmp_path / "in" / "x.parquet")
    for k, data in enumerate(("in", "in/x.parquet", "in/*.parquet", "i*/x.parquet")):
        assert rehearse(str(tmp_path / data), make_plan(), tmp_path.parent / f"{tmp_path.name}{k}").rows == 5
    for data in ("in/x.parquet", "in/*.parquet"):
        assert rehearse(str(tmp_path / data), make_plan(), tmp_path / "in" / "r", engine="serial").rows == 5


def test_a_budget_too_small_for_the_sums_is_refused(make_plan, rows, tmp_path):
    with pytest.raises(DataError, match="do not fit"):
        rehearse(rows, make_plan(budget={"mu": 1e-14}), tmp_path / "r", engine="serial")
    with pytest.raises(PlanError, match="counts would need noise"):
        rehearse(rows, make_plan(budget={"mu": 1e-18}), tmp_path / "r", engine="serial")


@pytest.mark.parametrize("form", ["table", "moments"])
def test_the_publisher_hears_before_publishing_what_cannot_be_read(make_plan, rows, tmp_path, form, capsys):
    text = rows.set_column(2, "c", pa.array(["1", "two", None, "4", "V"]))
    rehearse(text, make_plan(form=form), tmp_path / "r", engine="serial")
    assert "cells of column 'c' that are no numbers and count as missing: 2." in capsys.readouterr().err


def test_of_persons_only_their_number_is_said(make_plan, rows, tmp_path):
    data = rows.append_column("id", pa.array([1, 1, 1, 2, 2]))
    plan = make_plan(protects="person", id_column="id", max_rows=2)
    seen = rehearse(data, plan, tmp_path / "r", engine="serial")
    assert (seen.rows, seen.persons) == (None, 2)


def test_what_is_no_table_no_plan_and_no_release_gets_one_sentence(make_plan, rows, tmp_path):
    plan, one = make_plan(), rows.to_pandas().a
    for data, given, said in (
        (one, plan, "got a Series. Make a frame"),
        (pl.Series(one.to_list()), plan, "got a Series. Make a frame"),
        (plan, rows.to_pandas(), "got DataFrame. The data comes first, then it"),
        (plan, plan, "got a Plan. The data comes first, then the plan"),
        (rows, None, "plan.toml's path, got NoneType"),
    ):
        with pytest.raises(InputError, match=said):
            publish(data, given, tmp_path / "r")
    for count in ("4000", rows.to_pandas(), 1.5, None):
        with pytest.raises(InputError, match="rows must be a whole number of at least 2, got"):
            plan.preview(count)
    with pytest.raises(BundleError, match="is a path or an http\\(s\\) address, got NoneType"):
        hg.load(None)
