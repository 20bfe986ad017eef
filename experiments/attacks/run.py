"""The paper's own claims under attack, on data of the shape it uses (7466 rows, 11 columns).

Nothing here is a mechanism hazeglass offers: these are the paper's, so that its mu can be set beside what an attack
certifies, by the same rules by which `hazeglass audit` attacks ours. docs/maths/audit.md derives the statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hazeglass.audit.attack import upper_rate
from hazeglass.audit.run import Target, run_attacks
from hazeglass.guarantee.lattice import DiscreteGaussian
from hazeglass.publisher.noise import BitSource, SeededBits, draw

from ..cells import Cell, Results, Setup, read_recipe
from ..pictures import OURS, WORSE, panels, save
from ..sections import Picture, Section, Table, read_expected

TITLE = "The paper's claims under attack"
Floats = npt.NDArray[np.float64]
ROWS, COLUMNS = 7466, 11


def cells(setup: Setup) -> list[Cell]:
    """All three attacks, whose bounds hold together."""
    return [Cell("attacks/all", "attacks.run:measure")]


def measure(setup: Setup) -> list[dict[str, Any]]:
    """What an attack on each claim certifies."""
    recipe = read_recipe(__file__, setup)
    mu, shape = recipe["mu"], f"Gaussian, {ROWS} x {COLUMNS}"
    targets = [
        Target("rows", "entry", shape, mu, lambda: PaperTable(mu)),
        Target("covariance", "entry", shape, mu, lambda: PaperCovariance(mu)),
        Target("centred counts", "entry", f"discrete, {ROWS} rows", mu, lambda: CentredCounts(mu)),
    ]
    found = run_attacks(targets, recipe["runs"], bits=SeededBits(recipe["seed"]), confidence=recipe["confidence"])
    return [
        {"released": one.form, "noise": one.noise, "certified_mu": one.certified_mu, "runs": one.certificate.runs}
        for one in found.findings
    ]


def report(results: Results, setup: Setup, folder: Path) -> Section:
    """The mu of each theorem beside the least that it is."""
    recipe = read_recipe(__file__, setup)
    claimed = {row["released"]: row["claimed_mu"] for row in read_expected(__file__)}
    records = [
        {"released": one["released"], "noise": one["noise"], "claimed_mu": claimed[one["released"]]}
        | {"certified_mu": one["certified_mu"], "runs": one["runs"]}
        | {"verdict": "worse" if one["certified_mu"] > claimed[one["released"]] else "same"}
        for one in results["attacks/all"]
    ]
    refuted = sum(record["verdict"] == "worse" for record in records)
    text = [
        f"At noise for which the paper claims mu = {recipe['mu']:g} for one cell, attacks refute {refuted} of its "
        f"{len(records)} claims: mu is at least {', '.join(_words(record) for record in records)}, all together at "
        f"{100 * recipe['confidence']:g} % confidence.",
        f"So many runs can certify no more than {_most(recipe, len(records)):.2f}, whatever is released: a bound there "
        "means that nothing is hidden. hazeglass makes none of these claims; `hazeglass audit` attacks its own.",
    ]
    _draw(records, folder / "attacks.png")
    table = Table("attacks", "Claimed mu, and the least that an attack certifies", records, tone="verdict")
    caption = "Lower bounds on mu from attacks on the paper's mechanisms; the line is what the paper claims."
    return Section("attacks", TITLE, text, [table], [Picture("attacks.png", caption)])


def _words(record: dict[str, Any]) -> str:
    return f"{record['certified_mu']:.3g} from the {record['released']}"


def _most(recipe: dict[str, Any], tests: int) -> float:
    """The bound from attacks that are never wrong."""
    level = (1 - recipe["confidence"]) / tests
    return -2 * float(ndtri(upper_rate(np.array(0), recipe["runs"] // 2, level / 2)))


def _draw(records: list[dict[str, Any]], path: Path) -> None:
    figure, axes = panels(1, 1, (6.0, 0.5 * len(records) + 1.0))
    place, heights = axes[0, 0], range(len(records))
    colours = [WORSE if record["verdict"] == "worse" else OURS for record in records]
    place.barh(heights, [record["certified_mu"] for record in records], color=colours, height=0.55)
    place.set_yticks(list(heights), [record["released"] for record in records], fontsize=8)
    place.axvline(records[0]["claimed_mu"], color="black", linewidth=1)
    place.set_xlabel("mu is at least", fontsize=8)
    place.invert_yaxis()
    save(figure, path)


def paper_sigma(mu: float) -> float:
    """The noise for which the paper claims mu = Delta_f / (sigma sqrt(2 C0)), cells being -1 or 1.

    Delta_f = 2 (max - min)^2 / n = 8 / n, and C0 = sum of x^2 / n^2 = 1 / n in every column.
    """
    return 8 / ROWS / (mu * math.sqrt(2 / ROWS))


def _normals(bits: BitSource) -> np.random.Generator:
    """The paper's noise is floating point; only its seed comes from the bits."""
    return np.random.default_rng([int(word) for word in bits.uint64(4)])


