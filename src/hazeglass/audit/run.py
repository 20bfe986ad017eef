"""Every mechanism that is attacked, and by what; run the attacks, certify what they show, say what was found.

A new form is one entry of ATTACKS and its rows in `mechanisms`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np

from hazeglass.audit.attack import Attack, Certificate, Together, attack_table, certify
from hazeglass.audit.moments_attack import (
    StageKind,
    attack_counts,
    attack_jitter,
    attack_lifetime,
    attack_moments,
    attack_radius,
    attack_row_number,
    attack_series,
    attack_stacks,
    attack_stage,
)
from hazeglass.audit.structure_attack import StructureAttack, structure_attacks
from hazeglass.bundle.columns import Column, origins
from hazeglass.errors import InputError
from hazeglass.features.shaping import MOST_STAGES
from hazeglass.guarantee.units import UNITS, UnitName, counts_distance
from hazeglass.publisher.noise import BitSource, SecretBits
from hazeglass.publisher.plan import Plan

CONFIDENCE = 0.999
MUS = (0.5, 1.0, 2.0)
QUICK_RUNS, FULL_RUNS = 1 << 18, 1 << 21
_FEWEST_RUNS = 1 << 9
_CELLS_PER_RUN = 512  # up to here a run costs little more than a narrow one
_CELLS_PER_CHUNK = 1 << 21  # noisy numbers drawn together: memory does not grow with the number of runs
Progress = Callable[[str, int, int], None]
ROWS = 1 << 14  # of the tables the moments are summed from; a table's own noise needs none of its other rows
CURVED_ROWS = 32
COLUMN_ROWS = 8  # in the column unit every row is attacked

# form of a plan -> the attack on what it releases. Synthetic rows are drawn from the released moments, which lie beside
# them in the bundle: whoever attacks those needs no rows.
ATTACKS: dict[str, Callable[[Plan, int], Attack]] = {
    "table": attack_table,
    "moments": attack_moments,
    "synthetic": attack_moments,
}
_SUMMED: tuple[UnitName, ...] = ("entry", "readings", "record", "person")  # units that moments can protect
_WHOLE_ROWS: tuple[UnitName, ...] = ("record", "person")
_LARGEST = 1 << 21  # numbers in one run
_PERSON_ROWS = 40  # enough that the search's noise, a whole number, is not rounded up by much


@dataclass(frozen=True)
class Target:
    """Something to attack: labels, the claim, and how to set the attack up."""

    form: str
    unit: str
    noise: str
    claimed_mu: float
    attack: Callable[[], Attack | StructureAttack]


@dataclass(frozen=True)
class Finding:
    """One attack: what the mechanism claims, and what the attack certifies.

    `structural`: an attack on what is not a noised number, which certifies 0 or, where neighbours differ with
    certainty, infinity.
    """

    form: str
    unit: str
    noise: str
    claimed_mu: float
    certificate: Certificate
    structural: bool = False

    @property
    def certified_mu(self) -> float:
        """mu is at least this."""
        return self.certificate.mu

    @property
    def ratio(self) -> float:
        """Certified over claimed: close to 1 for a tight mechanism and attack, above 1 for a broken claim."""
        return self.certified_mu / self.claimed_mu

    @property
    def holds(self) -> bool:
        """Whether the claim survived."""
        return self.certified_mu <= self.claimed_mu

    @property
    def name(self) -> str:
        """In one line: 'moments, record, rounded, mu = 1'."""
        return ", ".join(part for part in (self.form, self.unit, self.noise, f"mu = {self.claimed_mu:.4g}") if part)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        mu, found = _plain(self.certified_mu), asdict(self)
        found["certificate"]["mu"] = mu
        return {**found, "certified_mu": mu, "ratio": _plain(self.ratio), "holds": self.holds}


def _plain(value: float) -> float | str:
    """JSON has no word for infinity."""
    return value if math.isfinite(value) else "infinity"


@dataclass(frozen=True)
class AuditResult:
    """All findings. With probability at least `confidence` none of the certified bounds exceeds the true mu."""

    findings: tuple[Finding, ...]
    confidence: float
    seconds: float

    @property
    def broken(self) -> tuple[Finding, ...]:
        """Mechanisms whose claim an attack refuted."""
        return tuple(finding for finding in self.findings if not finding.holds)

    @property
    def structural(self) -> tuple[Finding, ...]:
        """The attacks on structure."""
        return tuple(finding for finding in self.findings if finding.structural)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "confidence": self.confidence,
            "tests": len(self.findings),
            "seconds": round(self.seconds, 3),
            "claims_hold": not self.broken,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def audit(
    plan: Plan | None = None, *, quick: bool = False, bits: BitSource | None = None, progress: Progress | None = None
) -> AuditResult:
    """Attack a plan's own mechanism, or every mechanism at mu = 0.5, 1 and 2, and their structure.

    `quick` makes fewer runs, which certifies a little less. `progress` is called before each attack with its name, its
    number and how many there are.
    """
    if plan is not None:
        targets = [*targets_of(plan), *structures_of(plan)]
    else:
        targets = [*chain.from_iterable(mechanisms(mu) for mu in MUS), *parts(), *structures(1.0)]
    return run_attacks(targets, QUICK_RUNS if quick else FULL_RUNS, bits=bits, progress=progress)


def run_attacks(
    targets: Sequence[Target],
    runs: int,
    *,
    bits: BitSource | None = None,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
) -> AuditResult:
    """Attack every target with about this many runs on each side; all bounds hold together at `confidence`."""
    started = time.perf_counter()
    level = (1 - confidence) / len(targets)
    source = SecretBits() if bits is None else bits
    findings = []
    for number, target in enumerate(targets):
        if progress is not None:
            progress(f"{target.form}, {target.unit}, {target.noise}", number, len(targets))
        findings.append(_finding(target, runs, level, source))
    return AuditResult(tuple(findings), confidence, time.perf_counter() - started)


def _finding(target: Target, runs: int, level: float, bits: BitSource) -> Finding:
    attack, labels = target.attack(), (target.form, target.unit, target.noise, target.claimed_mu)
    if isinstance(attack, StructureAttack):
        return Finding(*labels, attack.certify(level), structural=True)
    # Wide mechanisms get fewer runs, so that an audit's time does not grow with the square of the columns.
    affordable = max(_FEWEST_RUNS, min(runs, _CELLS_PER_RUN * runs // attack.cells))
    chunk = max(1, _CELLS_PER_CHUNK // attack.cells)
    counts = [min(chunk, affordable - start) for start in range(0, affordable, chunk)]
    sides = (np.concatenate([attack.scores(side, count, bits) for count in counts]) for side in (0, 1))
    return Finding(*labels, certify(*sides, statistics=attack.statistics, level=level))


def mechanisms(mu: float) -> Iterator[Target]:
    """Every form, unit and noise family at one budget."""
    for noise in ("rounded", "discrete", "response"):
        for unit in UNITS:
            yield _target(_plan(mu, "table", unit, noise))
    for unit in _WHOLE_ROWS:
        yield _target(_plan(mu, "table", unit, clip_radius=1.0))
    yield Target("table twice", "entry", "rounded", mu, lambda: _twice(mu))
    for unit in _SUMMED:
        yield _target(_plan(mu, "moments", unit, adaptive=False))
    yield _target(_plan(mu, "moments", "record", clip_radius="private"))
    for unit in _SUMMED:
        yield _target(_plan(mu, "moments", unit))
    for unit in _WHOLE_ROWS:
        yield _target(_plan(mu, "moments", unit, scale="linear"))
        yield _target(_plan(mu, "moments", unit, names="ab", dependence="curved"))
    yield _target(_plan(mu, "synthetic", "record"))


def parts() -> Iterator[Target]:
    """Steps of a mechanism that a whole release gives a small share of its budget, here with all of it."""
    for unit in _SUMMED:
        yield _counts(unit)
    for unit in _SUMMED:
        yield _stage("first", "scores as they are", _plan(2.0, "moments", unit))
    for unit in _WHOLE_ROWS:
        yield _stage("shaped", "scores through a map", _plan(2.0, "moments", unit))
    for unit in _SUMMED[::2]:
        yield _stage("first", "standardised cells", _plan(2.0, "moments", unit, scale="linear"))
    for unit in _WHOLE_ROWS:
        yield _stage("shaped", "standardised cells through a map", _plan(2.0, "moments", unit, scale="linear"))
    for unit in _WHOLE_ROWS:
        yield _stage("first", "cosines of ranks", _plan(2.0, "moments", unit, names="ab", dependence="curved"))
    plan = _plan(2.0, "moments", "record", rows="series")
    yield Target("one stage", "record", "stacked rows", 2.0, partial(attack_stacks, plan, ROWS))
    yield _target(plan)
    for unit in _SUMMED:
        yield _stage("presence", "which cells are there", _plan(2.0, "moments", unit))
    for unit in _SUMMED:
        yield _stage("first", "scores and indicators of levels", _plan(2.0, "moments", unit, levels="wxyz"))
    for unit in _WHOLE_ROWS:
        yield _stage("shaped", "scores through a map, and indicators", _plan(2.0, "moments", unit, levels="wxyz"))
    for unit in _SUMMED:
        columns = "abcdefgh" if unit in ("entry", "readings") else "abcd"
        plan = _plan(2.0, "moments", unit, "whole", columns)
        yield Target("one stage", unit, "scores drawn inside leaves", 2.0, partial(attack_jitter, plan))
    for unit in _WHOLE_ROWS if find_spec("ibis") is not None else ():
        yield _stage("first", "scores, in DuckDB", _plan(2.0, "moments", unit, "whole", order_column="key"))
    lifetime: dict[str, Any] = {"persons": ROWS, "period_column": "month", "period": "1", "clip_radius": 1.0}
    yield _target(_plan(2.0, "moments", "person", **lifetime, periods=12))
    plan = _plan(2.0, "moments", "person", adaptive=False, max_rows=_PERSON_ROWS)
    yield Target("radius search", "person", "rounded", 2.0, lambda: attack_radius(plan, ROWS))
    yield Target("number of rows", "person", "rounded", 2.0, lambda: attack_row_number(plan, ROWS))


def _counts(unit: str) -> Target:
    """At a budget for which the noise, a whole number of rows, need not be rounded up by much."""
    distance = counts_distance(_plan(1.0, "moments", unit).unit, columns=4)
    mu = (1 + 1e-9) * distance / max(2, round(distance / 2))
    return Target("one round of counts", unit, "rounded", mu, lambda: attack_counts(_plan(mu, "moments", unit), ROWS))


def _stage(kind: StageKind, words: str, plan: Plan) -> Target:
    return Target("one stage", plan.unit.name, words, plan.guarantee.mu, lambda: attack_stage(plan, _rows(plan), kind))


def structures(mu: float) -> Iterator[Target]:
    """Everything about a release of each form that is not a noised number."""
    for form, unit in (("table", "record"), ("moments", "person"), ("synthetic", "record")):
        yield from structures_of(_plan(mu, form, unit, names="abc"))


def structures_of(plan: Plan) -> Iterator[Target]:
    """The same for a plan; none for a lifetime, whose releases need a ledger: the tests compare those of neighbours."""
    if plan.lifetime is not None:
        return
    for name, attack in structure_attacks(plan).items():
        yield Target(f"structure of {plan.form}", plan.unit.name, name, plan.guarantee.mu, lambda attack=attack: attack)  # type: ignore[misc]


def targets_of(plan: Plan) -> Iterator[Target]:
    """A plan's own mechanism; in units that change one column only, one target for each sort of column."""
    if plan.form != "table" or plan.unit.name in ("record", "person"):
        yield _target(plan)
        return
    made_of = origins(plan.columns)  # columns of one cell change together
    sorts = [
        tuple((one.kind, one.transform, one.noise) for one, of in zip(plan.columns, made_of, strict=True) if of == own)
        for own in made_of
    ]
    yield from (_target(plan, sorts.index(sort)) for sort in dict.fromkeys(sorts))


