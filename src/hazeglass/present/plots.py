"""Pictures for papers: matplotlib figures that read in grey and save as SVG, PDF or PNG.

Each function draws into `ax`, or into a figure of its own, and returns the Axes; `save` writes the figure to a file.
Sign is shown by line style and hatching as well as by colour, so that nothing is lost in print.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.errors import InputError, MissingExtraError, OutputError
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.present.layout import LAYOUTS, arranged, communities, community_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hazeglass.audit.run import AuditResult, Finding

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Save = str | Path | None
_POSITIVE, _NEGATIVE, _MARK = "#14507a", "#d9822b", "#6b6b6b"  # luminance 0.27, 0.60 and 0.42: apart in grey
UNSIGNED = "#7a4fa3"  # as in the report
_HOLDS, _BROKEN = "#20639b", "#c0392b"  # a claim that an attack did not refute, or did
_STYLES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_LONGEST_NAME = 24
_FORMATS = (".svg", ".pdf", ".png")


def plot_graph(
    names: Sequence[str],
    partial: FloatArray,
    *,
    unsigned: BoolArray | None = None,
    layout: str = "paths",
    size: tuple[float, float] | None = None,
    ax: Axes | None = None,
    save: Save = None,
) -> Axes:
    """Nodes and edges: `partial` holds the partial correlation of each edge and 0 elsewhere.

    Where `unsigned` is true it is a strength without a sign, and the line is dotted.
    `layout` is one of 'paths' (as far apart as the shortest paths are long), 'spring', 'community' and 'circle'; `size`
    the figure's in inches. Names are written where there is space, those of well-linked nodes first.
    """
    partial = _square(partial, len(names))
    if layout not in LAYOUTS:
        raise InputError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}.")
    side = 1.0 if len(names) <= 30 else 1.6 if len(names) <= 100 else 2.4
    ax = _axes(ax, size or (5.5 * side, 4.4 * side))
    spots = arranged(partial, layout)
    strongest = float(np.abs(partial).max()) or 1.0
    thick = 1.0 if len(names) <= 100 else 0.6
    for i, j in zip(*np.nonzero(np.triu(partial, 1)), strict=True):
        look = edge_look(partial[i, j], strongest, thick, unsigned is not None and bool(unsigned[i, j]))
        ax.plot(*spots[[i, j]].T, zorder=1, **look)
    dot = 60 if len(names) <= 30 else 24 if len(names) <= 100 else 12
    ax.scatter(spots[:, 0], spots[:, 1], s=dot, facecolor="white", edgecolor="black", linewidth=0.8, zorder=2)
    ax.margins(0.08)
    ax.set_axis_off()
    _edge_legend(ax, partial, unsigned, strongest, thick)
    write_names(ax, names, spots, np.count_nonzero(partial, axis=1), dot)
    return _saved(ax, save)


def edge_look(value: float, strongest: float, thick: float, unsigned: bool = False) -> dict[str, Any]:
    """How the line of an edge looks."""
    return {
        "color": UNSIGNED if unsigned else _POSITIVE if value > 0 else _NEGATIVE,
        "linestyle": (0, (1, 1)) if unsigned else "-" if value > 0 else (0, (4, 2)),
        "linewidth": thick * (0.6 + 3.0 * abs(value) / strongest),
    }


def _edge_legend(ax: Axes, partial: FloatArray, unsigned: BoolArray | None, strongest: float, thick: float) -> None:
    """What colour, style and width of a line mean; nothing where there is none."""
    if not (partial != 0).any():
        return
    from matplotlib.lines import Line2D

    signed = partial if unsigned is None else np.where(unsigned, 0.0, partial)
    sizes = (strongest, strongest / 4)
    shown = [(value, False) for value in sizes if (signed > 0).any()]
    shown += [(-value, False) for value in sizes if (signed < 0).any()]
    shown += [(value, True) for value in sizes if (signed != partial).any()]
    ax.legend(
        handles=[
            Line2D(
                [], [], label=f"{value:.2g}" if bare else f"{value:+.2g}", **edge_look(value, strongest, thick, bare)
            )
            for value, bare in shown
        ],
        title="partial correlation" if unsigned is None else "strength (dotted: without a sign)",
        title_fontsize=7,
        fontsize=7,
        frameon=False,
        ncols=len(shown),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
    )


def write_names(ax: Axes, names: Sequence[str], spots: FloatArray, links: npt.NDArray[np.int64], dot: float) -> None:
    """Names beside their nodes, none on top of another or of a node; those without space are left out."""
    from matplotlib import patheffects

    figure: Any = ax.get_figure(root=True)
    figure.draw_without_rendering()  # places are known once the layout is
    points = ax.transData.transform(spots) * 72 / figure.dpi
    halo = [patheffects.withStroke(linewidth=1.5, foreground="white")]
    letters, high, gap = 4.0, 8.0, 2.5 + np.sqrt(dot) / 2
    around = np.sqrt(dot) / 2
    taken = [(x - around, y - around, x + around, y + around) for x, y in points]
    for k in sorted(range(len(names)), key=lambda k: (-int(links[k]), k)):
        text = str(names[k]) if len(str(names[k])) <= _LONGEST_NAME else f"{str(names[k])[: _LONGEST_NAME - 1]}\u2026"
        wide = letters * len(text)
        ways = {  # below or above the middle, and beside
            (0.0, gap): ("center", "bottom", -wide / 2, gap),
            (0.0, -gap): ("center", "top", -wide / 2, -gap - high),
            (gap, 0.0): ("left", "center", gap, -high / 2),
            (-gap, 0.0): ("right", "center", -gap - wide, -high / 2),
        }
        for shift, (across, up, left, low) in ways.items():
            x, y = points[k][0] + left, points[k][1] + low
            if any(x < box[2] and x + wide > box[0] and y < box[3] and y + high > box[1] for box in taken):
                continue
            taken.append((x, y, x + wide, y + high))
            place: dict[str, Any] = {"xytext": shift, "textcoords": "offset points", "ha": across, "va": up}
            ax.annotate(plain_text(text), spots[k], fontsize=7, zorder=3, path_effects=halo, **place)
            break


def plot_adjacency(
    names: Sequence[str],
    partial: FloatArray,
    *,
    unsigned: BoolArray | None = None,
    ax: Axes | None = None,
    save: Save = None,
) -> Axes:
    """The matrix of partial correlations, ordered by community; negative cells carry a dot, `unsigned` ones none."""
    partial = _square(partial, len(names))
    ax = _axes(ax, (4.4, 4.0))
    strength = np.abs(partial)
    order = community_order(communities(strength), strength)
    shown = partial[np.ix_(order, order)]
    image = ax.imshow(np.abs(shown), cmap="Greys", vmin=0, vmax=float(strength.max()) or 1.0, interpolation="nearest")
    signed = partial if unsigned is None else np.where(unsigned, 0.0, partial)
    rows, columns = np.nonzero(signed[np.ix_(order, order)] < 0)
    ax.scatter(
        columns, rows, marker="o", s=max(1.0, 400 / len(names)), color=_NEGATIVE, edgecolor="white", linewidth=0.3
    )
    if len(names) <= 40:
        labels = [plain_text(names[k]) for k in order]
        ax.set_xticks(range(len(names)), labels, rotation=90, fontsize=7)
        ax.set_yticks(range(len(names)), labels, fontsize=7)
    size = "|partial correlation|" if unsigned is None else "strength"
    ax.figure.colorbar(image, ax=ax, label=f"{size} (dot: negative)", shrink=0.8)
    return _saved(ax, save)


def plot_path(
    path: Sequence[Mapping[str, Any]], alpha: float | None = None, *, ax: Axes | None = None, save: Save = None
) -> Axes:
    """Edges and criterion along the penalties of `fit["path"]`; `alpha` marks the one that was used."""
    steps = [step for step in path if step["alpha"] > 0]
    if not steps:
        raise InputError("a path needs at least one penalty; this fit tried none, because its penalty was given.")
    ax = _axes(ax, (4.5, 3.2))
    ax.plot(
        [s["alpha"] for s in steps], [s["edges"] for s in steps], "-o", color=_POSITIVE, markersize=3, label="edges"
    )
    ax.set(xscale="log", xlabel="penalty", ylabel="edges")
    ax.invert_xaxis()
    scored = [step for step in steps if step.get("score") is not None]
    if scored:
        twin = ax.twinx()
        twin.plot([s["alpha"] for s in scored], [s["score"] for s in scored], "--s", color=_NEGATIVE, markersize=3)
        twin.set_ylabel("criterion (dashed)")
    if alpha is not None:
        ax.axvline(alpha, color=_MARK, linestyle=":", linewidth=1)
    return _saved(ax, save)


def plot_roc(
    truth: Iterable[bool], scores: Mapping[str, Iterable[float]], *, ax: Axes | None = None, save: Save = None
) -> Axes:
    """One ROC curve per entry of `scores`, with its area in the legend; `truth` says which pairs are edges."""
    from sklearn.metrics import auc, roc_curve

    labels = np.asarray(list(truth), dtype=bool)
    if labels.all() or not labels.any():
        raise InputError("an ROC curve needs both edges and non-edges in the truth.")
    ax = _axes(ax, (3.6, 3.4))
    ax.plot([0, 1], [0, 1], color=_MARK, linewidth=0.8, linestyle=":")
    for k, (label, values) in enumerate(scores.items()):
        score = np.asarray(list(values), dtype=float)
        if score.shape != labels.shape:
            raise InputError(f"{label!r} must score each of the {labels.size} pairs, got {score.size} scores.")
        wrong, right, _ = roc_curve(labels, score)
        name = f"{plain_text(label)} ({auc(wrong, right):.2f})"
        ax.plot(wrong, right, _STYLES[k % 4], color=_shade(k, len(scores)), label=name)
    ax.set(xlabel="false-positive rate", ylabel="true-positive rate", aspect="equal")
    ax.legend(loc="lower right", fontsize=7, frameon=False)
    return _saved(ax, save)


def plot_tradeoff(guarantees: Mapping[str, GaussianDP], *, ax: Axes | None = None, save: Save = None) -> Axes:
    """The trade-off curve of each promise: the smallest false-negative rate at each false-positive rate."""
    ax = _axes(ax, (3.6, 3.4))
    rates = np.linspace(0, 1, 201)
    ax.plot(rates, 1 - rates, color=_MARK, linewidth=0.8, linestyle=":", label="blind guessing")
    for k, (label, guarantee) in enumerate(guarantees.items()):
        missed = [guarantee.tradeoff(float(rate)) for rate in rates]
        ax.plot(rates, missed, _STYLES[k % 4], color=_shade(k, len(guarantees)), label=plain_text(label))
    ax.set(xlabel="false-positive rate of an attack", ylabel="false-negative rate", aspect="equal")
    ax.legend(loc="upper right", fontsize=7, frameon=False)
    return _saved(ax, save)


def plot_privacy_utility(
    results: Mapping[str, Sequence[tuple[float, float]]],
    *,
    utility: str = "AUC",
    ax: Axes | None = None,
    save: Save = None,
) -> Axes:
    """Utility against epsilon, one line per method; several values at one epsilon become their mean and range."""
    ax = _axes(ax, (4.5, 3.2))
    for k, (label, points) in enumerate(results.items()):
        if not points:
            raise InputError(f"{label!r} has no (epsilon, utility) points to draw.")
        budgets = sorted({epsilon for epsilon, _ in points})
        values = [[value for epsilon, value in points if epsilon == budget] for budget in budgets]
        shade = _shade(k, len(results))
        ax.fill_between(
            budgets, [min(v) for v in values], [max(v) for v in values], color=shade, alpha=0.15, linewidth=0
        )
        style = _STYLES[k % 4] + _MARKERS[k % 6]
        ax.plot(budgets, [np.mean(v) for v in values], style, color=shade, markersize=4, label=plain_text(label))
    ticks = sorted({epsilon for points in results.values() for epsilon, _ in points})
    ax.set(xscale="log", xlabel="epsilon", ylabel=utility)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.legend(fontsize=7, frameon=False)
    return _saved(ax, save)


def plot_audit(result: AuditResult, *, ax: Axes | None = None, save: Save = None) -> Axes:
    """What `hazeglass audit` found: one line a mechanism, one mark a budget; beyond the line at 1 a claim is broken.

    Attacks on structure certify nothing or infinity, and are not drawn.
    """
    shown = [finding for finding in result.findings if not finding.structural]
    lines: dict[str, list[Finding]] = {}
    for finding in shown:
        lines.setdefault(f"{finding.form} · {finding.unit} · {finding.noise}", []).append(finding)
    ax = _axes(ax, (9.0, 1.4 + 0.23 * len(lines)))
    marks = {mu: _MARKERS[k % 6] for k, mu in enumerate(sorted({finding.claimed_mu for finding in shown}))}
    for mu, marker in marks.items():
        ax.plot([], [], marker, color=_HOLDS, label=f"claimed mu = {mu:.4g}")
    for height, findings in enumerate(lines.values()):
        for finding in findings:
            colour = _HOLDS if finding.holds else _BROKEN
            ax.plot(max(finding.ratio, 1e-2), height, marks[finding.claimed_mu], color=colour, markersize=5)
    ratios = [finding.ratio for finding in shown]
    low, high = min(0.5, 0.9 * max(min(ratios), 1e-2)), max(1.5, 1.2 * max(ratios))
    ax.axvline(1.0, color="black", linewidth=1)
    ax.axvspan(1.0, high, color=_BROKEN, alpha=0.07, linewidth=0)
    ax.set(xscale="log", xlim=(low, high))
    ticks = [tick for tick in (0.01, 0.1, 0.5, 0.7, 0.85, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0) if low <= tick <= high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_yticks(range(len(lines)), [plain_text(line) for line in lines], fontsize=8)
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.3)
    ax.set_xlabel("certified mu / claimed mu (beyond 1 the claim is broken)")
    title = f"Attacks on our own mechanisms: lower bounds at {100 * result.confidence:g} % confidence"
    ax.set_title(title, fontsize=10)
    ax.legend(loc="upper right", fontsize=8)
    return _saved(ax, save)


def check_picture(path: Path) -> None:
    """Say what stands in the way of a picture, before minutes are spent on what it shows."""
    check_matplotlib()
    if path.suffix.lower() not in _FORMATS:
        raise OutputError(f"a picture is saved as {', '.join(_FORMATS)}, got {path.name!r}.")
    if not path.parent.is_dir():
        raise OutputError(f"the folder {str(path.parent)!r} for the picture does not exist. Make it first.")


def check_matplotlib() -> None:
    """Say what to install where it is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("pictures need matplotlib. Install it with: pip install 'hazeglass[plot]'")


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The caller's Axes, or those of a new figure that no window manager keeps."""
    check_matplotlib()
    if ax is not None:
        return ax
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    made = figure.add_subplot()
    made._repr_png_ = lambda: _png(figure)  # type: ignore[attr-defined]  # a notebook shows it, and not its name
    return made


