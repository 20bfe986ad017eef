"""UNTRUSTED: from a release to a graph. Nothing here can reach the rows.

The choices of :func:`hazeglass.recover` stand here, where the command line and the studio read them without importing
the rest.
"""

from typing import Literal, get_args

Select = Literal["ebic", "stars", "cv", "mse"]
SELECTS: tuple[Select, ...] = get_args(Select)
Dependence = Literal["linear", "curved"]
DEPENDENCES: tuple[Dependence, ...] = get_args(Dependence)
Marginals = Literal["as-is", "normal-scores"]
MARGINALS: tuple[Marginals, ...] = get_args(Marginals)
SolverName = Literal["auto", "newton", "cd", "admm"]
SOLVERS: tuple[SolverName, ...] = get_args(SolverName)
Device = Literal["cpu", "cuda"]  # in Python any device of torch