def _noise_of(plan: Plan) -> str:
    """The family of a table's noise; how moments, whose noise is always rounded, are made."""
    if plan.form == "table":
        families = " and ".join(sorted({_family(column) for column in plan.columns}, reverse=True))
        return families if plan.clip_radius is None else f"{families}, clipped"
    parts = ["counts and stages" if plan.adaptive else "one stage"]
    parts += ["private radius"] if plan.clip_radius == "private" else []
    parts += ["stacked rows"] if plan.series is not None else []
    parts += ["seasons"] if plan.series is not None and plan.series.seasons else []
    parts += ["running releases"] if plan.lifetime is not None else []
    parts += ["linear scale"] if plan.scale == "linear" else []
    parts += ["curved"] if plan.dependence == "curved" else []
    return ", ".join(parts)


def _family(column: Column) -> str:
    return "response" if column.kind == "categorical" else column.noise


def _rows(plan: Plan) -> int:
    """Of the table that is attacked. With many rows the ball is larger than any row of cosines is long."""
    if plan.unit.name == "column":
        return COLUMN_ROWS
    least = CURVED_ROWS if plan.dependence == "curved" else ROWS
    rows = max(least, 4 * plan.unit.readings, 4 * plan.unit.max_rows)
    return rows if plan.persons is None else min(rows, plan.persons * plan.unit.max_rows)


