"""Refitting a known graph (zero weights on it, infinite ones off it) either has an answer or says that it has none."""

import numpy as np
import pytest

from hazeglass.errors import UnboundedObjectiveError
from hazeglass.glasso import graphical_lasso


def refit(S, support):
    return graphical_lasso(S, 1.0, weights=np.where(support, 0.0, np.inf), penalize_diagonal=False, tol=1e-10)


def chain(p):
    return np.abs(np.subtract.outer(np.arange(p), np.arange(p))) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_refit_matches_the_covariance_on_the_graph_and_is_zero_off_it(seed):
    p = 12
    x = np.random.default_rng(seed).standard_normal((60, p)).cumsum(axis=1)
    S = np.corrcoef(x, rowvar=False)
    answer = refit(S, chain(p))
    assert np.all(answer.precision[~chain(p)] == 0)
    np.testing.assert_allclose(np.linalg.inv(answer.precision)[chain(p)], S[chain(p)], atol=1e-4)


@pytest.mark.parametrize("solver", ["auto", "admm"])
@pytest.mark.parametrize("seed", range(5))
def test_a_refit_of_an_indefinite_pair_is_named_unbounded(seed, solver):
    """A correlation beyond 1 between neighbours: the likelihood grows for ever along that pair."""
    p = 8
    S = np.eye(p) + 0.1 * np.random.default_rng(seed).uniform(-1, 1, (p, p))
    S = (S + S.T) / 2
    np.fill_diagonal(S, 1.0)
    S[3, 4] = S[4, 3] = 1.3
    weights = np.where(chain(p), 0.0, np.inf)
    with pytest.raises(UnboundedObjectiveError, match="unbounded"):
        graphical_lasso(S, 1.0, weights=weights, penalize_diagonal=False, solver=solver)
