"""
Why do ordinary tools fail on noisy data?
=========================================

Noise makes every zero of a precision matrix a little non-zero. A tool that takes noisy rows for data converges to that
wrong matrix: with more rows it becomes *surer* of edges that do not exist. Subtracting the known noise cures it.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.covariance import GraphicalLassoCV

import hazeglass as hg

P, SIZES = 12, (250, 1_000, 4_000, 16_000)
rng = np.random.default_rng(3)
precision = np.eye(P) + np.diag(np.full(P - 1, -0.45), 1) + np.diag(np.full(P - 1, -0.45), -1)
signal = rng.multivariate_normal(np.zeros(P), np.linalg.inv(precision), size=max(SIZES))
noise_variance = np.var(signal, axis=0) * np.linspace(0.2, 1.0, P)
noisy = signal + rng.standard_normal(signal.shape) * np.sqrt(noise_variance)
no_edge = np.triu(precision == 0, 1)


def wrong_edges(estimator, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return int(np.count_nonzero((np.abs(estimator.fit(rows).precision_) > 1e-8) & no_edge))


TOOLS = {
    "scikit-learn GraphicalLassoCV": lambda: GraphicalLassoCV(cv=3, alphas=4, n_refinements=2),
    "hazeglass, noise not declared": lambda: hg.CorrectedGraphicalLasso("ebic"),
    "hazeglass, noise declared": lambda: hg.CorrectedGraphicalLasso("ebic", noise_cov=noise_variance),
}

# %%
# Pairs that are not edges in truth, and were called edges.
fig, ax = plt.subplots(figsize=(6, 4))
for (name, make), style in zip(TOOLS.items(), (":^", "--s", "-o"), strict=True):
    ax.plot(SIZES, [wrong_edges(make(), noisy[:n]) for n in SIZES], style, label=name)
ax.axhline(no_edge.sum(), color="grey", linewidth=0.8)
ax.text(SIZES[0], no_edge.sum() - 3, "all of them", fontsize=8, color="grey")
ax.set(
    xscale="log",
    xlabel="rows",
    ylabel=f"wrong edges, of {no_edge.sum()} possible",
    title="More rows, more wrong edges?",
)
ax.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.4))
plt.show()
