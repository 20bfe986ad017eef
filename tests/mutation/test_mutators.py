"""The wrongs are real ones, one at a time, and words for people are left alone."""

import ast

from .mutators import mutants

_SOURCE = '''
"""A module with 3 rows."""
__all__ = ["f"]
LIMIT = 4.0


def f(x: int | None, rows: int = 2) -> float:
    """Say 1."""
    if rows < 1:
        raise ValueError(f"rows must be at least {1 + 0}")
    return max(rows * LIMIT, 0.5) if x is None else -math.ceil(x)
'''


def test_every_kind_of_place_is_changed_once():
    assert [mutant.change for mutant in mutants(_SOURCE)] == [
        "4.0 -> 6.0",
        "2 -> 3",
        "if rows < 1 -> if False",
        "rows < 1 -> rows <= 1",
        "1 -> 2",
        "max(rows * LIMIT, 0.5) -> min(rows * LIMIT, 0.5)",
        "rows * LIMIT -> rows / LIMIT",
        "0.5 -> 0.75",
        "-math.ceil(x) -> math.ceil(x)",
        "math.ceil(x) -> math.floor(x)",
        "x is None -> x is not None",
    ]


def test_a_mutant_differs_in_nothing_else():
    for mutant in mutants(_SOURCE):
        before, after = ast.unparse(ast.parse(_SOURCE)).splitlines(), ast.unparse(mutant.tree).splitlines()
        assert len([1 for a, b in zip(before, after, strict=True) if a != b]) == 1
