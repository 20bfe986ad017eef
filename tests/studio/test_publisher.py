"""The publisher's side without its page."""

import json
import tomllib

import numpy as np
import pytest

import hazeglass as hg
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.plan_file import plan_text
from hazeglass.studio.publisher import confirmation, ledger_state, look_ahead, new_ledger

from .conftest import Studio


def test_the_journey_from_a_file_to_a_release(studio: Studio, wish, tmp_path):
    listed = studio.post("/publisher/folder", {"root": 0, "path": "inner"}).json()
    assert listed["entries"] == [{"name": "rows.csv", "kind": "data"}]
    looked = studio.finish("publisher", studio.post("/publisher/look", {"data": wish["data"]}))
    assert [column["name"] for column in looked["result"]["columns"]] == ["Größe", "âge", "c"]
    checked = studio.post("/publisher/check", wish).json()
    assert "each record (one whole row) stays hidden" in checked["sentence"]
    assert checked["sentence"].count(". ") == 0, "the promise is one sentence"
    job = studio.finish("publisher", studio.post("/publisher/publish", wish))
    assert job["state"] == "done", job
    release = hg.load(studio.home / "inner" / "release")
    assert release.n == job["result"]["rows"] == 400
    base = f"/publisher/jobs/{job['id']}"
    (tmp_path / "r.zip").write_bytes(studio.client.get(f"{base}/bundle.zip").content)
    assert hg.load(tmp_path / "r.zip").manifest == release.manifest
    statement = studio.client.get(f"{base}/statement.html")
    assert "Privacy statement: Zähler" in statement.text
    assert "sandbox" in statement.headers["content-security-policy"]


def test_a_release_is_charged_and_one_too_many_refused(studio, wish):
    made = studio.post(
        "/publisher/ledger/new",
        {
            "folder": wish["folder"],
            "name": "b.ledger",
            "dataset": "meters",
            "epsilon": 5,
            "delta": 1e-6,
            "document": wish["document"],
        },
    )
    assert made.status_code == 200, made.text
    wish["ledger"] = {"root": 0, "path": "inner/b.ledger"}
    listed = studio.post("/publisher/folder", {"root": 0, "path": "inner"}).json()["entries"]
    assert {"name": "b.ledger", "kind": "ledger"} in listed
    assert "'meters'" in studio.post("/publisher/check", wish).json()["sentence"]
    assert studio.finish("publisher", studio.post("/publisher/publish", wish))["state"] == "done"
    state = studio.post("/publisher/ledger", {"ledger": wish["ledger"]}).json()
    assert (state["releases"], state["unfinished"]) == (1, 0)
    wish["name"] = "second"
    refused = studio.post("/publisher/publish", wish)
    assert refused.status_code == 409
    assert Ledger.open(studio.home / "inner" / "b.ledger").summary().releases == 1


def test_persons_are_told_apart_by_the_plans_column_and_need_a_budget_for_persons(wish, tmp_path):
    plan, total = wish["document"], {"dataset": "meters", "epsilon": 5, "delta": 1e-6}
    new_ledger(tmp_path / "records", {**total, "document": plan})
    plan["release"].update(protects="person", id_column="customer", max_rows=3)
    new_ledger(tmp_path / "persons", {**total, "document": plan})
    assert Ledger.open(tmp_path / "persons").summary().id_column == "customer"
    plan["budget"]["epsilon"] = 1.0
    mu = Plan.from_dict(plan).guarantee.mu
    assert f"mu = {mu:.4g} is charged to the budget of 'meters'." in confirmation(plan, str(tmp_path / "persons"))
    with pytest.raises(hg.errors.PrivacyRefusal, match="make a ledger that protects persons"):
        confirmation(plan, str(tmp_path / "records"))
    plan["release"]["id_column"] = "household"
    with pytest.raises(hg.errors.PrivacyRefusal, match="by 'household'"):
        confirmation(plan, str(tmp_path / "persons"))
    assert ledger_state(tmp_path / "records")["history"] == []


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        (lambda w: w["document"]["columns"][0].pop("lower"), 409, "bound"),
        (lambda w: w["document"]["columns"][1].update(reason="  "), 409, "reason"),
        (lambda w: w["document"]["columns"][1].pop("reason"), 409, "reason"),
        (lambda w: w.update(name="inner/../x"), 422, "name"),
        (lambda w: w.update(folder={"root": 0, "path": ".."}), 403, "inside"),
        (lambda w: w.update(data={"root": 0, "path": "../secret.csv"}), 403, "inside"),
        (lambda w: w.update(name="rows.csv"), 422, "exists"),
        (lambda w: w.update(rows=1), 422, "rows"),
        (lambda w: w.update(rows="many"), 422, "rows"),
        (lambda w: w["document"]["budget"].update(epsilon=-1), 422, "epsilon"),
        (lambda w: w.update(document=None), 422, "plan"),
        (lambda w: w.update(ledger={"root": 0, "path": "inner/rows.csv"}), 422, "ledger"),
    ],
)
def test_what_cannot_be_published_is_refused_before_any_work(studio, wish, change, status, word):
    change(wish)
    for path in ("/publisher/check", "/publisher/publish"):
        answer = studio.post(path, wish)
        assert answer.status_code == status, answer.text
        assert word in answer.json()["error"]
    assert studio.client.get("/publisher/jobs").json() == []
    assert sorted(path.name for path in (studio.home / "inner").iterdir()) == ["rows.csv"]


