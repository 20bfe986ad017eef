"""Protecting a person: at most max_rows rows of each id are used, chosen without looking at any other column."""

import math

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.compute.tables import open_table
from hazeglass.errors import DataError, PlanError
from hazeglass.publisher.rows import Rows, _among_first

IDS = ["p1", "p2", "p1", "p1", "p3", "p2", "p1"]


@pytest.fixture
def people():
    return pa.table({"customer_no": IDS, "a": np.arange(7.0) / 4, "b": np.arange(7.0) / 4, "c": np.zeros(7)})


def person_plan(make_plan, **more):
    if more.get("form") == "table":
        more["row_counts"] = "public"
    return make_plan(protects="person", id_column="customer_no", max_rows=2, **more)


def test_the_first_rows_of_each_person_are_kept_across_blocks(make_plan, people, monkeypatch):
    for block in (1, 2, 3, 100):
        monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", block)
        rows = Rows(person_plan(make_plan), open_table(people))
        kept = np.concatenate([block[0] for block in rows.blocks()])
        assert (kept * 4).tolist() == [0, 1, 2, 4, 5]
        assert rows.n == 5


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_rows_kept_are_those_a_plain_count_keeps(most):
    rng = np.random.default_rng(most)
    ids, counts, plain, expected = rng.integers(0, 60, 1000), {}, {}, []
    for identifier in ids.tolist():
        plain[identifier] = plain.get(identifier, 0) + 1
        expected.append(plain[identifier] <= most)
    found = [_among_first(pa.array(part), counts, most) for part in np.array_split(ids, 7)]
    assert np.concatenate(found).tolist() == expected
    assert counts == plain


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
def test_the_id_is_never_released(make_plan, form, tmp_path):
    secret = [f"SECRET-{k:04d}" for k in range(400)]
    rng = np.random.default_rng(0)
    data = pa.table({"customer_no": secret * 2, **{name: rng.standard_normal(800) for name in "abc"}})
    release = hg.publish(data, person_plan(make_plan, form=form, budget={"mu": 2.0}), tmp_path / "r")
    assert release.n == 800
    for path in release.path.rglob("*"):
        if path.is_file():
            assert b"SECRET-" not in path.read_bytes()
            assert b"customer_no" not in path.read_bytes()
    assert release.manifest.unit.max_rows == 2


def test_a_person_costs_more_noise_than_a_record(make_plan, tmp_path):
    data = pa.table({"customer_no": list(range(300)), **{name: np.zeros(300) for name in "abc"}})
    person = hg.publish(data, person_plan(make_plan), tmp_path / "p").manifest.stages[0]
    record = hg.publish(data, make_plan(), tmp_path / "r").manifest.stages[0]
    assert person.tau == pytest.approx(2 * record.tau)
    table_person = hg.publish(data, person_plan(make_plan, form="table"), tmp_path / "tp").columns[0].cell_noise
    table_record = hg.publish(data, make_plan(form="table"), tmp_path / "tr").columns[0].cell_noise
    assert table_person.variance / table_record.variance == pytest.approx(2, rel=0.01)
    assert math.isclose(table_person.step, table_record.step, rel_tol=0.6)


def test_missing_ids_and_columns_are_named(make_plan, people, tmp_path):
    with pytest.raises(DataError, match="some ids are missing"):
        hg.publish(
            people.set_column(0, "customer_no", pa.array([None, *IDS[1:]])), person_plan(make_plan), tmp_path / "r"
        )
    with pytest.raises(DataError, match="names column 'customer_no'"):
        hg.publish(people.drop_columns(["customer_no"]), person_plan(make_plan), tmp_path / "r")
    with pytest.raises(PlanError, match="needs id_column"):
        make_plan(protects="person", max_rows=2)
    with pytest.raises(PlanError, match="must not be released"):
        make_plan(protects="person", id_column="a", max_rows=2)


def test_persons_in_a_csv_file(make_plan, people, tmp_path):
    import pyarrow.csv

    pyarrow.csv.write_csv(people, tmp_path / "d.csv")
    assert hg.publish(tmp_path / "d.csv", person_plan(make_plan), tmp_path / "r").n == 5


def test_a_piece_of_kept_rows_is_shown_without_them(make_plan, people):
    (piece,) = Rows(person_plan(make_plan), open_table(people)).pieces()
    assert repr(piece).startswith("<kept rows of")
    assert "mask" not in repr(piece)
    assert not piece.public  # which rows are kept is as secret as the ids
