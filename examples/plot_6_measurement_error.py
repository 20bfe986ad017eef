"""
What if the noise is not for privacy?
=====================================

Ten sensors watch a chain: each quantity depends on its neighbours alone. The odd ones are cheap, and their error
variance, known from the data sheet, is as large as the signal's. Correcting for it needs no plan and no release.
"""

import matplotlib.pyplot as plt
import numpy as np

import hazeglass as hg

P, N = 10, 4000
rng = np.random.default_rng(7)
precision = np.eye(P) + np.diag(np.full(P - 1, -0.4), 1) + np.diag(np.full(P - 1, -0.4), -1)
signal = rng.multivariate_normal(np.zeros(P), np.linalg.inv(precision), size=N)
error_variance = np.where(np.arange(P) % 2 == 1, np.var(signal, axis=0), 0.05)
measured = signal + rng.standard_normal((N, P)) * np.sqrt(error_variance)


def partial(matrix):
    scale = np.sqrt(np.diag(matrix))
    strength = -matrix / np.outer(scale, scale)
    np.fill_diagonal(strength, 0.0)
    return strength


def estimate(noise):
    """Choose a graph, then fit it again without the penalty: free on its edges, forbidden elsewhere."""
    chosen = hg.CorrectedGraphicalLasso("ebic", noise_cov=noise).fit(measured).precision_ != 0
    covariance = np.cov(measured, rowvar=False) - np.diag(np.broadcast_to(noise, P))
    weights = np.where(chosen, 0.0, np.inf)
    return hg.graphical_lasso(covariance, 1.0, weights=weights, penalize_diagonal=False).precision


# %%
# The same estimator twice: once it takes the error for signal, once it is told.
estimates = {"truth": precision, "error ignored": estimate(0.0), "error corrected": estimate(error_variance)}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.6), constrained_layout=True)
for ax, (title, matrix) in zip(axes, estimates.items(), strict=True):
    edges = np.count_nonzero(np.triu(matrix, 1))
    image = ax.imshow(partial(matrix), cmap="RdBu_r", vmin=-0.5, vmax=0.5)
    ax.set(title=f"{title}: {edges} edges", xticks=[], yticks=[])
fig.colorbar(image, ax=axes, shrink=0.8, label="partial correlation")
plt.show()
