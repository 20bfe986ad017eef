"""Run the attacks and certify what they show."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain

from hazeglass.audit.certify import certify
from hazeglass.audit.registry import Target, mechanisms, paper_claims, parts, structures, structures_of, targets_of
from hazeglass.audit.result import AuditResult, Finding
from hazeglass.audit.structure_attack import StructureAttack
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.randomness import BitSource, SecretBits

__all__ = ["CONFIDENCE", "MUS", "audit", "run_attacks"]

CONFIDENCE = 0.999
MUS = (0.5, 1.0, 2.0)
QUICK_RUNS, FULL_RUNS = 1 << 18, 1 << 21
_FEWEST_RUNS = 1 << 9
_CELLS_PER_RUN = 512  # up to here a run costs little more than a narrow one
Progress = Callable[[str, int, int], None]


def audit(
    plan: Plan | None = None, *, quick: bool = False, bits: BitSource | None = None, progress: Progress | None = None
) -> AuditResult:
    """Attack a plan's own mechanism, or every mechanism at mu = 0.5, 1 and 2, their structure and the paper's claims.

    `quick` makes fewer runs, which certifies a little less. `progress` is called before each attack with its name, its
    number and how many there are.
    """
    if plan is not None:
        targets = [*targets_of(plan), *structures_of(plan)]
    else:
        targets = [*chain.from_iterable(mechanisms(mu) for mu in MUS), *parts(), *structures(1.0), *paper_claims()]
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
        return Finding(*labels, attack.certify(level), target.ours, structural=True)
    # Wide mechanisms get fewer runs, so that an audit's time does not grow with the square of the columns.
    affordable = max(_FEWEST_RUNS, min(runs, _CELLS_PER_RUN * runs // attack.cells))
    sides = [attack.scores(side, affordable, bits) for side in (0, 1)]
    certificate = certify(*sides, statistics=attack.statistics, level=level)
    return Finding(*labels, certificate, target.ours)
