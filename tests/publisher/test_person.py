"""Protecting a person: at most max_rows rows of each id are used, chosen without looking at any other column."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle.moments import pooled_rows
from hazeglass.compute.ids import canonical_id
from hazeglass.compute.tables import open_table
from hazeglass.compute.text import TextFormat
from hazeglass.errors import DataError, PlanError
from hazeglass.publisher.choice import among_first
from hazeglass.publisher.rows import Rows

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


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
@pytest.mark.parametrize("ids", [["p1", "p1"], [None, None]])
def test_fewer_than_two_persons_are_refused_before_anything_is_charged(make_plan, form, ids):
    data = pa.table({"customer_no": pa.array(ids, pa.string()), **{name: [0.0, 1.0] for name in "abc"}})
    with pytest.raises(DataError, match=r"at least 2 persons, got [01]"):
        Rows(person_plan(make_plan, form=form), open_table(data))


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_rows_kept_are_those_a_plain_count_keeps(most):
    rng = np.random.default_rng(most)
    ids, counts, plain, expected = [None if k > 55 else str(k) for k in rng.integers(0, 60, 1000)], {}, {}, []
    for identifier in ids:
        plain[identifier] = plain.get(identifier, 0) + 1
        expected.append(identifier is not None and plain[identifier] <= most)
    found = [among_first(pa.array(ids[k : k + 143], pa.string()), counts, most) for k in range(0, 1000, 143)]
    assert np.concatenate([kept for kept, _ in found]).tolist() == expected
    nobody = plain.pop(None)
    assert (counts, sum(count for _, count in found)) == (plain, nobody)


def kept(make_plan, data, **more):
    """The rows of column a that are used."""
    rows = Rows(person_plan(make_plan, **more), open_table(data))
    return [float(cell) for block in rows.blocks() for cell in block[0]], rows


def test_one_person_is_one_however_the_id_is_written_and_wherever_it_stands(make_plan, tmp_path):
    """7 in one file and "7" in another, 0.0 and -0.0, a dictionary with repeated values: each once passed the cap."""
    values = {name: [1.0, 2.0, 3.0] for name in "abc"}
    for folder, first, second in (
        ("number", pa.array([7, 7, 7]), pa.array(["7", "7", "8"])),
        ("float", pa.array([7.0, 7.0, 8.0]), pa.array([7, 7, 7], pa.int8())),
        ("zero", pa.array([0.0, -0.0, 0.0]), pa.array(["-0", "0.0", "1"])),
        ("nan", pa.array([float("nan"), float("nan"), 1.0]), pa.array([1.0, 2.0, float("nan")])),
        (
            "dictionary",
            pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["x", "x", "x"])),
            pa.array(["x", "x", "y"]),
        ),
    ):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"customer_no": first, **values}), tmp_path / folder / "1.parquet")
        pq.write_table(pa.table({"customer_no": second, **values}), tmp_path / folder / "2.parquet")
        ids = [canonical_id(cell.as_py(), TextFormat()) for part in (first, second) for cell in part]
        used, rows = kept(make_plan, tmp_path / folder)
        assert len(used) == sum(min(2, ids.count(one)) for one in set(ids) - {None}), folder
        assert rows.persons == len(set(ids) - {None}), folder


def test_ids_and_values_that_are_chunked_differently_stay_together(make_plan, monkeypatch):
    monkeypatch.setattr("hazeglass.compute.tables.BLOCK_ROWS", 3)
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 4)
    ids, values = ["p"] * 6 + ["q"] * 6, np.arange(12.0)
    data = pa.table(
        {
            "customer_no": pa.chunked_array([ids[:1], ids[1:9], ids[9:]]),
            "a": pa.chunked_array([values[:5], values[5:]]),
            "b": values,
            "c": values,
        }
    )
    assert kept(make_plan, data)[0] == [0, 1, 6, 7]


def test_rows_that_come_in_another_order_the_second_time_are_refused(make_plan, tmp_path):
    """Which rows of a person are used was chosen by their places."""
    frames = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"customer_no": ["big"] * 50 + [f"p{k}" for k in range(50)], **dict.fromkeys("abc", 0.0)})
    shuffled = frames.from_pandas(frame, npartitions=2).map_partitions(lambda part: part.sample(frac=1), meta=frame[:0])
    with pytest.raises(DataError, match="ids changed while they were read"):
        hg.publish(shuffled, person_plan(make_plan), tmp_path / "r", engine="serial")
    steady = hg.publish(frames.from_pandas(frame, npartitions=1), person_plan(make_plan), tmp_path / "s")
    assert steady.manifest.persons == 51


def test_ids_that_are_cut_otherwise_the_second_time_have_not_changed(make_plan):
    """Arrow cuts a batch where a column that is read beside the ids grows too large."""
    source = open_table(pa.table({"customer_no": ["p", None, "", "qq"] * 5, **dict.fromkeys("abc", np.zeros(20))}))
    rows = Rows(person_plan(make_plan), source)
    sizes = []
    for block_rows in (1, 3, 20):
        (used,) = rows._used_pieces()
        used = replace(used, piece=replace(used.piece, wanted=replace(used.piece.wanted, block_rows=block_rows)))
        sizes.append(sum(batch.num_rows for batch in used.batches(Counter())))
    assert sizes == [rows.n] * 3
    moved = open_table(pa.table({"customer_no": ["pq", None, "", "q"] * 5, **dict.fromkeys("abc", np.zeros(20))}))
    rows.source = moved
    with pytest.raises(DataError, match="ids changed"):
        list(rows.blocks())


def test_the_number_of_rows_is_noised_and_the_number_of_persons_is_not(make_plan, tmp_path):
    """With one row more or fewer of a person nothing but noised numbers changes."""
    ids = [k for k in range(200) for _ in range(1 + k % 2)]
    released = {}
    for few in (False, True):
        mine = [one for k, one in enumerate(ids) if not (few and one == 199 and ids.index(199) != k)]
        data = pa.table({"customer_no": mine, **{name: np.linspace(-1, 1, len(mine)) for name in "abc"}})
        release = hg.publish(data, person_plan(make_plan), tmp_path / str(few), simulate_seed=4)
        released[few] = release.manifest
        assert release.n == pooled_rows(release.manifest.stages)
        for stage in release.manifest.stages:
            assert stage.count_weight == pytest.approx(stage.radius**2 / math.sqrt(2))
            assert 200 <= stage.rows <= 400
    assert released[False].persons == released[True].persons == 200
    assert all(
        a.tau == b.tau and a.steps == b.steps for a, b in zip(*(m.stages for m in released.values()), strict=True)
    )


def test_a_plan_that_states_the_persons_hides_how_many_have_rows(make_plan, people, tmp_path):
    plan = person_plan(make_plan, persons=50)
    release = hg.publish(people, plan, tmp_path / "r", simulate_seed=1)
    assert release.manifest.persons == 50
    assert all(2 <= stage.rows <= 100 for stage in release.manifest.stages)
    with pytest.raises(DataError, match="says that there are 2 persons, and the data has more"):
        hg.publish(people, person_plan(make_plan, persons=2), tmp_path / "s")


@pytest.mark.parametrize("form", ["table", "moments", "synthetic"])
def test_the_id_is_never_released(make_plan, form, tmp_path):
    secret = [f"SECRET-{k:04d}" for k in range(400)]
    rng = np.random.default_rng(0)
    data = pa.table({"customer_no": secret * 2, **{name: rng.standard_normal(800) for name in "abc"}})
    table = {"row_counts": "public"} if form == "table" else {}
    release = hg.publish(
        data, person_plan(make_plan, form=form, budget={"mu": 20.0}, **table), tmp_path / "r", weak_on_purpose=True
    )
    assert abs(release.n - 800) < (1 if form == "table" else 5)
    assert release.manifest.persons == 400
    for path in release.path.rglob("*"):
        if path.is_file():
            assert b"SECRET-" not in path.read_bytes()
            assert b"customer_no" not in path.read_bytes()
    assert release.manifest.unit.max_rows == 2


def test_a_person_costs_more_noise_than_a_record(make_plan, tmp_path):
    data = pa.table({"customer_no": list(range(300)), **{name: np.zeros(300) for name in "abc"}})
    person = hg.publish(data, person_plan(make_plan, adaptive=False), tmp_path / "p").manifest.stages[0]
    record = hg.publish(data, make_plan(adaptive=False), tmp_path / "r").manifest.stages[0]
    assert person.tau == pytest.approx(2 * record.tau)
    table_person = hg.publish(data, person_plan(make_plan, form="table"), tmp_path / "tp").columns[0].cell_noise
    table_record = hg.publish(data, make_plan(form="table"), tmp_path / "tr").columns[0].cell_noise
    assert table_person.variance / table_record.variance == pytest.approx(2, rel=0.01)
    assert math.isclose(table_person.step, table_record.step, rel_tol=0.6)


def test_missing_columns_are_named(make_plan, people, tmp_path):
    with pytest.raises(DataError, match="names column 'customer_no'"):
        hg.publish(people.drop_columns(["customer_no"]), person_plan(make_plan), tmp_path / "r")
    with pytest.raises(PlanError, match="needs id_column"):
        make_plan(protects="person", max_rows=2)
    with pytest.raises(PlanError, match="must not be released"):
        make_plan(protects="person", id_column="a", max_rows=2)


def test_persons_in_a_csv_file(make_plan, people, tmp_path):
    import pyarrow.csv

    pyarrow.csv.write_csv(people, tmp_path / "d.csv")
    assert kept(make_plan, tmp_path / "d.csv")[0] == [0, 0.25, 0.5, 1, 1.25]


def test_a_row_without_an_id_is_left_out(make_plan, people, tmp_path, capsys):
    """A refusal would tell others that somebody's id is missing."""
    data = people.set_column(0, "customer_no", pa.array([None, " ", *IDS[2:]]))
    used, rows = kept(make_plan, data)
    assert used == [0.5, 0.75, 1.0, 1.25]
    rows.tell_publisher()
    told = "publisher only: rows without a readable id in 'customer_no', which are left out: 2.\n"
    assert capsys.readouterr().err == told


def test_a_piece_of_kept_rows_is_shown_without_them(make_plan, people):
    (piece,) = Rows(person_plan(make_plan), open_table(people))._used_pieces()
    assert repr(piece).startswith("<rows of")
    assert "kept" not in repr(piece)
    assert not piece.public  # which rows are kept is as secret as the ids


@pytest.mark.parametrize("rows", [1, 5])
def test_progress_says_nothing_of_the_number_of_rows(make_plan, rows, monkeypatch, tmp_path):
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 4)
    ids = ["mine"] * rows + [f"p{k}" for k in range(20)]
    data, seen = pa.table({"customer_no": ids, **dict.fromkeys("abc", np.zeros(len(ids)))}), []
    plan = make_plan(protects="person", id_column="customer_no", max_rows=5)
    release = hg.publish(data, plan, tmp_path / "r", progress=seen.append)
    assert seen == [21] * (len(release.manifest.rounds) + len(release.manifest.stages))
