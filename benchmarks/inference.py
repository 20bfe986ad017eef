"""Are the error bars honest? Coverage of the 95 % intervals and false discoveries at a nominal 10 %.

Simulated Gaussian rows on chain, random and hub graphs, released (table, and adaptive clipped moments) at noise from
none to ten times the sampling error, recovered with the defaults. Goals: coverage 0.93 to 0.97, FDR at most 0.12.

    python benchmarks/inference.py [--simulations 200] [--columns 20 50] [--forms table moments] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import hazeglass as hg
from graphs import FAMILIES, make_plan, precision_of, simulate, standardised_rows, true_partials
from hazeglass.analyst.covariance import covariance_of
from hazeglass.analyst.inference import infer, pilot
from hazeglass.analyst.penalty import Problem

ROWS = 5000
NOISE = (0.0, 1.0, 3.0, 10.0)  # privacy error of a correlation in units of its sampling error
FDR = 0.1
HEADING = ("form", "columns", "graph", "noise", "coverage", "of edges", "FDR", "power")


@dataclass(frozen=True)
class Cell:
    """What is averaged over the simulations."""

    form: str
    columns: int
    family: str
    noise: float


def mu_for(form: str, p: int, ratio: float) -> float:
    """The budget at which the preview foretells this ratio of privacy to sampling error (0: practically none)."""
    if ratio == 0:
        return 900.0

    def excess(log_mu: float) -> float:
        return float(np.log(make_plan(form, p, mu=np.exp(log_mu)).preview(ROWS).chosen.ratio / ratio))

    return float(np.exp(brentq(excess, np.log(1e-3), np.log(900.0), xtol=1e-3)))


def one_simulation(cell: Cell, plan: hg.Plan, seed: int) -> tuple[float, float, float, float]:
    """Coverage of all pairs and of the edges, false-discovery proportion, and power."""
    rng = np.random.default_rng(seed)
    precision = precision_of(cell.family, cell.columns, rng)
    truth = true_partials(precision)
    release = simulate(standardised_rows(precision, ROWS, rng), plan, seed)
    # What recover does for its error bars, which do not depend on the penalty: choosing one would take longer.
    noisy = covariance_of(release).standardised()
    base = pilot(noisy, Problem.of(noisy))
    pairs = infer(noisy, base.precision, base.blur)
    called = pairs.q_value <= FDR
    real = np.abs(truth) > 1e-9
    inside = (pairs.ci_low <= truth) & (truth <= pairs.ci_high)
    wrong = np.sum(called & ~real) / max(1, called.sum())
    return float(inside.mean()), float(inside[real].mean()), float(wrong), float(called[real].mean())


def measure(cell: Cell, simulations: int) -> list[str]:
    """One line of the table: means with their standard errors in brackets."""
    plan = make_plan(cell.form, cell.columns, mu=mu_for(cell.form, cell.columns, cell.noise))
    found = np.array([one_simulation(cell, plan, seed) for seed in range(simulations)])
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(simulations)
    numbers = [f"{m:.3f} ({e:.3f})" for m, e in zip(mean, error, strict=True)]
    return [cell.form, str(cell.columns), cell.family, f"{cell.noise:g}", *numbers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--columns", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--forms", nargs="+", default=["table", "moments"])
    parser.add_argument("--graphs", nargs="+", default=FAMILIES)
    parser.add_argument("--noise", type=float, nargs="+", default=NOISE)
    parser.add_argument("--markdown", type=Path, help="also write the table here, line by line")
    arguments = parser.parse_args()
    lines = [HEADING, ("---",) * len(HEADING)]
    print(*(f"{name:<14}" for name in HEADING), f"seconds ({arguments.simulations} simulations)")
    for form in arguments.forms:
        for p in arguments.columns:
            for family in arguments.graphs:
                for noise in arguments.noise:
                    begin = time.perf_counter()
                    lines.append(tuple(measure(Cell(form, p, family, noise), arguments.simulations)))
                    print(*(f"{value:<14}" for value in lines[-1]), f"{time.perf_counter() - begin:.0f}", flush=True)
                    if arguments.markdown:
                        arguments.markdown.write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    main()
