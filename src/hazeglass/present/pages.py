"""Render the HTML templates: one self-contained file, every name escaped, nothing fetched.

The drawing library of the interactive report comes from an installed package: d3, as the wheel of gravis ships it.
Nothing of gravis is imported or run. The file is used only when it is, byte for byte, the one that was looked at.

What a fit is in words: what it was made of, what that promises, and how the estimate came about.
"""

from __future__ import annotations

import functools
import hashlib
import html
from collections.abc import Iterable, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hazeglass.guarantee.gdp import GaussianDP, explain
from hazeglass.guarantee.units import Unit

_D3 = Path("_internal/plotting/third_party/d3")
_D3_SHA256 = {
    "d3.v7.min.def.js": "3659989c4e97794f43ea723057f5f96702bdbeffd6b244dbbd436b286431d149",
    "ORIGINAL_LICENSE": "e008c5e25a6be382593089c29bfabbc553c6378eee02895aec46ce396cc404ee",
}
# The file calls define(name, dependencies, factory) of a module loader; this is all of one that it needs.
_BEFORE = "var d3={};(function(){const require={defined:()=>false},define=(name,needs,factory)=>factory(d3);\n"
_AFTER = "\n})();\n"


def render(template: str, *, package: str = "hazeglass.present", folder: str = "templates", **values: Any) -> str:
    """Fill a template of this package, or of another."""
    return str(_environment(package, folder).get_template(template).render(**values))


class Page(str):
    """The text of a page, which a notebook shows as one: in a frame of its own, where its styles reach nothing else."""

    def _repr_html_(self) -> str:
        frame = '<iframe srcdoc="{}" title="hazeglass" style="width:100%;height:46rem;border:0" sandbox="{}"></iframe>'
        return frame.format(html.escape(self), "allow-scripts allow-downloads")


def notes_html(title: str, sentences: Iterable[str]) -> str:
    """A few sentences under a title, for notebooks."""
    return render("notes.html", title=title, sentences=list(sentences))


