"""Every mechanism that is attacked, and by what. A new form is one entry of ATTACKS and its rows in `mechanisms`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hazeglass.audit.attack import Attack, Together
from hazeglass.audit.moments_attack import attack_moments, attack_presence
from hazeglass.audit.paper import CentredCounts, PaperCovariance, PaperTable
from hazeglass.audit.radius_attack import attack_radius
from hazeglass.audit.structure_attack import StructureAttack, structure_attacks
from hazeglass.audit.table_attack import attack_table
from hazeglass.errors import InputError
from hazeglass.publisher.plan import Plan

__all__ = ["ATTACKS", "Target", "mechanisms", "paper_claims", "parts", "structures", "structures_of", "targets_of"]

ROWS = 1 << 14  # of the tables the moments are summed from; a table's own noise needs none of its other rows
COLUMN_ROWS = 8  # in the column unit every row is attacked

# form of a plan -> the attack on what it releases. Synthetic rows are drawn from the released moments, which lie beside
# them in the bundle: whoever attacks those needs no rows.
ATTACKS: dict[str, Callable[[Plan, int], Attack]] = {
    "table": attack_table,
    "moments": attack_moments,
    "synthetic": attack_moments,
}
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
    ours: bool = True


def mechanisms(mu: float) -> Iterator[Target]:
    """Every form, unit and noise family at one budget."""
    for noise in ("rounded", "discrete"):
        for unit in ("entry", "readings", "record", "person", "column"):
            yield _target(_plan(mu, "table", unit, noise), noise)
    for unit in ("record", "person"):
        yield _target(_plan(mu, "table", unit, clip_radius=1.0), "rounded, clipped")
    yield Target("table twice", "entry", "rounded", mu, lambda: _twice(mu))
    for unit in ("entry", "readings", "record", "person"):
        yield _target(_plan(mu, "moments", unit, adaptive=False), "rounded")
    yield _target(_plan(mu, "moments", "record", clip_radius="private"), "rounded, private radius")
    for unit in ("record", "person"):
        yield _target(_plan(mu, "moments", unit), "rounded, two stages")
        yield _target(_plan(mu, "moments", unit, names="ab", dependence="curved"), "rounded, curved")
    yield _target(_plan(mu, "synthetic", "record"), "rounded, two stages")


def parts() -> Iterator[Target]:
    """Steps of a mechanism that a whole release gives a small share of its budget, here with all of it."""
    plan = _plan(2.0, "moments", "person", adaptive=False, max_rows=_PERSON_ROWS)
    yield Target("radius search", "person", "rounded", 2.0, lambda: attack_radius(plan, ROWS))
    yield Target("number of rows", "person", "rounded", 2.0, lambda: attack_presence(plan, ROWS))


def structures(mu: float) -> Iterator[Target]:
    """Everything about a release of each form that is not a noised number."""
    for form, unit in (("table", "record"), ("moments", "person"), ("synthetic", "record")):
        yield from structures_of(_plan(mu, form, unit))


def structures_of(plan: Plan) -> Iterator[Target]:
    """The same for a plan."""
    for name, attack in structure_attacks(plan).items():
        yield Target(f"structure of {plan.form}", plan.unit.name, name, plan.guarantee.mu, lambda attack=attack: attack)  # type: ignore[misc]


def paper_claims(mu: float = 1.0) -> Iterator[Target]:
    """The paper's mechanisms at noise for which it claims this mu."""
    shape = "7466 x 11"
    yield Target("paper: rows", "entry", f"Gaussian, {shape}", mu, lambda: PaperTable(mu), ours=False)
    yield Target("paper: covariance", "entry", f"Gaussian, {shape}", mu, lambda: PaperCovariance(mu), ours=False)
    yield Target("paper: centred counts", "entry", "discrete, 7466 rows", mu, lambda: CentredCounts(mu), ours=False)


def targets_of(plan: Plan) -> Iterator[Target]:
    """A plan's own mechanism; in units that change one column only, one target for each sort of column."""
    if plan.form != "table" or plan.unit.name in ("record", "person"):
        yield _target(plan, _noise_of(plan))
        return
    seen = set()
    for k, column in enumerate(plan.columns):
        sort = (column.kind, column.transform, column.noise)
        if sort not in seen:
            seen.add(sort)
            yield _target(plan, f"{column.noise}, column {column.name!r}", k)


def _noise_of(plan: Plan) -> str:
    parts = [" and ".join(sorted({column.noise for column in plan.columns}, reverse=True))]
    parts += ["clipped"] if plan.form == "table" and plan.clip_radius is not None else []
    parts += ["private radius"] if plan.clip_radius == "private" else []
    parts += ["curved" if plan.dependence == "curved" else "two stages"] if plan.adaptive else []
    return ", ".join(parts)


def _target(plan: Plan, noise: str, column: int | None = None) -> Target:
    rows = COLUMN_ROWS if plan.unit.name == "column" else max(ROWS, 4 * plan.unit.readings, 4 * plan.unit.max_rows)
    _check_size(plan, rows)

    def attack() -> Attack:
        return ATTACKS[plan.form](plan, rows) if column is None else attack_table(plan, rows, column)

    return Target(plan.form, plan.unit.name, noise, plan.guarantee.mu, attack)


def _check_size(plan: Plan, rows: int) -> None:
    """Refuse what would not fit the memory, before anything is built."""
    p, unit = len(plan.columns), plan.unit
    if plan.form == "table":
        cells = unit.readings if unit.name == "readings" else unit.max_rows * p
    else:
        cells = max(rows * p // 8, (3 * p if plan.dependence == "curved" else p) ** 2)
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


def _plan(mu: float, form: str, unit: str, noise: str = "rounded", names: str = "abcd", **release: Any) -> Plan:
    """A few columns on [0, 1], or small counts where the noise is to be discrete."""
    column = {"kind": "continuous", "lower": 0.0, "upper": 1.0}
    if noise == "discrete":
        column = {"kind": "integer", "lower": 0, "upper": 3, "noise": "discrete"}
    sizes: dict[str, dict[str, Any]] = {"readings": {"readings": 6}, "person": {"id_column": "id", "max_rows": 3}}
    if (form, unit) == ("table", "person"):
        release["row_counts"] = "public"
    return Plan.from_dict(
        {
            "release": {"title": "Audit", "form": form, "protects": unit, **sizes.get(unit, {}), **release},
            "budget": {"mu": mu},
            "columns": [{"name": name, **column} for name in names],
        }
    )
