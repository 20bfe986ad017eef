"""On a dask cluster: the same bits, nothing secret on the way, and a lost worker that costs neither rows nor budget."""

import os
import signal
import struct
import threading
from contextvars import ContextVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle.writer import part_rows
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.publisher import moments
from hazeglass.publisher import table as parts
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.rows import Rows

ROWS = 200_000


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr("hazeglass.compute.tables._PIECE_ROWS", 20_000)


def get_client():
    import distributed

    return distributed.get_client()


def sums(plan, data, engine):
    rows = Rows(plan, open_table(data))
    stage = moments.plain_stage(plan, rows.public_size, 1.0)
    return moments.exact_sums(rows, stage, Encoder("public", "columns"), get_engine(engine))


def test_the_sums_are_the_same_bits_as_without_a_cluster(make_plan, tmp_path, cluster):
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.uniform(-5, 5, 150_001) for name in "abc"})
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=9_999)
    expected = sums(make_plan(), table, "serial")
    frame = dask_frame(table)
    for data in (table, str(tmp_path / "d.parquet"), f"file://{tmp_path}/*.parquet", frame, frame.persist()):
        for engine in ("serial", "dask"):
            found = sums(make_plan(), data, engine)
            assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def dask_frame(table):
    frames = pytest.importorskip("dask.dataframe")
    return frames.from_pandas(table.to_pandas(), npartitions=7)


@pytest.mark.parametrize("form", ["table", "synthetic"])
def test_a_simulation_repeats_on_a_cluster(make_plan, tmp_path, cluster, form):
    rng = np.random.default_rng(1)
    pq.write_table(
        pa.table({name: rng.standard_normal(ROWS) for name in "abc"}), tmp_path / "d.parquet", row_group_size=10_000
    )
    here, there = (
        hg.publish(tmp_path / "d.parquet", make_plan(form=form), tmp_path / engine[:4], engine=engine, simulate_seed=5)
        for engine in ("serial", f"dask:{cluster.scheduler_address}")
    )
    assert here.table().equals(there.table())
    assert [part.sha256 for part in here.manifest.files] == [part.sha256 for part in there.manifest.files]


def test_scores_are_drawn_alike_where_the_cluster_holds_or_computes_the_rows(make_plan, tmp_path, cluster):
    """Their key goes to the workers with the rows, past the scheduler."""
    rng = np.random.default_rng(4)
    table = pa.table({name: np.rint(rng.normal(size=3_000)) for name in "abc"})
    frame, plan = dask_frame(table), make_plan()
    hashes = set()
    for name, data in {"serial": table, "table": table, "lazy": frame, "held": frame.persist()}.items():
        engine = "serial" if name == "serial" else "dask"
        release = hg.publish(data, plan, tmp_path / name, engine=engine, simulate_seed=5)
        hashes.add(tuple(part.sha256 for part in release.manifest.files))
    assert len(hashes) == 1


def slow_down(seconds):
    """In a worker: every block takes this much longer."""
    import time

    from hazeglass.publisher.table import TableMechanism

    TableMechanism.quick = getattr(TableMechanism, "quick", TableMechanism.release)

    def slow(self, *arguments):
        time.sleep(seconds)
        return TableMechanism.quick(self, *arguments)

    TableMechanism.release = slow


