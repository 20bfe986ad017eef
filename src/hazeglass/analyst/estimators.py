"""The noise-corrected graphical lasso in scikit-learn's conventions: thin, the work is done by the packages below.

minimise over T > 0:   -log det T + tr(S_hat T) + alpha sum_ij w_ij |T_ij|,   S_hat = cov(X) - noise_cov
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.covariance import EmpiricalCovariance
from sklearn.model_selection import check_cv
from sklearn.utils.validation import validate_data

from hazeglass.analyst.covariance import covariance_of_rows, noise_matrix
from hazeglass.analyst.penalty import GRID, Choice, Problem, Weights, given
from hazeglass.analyst.select import RowsInMemory, cross_validate, ebic, stars
from hazeglass.errors import InputError

_SCORING = {"likelihood": "cv", "mse": "mse"}


class CorrectedGraphicalLasso(EmpiricalCovariance):  # type: ignore[misc]
    """Sparse inverse covariance from rows with known noise.

    Parameters
    ----------
    alpha : float or {'ebic', 'stars'}, default=0.01
        The penalty, on the scale named by `scale`; or how to choose it: by an information criterion, or by the
        stability of the edges over subsamples of the rows.
    noise_cov : float or array-like of shape (p,), (p, p) or (n, p), default=0.0
        Covariance of the noise in a row: one variance, one per column, a matrix, or one variance per cell.
    scale : {'correlation', 'covariance'}, default='correlation'
        Where the penalty applies.
    weights : {'noise', 'uniform'} or array-like of shape (p, p), default='noise'
        What each pair pays, times alpha: in proportion to the noise in its covariance, all the same, or as given (0 for
        a known edge, infinity for a known non-edge).
    penalize_diagonal : bool, default=True
        Whether the diagonal pays too; it must where a corrected covariance is indefinite.
    solver : {'auto', 'cd', 'newton', 'admm'}, default='auto'
        Which graphical lasso solver to use.
    device : str, default='cpu'
        'cpu', or the torch device to solve on, such as 'cuda'; it is refused where torch or the device is missing.
    tol : float, default=1e-6
        Duality gap per column at which to stop.
    max_iter : int, default=None
        Most iterations of one solver; None for its own limit.
    n_jobs : int, default=None
        Threads for `alpha='stars'`.
    assume_centered : bool, default=False
        Whether the rows have mean 0 already.

    Attributes
    ----------
    covariance_ : ndarray of shape (p, p)
        The estimated covariance, in the unit of the data.
    precision_ : ndarray of shape (p, p)
        Its sparse inverse.
    location_ : ndarray of shape (p,)
        The mean of the rows.
    alpha_ : float
        The penalty that was used.
    n_iter_ : int
        Iterations of the solver.
    gap_ : float
        Duality gap of the fit.
    hidden_ : tuple of str
        Columns whose corrected variance the noise hides.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (p,)
        Their names, where the rows came with any.

    See Also
    --------
    CorrectedGraphicalLassoCV : The penalty chosen by cross-validation.
    graphical_lasso : The solver on a covariance of your own.

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
        alpha: float | str = 0.01,
        *,
        noise_cov: npt.ArrayLike = 0.0,
        scale: str = "correlation",
        weights: Weights = "noise",
        penalize_diagonal: bool = True,
        solver: str = "auto",
        device: str = "cpu",
        tol: float = 1e-6,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        assume_centered: bool = False,
    ) -> None:
        super().__init__(assume_centered=assume_centered)
        self.alpha = alpha
        self.noise_cov = noise_cov
        self.scale = scale
        self.weights = weights
        self.penalize_diagonal = penalize_diagonal
        self.solver = solver
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows.

        Parameters
        ----------
        X : array-like of shape (n, p)
            The rows.
        y : Ignored
            Not used; here for scikit-learn's conventions.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        task = _Task(self, X)
        choice = self._choose(task)
        solution, units = choice.solution, np.outer(task.units, task.units)
        self.location_ = task.location
        self.covariance_ = solution.covariance * units
        self.precision_ = solution.precision / units
        self.alpha_, self.n_iter_, self.gap_ = choice.alpha, solution.n_iter, solution.gap
        self.hidden_ = task.noisy.hidden
        return self

    def _choose(self, task: _Task) -> Choice:
        if not isinstance(self.alpha, str):
            return given(task.problem, self.alpha)
        if self.alpha == "ebic":
            return ebic(task.noisy, task.problem)
        if self.alpha == "stars":
            return stars(task.noisy, task.problem, task.rows, n_jobs=self.n_jobs)
        raise InputError(f"alpha must be a number >= 0, 'ebic' or 'stars', got {self.alpha!r}.")


