"""How a fit went, in sentences for people who did not write the solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["fit_sentences"]

_CRITERIA = {
    "ebic": "the extended Bayesian information criterion",
    "stars": "stability of the graph under resampling",
    "cv": "cross-validation",
    "mse": "the expected squared error",
}


def fit_sentences(fit: Mapping[str, Any]) -> list[str]:
    """From the record in fit.json; a key that is missing loses its sentence, nothing more."""
    sentences = [_penalty(fit), _solver(fit), _covariance(fit), _curves(fit)]
    if "effective_rows" in fit:
        sentences.append(
            f"Noise and sampling together leave what {fit['effective_rows']:,.0f} rows of clean data would leave; the "
            f"{'data has' if fit.get('form') == 'rows' else 'release stands for'} {fit['n']:,} rows."
        )
    gentle = fit.get("alpha_for_inference")
    if gentle is not None and gentle != fit.get("alpha"):
        sentences.append(f"Intervals and q-values come from a de-biased fit at the gentler penalty {gentle:.3g}.")
    return [sentence for sentence in sentences if sentence] + [str(note) for note in fit.get("notes", ())]


def _curves(fit: Mapping[str, Any]) -> str:
    if fit.get("dependence") != "curved":
        return ""
    return (
        "Each column entered with its square and its cube, so edges may be curved. The linear part is the partial "
        "correlation of the columns themselves; p and q are for the whole dependence, and ask whether it is more than "
        f"a path through a third column could leave. Strengths are smoothed by {fit['ridge']:.2g}, the size of the "
        "noise."
    )


def _penalty(fit: Mapping[str, Any]) -> str:
    if "alpha" not in fit:
        return ""
    method = str(fit.get("alpha_chosen_by", "given"))
    tried = len(fit.get("path", ()))
    if method == "given":
        return f"The penalty {fit['alpha']:.4g} was given, not chosen from the data."
    of = f" among {tried} candidates" if tried else ""
    return f"The penalty {fit['alpha']:.4g} was chosen{of} by {_CRITERIA.get(method, method)}."


def _solver(fit: Mapping[str, Any]) -> str:
    if "duality_gap" not in fit:
        return ""
    gap = abs(float(fit["duality_gap"]))
    verdict = (
        "the estimate is the exact optimum for all purposes" if gap <= 1e-4 else "it stopped early: read with care"
    )
    return (
        f"The solver {fit.get('solver', '')} took {fit.get('iterations', 0)} iterations and proves that no other "
        f"estimate is better by more than {gap:.1g} (duality gap): {verdict}."
    )


def _covariance(fit: Mapping[str, Any]) -> str:
    if "smallest_eigenvalue" not in fit:
        return ""
    smallest = float(fit["smallest_eigenvalue"])
    if smallest > 0:
        return f"The covariance after removing the noise is positive definite (smallest eigenvalue {smallest:.3g})."
    return (
        f"The covariance after removing the noise is indefinite (smallest eigenvalue {smallest:.3g}): the noise is "
        "larger than the weakest direction of the data, and the penalty holds the estimate together there."
    )
