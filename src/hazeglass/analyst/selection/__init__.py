"""Choose the penalty. Every choice is made from the release alone, so it costs no privacy (post-processing)."""

from hazeglass.analyst.selection.choice import GRID, Choice, given
from hazeglass.analyst.selection.crossval import FoldSource, RowSource, cross_validate
from hazeglass.analyst.selection.ebic import ebic, effective_rows
from hazeglass.analyst.selection.stars import stars
from hazeglass.analyst.selection.streamed import StreamedRows

__all__ = [
    "GRID",
    "Choice",
    "FoldSource",
    "RowSource",
    "StreamedRows",
    "cross_validate",
    "ebic",
    "effective_rows",
    "given",
    "stars",
]