@functools.cache
def _environment(package: str, folder: str) -> Any:
    """Made once: compiling a template takes longer than filling it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "probability": _probability, "percent": _percent}
    return environment


def raw_template(name: str) -> str:
    """A script or style sheet of this package, as it is."""
    return files("hazeglass.present").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")


def _probability(value: float) -> str:
    return "< 1e-16" if value < 1e-16 else _number(value, 2)


def _number(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}g}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def drawing_library() -> str | None:
    """d3 7.1.1 with its licence, as a script that defines `d3`; None when the package is missing or another version."""
    spec = find_spec("gravis")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / _D3
    texts = []
    for name, expected in _D3_SHA256.items():
        try:
            raw = (folder / name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(raw).hexdigest() != expected:
            return None
        texts.append(raw.decode("utf-8"))
    code, licence = texts
    return f"/*\nd3 7.1.1\n{licence.strip()}\n*/\n{_BEFORE}{code}{_AFTER}"


_FUNCTIONS = {"hermite": "with its square and its cube", "cosines": "as three waves of its rank"}
_CRITERIA = {
    "ebic": "the extended Bayesian information criterion",
    "stars": "stability of the graph under resampling",
    "cv": "cross-validation",
    "mse": "the expected squared error",
}


def made_of(fit: Mapping[str, Any]) -> str:
    """What the graph was recovered from, as it reads behind 'from'."""
    if fit.get("releases"):
        return f"{len(fit['releases'])} releases of together {fit['n']:,} rows"
    return f"{fit['n']:,} clean rows" if fit["form"] == "rows" else f"a {fit['form']} release of {fit['n']:,} rows"


def promise_of(fit: Mapping[str, Any]) -> tuple[str, ...]:
    """What the release promises, or each of several; clean rows promise nothing."""
    if fit.get("releases"):
        own = [f"{one['title']} ({one['form']}, {one['n']:,} rows): {promise_of(one)[0]}" for one in fit["releases"]]
        return (*own, "Each promise is about the rows of that release. Where a row is in several, they add up.")
    if fit["mu"] is None:
        return ("Nothing: these are clean rows, not a release. Whoever sees this page may learn about single rows.",)
    unit = Unit(fit["unit"], fit["unit_readings"], fit["unit_max_rows"])
    return tuple(explain(GaussianDP(fit["mu"]), unit, fit["delta"]).promise)


def fit_sentences(fit: Mapping[str, Any]) -> list[str]:
    """How a fit went, for people who did not write the solver, from the record in fit.json."""
    gap, gentle = abs(float(fit["duality_gap"])), fit.get("alpha_for_inference")
    exact = "the estimate is the exact optimum for all purposes"
    verdict = exact if gap <= 1e-4 else "it stopped early: read with care"
    sentences = [
        _penalty(fit),
        f"The solver {fit['solver']} took {fit['iterations']} iterations and proves that no other "
        f"estimate is better by more than {gap:.1g} (duality gap): {verdict}.",
        _covariance(float(fit["smallest_eigenvalue"])),
    ]
    if fit.get("dependence") == "curved":
        sentences.append(
            f"Each column entered {_FUNCTIONS[fit.get('functions', 'hermite')]}, so edges may be curved. The linear "
            "part is the partial correlation of the columns themselves; p and q are for the whole dependence, and ask "
            "whether it is more than a path through a third column could leave. Strengths are smoothed by "
            f"{fit['ridge']:.2g}, the size of the noise."
        )
    if fit.get("categorical"):
        sentences.append(
            f"{len(fit['categorical'])} of the columns {'has' if len(fit['categorical']) == 1 else 'have'} levels "
            "without an order. Strengths are 0 to 1 for every kind: partial correlations without their sign, and "
            "Cramer's V with all other columns held fixed, less what noise alone would add. Ordered columns were read "
            "as cuts of a hidden normal, so their partial correlations are those of what lies behind them."
        )
    if fit.get("releases"):
        sentences += _several(fit)
    of = " of a typical pair of levels" if fit.get("categorical") else ""
    stand = "data has" if fit["form"] == "rows" else "release stands for"
    sentences.append(
        f"Noise and sampling together leave what {fit['effective_rows']:,.0f} rows of clean data would leave{of}; the "
        f"{'releases stand for' if fit.get('releases') else stand} {fit['n']:,} rows."
    )
    if fit.get("skipped"):
        sentences.append(str(fit["skipped"]))
    if gentle is not None and gentle != fit["alpha"]:
        sentences.append(f"Intervals and q-values come from a de-biased fit at the gentler penalty {gentle:.3g}.")
    return [*sentences, *map(str, fit["notes"])]


def _several(fit: Mapping[str, Any]) -> list[str]:
    """What pooled partial correlations mean, and whether the releases agree."""
    apart = fit.get("disagreement")
    found = [
        f"{len(fit['releases'])} releases were pooled, each weighed by its noise and its number of rows. Columns were "
        "standardised in each release by itself, so partial correlations are those within releases: that one has "
        "higher values than another makes no edge. Intervals suppose that no two releases are of the same rows."
    ]
    if apart is not None and apart["pairs_that_differ"]:
        found.append(f"The releases do not agree. {agreement(fit)}")
    elif apart is not None:
        found.append(
            "The releases agree as far as their noise lets us see: no pair differs between them (overall p = "
            f"{apart['p_value']:.2g})."
        )
    return found


def agreement(fit: Mapping[str, Any]) -> str:
    """In which pairs several releases differ, and what that means."""
    apart = fit["disagreement"]
    differing = apart["pairs_that_differ"]
    some = ", ".join(f"{one} \u2013 {other}" for one, other, _ in apart["most"][:3])
    return (
        f"{'1 pair differs' if differing == 1 else f'{differing:,} pairs differ'} between them ({some}"
        f"{', ...' if differing > 3 else ''}; overall p = {apart['p_value']:.2g}). There an estimate is a mean of "
        "different numbers; compare the releases one by one."
    )


def _penalty(fit: Mapping[str, Any]) -> str:
    method, tried = fit["alpha_chosen_by"], len(fit["path"])
    if method == "given":
        return f"The penalty {fit['alpha']:.4g} was given, not chosen from the data."
    of = f" among {tried} candidates" if tried else ""
    return f"The penalty {fit['alpha']:.4g} was chosen{of} by {_CRITERIA.get(method, method)}."


def _covariance(smallest: float) -> str:
    if smallest > 0:
        return f"The covariance after removing the noise is positive definite (smallest eigenvalue {smallest:.3g})."
    return (
        f"The covariance after removing the noise is indefinite (smallest eigenvalue {smallest:.3g}): the noise is "
        "larger than the weakest direction of the data, and the penalty holds the estimate together there."
    )
