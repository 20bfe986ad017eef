"""What publishing costs beyond reading and writing, and how memory grows with the rows.

One core (engine "serial"). A table of 1e7 cells: time beyond reading the same Parquet file and writing a table of the
same size. Peak memory of a publish in a process of its own, at 1, 2 and 4 times the rows. Seconds to publish a million
rows from CSV and from Parquet with each engine; beside those of another checkout, where HAZEGLASS_BEFORE names its src.

    python benchmarks/publish.py
    python benchmarks/publish.py --passes 1000000     moments with their stages: how many times the rows are read, and
                                                      what a pass costs beside reading and one product (processor time)
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hazeglass as hg
from hazeglass.compute.tables import blocks, floats, open_table

COLUMNS = [f"c{k}" for k in range(10)]


def make_data(path: Path, rows: int, columns: int = len(COLUMNS), tie: float = 0.0) -> None:
    names = [f"c{k}" for k in range(columns)]
    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, 1 << 16):
            size = min(1 << 16, rows - start)
            shared = tie * rng.standard_normal(size)  # what makes stages follow from each other
            cells = [rng.standard_normal(size) + shared for _ in names]
            writer.write_batch(pa.RecordBatch.from_arrays(cells, schema=schema))


def make_plan(form: str, columns: int = len(COLUMNS)) -> hg.Plan:
    return hg.Plan.from_dict(
        {
            "release": {"title": "Benchmark", "form": form},
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "columns": [
                {"name": name, "kind": "continuous", "lower": -5.0, "upper": 5.0}
                for name in (f"c{k}" for k in range(columns))
            ],
        }
    )


def seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def read(path: Path) -> None:
    source = open_table(path)
    for batch in blocks(source, COLUMNS):
        floats(batch, COLUMNS)


def timings(folder: Path) -> None:
    data = folder / "d.parquet"
    make_data(data, 1_000_000)
    for form in ("table", "moments"):
        count = iter(range(100))
        plan = make_plan(form)
        last = {}

        def publish(plan: hg.Plan = plan, form: str = form, count: object = count, last: dict = last) -> None:
            last["release"] = hg.publish(data, plan, folder / f"{form}{next(count)}", engine="serial")

        publish()  # compile
        whole, reading = seconds(publish), seconds(lambda: read(data))
        writing = 0.0
        if form == "table":
            table = last["release"].table()
            writing = seconds(lambda table=table: pq.write_table(table, folder / "w.parquet", compression="none"))
        beyond = whole - reading - writing
        print(
            f"{form:<8} 1e7 cells: {whole:5.2f} s in all, {reading:5.2f} s reading, {writing:5.2f} s writing, "
            f"{beyond:5.2f} s beyond ({1e7 / beyond:.2g} cells/s)"
        )


def passes(rows: int, columns: int = 50) -> None:
    """Rounds of counts, each a reading, and stages, each a reading and a product; one thread, processor time."""
    names = [f"c{k}" for k in range(columns)]

    def one_product() -> None:
        for batch in blocks(open_table(data), names):
            cells = floats(batch, names)
            cells.T @ cells

    with tempfile.TemporaryDirectory() as folder:
        data, plan = Path(folder) / "d.parquet", make_plan("moments", columns)
        make_data(data, rows, columns, 0.7)
        make_data(Path(folder) / "few.parquet", 2000, columns, 0.7)
        hg.publish(Path(folder) / "few.parquet", plan, Path(folder) / "few", engine="serial")  # compiles
        begin = time.process_time()
        one_product()
        unit = time.process_time() - begin
        begin = time.process_time()
        release = hg.publish(data, plan, Path(folder) / "out", engine="serial")
        took = time.process_time() - begin
        rounds, stages = max(len(one.rounds) for one in release.marginals()), len(release.manifest.stages)
        print(
            f"moments {rows:.0e} x {columns}: {rounds} rounds of counts and {stages} stages in {took:.1f} s; reading "
            f"and one product {unit:.1f} s: {took / unit / (rounds + stages):.2f} times that for each pass (goal 1.5)",
            flush=True,
        )


def memory(form: str, data: str, out: str) -> None:
    hg.publish(data, make_plan(form), out, engine="serial")
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def memories(folder: Path) -> None:
    for form in ("table", "moments"):
        peaks = []
        for times in (1, 2, 4):
            data = folder / f"m{times}.parquet"
            if not data.exists():
                make_data(data, times * 1_000_000)
            command = [sys.executable, __file__, form, str(data), str(folder / f"{form}-{times}")]
            peaks.append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        shown = ", ".join(f"{peak:.0f}" for peak in peaks)
        print(f"{form:<8} peak memory at 1, 2, 4 million rows: {shown} MiB (ratio {peaks[-1] / peaks[0]:.2f})")


WAYS = [
    (form, kind, engine)
    for form in ("moments", "table")
    for kind in ("csv", "parquet")
    for engine in ("threads", "serial")
]


def ways_in(folder: Path) -> None:
    """One line of JSON: the seconds of each way in, the best of three after one to compile."""
    found = {}
    for form, kind, engine in WAYS:
        out = folder / "out"

        def publish(form: str = form, kind: str = kind, engine: str = engine, out: Path = out) -> None:
            shutil.rmtree(out, ignore_errors=True)
            hg.publish(folder / f"d.{kind}", make_plan(form), out, engine=engine)

        publish()
        found[f"{form} from {kind}, {engine}"] = seconds(publish)
    print(json.dumps(found))


def compare_ways_in(folder: Path) -> None:
    import pyarrow.csv

    if not (folder / "d.parquet").exists():
        make_data(folder / "d.parquet", 1_000_000)
    pyarrow.csv.write_csv(pq.read_table(folder / "d.parquet"), folder / "d.csv")
    sources = {"now": None, "before": os.environ.get("HAZEGLASS_BEFORE")}
    times = {
        label: json.loads(
            subprocess.run(
                [sys.executable, __file__, str(folder)],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, **({} if source is None else {"PYTHONPATH": source})},
            ).stdout
        )
        for label, source in sources.items()
        if label == "now" or source
    }
    for way, now in times["now"].items():
        before = times["before"][way] if "before" in times else None
        print(
            f"{way:<32} {now:5.2f} s"
            + ("" if before is None else f", before {before:5.2f} s: {now / before:.2f} times")
        )


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--passes":
        passes(int(sys.argv[2]))
        return
    if len(sys.argv) == 4:
        memory(*sys.argv[1:])
        return
    if len(sys.argv) == 2:
        ways_in(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        timings(Path(folder))
        memories(Path(folder))
        compare_ways_in(Path(folder))


if __name__ == "__main__":
    main()
