"""Engines keep the order, pass errors on, and give every block one result."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from hazeglass.compute.engines import Serial, get_engine, open_engine
from hazeglass.errors import DataError, InputError, MissingExtraError

ENGINES = ["serial", "threads", "dask"]


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "dask":
        request.getfixturevalue("cluster")
    return get_engine(request.param)


def square(k):
    return k * k


def fail_at_30(k):
    if k == 30:
        raise DataError("block 30")
    return k


def test_engines_keep_the_order_and_pass_errors_on(engine):
    assert list(engine.map(square, range(100))) == [k * k for k in range(100)]
    with pytest.raises(DataError, match="block 30"):
        list(engine.map(fail_at_30, range(100)))


def test_engines_take_blocks_as_they_need_them(engine):
    taken = []
    results = engine.map(square, (taken.append(k) or k for k in range(1000)))
    next(results)
    assert len(taken) < 50
    results.close() if hasattr(results, "close") else None


def test_joblib_runs_on_the_same_workers(engine):
    from joblib import Parallel, delayed

    with engine.joblib():
        assert Parallel()(delayed(square)(k) for k in range(10)) == [k * k for k in range(10)]


def test_unknown_engines_and_addresses_are_named():
    with pytest.raises(InputError, match="serial, threads, dask"):
        get_engine("spark")
    own = Serial()
    with open_engine(own) as engine:
        assert engine is own


def test_a_scheduler_that_is_not_there_is_named(monkeypatch):
    pytest.importorskip("distributed")
    import dask

    before = dask.config.get("distributed.scheduler.http.routes")
    monkeypatch.setattr("hazeglass.compute.engines._PATIENCE", "0.2s")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9"), open_engine("dask:tcp://127.0.0.1:9"):
        pass
    assert dask.config.get("distributed.scheduler.http.routes") == before  # ours are gone again


@pytest.fixture
def own_cluster():
    """The local processes that the engine starts by itself, one of them."""
    pytest.importorskip("distributed")
    from hazeglass.compute.engines import Dask

    with Dask(workers=1) as engine:
        yield engine


def identify(address, security):
    """Ask whoever listens there who it is, as any process on the host could."""
    import asyncio

    from distributed.core import connect

    async def ask():
        comm = await connect(address, timeout=5, **security.get_connection_args("client"))
        try:
            await comm.write({"op": "identity", "reply": True})
            return await comm.read()
        finally:
            await comm.close()

    return asyncio.run(ask())


def addresses(engine):
    """The scheduler, the workers, and the processes that look after them."""
    info = engine._client.scheduler_info()
    return [info["address"], *info["workers"], *(worker["nanny"] for worker in info["workers"].values())]


def test_our_own_cluster_speaks_to_nobody_without_its_certificate(own_cluster):
    import distributed

    assert list(own_cluster.map(square, range(10))) == [k * k for k in range(10)]
    found = addresses(own_cluster)
    assert len(found) == 3
    assert all(identify(address, own_cluster._client.security)["type"] for address in found)
    for address in found:
        with pytest.raises(OSError, match=r"connect|closed|TLS"):
            identify(address.replace("tls://", "tcp://"), distributed.Security())
        with pytest.raises(OSError, match=r"connect|closed|TLS"):
            identify(address, distributed.Security.temporary())


def test_a_client_without_the_certificate_runs_nothing_in_our_cluster(own_cluster):
    import distributed

    scheduler = own_cluster._client.scheduler.address
    for address, security in (
        (scheduler.replace("tls://", "tcp://"), None),
        (scheduler, distributed.Security.temporary()),
    ):
        with pytest.raises(OSError, match=r"connect|closed|TLS"):
            distributed.Client(address, security=security, timeout="2s", set_as_default=False)


def test_the_pages_of_our_own_cluster_show_nothing(own_cluster):
    from urllib.error import HTTPError
    from urllib.request import urlopen

    def ports(dask_worker=None, dask_scheduler=None):
        return (dask_worker or dask_scheduler).http_server.port

    client = own_cluster._client
    for port in (client.run_on_scheduler(ports), *client.run(ports).values()):
        for page in ("status", "metrics", "health", "info/main/workers.html", "json/counts.json"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)


def test_dask_is_asked_for_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"hazeglass\[dask\]"), open_engine("dask"):
        pass


@dataclass(frozen=True)
class Secret:
    """A block that must take the direct way to a worker, and is lost with it."""

    number: int
    public = False


@dataclass(frozen=True)
class KillOnce:
    """The first worker to see block 3 dies of it."""

    mark: str

    def __call__(self, block):
        if block.number == 3 and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block.number


def test_a_lost_worker_costs_no_block(cluster, tmp_path):
    found = list(get_engine("dask").map(KillOnce(str(tmp_path / "killed")), (Secret(k) for k in range(12))))
    assert (tmp_path / "killed").exists()
    assert found == list(range(12))


def test_a_worker_that_dies_while_it_is_handed_a_block_is_passed_over(cluster, monkeypatch):
    import distributed

    monkeypatch.setattr("hazeglass.compute.engines.time.sleep", lambda seconds: None)
    scatter, failures = distributed.Client.scatter, [OSError("connection reset"), TimeoutError()]

    def failing(self, *arguments, **options):
        if failures:
            raise failures.pop()
        return scatter(self, *arguments, **options)

    monkeypatch.setattr(distributed.Client, "scatter", failing)
    assert list(get_engine("dask").map(number_of, [Secret(5), Secret(6)])) == [5, 6]
    failures.extend([OSError()] * 4)
    with pytest.raises(InputError, match="one worker after the other"):
        list(get_engine("dask").map(number_of, [Secret(5)]))


def number_of(block):
    return block.number
