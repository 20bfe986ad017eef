"""Rows in, bundle out: the one function through which anything derived from rows may leave."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hazeglass._version import __version__
from hazeglass.bundle.features import DEGREES
from hazeglass.bundle.manifest import Column, Manifest, RadiusSearch, Stage, SyntheticNote
from hazeglass.bundle.moments import moment_rows, moments_schema, moments_to_arrow
from hazeglass.bundle.reader import Release, load
from hazeglass.bundle.sign import read_private_key
from hazeglass.bundle.writer import BundleWriter, check_new, new_folder
from hazeglass.compute.engines import Engine, open_engine
from hazeglass.compute.tables import open_table
from hazeglass.errors import InputError
from hazeglass.guarantee.explain import explain
from hazeglass.publisher.account import charged
from hazeglass.publisher.moments import design_stages, publish_moments
from hazeglass.publisher.parts import NoisyPart, attempts_beside, take_parts
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.radius import SEARCH_STEPS
from hazeglass.publisher.randomness import BitSource, SecretBits, SeededBits
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.synthetic import SyntheticRows, synthetic_rows
from hazeglass.publisher.table import TableMechanism

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PartWriter", "describe", "publish", "write_moments"]

_ROWS_PER_PART = 1 << 22
Progress = Callable[[int], None]


def publish(
    data: Any,
    plan: Plan | str | Path,
    out: str | Path,
    *,
    ledger: str | Path | None = None,
    engine: str | Engine = "threads",
    simulate_seed: int | None = None,
    sign: str | Path | None = None,
    progress: Progress | None = None,
) -> Release:
    """Release `data` as `plan` says, into the new folder `out`.

    Parameters
    ----------
    data : anything tabular, dask dataframes included, or the path, glob or address (s3://...) of CSV or Parquet files
    plan : a Plan, or the path of a plan.toml
    out : a folder that does not exist yet; it appears complete or not at all
    ledger : a ledger file the release is charged to, before anything is drawn
    engine : 'serial', 'threads', 'dask' (this session's dask client, or local processes), 'dask:tcp://host:8786', or an
        Engine; moments are the same bits before noise whichever it is
    simulate_seed : for experiments only: noise from this seed, so the release is marked as a simulation and
        promises nothing
    sign : the private key to sign the release with, as `hazeglass key new` makes it
    progress : called with the number of rows done so far

    Returns
    -------
    Release
        The release, verified as an analyst would.
    """
    if not isinstance(plan, Plan):
        plan = Plan.load(plan)
    key = None if sign is None else read_private_key(sign)
    secret = _bits(simulate_seed)
    target = check_new(out)
    with open_engine(engine) as workers:
        rows = Rows(plan, open_table(data), progress)
        with charged(ledger, plan, _draws(plan, rows.n), secret, target) as bits, new_folder(out) as folder:
            writer = BundleWriter(folder)
            release = _publish_table if plan.form == "table" else write_moments
            writer.seal(release(rows, plan, writer, workers, bits), key)
    return load(out)


class PartWriter(Protocol):
    """Where released moments and synthetic rows go."""

    def parquet(self, name: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        """One part from a stream of batches."""


def _draws(plan: Plan, rows: int) -> int:
    """At most how many draws of noise the release takes."""
    p = len(plan.columns)
    if plan.form == "table":
        return rows * p
    return sum(moment_rows(p * DEGREES[stage.features]) for stage in design_stages(plan, rows)) + SEARCH_STEPS


def _bits(simulate_seed: int | None) -> BitSource:
    if simulate_seed is None:
        return SecretBits()
    if isinstance(simulate_seed, bool) or not isinstance(simulate_seed, int):
        raise InputError(f"simulate_seed must be a whole number or None, got {simulate_seed!r}.")
    return SeededBits(simulate_seed)


def describe(
    plan: Plan,
    n: int,
    bits: BitSource,
    total_variation: float,
    *,
    columns: tuple[Column, ...] | None = None,
    stages: tuple[Stage, ...] = (),
    search: RadiusSearch | None = None,
    synthetic: SyntheticNote | None = None,
) -> Manifest:
    """What release.json says, but for the hashes of the files."""
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
        clip_radius=plan.clip_radius if plan.form == "table" and isinstance(plan.clip_radius, float) else None,
        stages=stages,
        radius_search=search,
        synthetic=synthetic,
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


def _publish_table(rows: Rows, plan: Plan, writer: BundleWriter, engine: Engine, bits: BitSource) -> Manifest:
    mechanism = TableMechanism.design(plan, rows.n)
    drawn_by = bits.elsewhere() if engine.remote else bits
    with attempts_beside(writer) as folder:
        take_parts(rows.run(engine, NoisyPart(mechanism, drawn_by, str(folder.resolve()))), folder, writer)
    slack = rows.n * mechanism.total_variation()
    return describe(plan, rows.n, bits, slack, columns=mechanism.columns)


def _write_parts(blocks: Iterator[pa.RecordBatch], writer: PartWriter, schema: pa.Schema) -> None:
    for part, first in enumerate(blocks):
        writer.parquet(f"data/part-{part:05d}.parquet", _one_part(first, blocks), schema)


def _one_part(first: pa.RecordBatch, more: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of one file, stopping once it has its share of rows."""
    written = first.num_rows
    yield first
    while written < _ROWS_PER_PART and (batch := next(more, None)) is not None:
        written += batch.num_rows
        yield batch


# ---------------------------------------------------------------------------------------- moments and synthetic


def write_moments(rows: Rows, plan: Plan, writer: PartWriter, engine: Engine, bits: BitSource) -> Manifest:
    """Draw the moments, and synthetic rows from them where the plan asks for such, and describe the release."""
    stages, search = publish_moments(rows, plan, engine, bits)
    released = [stage.released(plan.names) for stage in stages]
    writer.parquet("moments.parquet", moments_to_arrow(released), moments_schema())
    note = None
    if plan.form == "synthetic":
        entropy = int(bits.uint64(1)[0])
        made = synthetic_rows(stages[-1].stage, released[-1], plan.columns, rows.n, entropy, plan.round_integers)
        note = made.note
        _write_synthetic(made, plan, writer)
    slack = sum(stage.total_variation for stage in stages) + (search.total_variation if search else 0.0)
    designs = tuple(stage.stage for stage in stages)
    return describe(plan, rows.n, bits, slack, stages=designs, search=search, synthetic=note)


def _write_synthetic(made: SyntheticRows, plan: Plan, writer: PartWriter) -> None:
    import pyarrow as pa

    whole = [plan.round_integers and column.kind == "integer" and column.transform is None for column in plan.columns]
    types = [pa.int64() if integer else pa.float64() for integer in whole]
    schema = pa.schema(list(zip(plan.names, types, strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        for block in made.blocks():
            columns = [np.rint(block[:, k]) if integer else block[:, k] for k, integer in enumerate(whole)]
            arrays = [pa.array(column).cast(kind) for column, kind in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    _write_parts(batches(), writer, schema)
