"""What a manifest claims must hang together: the promise is derived again from the noise the release states.

A forger who recomputes every hash can still not state a mu that the stated noise does not give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from hazeglass.bundle.catalogue import DERIVED
from hazeglass.bundle.manifest import TIME_FORMAT, Column, Manifest, RadiusSearch, Stage, pooled_rows
from hazeglass.bundle.moments import ReleasedMoments, moment_rows
from hazeglass.bundle.verify import check_name
from hazeglass.errors import BundleError, InputError
from hazeglass.features.harmonics import DEGREES
from hazeglass.features.standardise import standardisation
from hazeglass.guarantee.lattice import DiscreteGaussian, LatticeNoise, lattice_noise
from hazeglass.guarantee.units import (
    Unit,
    bisect_radius,
    count_weight,
    fewest_steps_in_ball,
    moments_distance,
    questions,
    radius_grid,
    table_distance,
)

_TOLERANCE = 1e-6
_ROUNDING = 1e-9  # what the same arithmetic on another computer may change
# Noise is made of numbers of 128 bits, so no draw of it is closer to the ideal; the worst of ours is off by 2^-109.8.
_LEAST_LOSS_PER_DRAW, _MOST_LOSS_PER_DRAW = 2.0**-128, 2.0**-108


def check_manifest(manifest: Manifest, sums: dict[str, str]) -> None:
    """Files, names, numbers and the promise agree with each other."""
    _check_listing(manifest, sums)
    _check_shape(manifest)
    try:
        _check_quotes(manifest)
        stated = _table_mu(manifest) if manifest.form == "table" else _moments_mu(manifest)
        _check_slack(manifest)
    except BundleError:
        raise
    except (ArithmeticError, ValueError) as error:
        detail = f": {error}" if isinstance(error, InputError) else "."
        raise BundleError(f"release.json states noise or a promise that no release can have{detail}") from None
    if not stated <= manifest.mu * (1 + _TOLERANCE):
        raise BundleError(
            f"release.json states mu = {manifest.mu:g}, but the noise it describes only gives mu = {stated:.6g} for "
            f"{manifest.unit.in_words}. Do not rely on it."
        )


def _check_listing(manifest: Manifest, sums: dict[str, str]) -> None:
    listed = [part.path for part in manifest.files]
    for part in manifest.files:
        check_name(part.path)
        if sums.get(part.path) != part.sha256:
            raise BundleError(f"release.json and SHA256SUMS disagree about {part.path[:200]}. Ask for a new copy.")
    if len(set(listed)) != len(listed):
        raise BundleError("release.json lists a file twice. Ask for a new copy.")
    unlisted = sums.keys() - {*listed, "release.json", *DERIVED}
    if unlisted:
        raise BundleError(f"{min(unlisted)[:200]} is no part of a release: release.json does not list it. Remove it.")
    missing = {"release.json", *DERIVED} - sums.keys()
    if missing:
        raise BundleError(f"{min(missing)} is missing from the release. Ask the publisher for a complete copy.")


def _check_shape(manifest: Manifest) -> None:
    """Columns, stages and noise are there where the form needs them, and only there."""
    p = len(manifest.columns)
    if len(set(manifest.names)) != p:
        raise BundleError("release.json names a column twice. Ask for a new copy.")
    if manifest.n < 2:
        raise BundleError(f"a release has at least 2 rows; release.json says {manifest.n}. Ask for a new copy.")
    table, unit = manifest.form == "table", manifest.unit
    if any((column.cell_noise is not None) != table for column in manifest.columns):
        raise BundleError(
            "release.json must state noise per cell for a table, and only for a table. Do not rely on it."
        )
    if bool(manifest.stages) == table or (table and manifest.radius_search is not None):
        raise BundleError("release.json must state the stages of moments, and of moments only. Do not rely on it.")
    if manifest.form == "synthetic" and manifest.stages[-1].features != "linear":
        raise BundleError("release.json has synthetic rows of moments that no rows are made from. Do not rely on it.")
    if (manifest.clip_radius is not None) > table or (manifest.synthetic is not None) != (manifest.form == "synthetic"):
        raise BundleError(f"release.json states what a {manifest.form} release does not have. Do not rely on it.")
    if any(len(stage.centre) != p or len(stage.scale) != p for stage in manifest.stages):
        raise BundleError("release.json has a stage that does not describe every column. Ask for a new copy.")
    person = unit.name == "person"
    if (manifest.persons is not None) != person or (manifest.row_counts is not None) != (person and table):
        raise BundleError("release.json must state the number of persons where it protects them, and only there.")
    most_rows = manifest.n if manifest.persons is None else manifest.persons * unit.max_rows
    if max([manifest.n, *(stage.rows for stage in manifest.stages)]) > most_rows:
        raise BundleError("release.json states more rows than its persons can have. Do not rely on it.")
    try:
        datetime.strptime(manifest.created, TIME_FORMAT)
    except ValueError:
        raise BundleError("release.json was made at a time that no calendar has. Ask for a new copy.") from None
    if unit.name not in ("record", "person") and (
        manifest.clip_radius is not None or any(stage.clipped for stage in manifest.stages)
    ):
        raise BundleError(
            "release.json clips rows where single cells or columns are protected, and a cell then moves its whole row. "
            "Do not rely on it."
        )
    if (manifest.order is not None) != table:
        raise BundleError("release.json must state the order of a table's rows, and of a table's only.")
    if (unit.readings > 1) > (unit.name == "readings") or (unit.max_rows > 1) > person:
        raise BundleError(f"release.json protects {unit.name!r} and counts another unit. Do not rely on it.")


def _check_quotes(manifest: Manifest) -> None:
    """Epsilon, its curve and the odds follow from mu."""
    guarantee = manifest.guarantee
    for epsilon, delta in ((manifest.epsilon, manifest.delta), *manifest.epsilon_delta_curve):
        true = guarantee.epsilon(delta)
        if not abs(true - epsilon) <= _TOLERANCE * max(1.0, true):
            raise BundleError(
                f"release.json states epsilon = {epsilon:g}, but mu = {manifest.mu:g} means {true:.6g} at "
                f"delta = {delta:g}. Do not rely on it."
            )
    for rate, hits in manifest.attack_odds:
        true = guarantee.true_positive_rate(rate)
        if not abs(true - hits) <= _TOLERANCE:
            raise BundleError(
                f"release.json states attack odds of {hits:g} where mu = {manifest.mu:g} means {true:.6g}. "
                "Do not rely on it."
            )


def _check_slack(manifest: Manifest) -> None:
    """What the sampler's distance from the ideal adds to delta is not less than the best one's, nor more than ours."""
    search = manifest.radius_search
    answers = 0 if search is None else len(search.answers)
    draws = answers + sum(
        moment_rows(len(stage.centre) * DEGREES[stage.features]) + (stage.count_weight > 0) for stage in manifest.stages
    )
    if manifest.form == "table":
        draws = manifest.n * len(manifest.columns)
    losses = [(manifest.delta_slack, (1 + math.exp(min(manifest.epsilon, 600.0))) * draws)]
    if search is not None:
        losses.append((search.total_variation, float(answers)))
    if any(loss < times * _LEAST_LOSS_PER_DRAW * (1 - _TOLERANCE) for loss, times in losses):
        raise BundleError("release.json states a sampler that is closer to the ideal than any is. Do not rely on it.")
    if any(loss > times * _MOST_LOSS_PER_DRAW for loss, times in losses):
        raise BundleError(
            "release.json states a sampler that is farther from the ideal than ours is. Do not rely on it."
        )


def _table_mu(manifest: Manifest) -> float:
    """The mu that the noise of a table's cells gives for the stated unit."""
    p = len(manifest.columns)
    distance = table_distance(manifest.unit, columns=p, rows=manifest.n, radius=manifest.clip_radius)
    # A set: the exact mu of the discrete Gaussian takes up to 50 ms, and columns are often alike.
    cells = {_cell_range(*one) for one in zip(manifest.columns, manifest.whole_columns, strict=True)}
    if manifest.clip_radius is not None:
        _check_shared_lattice(manifest.columns, manifest.clip_radius)
    return max(noise.mu(steps) for noise, steps in cells) * distance / 2


