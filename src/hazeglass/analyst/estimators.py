"""The noise-corrected graphical lasso in scikit-learn's conventions: thin, the work is done by the packages below.

minimise over T > 0:   -log det T + tr(S_hat T) + alpha sum_ij w_ij |T_ij|,   S_hat = cov(X) - noise_cov
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import validate_data

from hazeglass.analyst.correct import Corrected, correct
from hazeglass.analyst.moments import covariance_of_rows
from hazeglass.analyst.noise_cov import noise_matrix
from hazeglass.analyst.penalties import Repair, Setting, entry_weights
from hazeglass.analyst.selection import Choice, FoldSource, cross_validate, ebic, stars
from hazeglass.errors import InputError, RepairWarning, warn

__all__ = ["CorrectedGraphicalLasso", "CorrectedGraphicalLassoCV"]

FloatArray = npt.NDArray[np.float64]


class CorrectedGraphicalLasso(EmpiricalCovariance):  # type: ignore[misc]
    """Sparse inverse covariance from rows with known noise.

    Parameters
    ----------
    alpha : float, default=0.01
        The penalty, on the scale named by `scale`.
    noise_cov : float or array, default=0.0
        Covariance of the noise in a row: one variance, one per column, a matrix, or one variance per cell.
    scale : {'correlation', 'covariance'}, default='correlation'
        Where the penalty applies.
    weights : {'noise', 'uniform'}, default='noise'
        Whether each pair pays in proportion to the noise in its covariance, or all the same.
    penalize_diagonal : bool, default=True
        Whether the diagonal pays too; it must where a corrected covariance is indefinite.
    solver : {'auto', 'cd', 'newton', 'admm'}, default='auto'
    tol : float, default=1e-6
        Duality gap per column at which to stop.
    assume_centered : bool, default=False

    Attributes
    ----------
    covariance_, precision_ : arrays of shape (p, p)
        The estimate, in the unit of the data.
    location_ : array of shape (p,)
    alpha_ : float
    n_iter_ : int
    gap_ : float
        Duality gap of the fit.
    hidden_ : tuple of str
        Columns whose corrected variance the noise hides.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3)) + 0.5 * rng.standard_normal((500, 3))
    >>> CorrectedGraphicalLasso(alpha=0.1, noise_cov=0.25).fit(X).precision_.shape
    (3, 3)
    """

    def __init__(
        self,
        alpha: float = 0.01,
        *,
        noise_cov: npt.ArrayLike = 0.0,
        scale: str = "correlation",
        weights: str = "noise",
        penalize_diagonal: bool = True,
        solver: str = "auto",
        tol: float = 1e-6,
        assume_centered: bool = False,
    ) -> None:
        super().__init__(assume_centered=assume_centered)
        self.alpha = alpha
        self.noise_cov = noise_cov
        self.scale = scale
        self.weights = weights
        self.penalize_diagonal = penalize_diagonal
        self.solver = solver
        self.tol = tol

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows X of shape (n, p)."""
        problem = _Problem(self, X)
        return self._take(problem, self._choose(problem))

    def _choose(self, problem: _Problem) -> Choice:
        repair = Repair(problem.corrected.noisy.covariance, problem.setting)
        if self.penalize_diagonal and (moved := repair.size(self.alpha)) > 0:
            warn(
                f"no estimate exists at alpha = {self.alpha:.3g} on an indefinite covariance; it was moved by at most "
                f"{moved:.3g} per entry. A larger alpha needs no repair.",
                RepairWarning,
            )
            return Choice("given", self.alpha, problem.setting.fit(repair.at(self.alpha), self.alpha))
        return Choice("given", self.alpha, problem.setting.fit(problem.corrected.noisy.covariance, self.alpha))

    def _take(self, problem: _Problem, choice: Choice) -> Self:
        """Store the fit in the unit of the data."""
        solution, units = choice.solution, np.outer(problem.units, problem.units)
        self.location_ = problem.location
        self.covariance_ = solution.covariance * units
        self.precision_ = solution.precision / units
        self.alpha_, self.n_iter_, self.gap_ = choice.alpha, solution.n_iter, solution.gap
        self.hidden_ = problem.corrected.hidden
        return self


class CorrectedGraphicalLassoCV(CorrectedGraphicalLasso):
    """The same with the penalty chosen from the rows; what is not named here is as in `CorrectedGraphicalLasso`.

    Parameters
    ----------
    select : {'cv', 'mse', 'ebic', 'stars'}, default='cv'
        Held-out likelihood on corrected folds, the paper's squared error, an information criterion, or stability.
    cv : int, default=5
        Number of folds for 'cv' and 'mse'.
    n_jobs : int, optional
        Threads.
    """

    def __init__(
        self,
        *,
        select: str = "cv",
        cv: int = 5,
        n_jobs: int | None = None,
        noise_cov: npt.ArrayLike = 0.0,
        scale: str = "correlation",
        weights: str = "noise",
        penalize_diagonal: bool = True,
        solver: str = "auto",
        tol: float = 1e-6,
        assume_centered: bool = False,
    ) -> None:
        super().__init__(
            noise_cov=noise_cov,
            scale=scale,
            weights=weights,
            penalize_diagonal=penalize_diagonal,
            solver=solver,
            tol=tol,
            assume_centered=assume_centered,
        )
        self.select = select
        self.cv = cv
        self.n_jobs = n_jobs

    def _choose(self, problem: _Problem) -> Choice:
        noisy, source = problem.corrected.noisy, FoldSource(problem.rows, problem.noise, problem.units)
        if self.select == "ebic":
            choice = ebic(noisy, problem.setting)
        elif self.select == "stars":
            choice = stars(noisy, problem.setting, source, n_jobs=self.n_jobs)
        elif self.select in ("cv", "mse"):
            choice = cross_validate(noisy, problem.setting, source, self.select, self.cv, self.n_jobs)
        else:
            raise InputError(f"select must be one of cv, mse, ebic, stars, got {self.select!r}.")
        self.alphas_, self.scores_ = np.array(choice.alphas), np.array(choice.scores)
        return choice


class _Problem:
    """Rows turned into a corrected covariance on the estimator's scale.

    Covariances divide by n, as scikit-learn's do; the noise is subtracted in the same proportion.
    """

    corrected: Corrected
    setting: Setting

    def __init__(self, estimator: CorrectedGraphicalLasso, X: Any) -> None:
        if estimator.scale not in ("correlation", "covariance"):
            raise InputError(f"scale must be 'correlation' or 'covariance', got {estimator.scale!r}.")
        rows = validate_data(estimator, X, ensure_min_features=2, ensure_min_samples=2, dtype=np.float64)
        n, p = rows.shape
        names = tuple(map(str, getattr(estimator, "feature_names_in_", [f"x{k + 1}" for k in range(p)])))
        self.location = np.zeros(p) if estimator.assume_centered else rows.mean(axis=0)
        self.noise = noise_matrix(estimator.noise_cov, p, n)
        self.rows = rows
        noisy = covariance_of_rows(rows, self.noise, names)
        share = (n - 1) / n
        if estimator.assume_centered:
            second = rows.T @ rows / n - self.noise
            noisy = noisy.with_covariance(second)
        else:
            noisy = noisy.with_covariance(noisy.covariance * share)
        self.corrected = correct(noisy, to_correlation=estimator.scale == "correlation")
        self.units = self.corrected.standard_deviations
        weights = entry_weights(self.corrected.noisy, estimator.weights)
        self.setting = Setting(weights, estimator.penalize_diagonal, estimator.solver, estimator.tol)
