"""What a manifest claims must hang together: the promise is derived again from the noise the release states.

A forger who recomputes every hash can still not state a mu that the stated noise does not give.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import numpy as np

from hazeglass.bundle.catalogue import DERIVED
from hazeglass.bundle.columns import ABSENCE, Column, absence_of, origins, response_of, together
from hazeglass.bundle.followed import TOLERANCE, check_lifetime, search_mu
from hazeglass.bundle.manifest import TIME_FORMAT, Manifest, Stage
from hazeglass.bundle.moments import moment_rows, most_counts, most_rows, released_rows
from hazeglass.bundle.transport import check_name
from hazeglass.errors import BundleError, InputError
from hazeglass.features.harmonics import DEGREES
from hazeglass.features.shaping import BOX, LARGEST_LINEAR, MOST_STAGES
from hazeglass.guarantee.gdp import LARGEST_DELTA, explain
from hazeglass.guarantee.lattice import DiscreteGaussian, LatticeNoise, delta_slack, lattice_noise, total_variation
from hazeglass.guarantee.units import (
    CELL_UNITS,
    PERIOD_UNITS,
    count_weight,
    counts_distance,
    fewest_steps_in_ball,
    moments_distance,
    table_distance,
)

_SOFTWARE = ("hazeglass", "python", "numpy", "pyarrow")
_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}((a|b|rc|\.dev|\.post)[0-9]{1,8})?(\+[a-z0-9.]{0,12})?")
_ROUNDING = 1e-9  # what the same arithmetic on another computer may change
# Noise is made of numbers of 128 bits, so no draw of it is closer to the ideal; the worst of ours is off by 2^-109.8.
_LEAST_LOSS_PER_DRAW, _MOST_LOSS_PER_DRAW = 2.0**-128, 2.0**-108


def check_manifest(manifest: Manifest, sums: dict[str, str]) -> None:
    """Files, names, numbers and the promise agree with each other."""
    _check_listing(manifest, sums)
    _check_shape(manifest)
    _check_ledger(manifest)
    _check_versions(manifest)
    try:
        _check_quotes(manifest)
        _check_mu(manifest)
        _check_slack(manifest)
    except BundleError:
        raise
    except (ArithmeticError, ValueError) as error:
        detail = f": {error}" if isinstance(error, InputError) else "."
        raise BundleError(f"release.json states noise or a promise that no release can have{detail}") from None


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
    for column in manifest.columns:
        answered = table and column.kind == "categorical"
        if (column.cell_noise is not None, column.response is not None) != (table and not answered, answered):
            raise BundleError(
                "release.json must state noise per cell for a table, and only for a table. Do not rely on it."
            )
    _check_made_of(manifest)
    of_moments = manifest.scale, manifest.standard, manifest.radius_search
    if manifest.series is not None and (table or manifest.period is not None):
        raise BundleError("release.json stacks rows of a table or of one period. Do not rely on it.")
    if bool(manifest.stages) == table or (table and (manifest.rounds or any(one is not None for one in of_moments))):
        raise BundleError("release.json must state the stages of moments, and of moments only. Do not rely on it.")
    if not table:
        _check_stages(manifest)
    if (manifest.clip_radius is not None) > table or (manifest.synthetic is not None) != (manifest.form == "synthetic"):
        raise BundleError(f"release.json states what a {manifest.form} release does not have. Do not rely on it.")
    if manifest.synthetic is not None and not manifest.synthetic.fits(manifest):
        raise BundleError("release.json makes synthetic rows in a way that no plan leads to. Do not rely on it.")
    if manifest.lifetime is not None:
        check_lifetime(manifest, manifest.lifetime)
    if manifest.period is not None and unit.name not in PERIOD_UNITS:
        raise BundleError(f"release.json is about one period, and protects {unit.name}, which is in several.")
    person = unit.name == "person"
    if (manifest.persons is not None) != person or (manifest.row_counts is not None) != (person and table):
        raise BundleError("release.json must state the number of persons where it protects them, and only there.")
    if manifest.series is not None and set(manifest.series.sources) & set(origins(manifest.columns)):
        raise BundleError("release.json orders rows by a column that it releases. Do not rely on it.")
    if max([manifest.n, *(stage.rows for stage in manifest.stages)]) > most_rows(manifest):
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
    if person and manifest.order == "kept":
        raise BundleError("release.json protects persons and keeps the order of their rows. Do not rely on it.")
    if (unit.readings > 1) > (unit.name == "readings") or (unit.max_rows > 1) > person:
        raise BundleError(f"release.json protects {unit.name!r} and counts another unit. Do not rely on it.")


def _check_made_of(manifest: Manifest) -> None:
    """Columns that are made of the same cells are counted, and there is a reason for each that says what is missing."""
    columns, unit = manifest.columns, manifest.unit
    made = together(columns) if unit.name in CELL_UNITS else 1
    wanted = {absence_of(column) for column in columns if column.missing == "informative"}
    found = {replace(column, cell_noise=None) for column in columns if column.part == ABSENCE}
    if unit.together != made or wanted != found:
        raise BundleError("release.json does not say truly which columns are made of one cell. Do not rely on it.")


def _check_stages(manifest: Manifest) -> None:
    """Counts and stages are those that a plan can lead to: what the promise is derived for, and nothing else."""
    p, scale, stages = len(manifest.columns), manifest.scale, manifest.stages
    wrong = BundleError("release.json states counts or stages that no plan leads to. Do not rely on it.")
    adaptive = scale in ("scores", "linear")
    if scale is None or bool(manifest.rounds) != adaptive or (manifest.standard is not None) != (scale == "linear"):
        raise wrong
    line = manifest.standard
    if line is not None and not (len(line.centre) == len(line.scale) == p and line.largest == LARGEST_LINEAR):
        raise wrong
    if adaptive and manifest.radius_search is not None:
        raise wrong
    boxed = manifest.unit.name not in ("record", "person")
    levels, lags = tuple(len(one.levels) for one in manifest.columns if not one.ordered), 0
    if manifest.series is not None:
        lags = manifest.series.lags
        if levels or not adaptive or manifest.form != "moments" or any(one.features == "cosines" for one in stages):
            raise wrong
    if levels and scale != "scores":
        raise wrong
    seasons = () if manifest.series is None else manifest.series.season_levels
    before = [number for number, stage in enumerate(stages) if stage.features == "seasons"]
    if before != ([] if not seasons else [int(stages[0].features == "presence")]):
        raise wrong
    for number, stage in enumerate(stages):
        presence = stage.features == "presence"
        box = None if not boxed else 1.0 if presence or not adaptive else BOX
        if stage.box != box or stage.clipped == boxed:
            raise wrong
        if stage.features == "seasons":
            if stage.levels != seasons or stage.lags or stage.scored != p or stage.of or stage.mapped:
                raise wrong
            continue
        if stage.levels != (() if presence else levels):
            raise wrong
        taking = len(stage.of) or p - len(stage.levels)
        if (
            stage.scored != taking * DEGREES[stage.features] * (lags + 1)
            or stage.lags != lags
            or bool(stage.of) != presence
            or (presence and number > 0)
        ):
            raise wrong
        if any(a >= b for a, b in pairwise(stage.of)) or (stage.of and stage.of[-1] >= p):
            raise wrong
        longest = math.sqrt(stage.scored) * (stage.box or 1.0)  # of rows in a box, or of presence; others have a rule
        if (boxed or presence or not stage.scored) and not math.isclose(stage.radius, longest, rel_tol=_ROUNDING):
            raise wrong
    shaped = [stage for stage in stages if stage.features not in ("presence", "seasons")]
    kinds = {stage.features for stage in shaped}
    one_only = not adaptive or boxed or "cosines" in kinds
    if (
        len(kinds) != 1
        or not 1 <= len(shaped) <= (1 if one_only else MOST_STAGES)
        or (not adaptive and len(stages) > 1)
    ):
        raise wrong
    if "cosines" in kinds and (levels or scale != "scores" or boxed or manifest.form == "synthetic"):
        raise wrong
    if shaped[0].mapped or any(shaped[0].centre) or any(s.mapped or any(s.centre) for s in stages[: -len(shaped)]):
        raise wrong


def _check_quotes(manifest: Manifest) -> None:
    """Epsilon, its curve and the odds are what mu means, at the deltas and rates that every release states."""
    if manifest.delta > LARGEST_DELTA:
        raise BundleError(
            f"release.json quotes epsilon at delta = {manifest.delta:g}, and {LARGEST_DELTA:g} is the most that says "
            "anything. Do not rely on it."
        )
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    odds = tuple((one.false_positive_rate, one.true_positive_rate) for one in words.odds)
    for what, stated, true, at in (
        ("epsilon", ((manifest.epsilon, manifest.delta),), ((words.epsilon, words.delta),), 1),
        ("a curve of epsilons", manifest.epsilon_delta_curve, words.curve, 1),
        ("attack odds", manifest.attack_odds, odds, 0),
    ):
        # Deltas and rates are given: beside a tolerance the smallest delta could be stated as next to none.
        same = [pair[at] for pair in stated] == [pair[at] for pair in true]
        if not same or not np.allclose(stated, true, rtol=TOLERANCE, atol=TOLERANCE * TOLERANCE):
            raise BundleError(f"release.json states {what} that mu = {manifest.mu:g} does not mean. Do not rely on it.")


def _check_mu(manifest: Manifest) -> None:
    """The promise is no smaller than the noise gives."""
    given = _table_mu(manifest) if manifest.form == "table" else _moments_mu(manifest)
    if not given <= manifest.mu * (1 + TOLERANCE):
        raise BundleError(
            f"release.json states mu = {manifest.mu:g}, but the noise it describes only gives mu = {given:.6g} for "
            f"{manifest.unit.in_words}. Do not rely on it."
        )


def _check_versions(manifest: Manifest) -> None:
    """The statement names what made the release: nothing else may stand there."""
    known = manifest.versions.keys() <= set(_SOFTWARE)
    if not known or not all(_VERSION.fullmatch(version) for version in manifest.versions.values()):
        raise BundleError(
            f"release.json names other software than {', '.join(_SOFTWARE)}, or versions that are none. Do not rely on "
            "it."
        )


def _check_ledger(manifest: Manifest) -> None:
    """Of a charge only this can be told without the ledger: that a simulation has none, and how a ledger is named."""
    ledger = manifest.ledger
    if ledger is not None and (manifest.simulation or not ledger.dataset.isprintable()):
        raise BundleError("release.json names a charge that no ledger can hold. Do not rely on it.")


def _check_slack(manifest: Manifest) -> None:
    """What the sampler's distance from the ideal adds to delta: in tables what follows from the noise, in moments not
    less than the best sampler's, nor more than ours."""
    search, epsilon = manifest.radius_search, manifest.epsilon
    if manifest.form == "table":
        laws = Counter((c.cell_noise.family, c.cell_noise.scale) for c in manifest.columns if c.cell_noise is not None)
        row = sum(times * total_variation(lattice_noise(*law)) for law, times in laws.items())
        if not math.isclose(manifest.delta_slack, delta_slack(epsilon, manifest.n * row), rel_tol=TOLERANCE):
            raise BundleError("release.json states another sampler than its noise is drawn with. Do not rely on it.")
        return
    answers = 0 if search is None else len(search.answers)
    times = 1 if manifest.lifetime is None else len(manifest.lifetime.periods)  # all draws of a lifetime are counted
    draws = answers + times * sum(moment_rows(stage.size) + (stage.count_weight > 0) for stage in manifest.stages)
    counts = len(manifest.rounds) * len(manifest.columns)  # each of two leaves at least, and missing cells
    fewest, most = draws + 2 * counts, draws + len(manifest.rounds) * most_counts(manifest.columns)
    losses = [(manifest.delta_slack, delta_slack(epsilon, fewest), delta_slack(epsilon, most))]
    if search is not None:
        losses.append((search.total_variation, float(answers), float(answers)))
    if any(loss < fewest * _LEAST_LOSS_PER_DRAW * (1 - TOLERANCE) for loss, fewest, _ in losses):
        raise BundleError("release.json states a sampler that is closer to the ideal than any is. Do not rely on it.")
    if any(loss > most * _MOST_LOSS_PER_DRAW for loss, _, most in losses):
        raise BundleError(
            "release.json states a sampler that is farther from the ideal than ours is. Do not rely on it."
        )