def _check_shared_lattice(columns: Sequence[Column], radius: float) -> None:
    """Clipped rows are rounded on one lattice, fine enough for the rounded row to stay in the ball."""
    steps = [column.half_width / column.cell_noise.step for column in columns if column.cell_noise is not None]
    whole = round(steps[0])
    if not all(math.isclose(step, whole, rel_tol=_ROUNDING) for step in steps):
        raise BundleError("release.json rounds clipped rows on several lattices. Do not rely on it.")
    _check_ball(whole, radius, fewest_steps_in_ball(len(columns), "table"))


def _check_ball(steps: int, radius: float, fewest: float) -> None:
    """Rounding moves no row out of its ball."""
    if not steps * radius >= fewest * (1 - _ROUNDING):
        raise BundleError(
            f"release.json rounds rows that were clipped to a length of {radius:g} to {steps:,} steps, which is so "
            f"coarse that rounded rows may be longer; {math.ceil(fewest / radius):,} are needed. Do not rely on it."
        )


def _cell_range(column: Column, whole: bool) -> tuple[LatticeNoise, int]:
    """A column's noise, and the most lattice steps by which a cell can change."""
    spec = column.cell_noise
    assert spec is not None
    noise = lattice_noise(spec.family, spec.scale)
    if not abs(spec.variance / spec.step**2 - noise.variance) <= _TOLERANCE * noise.variance:
        raise BundleError(f"column {column.name[:100]!r}: the variance does not fit its noise. Do not rely on it.")
    if spec.family == DiscreteGaussian.name and not whole:
        raise BundleError(
            f"column {column.name[:100]!r}: discrete noise is for integers that are neither transformed nor clipped. "
            "Do not rely on it."
        )
    start, half = column.lower if whole else column.centre, column.half_width
    if not math.isclose(spec.offset, start, rel_tol=_ROUNDING * 1e-3, abs_tol=_ROUNDING * half):
        raise BundleError(f"column {column.name[:100]!r}: its lattice starts elsewhere. Do not rely on it.")
    if whole and not spec.step.is_integer():
        raise BundleError(f"column {column.name[:100]!r}: whole numbers are no whole steps apart. Do not rely on it.")
    # Integers count from the lower bound, other cells from the middle; a float's last bits are no step.
    half = column.half_width / spec.step * (1 - 1e-12)
    return noise, math.ceil(2 * half) if whole else 2 * math.ceil(half)


