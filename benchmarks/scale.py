"""Publishing many rows: against reading them and one matrix product, on one thread and two, and as rows grow.

Every line is measured in a process of its own, in one run, after a small release has compiled the kernels:
    moments   1e7 x 50 from Parquet: time over that of reading the same files with pyarrow and one float64 product of
              the same shape, both on one core; peak memory; one thread against two
    table     1e7 x 10 from Parquet: cells per second and core, end to end; peak memory
    rows      both forms from 1e5 rows up: exponent of time, peak memory
    columns   moments of 1e7 cells as the columns grow
    dask      moments by two local processes against one core; the same bits before noise
    recover   the covariance of the released table: time and peak memory

    python benchmarks/scale.py [--rows 10000000] [--most-rows 10000000] [--folder DIR] [--only moments,table,...]

With --most-rows 100000000 the growth in rows goes on with the same files under ten names each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hazeglass as hg
from hazeglass.compute.engines import get_engine, open_engine
from hazeglass.compute.tables import open_table
from hazeglass.publisher.marginals import Encoder
from hazeglass.publisher.moments import exact_sums, plain_stage
from hazeglass.publisher.rows import Rows

ROWS_PER_FILE = 1_000_000
REPEAT = int(os.environ.get("HAZEGLASS_BENCH_REPEAT", "2"))


def names(columns: int) -> list[str]:
    return [f"c{k}" for k in range(columns)]


def make_files(folder: Path, rows: int, columns: int) -> Path:
    """Normal numbers in files of a million rows, as pyarrow writes them."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float64()) for name in names(columns)])
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        left = min(ROWS_PER_FILE, rows - start)
        with pq.ParquetWriter(folder / f"{number:04d}.parquet", schema) as writer:
            while left > 0:
                arrays = [rng.standard_normal(min(left, 1 << 17)) for _ in schema]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
                left -= 1 << 17
    return folder


def linked(folder: Path, target: Path, times: int) -> Path:
    """The same files under several names."""
    target.mkdir()
    for path in sorted(folder.iterdir()):
        for copy in range(times):
            os.link(path, target / f"{path.stem}-{copy}.parquet")
    return target


def make_plan(form: str, columns: int, adaptive: bool = False) -> hg.Plan:
    release = {"title": "Benchmark", "form": form}
    if form == "moments":
        release["adaptive"] = adaptive
    bounds = {"kind": "continuous", "lower": -5.0, "upper": 5.0}
    return hg.Plan.from_dict(
        {
            "release": release,
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "columns": [{"name": name, **bounds} for name in names(columns)],
        }
    )


# -------------------------------------------------------------------------------- jobs, each in its own process


def publish(data: str, form: str, columns: int, engine: str, out: str, adaptive: bool = False) -> None:
    hg.publish(data, make_plan(form, columns, adaptive), out, engine=engine)


def read(data: str, columns: int) -> None:
    for path in sorted(Path(data).iterdir()):
        file = pq.ParquetFile(path, pre_buffer=False)
        for _ in file.iter_batches(1 << 16, columns=names(columns), use_threads=False):
            pass


def product(rows: int, columns: int) -> None:
    """The product of the whole matrix, a million rows at a time so that it fits; making the rows is not timed."""
    block = np.random.default_rng(0).standard_normal((min(rows, ROWS_PER_FILE), columns))
    started, used = time.perf_counter(), time.process_time()
    for _ in range(max(1, rows // ROWS_PER_FILE)):
        block.T @ block
    report(started, used)


def sums(data: str, columns: int, engine: str) -> None:
    plan = make_plan("moments", columns)
    with open_engine(engine) as workers:
        rows = Rows(plan, open_table(data))
        stage = plain_stage(plan, rows.n, plan.guarantee.mu)
        started, used = time.perf_counter(), time.process_time()
        first, second, _ = exact_sums(rows, stage, Encoder("public", "columns"), workers)
        report(started, used, digest=hashlib.sha256(first.tobytes() + second.tobytes()).hexdigest())


def recover(release: str) -> None:
    from hazeglass.analyst.covariance import covariance_of

    covariance_of(hg.load(release), get_engine("threads"))


JOBS: dict[str, Callable[..., None]] = {
    "publish": publish,
    "read": read,
    "product": product,
    "sums": sums,
    "recover": recover,
}
TIMES_ITSELF = ("product", "sums")


def report(started: float, used: float, **more: object) -> None:
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, **more}))


def run_job(kind: str, arguments: dict[str, Any]) -> None:
    if kind == "publish":
        warm_up(arguments["form"])
    started, used = time.perf_counter(), time.process_time()
    JOBS[kind](**arguments)
    if kind not in TIMES_ITSELF:
        report(started, used)


def warm_up(form: str) -> None:
    """Compile, or load what was compiled before."""
    with tempfile.TemporaryDirectory() as folder:
        table = pa.table({name: np.linspace(-1, 1, 100) for name in names(3)})
        hg.publish(table, make_plan(form, 3), Path(folder) / "warm", engine="serial")


def measure(kind: str, **arguments: Any) -> dict[str, Any]:
    """One job in a process with one BLAS thread; any release it writes is removed."""
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--job", kind, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **single})
    if done.returncode != 0:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ------------------------------------------------------------------------------------------------ measurements


