"""What a fit is in words: what it was made of, what that promises, and how the estimate came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hazeglass.guarantee.explain import explain
from hazeglass.guarantee.gdp import GaussianDP
from hazeglass.guarantee.units import Unit

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
