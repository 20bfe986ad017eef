"""Rows in, bundle out: the one function through which anything derived from rows may leave."""

from __future__ import annotations

import math
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hazeglass._version import __version__
from hazeglass.bundle.columns import Column
from hazeglass.bundle.manifest import TIME_FORMAT, Manifest, SyntheticNote
from hazeglass.bundle.moments import (
    MARGINAL_COLUMNS,
    MOMENT_COLUMNS,
    marginals_to_arrow,
    moments_to_arrow,
    released_rows,
    schema_of,
)
from hazeglass.bundle.reader import Release, load
from hazeglass.bundle.sign import read_private_key
from hazeglass.bundle.synthetic import check_synthetic_size, rounding, synthetic_rows, synthetic_width
from hazeglass.bundle.writer import BundleWriter, check_new, new_folder, repeats
from hazeglass.compute.engines import Engine, open_engine, spoken
from hazeglass.compute.places import check_apart
from hazeglass.compute.tables import open_table
from hazeglass.compute.warehouse import Warehouse
from hazeglass.errors import InputError, PrivacyRefusal, quotes_no_cell
from hazeglass.guarantee.budget import Lifetime
from hazeglass.guarantee.gdp import explain
from hazeglass.guarantee.lattice import delta_slack
from hazeglass.publisher.account import charge_of, charged
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.moments import (
    Drawn,
    design_stages,
    most_draws,
    most_total_variation,
    publish_moments,
    publish_running,
    running_stage,
)
from hazeglass.publisher.noise import BitSource, bits_of
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.plan_columns import check_describable, check_strength, names_an_id
from hazeglass.publisher.rows import Block, Cells, Rows
from hazeglass.publisher.table import (
    Buckets,
    NoisyPiece,
    TableMechanism,
    bucket_count,
    spill_beside,
    synthetic_batches,
    synthetic_schema,
    write_parts,
)

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int], None]


@quotes_no_cell
@np.errstate(all="ignore")  # whatever the caller has NumPy do about a number too small: it depends on what was drawn
def publish(
    data: Any,
    plan: Plan | str | Path,
    out: str | Path,
    *,
    ledger: str | Path | None = None,
    after: str | Path | None = None,
    engine: str | Engine = "threads",
    simulate_seed: int | None = None,
    sign: str | Path | None = None,
    weak_on_purpose: bool = False,
    progress: Progress | bool | None = None,
) -> Release:
    """Release `data` as `plan` says, into the new folder `out`.

    Parameters
    ----------
    data : anything tabular, dask dataframes included, or the path, glob or address (s3://...) of CSV or Parquet files;
        or a table that stays in its database: duckdb:///file.db?table=visits, postgresql://..., an ibis table, a Spark
        data frame. Of those only sums come here, and the engine below does not matter.
    plan : a Plan, or the path of a plan.toml
    out : a folder that does not exist yet; it appears complete or not at all
    ledger : a ledger file the release is charged to, before anything is drawn
    after : of a plan with a [lifetime], the release of the period before
    engine : 'serial', 'threads', 'dask' (this session's dask client, or local processes), 'dask:tcp://host:8786', or an
        Engine; moments are the same bits before noise whichever it is
    simulate_seed : for experiments only: noise from this seed, so the release is marked as a simulation and
        promises nothing
    sign : the private key to sign the release with, as `hazeglass key new` makes it
    weak_on_purpose : publish although epsilon is so large that the promise hardly protects
    progress : True for a line that says how far it is; or called with how many rows are done, at every hundredth of
        them; where persons are protected with their number, at the end

    Returns
    -------
    Release
        The release, verified as an analyst would.
    """
    if not isinstance(plan, Plan):
        plan = Plan.load(plan, data)
    check_strength(plan, weak_on_purpose or simulate_seed is not None)
    key = None if sign is None else read_private_key(sign)
    secret = bits_of(simulate_seed)
    target = check_new(out)
    check_apart(data, target)
    progress = spoken(progress, "publishing")
    before = release_before(plan, after, ledger=ledger is not None, simulation=secret.simulation)
    with open_engine(engine) as workers, _opened(data, plan, progress) as rows:
        check_design(rows)
        _ask_about_people(rows)
        account = charged(ledger, plan, _draws(rows), secret, target, before, rows.source)
        with account as (bits, paid), new_folder(out) as folder:
            writer = BundleWriter(folder)
            if plan.form == "table":
                with spill_beside(folder) as spill:
                    manifest = write_table(rows, writer, workers, bits, spill)
            else:
                manifest = write_moments(rows, writer, workers, bits, before)
            writer.seal(replace(manifest, ledger=paid), key)
            release = load(folder)  # verified before it gets its name and before the charge is confirmed
    rows.tell_publisher()
    return replace(release, path=target)


