"""A release from Spark with the executor in its own process, and all traffic between it and the driver looked through.

    python benchmarks/spark.py [rows] [columns]

Every cell's last four bytes are the same, so that a cell on its way shows, whichever way its bytes stand; compression
is off. First some rows are fetched on purpose, which must be seen. Then a release is made, in which none may be, while
`spark.driver.maxResultSize` ends any query that gives the driver more than a megabyte. Watching needs the right to open
a raw socket (root). The sizes of a full run are 10,000,000 and 20; the default is smaller.
"""

import os
import resource
import socket
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hazeglass as hg
from hazeglass.compute.warehouse import Warehouse

SIGN = bytes.fromhex("5aa5c396")  # as it lies in memory; the other way round where numbers are sent
CHUNK = 500_000  # rows made at a time


class Traffic:
    """What goes over the loopback device while it is watched: how many bytes, and how many of them are cells."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 2**28)  # SO_RCVBUFFORCE: nothing is lost while we are busy
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)

    def __enter__(self) -> "Traffic":
        self.bytes = self.cells = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(1)
        self._ended.set()
        self._thread.join()
        lost = self._socket.getsockopt(263, 6, 8)  # PACKET_STATISTICS: packets, and those that were dropped
        self.lost = int.from_bytes(lost[4:8], sys.byteorder)

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                packet, address = self._socket.recvfrom(2**17)
            except TimeoutError:
                continue
            if address[2] == socket.PACKET_OUTGOING:  # each is seen twice on this device
                continue
            self.bytes += len(packet)
            self.cells += packet.count(SIGN) + packet.count(SIGN[::-1])


def write_table(path: Path, rows: int, columns: int) -> None:
    """Columns with three common causes, half of them lognormal, and a key."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, columns))
    names = [f"x{k}" for k in range(columns)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("key", pa.int64())])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, rows, CHUNK):
            count = min(CHUNK, rows - start)
            cells = rng.normal(size=(count, 3)) @ weights + rng.normal(size=(count, columns))
            cells[:, ::2] = np.exp(cells[:, ::2] / 2)
            cells = np.ascontiguousarray(cells)
            cells.view(np.uint32)[:, ::2] = int.from_bytes(SIGN, "little")
            key = pa.array(np.arange(start, start + count))
            file.write_table(pa.table([*(pa.array(cells[:, k]) for k in range(columns)), key], schema=schema))


def session_of(memory: str) -> object:
    import pyspark
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.maxResultSize": "1m",
        "spark.executor.memory": memory,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.{what}.compress": "false" for what in ("broadcast", "rdd", "shuffle", "shuffle.spill")},
    }
    builder = SparkSession.builder.master(f"local-cluster[1,2,{memory.removesuffix('m')}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def main() -> None:
    if find_spec("pyspark") is None or not hasattr(socket, "AF_PACKET") or os.geteuid() != 0:
        print("skipped: this needs pyspark (make warehouse has it), Linux, and root")
        return
    rows, columns = (int(word) for word in (sys.argv[1:] + ["100000", "5"][len(sys.argv) - 1 :])[:2])
    asked = []
    fetch = Warehouse._fetch

    def watched(self: Warehouse, query: str):
        start = time.perf_counter()
        found = fetch(self, query)
        asked.append((time.perf_counter() - start, sum(map(len, found))))
        return found

    Warehouse._fetch = watched  # type: ignore[method-assign]
    of = [hg.Column(f"x{k}", "continuous", lower=-1000, upper=1000) for k in range(columns)]
    plan = hg.Plan(title="Meters", form="moments", epsilon=1.0, delta=1e-6, columns=of, order_column="key")
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "meters.parquet", rows, columns)
        session = session_of("3072m")
        try:
            frame = session.read.parquet(f"{folder}/meters.parquet")
            with Traffic() as shown:
                frame.limit(1000).collect()
            with Traffic() as seen:
                start = time.perf_counter()
                release = hg.publish(frame, plan, Path(folder) / "release")
                seconds = time.perf_counter() - start
        finally:
            session.stop()
    print(f"{rows:,} rows, {columns} columns: {seconds:.0f} s, {len(asked)} queries, {release.n:,} rows counted")
    print(f"fetching 1,000 rows on purpose: {shown.cells:,} cells seen in {shown.bytes / 1e6:.2f} MB")
    print(
        f"the release: {seen.cells} cells seen in {seen.bytes / 1e6:.2f} MB, {seen.lost} packets missed, "
        f"{max(numbers for _, numbers in asked):,} numbers in the largest answer, "
        f"{max(seconds for seconds, _ in asked):.1f} s for the slowest query"
    )
    print(
        f"the publisher's Python took {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at the most"
    )
    if shown.cells < 1000 * columns or seen.cells or seen.lost:
        sys.exit("the traffic is not what it has to be")


if __name__ == "__main__":
    main()