class CorrectedGraphicalLassoCV(CorrectedGraphicalLasso):
    """The same with the penalty chosen by cross-validation: held-out rows are corrected for the noise as well.

    Parameters
    ----------
    alphas : int or array-like of shape (n_alphas,), default=20
        How many penalties to try, evenly on the log scale from the one that empties the graph down to a hundredth of it
        (more where the best is the smallest); or the penalties themselves.
    cv : int, cross-validation generator or iterable, default=None
        How the rows are split, as everywhere in scikit-learn; None for 5 folds.
    scoring : {'likelihood', 'mse'}, default='likelihood'
        What is compared on held-out rows: their likelihood, or the paper's squared error of the covariance.
    noise_cov, scale, weights, penalize_diagonal, solver, device, tol, max_iter, n_jobs, assume_centered
        As for :class:`CorrectedGraphicalLasso`; `n_jobs` threads work on the folds.

    Attributes
    ----------
    covariance_, precision_, location_, alpha_, n_iter_, gap_, hidden_, n_features_in_, feature_names_in_
        As for :class:`CorrectedGraphicalLasso`.
    cv_results_ : dict of ndarrays
        `alphas`, and for each of them `mean_test_score`, `std_test_score` and `split{k}_test_score`; greater is better.

    See Also
    --------
    CorrectedGraphicalLasso : The penalty given, or chosen by a criterion.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.multivariate_normal([0, 0, 0], [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], size=500)
    >>> model = CorrectedGraphicalLassoCV(alphas=[0.001, 0.05, 0.4], cv=3).fit(X)
    >>> model.alpha_, model.cv_results_["mean_test_score"].shape
    (0.05, (3,))
    """

    def __init__(
        self,
        *,
        alphas: int | npt.ArrayLike = GRID,
        cv: Any = None,
        scoring: str = "likelihood",
        noise_cov: npt.ArrayLike = 0.0,
        scale: str = "correlation",
        weights: Weights = "noise",
        penalize_diagonal: bool = True,
        solver: str = "auto",
        device: str = "cpu",
        tol: float = 1e-6,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        assume_centered: bool = False,
    ) -> None:
        super().__init__(
            noise_cov=noise_cov,
            scale=scale,
            weights=weights,
            penalize_diagonal=penalize_diagonal,
            solver=solver,
            device=device,
            tol=tol,
            max_iter=max_iter,
            n_jobs=n_jobs,
            assume_centered=assume_centered,
        )
        self.alphas = alphas
        self.cv = cv
        self.scoring = scoring

    def _choose(self, task: _Task) -> Choice:
        if self.scoring not in _SCORING:
            raise InputError(f"scoring must be one of {', '.join(_SCORING)}, got {self.scoring!r}.")
        pairs = []
        for train, held in check_cv(self.cv).split(task.rows.rows):
            if min(len(train), len(held)) < 2:
                raise InputError("every fold must hold and leave at least 2 rows. Use fewer folds, or more rows.")
            pairs.append((task.rows.covariance(train), task.rows.covariance(held)))
        choice = cross_validate(task.problem, pairs, _SCORING[self.scoring], self.n_jobs, self.alphas)
        assert choice.fold_scores is not None
        scores = -choice.fold_scores
        self.cv_results_ = {
            "alphas": np.array(choice.alphas),
            **{f"split{k}_test_score": row for k, row in enumerate(scores)},
            "mean_test_score": scores.mean(axis=0),
            "std_test_score": scores.std(axis=0),
        }
        return choice


class _Task:
    """Rows turned into a corrected covariance on the estimator's scale.

    Covariances divide by n, as scikit-learn's do; the noise is subtracted in the same proportion.
    """

    def __init__(self, estimator: CorrectedGraphicalLasso, X: Any) -> None:
        if estimator.scale not in ("correlation", "covariance"):
            raise InputError(f"scale must be 'correlation' or 'covariance', got {estimator.scale!r}.")
        rows = validate_data(estimator, X, ensure_min_features=2, ensure_min_samples=2, dtype=np.float64)
        n, p = rows.shape
        names = tuple(map(str, getattr(estimator, "feature_names_in_", [f"x{k + 1}" for k in range(p)])))
        centred = estimator.assume_centered
        self.location = np.zeros(p) if centred else rows.mean(axis=0)
        noise = noise_matrix(estimator.noise_cov, p, n)
        noisy = covariance_of_rows(rows, noise, names)
        covariance = rows.T @ rows / n - noise if centred else noisy.covariance * (n - 1) / n
        noisy = replace(noisy, covariance=covariance)
        self.noisy = noisy.standardised(whiten=estimator.scale == "correlation")
        self.units = self.noisy.standard_deviations
        self.rows = RowsInMemory(rows, noise, self.units)
        shared = ("penalize_diagonal", "solver", "tol", "max_iter", "device")
        self.problem = Problem.of(self.noisy, estimator.weights, **{name: getattr(estimator, name) for name in shared})