@contextmanager
def _opened(data: Any, plan: Plan, progress: Progress | None) -> Iterator[Rows]:
    """The rows of a table, or, of one in a warehouse, what can be asked for."""
    source = open_table(data, plan.text)
    if isinstance(source, Warehouse):
        from hazeglass.publisher.warehouse import QueriedRows  # it imports ibis, which few have

        if plan.lifetime is not None:
            raise InputError("a [lifetime] is not built for tables that stay in a database. Publish rows from a file.")
        with source.snapshot():
            yield QueriedRows(plan, source, progress)
    else:
        yield Rows(plan, source, progress)


def release_before(plan: Plan, after: str | Path | None, *, ledger: bool, simulation: bool) -> Release | None:
    """The release whose draws this one repeats, verified; refused where the plan does not go on from it."""
    lifetime = plan.lifetime
    if lifetime is None:
        if after is not None:
            raise InputError(
                "after names the release of the period before, and the plan has no [lifetime]. Leave it out."
            )
        return None
    if not ledger and not simulation:
        raise PrivacyRefusal(
            "releases of a [lifetime] keep one promise together only if each period is drawn once, which a ledger sees "
            "to. Make one with `hazeglass ledger new --protects person --id-column ...`, and name it."
        )
    number = lifetime.step - 1
    if (after is None) != (number == 0):
        what = (
            "is the first, so no release comes before it: leave after out"
            if after
            else (f"goes on from that of {lifetime.periods[number - 1]!r}: name that release with after (--after)")
        )
        raise InputError(f"the release of period {lifetime.periods[number]!r} {what}.")
    if after is None:
        return None
    release = load(after)
    _check_same(plan, lifetime, release.manifest, simulation)
    return release


def _check_same(plan: Plan, lifetime: Lifetime, before: Manifest, simulation: bool) -> None:
    """Refuse to go on from a release that was made otherwise; the ledger compares the plans themselves."""
    theirs = before.lifetime
    if theirs is None or theirs.step != lifetime.step - 1:
        raise InputError(
            f"after must be the running release of period {lifetime.periods[lifetime.step - 2]!r}, and it is another. "
            "Name that one."
        )
    own, stage = running_stage(plan, plan.persons or 0, lifetime), before.stages[0]
    facts = [
        (theirs.column, theirs.periods, theirs.coefficients)
        == (lifetime.column, lifetime.periods, lifetime.coefficients),
        (before.unit, before.persons, before.columns) == (plan.unit, plan.persons, plan.columns),
        (before.mu, before.simulation) == (plan.guarantee.mu, simulation),
        replace(stage, tau=own.tau, rows=0) == own,
        math.isclose(stage.tau / theirs.error, own.tau, rel_tol=1e-9),
    ]
    if not all(facts):
        raise InputError(
            "a release of a [lifetime] must be made as the one before it, and the plan (or this version of hazeglass) "
            "says otherwise. Change nothing in it but title and period."
        )


