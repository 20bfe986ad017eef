"""Rows in, bundle out: the one function through which anything derived from rows may leave."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hazeglass._version import __version__
from hazeglass.bundle.catalogue import croissant, datapackage
from hazeglass.bundle.manifest import Column, Manifest, Stage
from hazeglass.bundle.reader import Release, load
from hazeglass.bundle.writer import BundleWriter, new_folder
from hazeglass.compute.engines import get_engine
from hazeglass.compute.tables import open_table
from hazeglass.errors import InputError
from hazeglass.guarantee.explain import explain
from hazeglass.present.statement import statement
from hazeglass.publisher.moments import NoisyMoments, publish_moments
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.randomness import BitSource, SecretBits, SeededBits
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.table import TableMechanism

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["publish"]

_ROWS_PER_PART = 1 << 22
Progress = Callable[[int], None]


def publish(
    data: Any,
    plan: Plan | str | Path,
    out: str | Path,
    *,
    engine: str = "threads",
    simulate_seed: int | None = None,
    progress: Progress | None = None,
) -> Release:
    """Release `data` as `plan` says, into the new folder `out`.

    Parameters
    ----------
    data : anything tabular, or the path or glob of CSV or Parquet files
    plan : a Plan, or the path of a plan.toml
    out : a folder that does not exist yet; it appears complete or not at all
    engine : 'serial' or 'threads'
    simulate_seed : for experiments only: noise from this seed, so the release is marked as a simulation and
        promises nothing
    progress : called with the number of rows done so far

    Returns
    -------
    Release
        The release, verified as an analyst would.
    """
    if not isinstance(plan, Plan):
        plan = Plan.load(plan)
    workers = get_engine(engine)
    bits = _bits(simulate_seed)
    with new_folder(out) as folder:
        rows = Rows(plan, open_table(data), progress)
        writer = BundleWriter(folder)
        if plan.form == "table":
            manifest = _publish_table(rows, plan, writer, workers, bits)
        else:
            stages = publish_moments(rows, plan, workers, bits)
            writer.parquet("moments.parquet", iter([_moments_batch(stages, plan)]), _moments_schema())
            slack = sum(stage.total_variation for stage in stages)
            manifest = _manifest(plan, rows.n, bits, slack, stages=tuple(stage.stage for stage in stages))
        _finish(writer, manifest)
    return load(out)


def _bits(simulate_seed: int | None) -> BitSource:
    if simulate_seed is None:
        return SecretBits()
    if isinstance(simulate_seed, bool) or not isinstance(simulate_seed, int):
        raise InputError(f"simulate_seed must be a whole number or None, got {simulate_seed!r}.")
    return SeededBits(simulate_seed)


def _finish(writer: BundleWriter, manifest: Manifest) -> None:
    sealed = writer.seal(manifest)
    writer.json("datapackage.json", datapackage(sealed))
    writer.json("croissant.json", croissant(sealed))
    writer.text("statement.html", statement(sealed))
    writer.checksums()


def _manifest(
    plan: Plan,
    n: int,
    bits: BitSource,
    total_variation: float,
    *,
    columns: tuple[Column, ...] | None = None,
    stages: tuple[Stage, ...] = (),
) -> Manifest:
    import numpy
    import pyarrow

    words = explain(plan.guarantee, plan.unit, plan.delta)
    return Manifest(
        title=plan.title,
        form=plan.form,
        unit=plan.unit,
        n=n,
        columns=columns or plan.columns,
        mu=plan.guarantee.mu,
        epsilon=words.epsilon,
        delta=plan.delta,
        # The sampler's distance from the ideal one costs this much delta at the quoted epsilon, on top.
        delta_slack=(1 + math.exp(min(words.epsilon, 600.0))) * total_variation,
        simulation=bits.simulation,
        clip_radius=None if plan.form != "table" or plan.clip_radius is None else float(plan.clip_radius),
        stages=stages,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        versions={
            "hazeglass": __version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "pyarrow": pyarrow.__version__,
        },
        epsilon_delta_curve=words.curve,
        attack_odds=tuple((odds.false_positive_rate, odds.true_positive_rate) for odds in words.odds),
    )


# -------------------------------------------------------------------------------------------------------- table


def _publish_table(rows: Rows, plan: Plan, writer: BundleWriter, engine: Any, bits: BitSource) -> Manifest:
    import pyarrow as pa

    mechanism = TableMechanism.design(plan, rows.n)
    schema = pa.schema([(column.name, _cell_type(column, mechanism)) for column in mechanism.columns])

    def noisy(numbered: tuple[int, pa.RecordBatch]) -> pa.RecordBatch:
        number, batch = numbered
        cells = mechanism.release(rows.raw(batch), rows.unit_box(batch), bits.stream(number))
        return pa.RecordBatch.from_arrays([pa.array(cell) for cell in cells], schema=schema)

    blocks = engine.map(noisy, enumerate(rows.blocks()))
    for part, first in enumerate(blocks):
        writer.parquet(f"data/part-{part:05d}.parquet", _one_part(first, blocks), schema)
    rows.check_no_empty_column()
    slack = rows.n * mechanism.total_variation()
    return _manifest(plan, rows.n, bits, slack, columns=mechanism.columns)


def _cell_type(column: Column, mechanism: TableMechanism) -> pa.DataType:
    import pyarrow as pa

    return pa.int64() if mechanism.keeps_integers(column) else pa.float64()


def _one_part(first: pa.RecordBatch, more: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of one file, stopping once it has its share of rows."""
    written = first.num_rows
    yield first
    while written < _ROWS_PER_PART and (batch := next(more, None)) is not None:
        written += batch.num_rows
        yield batch


# ------------------------------------------------------------------------------------------------------ moments


def _moments_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("stage", pa.int8()),
            ("left", pa.string()),
            ("right", pa.string()),
            ("value", pa.float64()),
            ("noise_sd", pa.float64()),
        ]
    )


def _moments_batch(stages: list[NoisyMoments], plan: Plan) -> pa.RecordBatch:
    """One row per released number: a mean (right is null) or a second moment (each pair once)."""
    import pyarrow as pa

    records = [record for k, stage in enumerate(stages) for record in _moment_records(k + 1, stage, plan.names)]
    columns = zip(*records, strict=True)
    schema = _moments_schema()
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _moment_records(number: int, stage: NoisyMoments, names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    for i, left in enumerate(names):
        yield number, left, None, stage.mean[i], stage.mean_noise_sd
    for i, left in enumerate(names):
        for j in range(i, len(names)):
            sd = stage.diagonal_noise_sd if i == j else stage.second_noise_sd
            yield number, left, names[j], stage.second[i, j], sd