def best_of(kind: str, out: Path | None = None, **arguments: Any) -> dict[str, Any]:
    """The quickest of several runs: what the machine can do when no one else is using it."""
    runs = []
    for _ in range(REPEAT):
        if out is not None:
            shutil.rmtree(out, ignore_errors=True)
            arguments["out"] = str(out)
        runs.append(measure(kind, **arguments))
    return {key: min(run[key] for run in runs) if key != "peak" else max(run[key] for run in runs) for key in runs[0]}


def moments(folder: Path, data: Path, rows: int) -> None:
    reading, multiplying = best_of("read", data=str(data), columns=50), best_of("product", rows=rows, columns=50)
    floor = {key: reading[key] + multiplying[key] for key in ("wall", "cpu")}
    print(
        f"moments {rows:.0e} x 50: reading {reading['wall']:.1f} s, product {multiplying['wall']:.1f} s on one core",
        flush=True,
    )
    for label, adaptive, passes in (("one stage", False, 1), ("two stages", True, 2)):
        common = {"data": str(data), "form": "moments", "columns": 50, "adaptive": adaptive, "out": folder / "m"}
        one, two = (best_of("publish", engine=engine, **common) for engine in ("serial", "threads"))
        print(
            f"  {label}: {one['wall']:.1f} s, {one['wall'] / floor['wall']:.2f} times that "
            f"({one['cpu'] / floor['cpu']:.2f} in processor time; {passes} pass{'es' * (passes > 1)} over the files), "
            f"{one['peak']:.0f} MiB; threads: {two['wall']:.1f} s, {one['wall'] / two['wall']:.2f} times as fast, "
            f"{two['peak']:.0f} MiB, {two['cpu'] / one['cpu']:.2f} times the processor time",
            flush=True,
        )


def table(folder: Path, data: Path, rows: int) -> None:
    for engine in ("serial", "threads"):
        found = best_of("publish", folder / "t", data=str(data), form="table", columns=10, engine=engine)
        print(
            f"table {rows:.0e} x 10, {engine}: {found['wall']:.1f} s, {rows * 10 / found['wall']:.2g} cells/s, "
            f"{rows * 10 / found['cpu']:.2g} per second of a core, {found['peak']:.0f} MiB",
            flush=True,
        )
    found = measure("recover", release=str(folder / "t"))
    print(f"recover: covariance of the released table in {found['wall']:.1f} s, {found['peak']:.0f} MiB")


def growth(folder: Path, data: Path, form: str, columns: int, most: int, available: int) -> None:
    points = []
    rows = 100_000
    while rows <= most:
        if rows < ROWS_PER_FILE:
            source = make_files(folder / f"{form}-{rows}", rows, columns)
        elif rows <= available:
            source = folder / f"{form}-{rows}"
            source.mkdir()
            for path in sorted(data.iterdir())[: rows // ROWS_PER_FILE]:
                os.link(path, source / path.name)
        else:
            source = linked(data, folder / f"{form}-{rows}", rows // available)
        found = measure(
            "publish", data=str(source), form=form, columns=columns, engine="threads", out=str(folder / "g")
        )
        shutil.rmtree(folder / "g")
        shutil.rmtree(source)
        points.append((rows, found["wall"], found["cpu"], found["peak"]))
        print(f"  {form} {rows:>11,} x {columns}: {found['wall']:8.2f} s, {found['peak']:.0f} MiB", flush=True)
        rows *= 10
    last, before = points[-1], points[-2]
    exponent = math.log10(last[1] / before[1]), math.log10(last[2] / before[2])
    print(f"  exponent of the last step: {exponent[0]:.2f} ({exponent[1]:.2f} in processor time)")


def growth_in_columns(folder: Path) -> None:
    for columns in (10, 30, 100, 300, 1000):
        rows = 10_000_000 // columns
        data = make_files(folder / f"p{columns}", rows, columns)
        found = measure("sums", data=str(data), columns=columns, engine="threads")
        shutil.rmtree(data)
        print(f"  sums of {rows:>9,} x {columns:<5}: {found['wall']:6.2f} s, {found['peak']:.0f} MiB", flush=True)


def cluster(data: Path, rows: int) -> None:
    one = measure("sums", data=str(data), columns=50, engine="serial")
    two = measure("sums", data=str(data), columns=50, engine="dask")
    same = "the same bits" if one["digest"] == two["digest"] else "OTHER BITS"
    print(
        f"dask on local processes, sums of {rows:.0e} x 50: {two['wall']:.1f} s, one core {one['wall']:.1f} s; {same}"
    )


def measure_all(folder: Path, rows: int, most_rows: int, wanted: list[str]) -> None:
    narrow = make_files(folder / "narrow", rows, 10)
    wide = make_files(folder / "wide", rows, 50)
    if "moments" in wanted:
        moments(folder, wide, rows)
    if "table" in wanted:
        table(folder, narrow, rows)
    if "dask" in wanted:
        cluster(wide, rows)
    if "rows" in wanted:
        growth(folder, wide, "moments", 50, most_rows, rows)
        growth(folder, narrow, "table", 10, rows, rows)
    if "columns" in wanted:
        growth_in_columns(folder)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--most-rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--only", default="moments,table,dask,rows,columns")
    parser.add_argument("--job", nargs=2, default=None)
    options = parser.parse_args()
    if options.job:
        run_job(options.job[0], json.loads(options.job[1]))
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        measure_all(Path(name), options.rows, options.most_rows, options.only.split(","))
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