@dataclass(frozen=True)
class Rehearsal:
    """What a publication would do. Public: it says nothing about the rows but their number, or that of the persons."""

    plan: Plan
    rows: int | None
    persons: int | None
    mu_left: float | None


@quotes_no_cell
@np.errstate(all="ignore")
def rehearse(
    data: Any,
    plan: Plan | str | Path,
    out: str | Path,
    *,
    ledger: str | Path | None = None,
    after: str | Path | None = None,
    engine: str | Engine = "threads",
    weak_on_purpose: bool = False,
    progress: Progress | None = None,
) -> Rehearsal:
    """Refuse what :func:`publish` would refuse with the same arguments; nothing is drawn, charged or written.

    The rows are read to the last cell: how many cells cannot be read shows only there, and the publisher is told.
    """
    if not isinstance(plan, Plan):
        plan = Plan.load(plan, data)
    check_strength(plan, weak_on_purpose)
    check_apart(data, check_new(out))
    before = release_before(plan, after, ledger=ledger is not None, simulation=False)
    with open_engine(engine) as workers, _opened(data, plan, progress) as rows:
        check_design(rows)
        _ask_about_people(rows)
        left = None
        if ledger is not None:
            left = Ledger.open(ledger).check(charge_of(plan, before=before, source=rows.source))
        if rows.asked is not None:
            rows.asked.look()
        else:
            for _ in rows.run(workers, _read):
                pass
    rows.tell_publisher()
    return Rehearsal(plan, None if rows.persons else rows.n, rows.persons, left)


def _read(cells: Cells, start: int, blocks: Iterator[Block]) -> None:
    for block in blocks:
        cells.unit_box(block)