@pytest.mark.parametrize("text", ["1.50317,2.5,3\n1,2,3\n4,5,6\n", "1,2,3\n4,5,6\n7,8,9\n", "a,b\nx,y\n"])
def test_a_file_without_names_or_numbers_is_refused_and_not_quoted(studio, text):
    (studio.home / "bare.csv").write_text(text)
    job = studio.finish("publisher", studio.post("/publisher/look", {"data": {"root": 0, "path": "bare.csv"}}))
    assert job["state"] == "failed"
    assert "1.50317" not in json.dumps(job)  # a number that no count of seconds is rounded to


def test_a_bad_cell_is_neither_quoted_nor_counted_on_a_page(studio, wish, capfd):
    path = studio.home / "inner" / "rows.csv"
    path.write_text(path.read_text(encoding="utf-8") + "1,SECRET-CELL,2\n", encoding="utf-8")
    job = studio.finish("publisher", studio.post("/publisher/publish", wish))
    assert job["state"] == "done"
    assert job["result"]["warnings"] == []
    assert "SECRET" not in json.dumps(job)
    assert "publisher only: cells of column 'âge' that are no numbers and count as missing: 1" in capfd.readouterr().err


def test_the_preview_is_the_one_of_the_plan(studio, document):
    seen = studio.post("/publisher/preview", {"document": document, "rows": 5000}).json()
    look = Plan.from_dict(document).preview(5000)
    assert seen["chosen"]["detectable"] == look.chosen.detectable
    assert seen["mu"] == look.promise.mu
    assert [form["form"] for form in seen["forms"]] == ["moments", "table", "synthetic"]


@pytest.mark.parametrize("form", ["moments", "table", "synthetic"])
@pytest.mark.parametrize("protects", ["record", "entry"])
def test_the_preview_does_not_wait_for_bounds(document, form, protects):
    """Blank columns are previewed as they will be once filled, wherever their bounds will lie."""
    document["release"].update(form=form, protects=protects)
    rng = np.random.default_rng(5)
    for column in document["columns"]:
        column["lower"] = float(rng.uniform(-1e4, 0))
        column["upper"] = float(column["lower"] + rng.uniform(1e-3, 1e5))
    filled = look_ahead(document, 5000)
    blank = [{"name": column["name"], "kind": column["kind"]} for column in document["columns"]]
    unfilled = look_ahead({**document, "columns": blank}, 5000)
    assert unfilled["chosen"] == pytest.approx(filled["chosen"])
    assert unfilled["odds"] == filled["odds"]


def test_a_plan_survives_being_written_and_read(studio, document):
    document["columns"][0]["name"] = 'quote " back\\slash\tünï'
    text = studio.post("/publisher/plan/text", {"document": document}).text
    assert tomllib.loads(text) == document
    (studio.home / "plan.toml").write_text(text, encoding="utf-8")
    assert studio.post("/publisher/plan/read", {"plan": {"root": 0, "path": "plan.toml"}}).json() == document
    assert Plan.load(studio.home / "plan.toml") == Plan.from_dict(document)


def test_a_plan_with_mu_is_read_as_the_same_promise(studio, document):
    mu = 0.37
    (studio.home / "p.toml").write_text(plan_text({**document, "budget": {"mu": mu}}), encoding="utf-8")
    read = studio.post("/publisher/plan/read", {"plan": {"root": 0, "path": "p.toml"}}).json()
    assert Plan.from_dict(read).guarantee.mu == pytest.approx(mu, rel=1e-6)


@pytest.mark.parametrize("body", ["", "[]", "nonsense", '{"document": NaN, "rows": 5}', '{"a": ' * 2000])
def test_a_request_that_is_no_request_gets_a_sentence(studio, body):
    from .conftest import ORIGIN

    answer = studio.client.post("/publisher/preview", content=body, headers=ORIGIN)
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_the_preview_answers_at_once(studio):
    """100 ms at 50 columns is what a hand on a slider needs; of processor time, as others may use the machine."""
    import time

    columns = [{"name": f"c{k}", "kind": "continuous", "lower": -1, "upper": 1} for k in range(50)]
    document = {"release": {"title": "t", "form": "moments"}, "columns": columns}
    taken = []
    for k in range(15):
        began = time.process_time()
        body = {"document": {**document, "budget": {"epsilon": 0.5 + k / 10, "delta": 1e-6}}, "rows": 10_000}
        assert studio.post("/publisher/preview", body).status_code == 200
        taken.append(time.process_time() - began)
    assert np.median(taken) < 0.1
