"""What follows from released numbers: partitions, scales, maps, centres and radii are made again and compared.

The publisher followed public rules, so that nothing about a release but its noised numbers depends on the data. A
reader follows them again: numbers from elsewhere may be the data's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hazeglass.bundle.columns import origins, unit_step
from hazeglass.bundle.contents import REACH
from hazeglass.bundle.manifest import Manifest, RadiusSearch
from hazeglass.bundle.moments import ReleasedMoments, most_rows, running_rows
from hazeglass.errors import BundleError
from hazeglass.features.fitting import Counts
from hazeglass.features.harmonics import SEASON_SHARE
from hazeglass.features.marginal import (
    LOOK_SHARE,
    PRESENCE_SHARE,
    Marginal,
    counts_share,
    first_borders,
    is_last_round,
    marginals_of,
    next_borders,
    often_missing,
)
from hazeglass.features.shaping import first_shape, largest_entry, next_shape
from hazeglass.guarantee.budget import Lifetime, running_count_weight
from hazeglass.guarantee.units import (
    RADIUS_QUANTILE,
    RADIUS_SHARE,
    bisect_radius,
    count_weight,
    counts_distance,
    mean_weight,
    questions,
    radius_grid,
    stacks_touched,
)

TOLERANCE = 1e-6  # of numbers that follow from each other by arithmetic
_FOLLOWED = 1e-6  # what eigenvalues and quantiles may differ by on another computer, beside the largest entry


def check_followed(
    manifest: Manifest, rounds: Sequence[Sequence[Counts]], moments: Sequence[ReleasedMoments]
) -> tuple[Marginal, ...]:
    """Partitions, scales, maps, centres and radii are what the rules make of the numbers released before them, and no
    other: numbers from elsewhere may be the data's own. Returns what the counts say of each column."""
    with np.errstate(all="ignore"):  # whatever a forger wrote; what is not a number equals nothing
        try:
            columns = _check_partitions(manifest, rounds)
            shares = [*_round_shares(manifest, rounds), *_check_shapes(manifest, moments, columns)]
            _check_shares(manifest, shares)
            _check_weights(manifest)
        except np.linalg.LinAlgError:
            raise BundleError(
                "moments.parquet holds numbers that no stage can follow from. Do not rely on it."
            ) from None
    return columns


def _agree(what: str, stated: object, made: object) -> None:
    found, expected = np.asarray(stated, dtype=np.float64), np.asarray(made, dtype=np.float64)
    if found.shape != expected.shape or not np.all(
        np.abs(found - expected) <= _FOLLOWED * max(float(np.abs(expected).max(initial=0.0)), 1e-12)
    ):
        raise BundleError(
            f"release.json has {what} that do not follow from what was released before. Do not rely on it."
        )


def _check_partitions(manifest: Manifest, rounds: Sequence[Sequence[Counts]]) -> tuple[Marginal, ...]:
    size, columns = manifest.persons or manifest.n, known_columns(manifest, ())
    if not rounds:
        return columns
    ordered = any(column.ordered for column in manifest.columns)
    for number, counts in enumerate(rounds):
        last = is_last_round(number, columns, ordered=ordered)
        if last != (number == len(rounds) - 1):
            raise BundleError("release.json has a number of rounds that its counts do not ask for. Do not rely on it.")
        noise = manifest.rounds[number].noise_scale / size
        for k, column in enumerate(manifest.columns):
            expected = (
                next_borders(columns[k], noise, last=last)
                if number > 0
                else first_borders(unit_step(column, manifest.scale), levels=not column.ordered)
            )
            _agree("partitions", counts[k].borders, expected)
        columns = known_columns(manifest, rounds[: number + 1])
    if manifest.standard is not None:
        _agree("locations", manifest.standard.centre, [one.location for one in columns])
        _agree("spreads", manifest.standard.scale, [one.spread for one in columns])
    return columns


def known_columns(manifest: Manifest, rounds: Sequence[Sequence[Counts]]) -> tuple[Marginal, ...]:
    """What these rounds of counts say of every column."""
    return marginals_of(
        tuple(zip(*rounds, strict=True)),
        [unit_step(column, manifest.scale) for column in manifest.columns],
        [not column.ordered for column in manifest.columns],
        None if manifest.unit.name == "person" else manifest.n,
    )


def _round_shares(manifest: Manifest, rounds: Sequence[Sequence[Counts]]) -> list[float]:
    """Of what is left of mu^2, for every round."""
    if not rounds:
        return []
    distance = counts_distance(manifest.unit, columns=len(manifest.columns))
    left, rest = counts_share(distance, math.hypot(*_mus(manifest)), manifest.persons or manifest.n), 1.0
    shares = []
    for number in range(len(rounds)):
        spent = left * (LOOK_SHARE if number < len(rounds) - 1 else 1.0)
        shares.append(spent / rest)
        left, rest = left - spent, rest - spent
    return shares


def _mus(manifest: Manifest) -> list[float]:
    search = [] if manifest.radius_search is None else [manifest.radius_search.mu]
    return [*search, *(one.mu for one in manifest.rounds), *(one.mu for one in manifest.stages)]


def _check_shares(manifest: Manifest, shares: Sequence[float]) -> None:
    """Each search, round and stage spends the share of what is left that the rules give it."""
    squares = np.square(_mus(manifest))
    _agree("shares of mu", squares / np.cumsum(squares[::-1])[::-1], shares or [RADIUS_SHARE, 1.0][-len(squares) :])