def test_a_killed_worker_doubles_neither_a_row_nor_the_charge(make_plan, tmp_path, cluster, monkeypatch):
    """Row k holds the digits of k in base 50, and the noise is a twentieth of one: every row can be told again."""
    columns = [{"name": name, "kind": "continuous", "lower": 0.0, "upper": 49.0} for name in "abcd"]
    plan = make_plan(form="table", protects="entry", budget={"mu": 1000.0}, columns_as=columns, order="kept")
    ledger = Ledger.create(tmp_path / "l", "rows", mu_total=2000.0, unit=plan.unit)
    digits = np.array([np.arange(ROWS) // 50**k % 50 for k in range(4)], dtype=float)
    pq.write_table(pa.table(list(digits), names=list("abcd")), tmp_path / "d.parquet", row_group_size=20_000)
    client = get_client()
    client.run(slow_down, 0.1)
    victim, left_behind = [], []

    def kill_one(rows):
        if not victim:
            victim.append(next(iter(client.run(os.getpid).values())))
            os.kill(victim[0], signal.SIGKILL)

    remove = parts.shutil.rmtree

    def look_and_remove(folder, **options):
        left_behind.extend(os.listdir(folder))
        remove(folder, **options)

    monkeypatch.setattr(parts.shutil, "rmtree", look_and_remove)
    try:
        how = {"engine": "dask", "ledger": ledger.path, "progress": kill_one, "weak_on_purpose": True}
        release = hg.publish(tmp_path / "d.parquet", plan, tmp_path / "r", **how)
    finally:
        client.run(slow_down, 0.0)
    assert victim
    assert left_behind  # the file the dead worker was writing: another attempt took its place
    assert np.array_equal(np.rint([column.to_numpy() for column in release.table().columns]), digits)
    assert [entry.state for entry in ledger.history()] == ["confirmed"]
    names = sorted(path.relative_to(release.path).as_posix() for path in release.path.rglob("*.parquet"))
    assert names == [f"data/part-{k:05d}.parquet" for k in range(-(-ROWS // part_rows(4)))]
    assert not (release.path / "attempts").exists()
    assert not list(tmp_path.glob(".*partial*"))


@pytest.fixture
def scheduler_traffic(cluster, monkeypatch):
    """Every byte the scheduler sends or receives while the test runs."""
    from distributed.comm import tcp

    seen, with_scheduler = [], ContextVar("with_scheduler", default=False)
    port = cluster.scheduler_address.rpartition(":")[2]

    def watched(method):
        async def around(self, *arguments, **options):
            ends = (self._local_addr, self._peer_addr)
            with_scheduler.set(any(str(end).endswith(f":{port}") for end in ends))
            return await method(self, *arguments, **options)

        return around

    def outgoing(make):
        async def around(*arguments, **options):
            frames = await make(*arguments, **options)
            if with_scheduler.get():
                seen.extend(bytes(frame) for frame in frames)
            return frames

        return around

    def incoming(read):
        async def around(frames, *arguments, **options):
            if with_scheduler.get():
                seen.append(bytes(frames) if isinstance(frames, bytes | bytearray | memoryview) else b"".join(frames))
            return await read(frames, *arguments, **options)

        return around

    monkeypatch.setattr(tcp.TCP, "write", watched(tcp.TCP.write))
    monkeypatch.setattr(tcp.TCP, "read", watched(tcp.TCP.read))
    monkeypatch.setattr(tcp, "to_frames", outgoing(tcp.to_frames))
    monkeypatch.setattr(tcp, "from_frames", incoming(tcp.from_frames))
    return seen


@pytest.fixture
def keys(monkeypatch):
    """Every key this process draws."""
    drawn = []

    def urandom(size, draw=os.urandom):
        drawn.append(draw(size))
        return drawn[-1]

    monkeypatch.setattr("hazeglass.publisher.noise.os.urandom", urandom)
    return drawn


@pytest.mark.parametrize("form", ["moments", "one stage", "table"])
@pytest.mark.parametrize("kind", ["file", "memory", "person"])
def test_the_scheduler_sees_no_key_no_cell_and_no_sum(
    make_plan, tmp_path, cluster, scheduler_traffic, keys, form, kind
):
    cells = np.random.default_rng(2).uniform(-3, 3, 5_000)
    table = pa.table({"a": cells, "b": cells[::-1], "c": cells**2, "id": [f"SECRET-{k // 2}" for k in range(5_000)]})
    person = {"protects": "person", "id_column": "id", "max_rows": 2} if kind == "person" else {}
    person |= {"row_counts": "public"} if person and form == "table" else {}
    one_stage = {"form": "moments", "adaptive": False}
    plan = make_plan(**person, **(one_stage if form == "one stage" else {"form": form}))
    first, second, *_ = sums(plan, table, "serial") if form == "one stage" else ((), np.zeros(0))
    pq.write_table(table, tmp_path / "marked.parquet")
    hg.publish(tmp_path / "marked.parquet" if kind == "file" else table, plan, tmp_path / "r", engine="dask")
    seen = b"".join(scheduler_traffic)
    assert (b"marked.parquet" if kind == "file" else b"Guarded") in seen  # the right place was looked at
    assert len(keys) > 0 or form == "table"
    secrets = [*keys, *(struct.pack("<d", cell) for cell in cells[:200]), b"SECRET-1"]
    secrets += [struct.pack("<q", int(value)) for value in (*first, *second.ravel())]
    assert not [secret for secret in secrets if secret in seen]
    logged = str(cluster.get_logs()) + str(cluster.scheduler.transition_log) + str(cluster.scheduler.get_logs())
    assert "SECRET" not in logged


def test_cells_that_workers_cannot_read_are_counted_and_not_quoted(make_plan, tmp_path, cluster, capsys):
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text("a,b,c\n1,2,3\n1,SECRET-NAME,3\n")
    hg.publish(str(tmp_path / "*.csv"), make_plan(), tmp_path / "r", engine="dask")
    told = capsys.readouterr().err
    assert "publisher only: cells of column 'b' that are no numbers and count as missing: 2." in told
    assert "SECRET" not in told
    assert "SECRET" not in str(cluster.get_logs())


class Detached:
    """An object that can be read, as nothing, and not be sent."""

    def __reduce__(self):
        raise ValueError("note 'positive' is detached")


@pytest.mark.parametrize("cell", ["1.5", Detached(), threading.Lock()], ids=lambda cell: type(cell).__name__)
def test_a_cell_that_cannot_be_sent_is_read_as_without_a_cluster(make_plan, tmp_path, cluster, capfd, cell):
    cells = [*np.random.default_rng(0).uniform(-5, 5, 500), cell]
    frame = pd.DataFrame({"a": pd.Series(cells, dtype=object), "b": 1.0, "c": 2.0})
    found = [sums(make_plan(), frame, engine) for engine in ("serial", "dask")]
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    assert "positive" not in "".join(capfd.readouterr())


def test_columns_beside_the_planned_ones_decide_nothing_in_a_dask_frame(make_plan, tmp_path):
    """What Arrow has no type for can lie beside a period, as it can in a frame of pandas."""
    frames = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({name: np.linspace(-4, 4, 60) for name in "abc"} | {"month": ["march"] * 60})
    plan = make_plan(period_column="month", period="march")
    for beside in (np.ones(60) * 1j, np.ones(60, dtype=np.longdouble), pd.arrays.SparseArray([1.0] * 60)):
        data = frames.from_pandas(frame.assign(beside=beside), npartitions=3)
        assert open_table(data).kinds("month") == {"month": "text"}
        assert len(Rows(plan, open_table(data)).source.names) == 5
