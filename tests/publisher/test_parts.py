"""Noisy rows leave in parts of fixed size, in an order nobody knows; of each piece one attempt is taken."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle import writer
from hazeglass.bundle.writer import part_rows
from hazeglass.errors import OutputError
from hazeglass.publisher import table as parts
from hazeglass.publisher.noise import SecretBits, SeededBits
from hazeglass.publisher.table import Buckets, bucket_count, recut, spill_beside


@pytest.fixture
def small(monkeypatch):
    """Many pieces, parts, row groups, chunks and buckets of a few rows each."""
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 70)
    monkeypatch.setattr("hazeglass.compute.tables._BLOCK_CELLS", 64)
    monkeypatch.setattr(writer, "_PART_CELLS", 64)
    monkeypatch.setattr(writer, "_ROW_GROUP", 24)
    monkeypatch.setattr(parts, "_CHUNK_ROWS", 50)


def counted(rows):
    """Row k holds the digits of k to base 20, and the noise is a fiftieth of one: every row can be told again."""
    return pa.table({name: np.arange(rows) // 20**k % 20 for k, name in enumerate("abc")})


def told(release):
    """The number of every released row."""
    return sum(20**k * np.rint(release.table()[name].to_numpy()).astype(int) for k, name in enumerate("abc"))


def telling_plan(make_plan, **more):
    columns = [{"name": name, "kind": "continuous", "lower": 0.0, "upper": 19.0} for name in "abc"]
    return make_plan(form="table", protects="entry", budget={"mu": 1000.0}, columns_as=columns, **more)


def test_every_row_leaves_once_with_its_columns_together(make_plan, tmp_path, small):
    rows = 500
    assert bucket_count(rows, 3) > 5
    for order in ("shuffled", "kept"):
        release = hg.publish(
            counted(rows), telling_plan(make_plan, order=order), tmp_path / order, weak_on_purpose=True
        )
        found = told(release).tolist()
        assert sorted(found) == list(range(rows))
        assert (found == list(range(rows))) == (order == "kept")
        assert release.manifest.order == order
        sizes = [pq.read_metadata(release.path / part) for part in release.parts]
        assert [size.num_rows for size in sizes] == [64] * 7 + [52]
        assert [size.row_group(0).num_rows for size in sizes] == [24] * 8
        assert not (release.path / "attempts").exists()


def test_the_order_of_a_sorted_file_is_not_in_its_release(make_plan, tmp_path, small):
    rows, scores = 400, []
    for k in range(40):
        release = hg.publish(
            counted(rows), telling_plan(make_plan), tmp_path / str(k), engine="serial", weak_on_purpose=True
        )
        scores.append(np.corrcoef(told(release), np.arange(rows))[0, 1] * math.sqrt(rows - 1))
    assert abs(np.mean(scores)) < 5 / math.sqrt(40)
    assert np.max(np.abs(scores)) < 5
    assert np.std(scores) == pytest.approx(1, abs=5 / math.sqrt(80))


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_dealing_and_shuffling_gives_every_order_equally_often(buckets):
    rows, runs, seen = 4, 9600, {}
    piece = parts.NoisyPiece(mechanism=None, bits=None, n=rows, buckets=buckets)
    schema = pa.schema([("k", pa.int64())])
    for seed in range(runs):
        bits = SeededBits(seed)
        bucket = piece._deal(rows, bits.stream(0))
        batches = [pa.record_batch([pa.array(np.flatnonzero(bucket == one))], schema=schema) for one in range(buckets)]
        dealt = Buckets([batches], buckets).in_order(True, bits, schema)
        order = tuple(itertools.chain.from_iterable(batch["k"].to_pylist() for batch in dealt))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    expected = runs / 24
    statistic = sum((count - expected) ** 2 / expected for count in seen.values())
    assert statistic < 60  # chi-squared with 23 degrees of freedom exceeds this once in 30,000


def test_two_releases_have_different_orders(make_plan, tmp_path, small):
    first, second = (
        told(hg.publish(counted(100), telling_plan(make_plan), tmp_path / name, weak_on_purpose=True)) for name in "12"
    )
    assert not np.array_equal(first, second)


def test_keys_that_are_equal_are_drawn_again():
    class Twice:
        def __init__(self):
            self.calls = 0

        def uint64(self, count):
            self.calls += 1
            return np.zeros(count, np.uint64) if self.calls == 1 else SecretBits().uint64(count)

    bits = Twice()
    assert sorted(parts._permutation(5, bits)) == list(range(5))
    assert bits.calls == 2


def test_parts_depend_on_the_number_of_columns_alone():
    assert part_rows(1) == part_rows(4) == 1 << 20
    assert part_rows(10) == 1 << 18
    assert part_rows(100_000) == 64
    for columns in (1, 3, 17, 1000, 65_000):
        assert part_rows(columns) * columns <= 1 << 22
        assert parts.noise_rows(columns) <= part_rows(columns)


def test_rows_are_cut_anew_however_they_came():
    schema = pa.schema([("k", pa.int64())])
    for sizes in ([10], [1] * 10, [3, 0, 4, 3], [7, 3]):
        ends = np.cumsum(sizes)
        batches = [
            pa.record_batch([pa.array(range(end - size, end), pa.int64())], schema=schema)
            for size, end in zip(sizes, ends, strict=True)
        ]
        assert [table["k"].to_pylist() for table in recut(batches, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_piece_that_this_process_cannot_see_is_refused(tmp_path):
    with pytest.raises(OutputError, match="where this process does not see them"):
        list(Buckets([tmp_path / "elsewhere"], 1).bucket(0))


def test_more_pieces_than_a_process_may_open_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_OPEN_FILES", 2)
    paths = [tmp_path / str(k) for k in range(5)]
    for k, path in enumerate(paths):
        batch = pa.record_batch([pa.array([k])], names=["k"])
        with pa.ipc.new_file(str(path), batch.schema) as sink:
            sink.write_batch(batch)
    for _ in range(2):
        assert [batch["k"][0].as_py() for batch in Buckets(paths, 1).bucket(0)] == list(range(5))


def test_attempts_that_cannot_be_removed_end_the_release(tmp_path, monkeypatch):
    """A row must never be out twice with different noise."""
    monkeypatch.setattr(parts.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(parts.shutil, "rmtree", lambda folder, ignore_errors: None)
    with pytest.raises(OutputError, match="cannot be removed"), spill_beside(tmp_path):
        pass


def test_a_worker_that_still_writes_delays_the_removal(tmp_path, monkeypatch):
    folder, slept = tmp_path / "attempts", []
    remove = parts.shutil.rmtree

    def removed(place, ignore_errors):
        if len(slept) == 3:
            remove(place)

    monkeypatch.setattr(parts.time, "sleep", slept.append)
    monkeypatch.setattr(parts.shutil, "rmtree", removed)
    with spill_beside(tmp_path):
        pass
    assert len(slept) == 3
    assert not folder.exists()
