"""What an audit found: one finding for each attack, whether every claim stands, and one picture of it all."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hazeglass.audit.certify import Certificate
from hazeglass.errors import MissingExtraError, OutputError

__all__ = ["AuditResult", "Finding", "check_picture", "draw_picture"]

_HOLDS, _BROKEN = "#20639b", "#c0392b"
_MARKS = ("o", "s", "^", "D", "v")


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
        return {
            "form": self.form,
            "unit": self.unit,
            "noise": self.noise,
            "claimed_mu": self.claimed_mu,
            "certified_mu": _plain(self.certified_mu),
            "ratio": _plain(self.ratio),
            "holds": self.holds,
            "structural": self.structural,
            "certificate": asdict(self.certificate) | {"mu": _plain(self.certified_mu)},
        }


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


def check_picture(path: Path) -> None:
    """Say what stands in the way of a picture before minutes are spent on the audit."""
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError(
            "the picture needs matplotlib, which is not installed. Install hazeglass[plot], or leave out --out."
        )
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise OutputError(f"the picture must be a .png, .svg or .pdf file, got {path.name!r}.")
    if not path.parent.is_dir():
        raise OutputError(f"the folder {str(path.parent)!r} for the picture does not exist. Make it first.")


def draw_picture(result: AuditResult, path: Path) -> None:
    """One line a mechanism, one mark a budget; the line at 1 is the claim, and beyond it the claim is broken.

    Attacks on structure certify nothing or infinity, and are not drawn.
    """
    check_picture(path)
    from matplotlib.figure import Figure

    shown = [finding for finding in result.findings if not finding.structural]
    lines: dict[str, list[Finding]] = {}
    for finding in shown:
        lines.setdefault(f"{finding.form} · {finding.unit} · {finding.noise}", []).append(finding)
    marks = {mu: _MARKS[k % len(_MARKS)] for k, mu in enumerate(sorted({f.claimed_mu for f in shown}))}
    figure = Figure(figsize=(9.0, 1.4 + 0.23 * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    for height, findings in enumerate(lines.values()):
        for finding in findings:
            marker, colour = marks[finding.claimed_mu], _HOLDS if finding.holds else _BROKEN
            axes.plot(max(finding.ratio, 1e-2), height, marker=marker, color=colour, markersize=5, linestyle="none")
    _frame(axes, list(lines), marks, [finding.ratio for finding in shown])
    title = f"Attacks on our own mechanisms: lower bounds at {100 * result.confidence:g} % confidence"
    axes.set_title(title, fontsize=10)
    figure.savefig(path, dpi=150)


def _frame(axes: Any, names: list[str], marks: dict[float, str], ratios: list[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, 0.9 * max(min(ratios), 1e-2)), max(1.5, 1.2 * max(ratios)))
    axes.axvspan(1.0, axes.get_xlim()[1], color=_BROKEN, alpha=0.07, linewidth=0)
    axes.xaxis.set_major_locator(FixedLocator([0.01, 0.1, 0.5, 0.7, 0.85, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("certified mu / claimed mu (beyond 1 the claim is broken)")
    for mu, marker in marks.items():
        axes.plot([], [], marker=marker, color=_HOLDS, linestyle="none", label=f"claimed mu = {mu:.4g}")
    axes.legend(loc="upper right", fontsize=8)