def _target(plan: Plan, column: int | None = None) -> Target:
    rows = _rows(plan)
    _check_size(plan, rows)
    labels = plan.form, plan.unit.name
    if column is None:
        return Target(*labels, _noise_of(plan), plan.guarantee.mu, partial(_attack_on(plan), plan, rows))
    noise = f"{_family(plan.columns[column])}, column {plan.columns[column].name!r}"
    return Target(*labels, noise, plan.guarantee.mu, partial(attack_table, plan, rows, column))


def _attack_on(plan: Plan) -> Callable[[Plan, int], Attack]:
    """What takes on the numbers that a plan releases."""
    if plan.lifetime is not None:
        return attack_lifetime
    return attack_series if plan.series else ATTACKS[plan.form]


def _check_size(plan: Plan, rows: int) -> None:
    """Refuse what would not fit the memory, before anything is built."""
    p, unit = len(plan.columns), plan.unit
    if plan.form == "table":
        cells = unit.readings if unit.name == "readings" else unit.max_rows * p
    else:
        width = 3 * p if plan.dependence == "curved" else p + sum(len(column.levels) for column in plan.columns)
        width *= plan.stacked + 1
        cells = max(rows * p // 8, width**2 * (MOST_STAGES // 2 if plan.adaptive else 1))
    if cells > _LARGEST:
        raise InputError(
            f"{p} columns that protect {unit.in_words} are too many numbers to attack at once: {cells}, where "
            f"{_LARGEST} is the most. Audit a plan with fewer columns, readings or rows of a person; the noise follows "
            "from these by a formula."
        )


def _twice(mu: float) -> Together:
    """Two tables of the same data at different budgets, which together cost mu."""
    mus = (0.6 * mu, 0.8 * mu)
    first, second = (attack_table(_plan(part, "table", "entry"), 2) for part in mus)
    return Together(first, second, mus)


def _plan(
    mu: float,
    form: str,
    unit: str,
    noise: str = "rounded",
    names: str = "abcd",
    levels: str = "",
    periods: int | None = None,
    **release: Any,
) -> Plan:
    """A few columns on [0, 1], small counts where the noise is to be "discrete" or the cells "whole", or levels.

    The names in `levels` are those of categorical columns beside them.
    """
    column: dict[str, Any] = {"kind": "continuous", "lower": 0.0, "upper": 1.0}
    if noise == "response":
        column = {"kind": "categorical", "levels": ["red", "green", "blue"]}
    elif noise != "rounded":
        column = {"kind": "integer", "lower": 0, "upper": 3, **({"noise": noise} if noise == "discrete" else {})}
    sizes: dict[str, dict[str, Any]] = {"readings": {"readings": 6}, "person": {"id_column": "id", "max_rows": 3}}
    if (form, unit) == ("table", "person"):
        release["row_counts"] = "public"
    return Plan.from_dict(
        {
            "release": {"title": "Audit", "form": form, "protects": unit, **sizes.get(unit, {}), **release},
            "budget": {"mu": mu},
            **({"lifetime": {"periods": periods}} if periods else {}),
            "columns": [
                *({"name": name, **column} for name in names),
                *({"name": name, "kind": "categorical", "levels": ["a", "b", "c"]} for name in levels),
            ],
        }
    )
