import numpy as np

from hazeglass.features.harmonics import expand, features_of


def test_hermite_features_are_orthonormal_for_standard_normals():
    """Exactly so but for the clamp; Gauss-Hermite quadrature inside it shows the polynomials themselves."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)  # exact to degree 7, all nodes within 2.5
    features = expand(nodes[:, None], "hermite")
    gram = (features * (weights / weights.sum())[:, None]).T @ features
    np.testing.assert_allclose(gram, np.eye(3), atol=1e-12)
    assert expand(np.array([[9.0]]), "hermite")[0, 0] == 2.5
    assert expand(nodes, "linear") is nodes
    assert [f.power for f in features_of(("x", "y"), "hermite")] == [1, 2, 3, 1, 2, 3]