def _table_mu(manifest: Manifest) -> float:
    """The mu that the noise of a table's cells gives for the stated unit."""
    columns, unit = manifest.columns, replace(manifest.unit, together=1)
    distance = table_distance(unit, columns=len(columns), rows=manifest.n, radius=manifest.clip_radius)
    known: dict[tuple[LatticeNoise, int], float] = {}  # a discrete Gaussian's mu takes milliseconds
    together: dict[object, list[float]] = {}  # the costs of columns that change together where cells are protected
    for k, (column, whole, of) in enumerate(zip(columns, manifest.whole_columns, origins(columns), strict=True)):
        if column.response is not None:
            cost = response_of(column).mu
        else:
            law = _cell_range(column, whole)
            cost = known[law] if law in known else known.setdefault(law, _cell_mu(law))
        together.setdefault(of if unit.name in CELL_UNITS else k, []).append(cost)
    if manifest.clip_radius is not None:
        if any(column.response is not None for column in columns):
            raise BundleError("release.json clips rows that have levels without order. Do not rely on it.")
        _check_shared_lattice(columns, manifest.clip_radius)
    return max(math.hypot(*costs) for costs in together.values()) * distance / 2


def _cell_mu(cell: tuple[LatticeNoise, int]) -> float:
    """As near as claims are compared: the exact one takes a tenth of a second, and a forger has many columns."""
    noise, steps = cell
    return noise.mu(steps, exact=False) if isinstance(noise, DiscreteGaussian) else noise.mu(steps)


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
    if not abs(spec.variance / spec.step**2 - noise.variance) <= TOLERANCE * noise.variance:
        raise BundleError(f"column {column.name[:100]!r}: the variance does not fit its noise. Do not rely on it.")
    if spec.family == DiscreteGaussian.name and not whole:
        raise BundleError(
            f"column {column.name[:100]!r}: discrete noise is for integers that are neither transformed nor clipped. "
            "Do not rely on it."
        )
    start, half = column.lower if whole else column.centre, column.half_width
    if not math.isclose(spec.offset, start, rel_tol=_ROUNDING * 1e-3, abs_tol=_ROUNDING * half):
        raise BundleError(f"column {column.name[:100]!r}: its lattice starts elsewhere. Do not rely on it.")
    if whole and not float(spec.step).is_integer():  # JSON may spell it as an integer
        raise BundleError(f"column {column.name[:100]!r}: whole numbers are no whole steps apart. Do not rely on it.")
    if not whole and spec.scale * spec.step < 4 * np.spacing(abs(column.centre) + column.half_width):
        raise BundleError(f"column {column.name[:100]!r}: its noise is lost in the rounding of 64-bit numbers.")
    # Integers count from the lower bound, other cells from the middle; a float's last bits are no step.
    half = column.half_width / spec.step * (1 - 1e-12)
    return noise, math.ceil(2 * half) if whole else 2 * math.ceil(half)