def _moments_mu(manifest: Manifest) -> float:
    """The mu that the noise of all stages, and of the search for a radius, gives together."""
    spent = [_stage_mu(stage, manifest.unit) for stage in manifest.stages]
    if not _is_plain(manifest.stages[0]):
        raise BundleError(
            "release.json has a first stage that is not about the public centre on the public scale. Do not rely on it."
        )
    search = manifest.radius_search
    if any(stage.rows != manifest.n for stage in manifest.stages if not stage.count_weight):
        raise BundleError("release.json has a stage of another number of rows than the release. Ask for a new copy.")
    if manifest.n != pooled_rows(manifest.stages):
        raise BundleError("release.json states another number of rows than its stages give. Ask for a new copy.")
    if search is not None:
        spent.append(_search_mu(search, manifest))
    return math.hypot(*spent)


def _search_mu(search: RadiusSearch, manifest: Manifest) -> float:
    """The mu of a search for a radius, whose answers must lead to the radius that was used."""
    unit, grid = manifest.unit, radius_grid(len(manifest.columns))
    if unit.name not in ("record", "person") or len(search.answers) != questions(unit):
        raise BundleError(
            f"a search for a clip radius is for records or persons and asks {questions(unit)} questions; release.json "
            f"states {len(search.answers)} for {unit.in_words}. Do not rely on it."
        )
    answers = iter(search.answers)

    def answer(number: int) -> int:
        radius, rows = next(answers)
        if not math.isclose(radius, grid[number], rel_tol=_TOLERANCE):
            raise BundleError("release.json states questions that no search for a radius asks. Do not rely on it.")
        return rows

    n = answer(grid.size - 1) if unit.name == "person" else manifest.n
    found = float(grid[bisect_radius(answer, grid.size, search.quantile * n)])
    used = [stage.radius for stage in manifest.stages]
    if not math.isclose(search.radius, found, rel_tol=_TOLERANCE) or used != [search.radius]:
        raise BundleError("release.json states another clip radius than its search found. Do not rely on it.")
    distance = unit.max_rows * math.sqrt(questions(unit))
    scale = distance / search.mu
    if not scale * (1 - _TOLERANCE) <= search.noise_scale <= scale * (1 + _TOLERANCE) + 1:  # rounded up
        raise BundleError("release.json has a search of another mu than its noise gives. Do not rely on it.")
    return distance / search.noise_scale


