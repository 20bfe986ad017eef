"""From scores to what lies behind them: missing cells, coarse columns, and the marginals' own error."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import norm, poisson

import hazeglass as hg
from hazeglass.analyst.covariance import Measured, covariance_of
from hazeglass.analyst.scored import Presence, relative_error
from simulate import simulate

P = 6
UPPER = np.triu_indices(P, 1)
CHAIN = 0.6 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))
MARGINS = {  # values from ranks, kind, bounds
    "normal": (lambda z: z, "continuous", -6, 6),
    "lognormal": (lambda z: np.exp(z), "continuous", 0, 60),
    "poisson 1": (lambda z: poisson.ppf(ndtr(z), 1), "integer", 0, 12),
    "poisson 3": (lambda z: poisson.ppf(ndtr(z), 3), "integer", 0, 20),
    "halves": (lambda z: z > 0, "integer", 0, 1),
    "rare": (lambda z: z > 1.645, "integer", 0, 1),
}


def plan_for(margin, epsilon=1.0, **release):
    _, kind, lower, upper = MARGINS[margin]
    columns = [{"name": f"x{k}", "kind": kind, "lower": lower, "upper": upper} for k in range(P)]
    release = {"title": "t", "form": "moments", **release}
    return hg.Plan.from_dict({"release": release, "budget": {"epsilon": epsilon, "delta": 1e-6}, "columns": columns})


def rows_of(margin, n, rng, correlation=CHAIN):
    z = rng.standard_normal((n, P)) @ np.linalg.cholesky(correlation).T
    return MARGINS[margin][0](z).astype(np.float64)


def as_cells(rows, margin):
    """A data frame; whole numbers where the column is of that kind, missing where NaN."""
    frame = pd.DataFrame(rows, columns=[f"x{k}" for k in range(P)])
    return frame.astype("Int64") if MARGINS[margin][1] == "integer" else frame


@pytest.mark.parametrize("margin", ["normal", "lognormal", "poisson 1", "poisson 3"])
def test_correlations_behind_any_margin_come_back_with_their_error(margin):
    plan, errors, stated = plan_for(margin), [], []
    for seed in range(12):
        rows = rows_of(margin, 20_000, np.random.default_rng(seed))
        found = covariance_of(simulate(as_cells(rows, margin), plan, seed)).standardised()
        errors.append((found.covariance - CHAIN)[UPPER])
        stated.append(found.error.entry_variance[UPPER])
    assert np.sqrt(np.mean(np.square(errors)) / np.mean(stated)) < 1.15
    assert np.abs(np.mean(errors, axis=0)).max() < 0.02


@pytest.mark.parametrize("scale", ["scores", "linear"])
@pytest.mark.parametrize("together", [False, True])
def test_missing_cells_do_not_weaken_correlations(scale, together):
    """30 % missing, each cell by itself or whole halves of rows at once."""
    rng = np.random.default_rng(4)
    rows = rows_of("normal", 50_000, rng)
    if together:
        rows[rng.random(50_000) < 0.3, : P // 2] = np.nan
    else:
        rows[rng.random(rows.shape) < 0.3] = np.nan
    release = simulate(pd.DataFrame(rows, columns=[f"x{k}" for k in range(P)]), plan_for("normal", scale=scale), 1)
    found = covariance_of(release).standardised()
    worst = np.abs(found.covariance - CHAIN)[UPPER] / np.sqrt(found.error.entry_variance[UPPER])
    assert worst.max() < 4
    share = Measured.of(release).presence.both
    assert share[0, 1] == pytest.approx(0.7 if together else 0.49, abs=0.03)
    assert share[0, 5] == pytest.approx(0.7 if together else 0.49, abs=0.03)


def test_a_column_with_few_missing_cells_is_not_taken_for_complete():
    """One in a hundred makes every correlation of the column a hundredth smaller; noise alone makes nothing smaller."""
    noise, n = 0.002, 20_000
    known = [SimpleNamespace(missing_share=share, noise_sd=noise * n) for share in (0.01, 0.011, 0.002, 0.0)]
    seen = Presence.of_marginals(known, n)
    assert np.diag(seen.both) == pytest.approx([0.9904, 0.98936, 1.0, 1.0], abs=1e-5)
    assert (seen.column > 0).tolist() == [True, True, False, False]
    assert seen.both[0, 2] == seen.both[0, 0]
    # Whether the two miss the same cells is not known: one in a hundred of both, or none.
    assert math.sqrt(seen.error[0, 1]) * seen.both[0, 1] == pytest.approx(0.0096 / 2, abs=1e-5)
    assert seen.error[0, 2] == seen.error[0, 0] == 0


def test_shares_of_present_pairs_follow_from_signs():
    rng = np.random.default_rng(5)
    present = rng.random((100_000, 3)) < np.array([0.9, 0.6, 0.6])
    present[:, 2] = present[:, 1]
    signs = np.where(present, 1.0, -1.0)
    found = Presence.of_signs(signs.T @ signs / len(signs), present.mean(axis=0), 0.004)
    assert found.both == pytest.approx(present.T.astype(float) @ present / len(signs), abs=1e-9)
    assert found.error[0, 1] == pytest.approx((0.001 / found.both[0, 1]) ** 2)


@pytest.mark.parametrize("margin", ["poisson 1", "poisson 3", "halves", "rare"])
def test_the_error_of_coarse_marginals_is_what_many_counts_make(margin):
    """kappa: the relative error of a column's correlation with its hidden normal, over counts drawn anew."""
    n, plan, kappas, stated = 20_000, plan_for(margin), [], []
    for seed in range(15):
        rows = rows_of(margin, n, np.random.default_rng(seed), np.eye(P))
        measured = Measured.of(simulate(as_cells(rows, margin), plan, seed))
        for known, link in zip(measured.marginals, measured.links, strict=True):
            kappas.append(left_of_a_correlation(known, margin) / link.attenuation - 1)
            stated.append(relative_error(known, link, n))
    assert np.sqrt(np.mean(np.square(kappas))) == pytest.approx(math.sqrt(np.mean(stated)), rel=0.35, abs=0.004)


def left_of_a_correlation(known, margin):
    """Exactly: the correlation of a column's scores with its hidden normal, whose shares are not those counted."""
    _, _, lower, upper = MARGINS[margin]
    values = known._pieces[0][1:-1] * (upper - lower) / 2 + (lower + upper) / 2
    inner = {"halves": [0.5], "rare": [ndtr(1.645)]}.get(margin)
    true = np.concatenate([[0.0], poisson.cdf(values, int(margin[-1])) if inner is None else inner, [1.0]])
    seen = np.clip(known.latent_borders, -30, 30)
    density = norm.pdf(seen)
    share, middle = np.diff(ndtr(seen)), (seen[1:] + seen[:-1]) / 2
    some = share > 1e-9
    whole = np.where(some, share, 1.0)
    mean = np.where(some, -np.diff(density) / whole, middle)
    square = np.where(some, 1 - np.diff(seen * density) / whole, middle**2)
    along = -np.diff(norm.pdf(ndtri(true)))
    weights = np.diff(true)
    return mean @ along / math.sqrt(weights @ square - (weights @ mean) ** 2)