def _check_weights(manifest: Manifest) -> None:
    """Means, and the number of persons' rows, weigh what the rules give them."""
    size, person = manifest.persons or manifest.n, manifest.unit.name == "person"
    for stage in manifest.stages:
        counted = person or stage.lags > 0
        weight = count_weight if manifest.lifetime is None else running_count_weight
        expected = mean_weight(stage.longest, size, stage.mu), weight(stage.longest) if counted else 0.0
        _agree("weights", [stage.mean_weight, stage.count_weight], expected)


def _check_shapes(manifest: Manifest, moments: Sequence[ReleasedMoments], columns: tuple[Marginal, ...]) -> list[float]:
    """Returns the share of what is left that every stage may spend."""
    if not manifest.rounds:
        return []
    size, stages = manifest.persons or manifest.n, manifest.stages
    presence = stages[0].of if stages[0].features == "presence" else ()
    missing = often_missing(columns)
    if presence != (missing if len(missing) > 1 else ()):
        raise BundleError("release.json counts presence where the counts do not ask for it. Do not rely on it.")
    begin, shares = (1, [PRESENCE_SHARE]) if presence else (0, [])
    if stages[begin].features == "seasons":
        shares.append(SEASON_SHARE)
        if stages[begin].clipped:
            shape = first_shape(stages[begin].scored, shaped=True)
            expected = shape.radius("columns", size, stages[begin].mu, indicators=len(stages[begin].levels))
            _agree("radii", [stages[begin].radius], [expected])
        begin += 1
    first = stages[begin]
    shaped = first.features == "columns" and first.box is None and first.scored > 1
    shape = first_shape(first.scored, shaped=shaped, beside=first.size - first.scored)
    for number, (stage, released) in enumerate(zip(stages[begin:], moments[begin:], strict=True)):
        if number > 0:
            before = moments[begin + number - 1]
            noise = float(before.second_noise_sd[0, -1])
            radius, largest = stages[begin + number - 1].radius, largest_entry(manifest.scale)
            shape = next_shape(shape, radius, before.mean, before.second, noise, number, largest)
            _agree("centres", stage.centre, shape.whole_centre)
            if (released.map is None) != (shape.map is None):
                raise BundleError("release.json has a map where the rule makes none. Do not rely on it.")
            if shape.whole_map is not None and released.map is not None:
                _agree("maps", released.map, shape.whole_map)
                own = released.map[: stage.scored, : stage.scored]
                shape = replace(shape, map=own, centre=np.array(stage.centre[: stage.scored]))
        shares.append(shape.share)
        if (shape.share == 1.0) != (begin + number == len(stages) - 1):
            raise BundleError("release.json has a number of stages that does not follow. Do not rely on it.")
        if stage.clipped and stage.scored:
            mu = stage.mu / stacks_touched(manifest.unit, stage.lags)
            radius = shape.radius(stage.features, size, mu, indicators=len(stage.levels))
            _agree("radii", [stage.radius], [radius])
    return shares


def search_mu(search: RadiusSearch, manifest: Manifest) -> float:
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
        if not math.isclose(radius, grid[number], rel_tol=TOLERANCE):
            raise BundleError("release.json states questions that no search for a radius asks. Do not rely on it.")
        return rows

    n = answer(grid.size - 1) if unit.name == "person" else manifest.n
    found = float(grid[bisect_radius(answer, grid.size, RADIUS_QUANTILE * n)])
    used = [stage.radius for stage in manifest.stages]
    same = search.quantile == RADIUS_QUANTILE and used == [search.radius]
    if not (same and math.isclose(search.radius, found, rel_tol=TOLERANCE)):
        raise BundleError("release.json states another clip radius than its search found. Do not rely on it.")
    distance = unit.max_rows * math.sqrt(questions(unit))
    scale = distance / search.mu
    if not scale * (1 - TOLERANCE) <= search.noise_scale <= scale * (1 + TOLERANCE) + 1:  # rounded up
        raise BundleError("release.json has a search of another mu than its noise gives. Do not rely on it.")
    reach = REACH * (search.noise_scale + 2)
    if not all(-reach <= rows <= most_rows(manifest) + reach for _, rows in search.answers):
        raise BundleError("release.json has a search with an answer that no noise reaches. Do not rely on it.")
    return distance / search.noise_scale


def check_lifetime(manifest: Manifest, lifetime: Lifetime) -> None:
    """Running releases are what they are derived for: one stage of persons, on a scale fixed before all data."""
    possible = manifest.form == "moments" and manifest.unit.name == "person" and manifest.persons is not None
    possible &= manifest.scale == "public" and manifest.radius_search is None and manifest.series is None
    possible &= manifest.period is None and lifetime.column not in origins(manifest.columns)
    possible &= all(stage.count_weight > 0 for stage in manifest.stages)
    if not possible or len(lifetime.counts) != lifetime.step:
        raise BundleError("release.json states a lifetime that no plan leads to. Do not rely on it.")
    fine, most = lifetime.fine, most_rows(manifest) * lifetime.fine  # no coefficient is above 1
    noise = max(stage.tau / stage.count_weight for stage in manifest.stages) / lifetime.error * fine
    reach = REACH * (noise + 2)
    if not all(-reach <= count <= most + reach for count in lifetime.counts):
        raise BundleError("release.json has a draw with a number of rows that no noise reaches. Do not rely on it.")
    if [stage.rows for stage in manifest.stages] != [running_rows(lifetime, most_rows(manifest))]:
        raise BundleError("release.json states another number of rows than its draws give. Ask for a new copy.")