class PartWriter(Protocol):
    """Where released moments and rows go."""

    def parquet(self, name: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        """One part from a stream of batches."""

    def table(self, name: str, table: pa.Table, repeating: Sequence[str]) -> None:
        """One part from rows in hand."""


def check_design(rows: Rows) -> None:
    """Refuse, from public numbers alone, what no mechanism can do; nothing has been drawn or charged yet."""
    plan, size = rows.plan, rows.public_size
    check_describable(plan, 1 if plan.form == "moments" else bucket_count(rows.public_range[1], len(plan.columns)))
    if plan.form == "table":
        TableMechanism.design(plan, size)
        return
    design_stages(plan, size)
    if plan.form == "synthetic":
        check_synthetic_size(rows.public_range[1], synthetic_width(plan.columns))


def _ask_about_people(rows: Rows) -> None:
    """Whether one has several rows, where a column is called as ids are; it is not named, and no cell is looked at."""
    if rows.plan.protects != "person" and any(map(names_an_id, rows.source.names)):
        sys.stderr.write(
            "publisher only: a column of the data is called as ids are. Does one person have several rows? Then "
            'protects = "person" with id_column and max_rows is the promise to make.\n'
        )


def _draws(rows: Rows) -> int:
    """At most how many draws of noise the release takes."""
    plan = rows.plan
    return rows.n * len(plan.columns) if plan.form == "table" else most_draws(plan)


def describe(
    rows: Rows,
    n: int,
    bits: BitSource,
    total_variation: float,
    *,
    columns: tuple[Column, ...] | None = None,
    drawn: Drawn | None = None,
    synthetic: SyntheticNote | None = None,
) -> Manifest:
    """What release.json says, but for the hashes of the files."""
    import numpy
    import pyarrow

    plan = rows.plan
    words = explain(plan.guarantee, plan.unit, plan.delta)
    return Manifest(
        title=plan.title,
        publication=plan.publication,
        form=plan.form,
        unit=plan.unit,
        n=n,
        persons=rows.persons,
        period=plan.rows_of,
        lifetime=None if drawn is None else drawn.lifetime,
        order=("shuffled" if plan.shuffled else "kept") if plan.form == "table" else None,
        row_counts=plan.row_counts,
        series=plan.series,
        quoted_newlines=plan.text.quoted_newlines,
        columns=columns or plan.columns,
        mu=plan.guarantee.mu,
        epsilon=words.epsilon,
        delta=plan.delta,
        delta_slack=delta_slack(words.epsilon, total_variation),
        simulation=bits.simulation,
        clip_radius=plan.clip_radius if plan.form == "table" and isinstance(plan.clip_radius, float) else None,
        scale=None if drawn is None else plan.scale if plan.adaptive else "public",
        rounds=() if drawn is None or drawn.marginals is None else drawn.marginals.rounds,
        standard=None if drawn is None else drawn.standard,
        stages=() if drawn is None else tuple(one.stage for one in drawn.stages),
        radius_search=None if drawn is None else drawn.search,
        synthetic=synthetic,
        created=datetime.now(UTC).strftime(TIME_FORMAT),
        versions={
            "hazeglass": __version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "pyarrow": pyarrow.cpp_version.replace("-SNAPSHOT", ".dev0"),  # as footers say it
        },
        epsilon_delta_curve=words.curve,
        attack_odds=tuple((odds.false_positive_rate, odds.true_positive_rate) for odds in words.odds),
    )


# -------------------------------------------------------------------------------------------------------- table


def write_table(rows: Rows, writer: PartWriter, engine: Engine, bits: BitSource, spill: Path | None = None) -> Manifest:
    """Noisy rows in a random order, or in their own where the plan says that it is public.

    On their way they lie in the folder `spill`, or in memory.
    """
    plan, p = rows.plan, len(rows.plan.columns)
    mechanism = TableMechanism.design(plan, rows.n)
    count = bucket_count(rows.n, p) if plan.shuffled else 1
    piece = NoisyPiece(mechanism, bits.elsewhere() if engine.remote else bits, rows.n, count, spill)
    buckets = Buckets(list(rows.run(engine, piece)), count)
    schema = piece.schema()
    repeating = [column.name for column in mechanism.columns if column.cell_noise and repeats(column.cell_noise)]
    write_parts(buckets.in_order(plan.shuffled, bits, schema), schema, repeating, writer, engine)
    return describe(rows, rows.n, bits, rows.n * mechanism.total_variation(), columns=mechanism.columns)


# ---------------------------------------------------------------------------------------- moments and synthetic


def write_moments(
    rows: Rows, writer: PartWriter, engine: Engine, bits: BitSource, before: Release | None = None
) -> Manifest:
    """Draw the moments, and synthetic rows from them where the plan asks for such, and describe the release."""
    plan = rows.plan
    if plan.lifetime is None:
        drawn = publish_moments(rows, plan, engine, bits)
        released = [stage.released(plan.columns) for stage in drawn.stages]
    else:
        drawn, released = publish_running(rows, plan, engine, bits, before)
    n = released_rows(plan.series, plan.unit, rows.n, [one.stage for one in drawn.stages])
    loss = most_total_variation(plan)
    if drawn.marginals is not None:
        writer.parquet(
            "marginals.parquet", marginals_to_arrow(plan.names, drawn.marginals.counts), schema_of(MARGINAL_COLUMNS)
        )
    writer.parquet("moments.parquet", moments_to_arrow(released), schema_of(MOMENT_COLUMNS))
    note = None
    if plan.form == "synthetic":
        note = SyntheticNote(int(bits.uint64(1)[0]) >> 11, plan.round_integers, plan.exact)
        known = () if drawn.marginals is None else drawn.marginals.columns
        manifest = describe(rows, n, bits, loss, drawn=drawn, synthetic=note)
        note = replace(note, offset=rounding(manifest, released, known))
        made = synthetic_rows(replace(manifest, synthetic=note), released, known)
        schema = synthetic_schema(plan)
        write_parts(synthetic_batches(made, schema), schema, [], writer, engine)
    return describe(rows, n, bits, loss, drawn=drawn, synthetic=note)
