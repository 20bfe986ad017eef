"""Direct dependence beyond the linear, from the moments of Hermite functions of the columns.

Each column is a block of features (z, z^2, z^3, orthogonalised). The blocks are whitened one by one, and pairs of
blocks take the place of pairs of columns: a ridge score for the strength, a group graphical lasso for the precision, a
chi-square-type test for the p-value, a curve for the shape. Derivations: docs/maths/curved.md.
"""

from hazeglass.analyst.curved.blocks import FeatureBlocks, blocks_of_moments
from hazeglass.analyst.curved.inference import CurvedInference, infer_blocks
from hazeglass.analyst.curved.ridge import noise_ridge, ridge_strength
from hazeglass.analyst.curved.select import group_ebic
from hazeglass.analyst.curved.shapes import Shape, shape_of

__all__ = [
    "CurvedInference",
    "FeatureBlocks",
    "Shape",
    "blocks_of_moments",
    "group_ebic",
    "infer_blocks",
    "noise_ridge",
    "ridge_strength",
    "shape_of",
]