def _png(figure: Any) -> bytes:
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=110)
    return sink.getvalue()


def _saved(ax: Axes, save: Save) -> Axes:
    if save is not None:
        check_picture(Path(save))
        whole = ax.get_figure(root=True)
        assert whole is not None
        whole.savefig(save, dpi=300)
    return ax


def _square(partial: FloatArray, p: int) -> FloatArray:
    partial = np.array(partial, dtype=float)
    if partial.shape != (p, p):
        raise InputError(f"partial correlations must be {p}x{p} to match the names, got {partial.shape}.")
    np.fill_diagonal(partial, 0.0)
    return partial


def _shade(k: int, count: int) -> tuple[float, float, float]:
    """From dark blue to light orange: colours whose grey values differ too."""
    share = k / max(1, count - 1)
    dark, light = (np.array([int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)]) for c in (_POSITIVE, _NEGATIVE))
    red, green, blue = (1 - share) * dark + share * light
    return float(red), float(green), float(blue)


def plain_text(name: str) -> str:
    """Text, never a formula: a dollar sign would start one. What has no shape has no place in a picture either: SVG
    cannot hold all of it, and a PDF is not written at all for some of it."""
    return "".join(c if c.isprintable() else "\ufffd" for c in str(name)).replace("$", r"\$")
