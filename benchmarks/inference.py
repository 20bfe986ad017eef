"""Are the error bars honest? Coverage of the 95 % intervals and false discoveries at a nominal 10 %.

Simulated Gaussian rows on chain, random and hub graphs, published for real (table, and adaptive clipped moments) at
noise from none to ten times the sampling error, recovered with the defaults. Goals: coverage 0.93 to 0.97, FDR at most
0.12.

    python benchmarks/inference.py [simulations per cell] [p ...]
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq

import hazeglass as hg

ROWS = 5000
NOISE = (0.0, 1.0, 3.0, 10.0)  # privacy error of a correlation in units of its sampling error
FAMILIES = ("chain", "random", "hubs")


def precision_of(family: str, p: int, rng: np.random.Generator) -> np.ndarray:
    """A precision matrix with partial correlations between 0.15 and 0.4 on the graph."""
    links = np.zeros((p, p), dtype=bool)
    if family == "chain":
        links[np.arange(p - 1), np.arange(1, p)] = True
    elif family == "random":
        links = np.triu(rng.uniform(size=(p, p)) < 2.0 / p, 1)
    else:
        for hub in range(0, p, 10):
            links[hub, hub + 1 : min(hub + 7, p)] = True
    values = np.where(links, rng.uniform(0.15, 0.4, (p, p)) * rng.choice([-1, 1], (p, p)), 0.0)
    values = values + values.T
    floor = -np.linalg.eigvalsh(values)[0]
    return values + np.eye(p) * max(1.0, 1.15 * floor)


def make_plan(form: str, p: int, mu: float) -> hg.Plan:
    column = {"kind": "continuous", "lower": -5.0, "upper": 5.0}
    return hg.Plan.from_dict(
        {
            "release": {"title": "Simulation", "form": form},
            "budget": {"mu": mu},
            "columns": [{"name": f"v{k}", **column} for k in range(p)],
        }
    )


def mu_for(form: str, p: int, ratio: float) -> float:
    """The budget at which the preview foretells this ratio of privacy to sampling error (0: practically none)."""
    if ratio == 0:
        return 900.0

    def excess(log_mu: float) -> float:
        return np.log(make_plan(form, p, np.exp(log_mu)).preview(ROWS).chosen.ratio / ratio)

    return float(np.exp(brentq(excess, np.log(1e-3), np.log(900.0), xtol=1e-3)))


def simulate(form: str, p: int, family: str, mu: float, seed: int, folder: Path) -> tuple[float, int, int, int, int]:
    """Coverage, wrong, called, found and true edges of one simulation."""
    rng = np.random.default_rng(seed)
    precision = precision_of(family, p, rng)
    scale = np.sqrt(np.diag(precision))
    truth = -(precision / np.outer(scale, scale))[np.triu_indices(p, 1)]
    covariance = np.linalg.inv(precision)
    rows = rng.multivariate_normal(np.zeros(p), covariance, ROWS) / np.sqrt(np.diag(covariance)) * 5 / 3
    data = pa.table({f"v{k}": rows[:, k] for k in range(p)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edges = hg.recover(hg.publish(data, make_plan(form, p, mu), folder / str(seed), engine="serial")).edges
    low, high = edges["ci_low"].to_numpy(), edges["ci_high"].to_numpy()
    called = edges["selected"].to_numpy(zero_copy_only=False)
    real = np.abs(truth) > 1e-9
    inside = float(np.mean((low <= truth) & (truth <= high)))
    return inside, int(np.sum(called & ~real)), int(called.sum()), int(np.sum(called & real)), int(real.sum())


def main() -> None:
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    sizes = [int(a) for a in sys.argv[2:]] or [20, 50]
    heading = f"{'form':<8} {'p':>3} {'graph':<7} {'noise':>5} {'coverage':>9} {'FDR':>6} {'power':>6}"
    print(f"{heading}   ({simulations} simulations)")
    for form in ("table", "moments"):
        for p in sizes:
            for family in FAMILIES:
                for ratio in NOISE:
                    mu = mu_for(form, p, ratio)
                    with tempfile.TemporaryDirectory() as folder:
                        found = [simulate(form, p, family, mu, seed, Path(folder)) for seed in range(simulations)]
                    inside, wrong, called, right, real = np.array(found).T
                    rate = float(np.mean(wrong / np.maximum(called, 1)))
                    print(
                        f"{form:<8} {p:>3} {family:<7} {ratio:>5g} {inside.mean():9.3f} {rate:6.3f} "
                        f"{right.sum() / real.sum():6.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
