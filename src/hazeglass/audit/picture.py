"""One picture of an audit: what every attack certifies, as a share of what the mechanism claims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hazeglass.audit.result import AuditResult, Finding
from hazeglass.errors import MissingExtraError, OutputError

__all__ = ["check_picture", "draw_picture"]

_OURS, _BROKEN = "#20639b", "#c0392b"
_MARKS = ("o", "s", "^", "D", "v")


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

    result = replace(result, findings=tuple(finding for finding in result.findings if not finding.structural))
    lines: dict[str, list[Finding]] = {}
    for finding in result.findings:
        lines.setdefault(f"{finding.form} · {finding.unit} · {finding.noise}", []).append(finding)
    marks = {mu: _MARKS[k % len(_MARKS)] for k, mu in enumerate(sorted({f.claimed_mu for f in result.findings}))}
    figure = Figure(figsize=(9.0, 1.4 + 0.23 * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    for height, findings in enumerate(lines.values()):
        for finding in findings:
            _mark(axes, finding, height, marks[finding.claimed_mu])
    _frame(axes, list(lines), marks, result)
    figure.savefig(path, dpi=150)


def _mark(axes: Any, finding: Finding, height: int, marker: str) -> None:
    colour = _OURS if finding.holds else _BROKEN
    axes.plot(max(finding.ratio, 1e-2), height, marker=marker, color=colour, markersize=5, linestyle="none")


def _frame(axes: Any, names: list[str], marks: dict[float, str], result: AuditResult) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    largest = max(finding.ratio for finding in result.findings)
    smallest = min(finding.ratio for finding in result.findings)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, 0.9 * max(smallest, 1e-2)), max(1.5, 1.2 * largest))
    axes.axvspan(1.0, axes.get_xlim()[1], color=_BROKEN, alpha=0.07, linewidth=0)
    axes.xaxis.set_major_locator(FixedLocator([0.01, 0.1, 0.5, 0.7, 0.85, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("certified mu / claimed mu (beyond 1 the claim is broken)")
    for mu, marker in marks.items():
        axes.plot([], [], marker=marker, color=_OURS, linestyle="none", label=f"claimed mu = {mu:.4g}")
    axes.legend(loc="upper right", fontsize=8)
    axes.set_title(
        f"Attacks on our own mechanisms: lower bounds at {100 * result.confidence:g} % confidence", fontsize=10
    )
