"""Releases of curved moments without files: the mechanism in a few lines of NumPy, for statistics over many of them."""

import numpy as np
import pytest

from hazeglass.bundle.moments import ReleasedMoments
from hazeglass.features.harmonics import features_of, to_features


@pytest.fixture
def released_moments():
    """Moments of the Hermite features of standardised rows, clipped and noised as the publisher does."""

    def release(rows, mu, rng):
        n, p = rows.shape
        radius = np.sqrt(3 * p)
        features = to_features((rows - rows.mean(axis=0)) / rows.std(axis=0), "hermite")
        features *= np.minimum(1, radius / np.linalg.norm(features, axis=1))[:, None]
        weight = min(radius / 2, radius / (n * mu) ** 0.25)
        t = (radius**2 + weight**2) / (mu * n)
        noise = np.triu(t * rng.standard_normal((3 * p, 3 * p)), 1)
        noise += noise.T + np.diag(np.sqrt(2) * t * rng.standard_normal(3 * p))
        spread = np.full((3 * p, 3 * p), t) + (np.sqrt(2) - 1) * t * np.eye(3 * p)
        return ReleasedMoments(
            features_of(tuple(f"v{k}" for k in range(p)), "hermite"),
            features.mean(axis=0) + t / weight * rng.standard_normal(3 * p),
            features.T @ features / n + noise,
            np.full(3 * p, t / weight),
            spread,
        )

    return release
