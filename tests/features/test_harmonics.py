import numpy as np
from scipy.special import ndtri

from hazeglass.features.harmonics import cosines, features_of, to_features


def test_hermite_features_are_orthonormal_for_standard_normals():
    """Exactly so but for the clamp; Gauss-Hermite quadrature inside it shows the polynomials themselves."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)  # exact to degree 7, all nodes within 2.5
    features = to_features(nodes[:, None], "hermite")
    gram = (features * (weights / weights.sum())[:, None]).T @ features
    np.testing.assert_allclose(gram, np.eye(3), atol=1e-12)
    assert to_features(np.array([[9.0]]), "hermite")[0, 0] == 2.5
    assert [f.power for f in features_of(("x", "y"), "hermite")] == [1, 2, 3, 1, 2, 3]


def test_cosines_of_ranks_are_orthonormal_centred_and_bounded():
    ranks = (np.arange(10_000) + 0.5) / 10_000
    features = cosines(ndtri(ranks))
    np.testing.assert_allclose(features.T @ features / 10_000, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-9)
    assert np.abs(cosines(np.array([-40.0, -6.0, 0.0, 6.0, 40.0]))).max() <= np.sqrt(2) + 1e-15


def test_a_stage_has_one_feature_per_column_or_three():
    assert [(f.column, f.power) for f in features_of(("x", "y"), "columns")] == [("x", 1), ("y", 1)]
    assert [f.power for f in features_of(("x",), "presence")] == [1]
    assert [(f.column, f.power) for f in features_of(("x", "y"), "cosines")][2:4] == [("x", 3), ("y", 1)]