def _stage_mu(stage: Stage, unit: Unit) -> float:
    p = len(stage.centre)
    rows_in_ball = unit.name in ("record", "person")
    plain = _is_plain(stage)
    if not rows_in_ball and not plain:
        raise BundleError("release.json rescales rows in a unit that does not allow it. Do not rely on it.")
    if not stage.clipped and not (plain and stage.radius >= math.sqrt(p) * (1 - _TOLERANCE)):
        raise BundleError("release.json has a stage with neither clipped rows nor the box's radius. Do not rely on it.")
    most = count_weight(stage.radius) * (1 + _TOLERANCE)
    if (stage.count_weight > 0) != (unit.name == "person") or stage.count_weight > most:
        raise BundleError("release.json does not protect the number of rows as its unit demands. Do not rely on it.")
    columns = p * DEGREES[stage.features]
    if stage.clipped:
        _check_ball(stage.steps, stage.radius, fewest_steps_in_ball(columns, "moments"))
    mu = moments_distance(unit, columns=columns, radius=stage.radius, mean_weight=stage.mean_weight) / stage.tau
    if not abs(mu - stage.mu) <= _TOLERANCE * stage.mu:
        raise BundleError(
            f"release.json has a stage of mu = {stage.mu:g} whose noise gives {mu:.6g}. Do not rely on it."
        )
    return mu


def _is_plain(stage: Stage) -> bool:
    return not any(stage.centre) and all(scale == 1 for scale in stage.scale) and stage.features == "linear"


def check_standardised(stages: Sequence[Stage], moments: Sequence[ReleasedMoments]) -> None:
    """A second stage has the centre and the scale that the rule makes of what the first one released, and no other:
    numbers from elsewhere may be the data's own."""
    for stage, before in zip(stages[1:], moments, strict=False):
        squares, noise = np.diag(before.second), np.diag(before.second_noise_sd)
        with np.errstate(all="ignore"):  # whatever a forger wrote; what is not a number equals nothing
            expected = standardisation(before.mean, squares, before.mean_noise_sd, noise)
        for stated, made in zip((stage.centre, stage.scale), expected, strict=True):
            if not np.allclose(stated, made, rtol=_ROUNDING, atol=_ROUNDING * 1e-3):
                raise BundleError(
                    "release.json has a stage whose centre or scale does not follow from the stage before it. "
                    "Do not rely on it."
                )