def _moments_mu(manifest: Manifest) -> float:
    """The mu that the noise of all counts and stages, and of the search for a radius, gives together."""
    distance = counts_distance(manifest.unit, columns=len(manifest.columns)) if manifest.rounds else 0.0
    spent = [_stage_mu(stage, manifest) for stage in manifest.stages]
    for one in manifest.rounds:
        if not distance / one.mu * (1 - TOLERANCE) <= one.noise_scale <= distance / one.mu * (1 + TOLERANCE) + 1:
            raise BundleError("release.json has counts of another mu than their noise gives. Do not rely on it.")
        spent.append(distance / one.noise_scale)
    search = manifest.radius_search
    if any(stage.rows != manifest.n for stage in manifest.stages if not stage.count_weight):
        raise BundleError("release.json has a stage of another number of rows than the release. Ask for a new copy.")
    if manifest.n != released_rows(manifest.series, manifest.unit, manifest.n, manifest.stages):
        raise BundleError("release.json states another number of rows than its stages give. Ask for a new copy.")
    if search is not None:
        spent.append(search_mu(search, manifest))
    return math.hypot(*spent)


def _stage_mu(stage: Stage, manifest: Manifest) -> float:
    unit, most = manifest.unit, count_weight(stage.longest) * (1 + TOLERANCE)
    if (stage.count_weight > 0) != (unit.name == "person" or stage.lags > 0) or stage.count_weight > most:
        raise BundleError("release.json does not protect the number of rows as its unit demands. Do not rely on it.")
    if stage.clipped:
        _check_ball(stage.steps, stage.radius, fewest_steps_in_ball(stage.scored, "moments"))
    elif not float(stage.steps * (stage.box or 1.0)).is_integer():
        raise BundleError("release.json has a lattice on which rounded cells leave their box. Do not rely on it.")
    rows, lifetime, drawn = (manifest.persons or manifest.n) * unit.max_rows, manifest.lifetime, stage
    if lifetime is None:
        distance = moments_distance(
            unit,
            columns=stage.scored,
            radius=stage.radius,
            mean_weight=stage.mean_weight,
            box=stage.box or 1.0,
            indicators=len(stage.levels),
            lags=stage.lags,
        )
    else:  # of a draw, whose noise is less than that of the running sums
        weights = {"mean_weight": stage.mean_weight, "count_weight": stage.count_weight}
        distance = lifetime.distance(unit.max_rows, radius=stage.radius, **weights) * lifetime.error
        drawn, rows = replace(stage, tau=stage.tau / lifetime.error * lifetime.fine), rows * lifetime.fine
    mu = distance / stage.tau
    if not abs(mu - stage.mu) <= TOLERANCE * stage.mu:
        raise BundleError(
            f"release.json has a stage of mu = {stage.mu:g} whose noise gives {mu:.6g}. Do not rely on it."
        )
    if stage.steps != drawn.lattice(rows):
        raise BundleError("release.json has a stage on another lattice than its noise asks for. Do not rely on it.")
    return mu