@dataclass(frozen=True)
class PaperTable:
    """The released rows X + E: one cell is -1 under D and 1 under D', and the attacker reads that cell."""

    mu: float
    statistics: tuple[str, ...] = ("the cell",)
    cells: int = 1

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """The noisy cell itself."""
        return (2.0 * side - 1.0 + paper_sigma(self.mu) * _normals(bits).standard_normal(runs))[:, None]


@dataclass(frozen=True)
class PaperCovariance:
    """The released covariance S = (X + E)^T (X + E) / n alone.

    All columns are equal, half the cells -1 and half 1, except that one cell of the first column is -1 under D.
    With v = (1, -1/10, ..., -1/10) the products of X and E cancel in v^T S v = sum of (row . v)^2 / n: what is left of
    the noise is quadratic in sigma, far less than the claim counts on.
    """

    mu: float
    statistics: tuple[str, ...] = ("v'Sv",)
    cells: int = ROWS * COLUMNS

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """v^T S v of every release."""
        column = np.where(np.arange(ROWS) % 2 == 0, 1.0, -1.0)
        table = np.tile(column[:, None], (1, COLUMNS))
        table[0, 0] = 2.0 * side - 1.0
        v = np.full(COLUMNS, -1.0 / (COLUMNS - 1))
        v[0] = 1.0
        rng, sigma = _normals(bits), paper_sigma(self.mu)

        scores = np.empty((runs, 1))
        for run in range(runs):
            released = rng.standard_normal((ROWS, COLUMNS))
            released *= sigma
            released += table
            covariance = released.T @ released / ROWS
            scores[run] = v @ covariance @ v
        return scores


@dataclass(frozen=True)
class CentredCounts:
    """Counts minus their column mean, plus integer noise: every fraction shows the column's sum modulo n.

    The claim is mu = (Delta_f + 2 K) / (sqrt(2 n) K sigma), K = min |x| / n over the centred cells,
    Delta_f = 2 range^2 / n. The column holds 1 and -1 in turn; one cell is 1 under D and 2 under D', so that the sum
    is 0 or 1.
    """

    mu: float
    statistics: tuple[str, ...] = ("sum modulo n",)
    cells: int = 1

    @property
    def sigma(self) -> float:
        """The noise for which the paper claims mu, at the smaller K of the two sides."""
        smallest = (1 - 1 / ROWS) / ROWS
        sensitivity = 2 * 3.0**2 / ROWS
        return (sensitivity + 2 * smallest) / (math.sqrt(2 * ROWS) * smallest * self.mu)

    def scores(self, side: int, runs: int, bits: BitSource) -> Floats:
        """The sum modulo n, read off one cell that did not change."""
        column = np.where(np.arange(ROWS) % 2 == 0, 1.0, -1.0)
        column[0] += side
        cell = (column - column.mean())[1]
        released = cell + draw(DiscreteGaussian(self.sigma), runs, bits)
        return np.asarray(np.rint(-released * ROWS) % ROWS)[:, None]
