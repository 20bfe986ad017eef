"""A made-up year on a small radial feeder: 12 buses, one value each quarter of an hour.

Physics, linearised (LinDistFlow): v = v0 - R p, where p are the loads and R the resistance that two buses share on
their way to the substation. R is the inverse of the weighted Laplacian L of the tree of lines, so for independent load
fluctuations with variances D the voltages have precision

    L D^-1 L

which links buses joined by a line AND buses that share a neighbour: two lines apart. That matrix is the truth here; the
lines are marked in it.

What is recorded is the change of voltage against the same quarter-hour one week before, in per cent of nominal. The
daily and weekly shape of the loads cancels, what remains is fluctuation; and an engineer knows bounds for it without
looking: supply rules keep a feeder within five per cent of nominal, so a change stays within ten. Fluctuations are
independent from one quarter-hour to the next, because error bars suppose that rows are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.datasets.dataset import Dataset, Edges

BOUND_PER_CENT = 10.0
_STEPS_PER_DAY, _STEPS_PER_WEEK, _DAYS = 96, 7 * 96, 365
# Each bus's upstream neighbour; -1 is the substation, whose voltage is held.
_UPSTREAM = (-1, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 6)
# Lines get thinner and consumers smaller with the distance from the substation, as they do.
_RESISTANCE_BY_DEPTH = (0.5, 1.2, 2.8, 6.5)
_LOAD_BY_DEPTH = (4.0, 2.0, 1.2, 0.7)
_LARGEST_SD_PER_CENT = 1.8

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class FeederData(Dataset):
    """A feeder's rows with the exact precision matrix of the model and the physical lines."""

    precision: FloatArray
    lines: Edges


def make_feeder(seed: int = 2025, days: int = _DAYS) -> FeederData:
    """Simulate `days` days of a 12-bus radial feeder.

    >>> feeder = make_feeder(days=7)
    >>> feeder.data.shape, len(feeder.lines)
    ((672, 12), 11)
    """
    names = tuple(f"bus_{k + 1:02d}" for k in range(len(_UPSTREAM)))
    depth = _depths()
    laplacian = _laplacian(np.array([_RESISTANCE_BY_DEPTH[d] for d in depth]))
    load_sd = np.array([_LOAD_BY_DEPTH[d] for d in depth])
    steps = days * _STEPS_PER_DAY + _STEPS_PER_WEEK
    rng = np.random.default_rng(seed)
    loads = _shape(steps)[:, None] * load_sd * 5 + _activity(steps)[:, None] * load_sd * rng.standard_normal(
        (steps, len(_UPSTREAM))
    )
    voltages = -loads @ np.linalg.inv(laplacian)
    change = voltages[_STEPS_PER_WEEK:] - voltages[:-_STEPS_PER_WEEK]
    covariance = _change_covariance(laplacian, load_sd)
    unit = _LARGEST_SD_PER_CENT / math.sqrt(covariance.diagonal().max())
    precision: FloatArray = np.asarray(np.linalg.inv(covariance * unit**2), dtype=np.float64)
    precision[np.abs(precision) < 1e-9 * np.abs(precision).max()] = 0.0
    return FeederData(
        data=change * unit,
        columns=names,
        truth=_pairs(names, precision != 0),
        kind="continuous",
        licence="made by hazeglass; free to use",
        source=f"hazeglass.datasets.make_feeder(seed={seed}, days={days})",
        precision=precision,
        lines=frozenset(frozenset((names[k], names[up])) for k, up in enumerate(_UPSTREAM) if up >= 0),
    )


def _depths() -> list[int]:
    depth: list[int] = []
    for up in _UPSTREAM:
        depth.append(0 if up < 0 else depth[up] + 1)
    return depth


def _laplacian(resistance: FloatArray) -> FloatArray:
    """Weighted Laplacian of the lines with the substation's row left out."""
    incidence = np.eye(len(_UPSTREAM))
    for k, up in enumerate(_UPSTREAM):
        if up >= 0:
            incidence[k, up] = -1.0
    return np.asarray(incidence.T @ np.diag(1 / resistance) @ incidence)


def _change_covariance(laplacian: FloatArray, load_sd: FloatArray) -> FloatArray:
    """Exact covariance of the recorded changes: two independent weeks, activity averaged over the week."""
    shared = np.linalg.inv(laplacian)
    mean_square_activity = float(np.mean(_activity(_STEPS_PER_WEEK) ** 2))
    return np.asarray(shared @ np.diag(2 * mean_square_activity * load_sd**2) @ shared)


def _shape(steps: int) -> FloatArray:
    """Mean demand: a morning and an evening peak, weaker at weekends. It repeats every week."""
    step = np.arange(steps)
    hour = step % _STEPS_PER_DAY / 4
    weekend = (step // _STEPS_PER_DAY) % 7 >= 5
    peaks = 0.5 * np.exp(-(((hour - 7.5) / 1.8) ** 2)) + np.exp(-(((hour - 19) / 2.4) ** 2))
    return np.asarray(0.4 + peaks * np.where(weekend, 0.8, 1.0))


def _activity(steps: int) -> FloatArray:
    """How much loads fluctuate: more by day, less by night; the same for all buses."""
    hour = np.arange(steps) % _STEPS_PER_DAY / 4
    return np.asarray(1.0 - 0.35 * np.cos(2 * math.pi * (hour - 2) / 24))


def _pairs(names: tuple[str, ...], linked: npt.NDArray[np.bool_]) -> Edges:
    rows, columns = np.triu_indices(len(names), 1)
    return frozenset(frozenset((names[i], names[j])) for i, j in zip(rows, columns, strict=True) if linked[i, j])
