import numpy as np

from hazeglass.features.harmonics import features_of, to_features


def test_hermite_features_are_orthonormal_for_standard_normals():
    """Exactly so but for the clamp; Gauss-Hermite quadrature inside it shows the polynomials themselves."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)  # exact to degree 7, all nodes within 2.5
    features = to_features(nodes[:, None], "hermite")
    gram = (features * (weights / weights.sum())[:, None]).T @ features
    np.testing.assert_allclose(gram, np.eye(3), atol=1e-12)
    assert to_features(np.array([[9.0]]), "hermite")[0, 0] == 2.5
    assert to_features(nodes, "linear") is nodes
    assert [f.power for f in features_of(("x", "y"), "hermite")] == [1, 2, 3, 1, 2, 3]
