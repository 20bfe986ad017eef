"""hazeglass: publish private tables with a proven promise, recover the graph from what was published."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hazeglass._version import __version__

if TYPE_CHECKING:
    from hazeglass import datasets
    from hazeglass.analyst.compare import GraphDiff, compare
    from hazeglass.analyst.estimators import CorrectedGraphicalLasso, CorrectedGraphicalLassoCV
    from hazeglass.analyst.graph import Graph
    from hazeglass.analyst.recover import recover
    from hazeglass.analyst.synthesize import synthesize
    from hazeglass.bundle.columns import Column
    from hazeglass.bundle.reader import Release, load
    from hazeglass.compute.text import TextFormat
    from hazeglass.glasso import Solution, graphical_lasso, graphical_lasso_path, nearest_psd_max_norm
    from hazeglass.guarantee.gdp import GaussianDP
    from hazeglass.publisher.plan import Plan
    from hazeglass.publisher.publish import publish

# Where each public name lives. Nothing is imported until it is asked for, so that
# `import hazeglass` stays fast and the analyst never loads the publisher's package.
_HOMES = {
    "Column": "hazeglass.bundle.columns",
    "CorrectedGraphicalLasso": "hazeglass.analyst.estimators",
    "CorrectedGraphicalLassoCV": "hazeglass.analyst.estimators",
    "GaussianDP": "hazeglass.guarantee.gdp",
    "Graph": "hazeglass.analyst.graph",
    "GraphDiff": "hazeglass.analyst.compare",
    "Plan": "hazeglass.publisher.plan",
    "Release": "hazeglass.bundle.reader",
    "Solution": "hazeglass.glasso",
    "TextFormat": "hazeglass.compute.text",
    "compare": "hazeglass.analyst.compare",
    "graphical_lasso": "hazeglass.glasso",
    "graphical_lasso_path": "hazeglass.glasso",
    "nearest_psd_max_norm": "hazeglass.glasso",
    "load": "hazeglass.bundle.reader",
    "publish": "hazeglass.publisher.publish",
    "recover": "hazeglass.analyst.recover",
    "synthesize": "hazeglass.analyst.synthesize",
}
_MODULES = ("datasets", "errors")

__all__ = [
    "Column",
    "CorrectedGraphicalLasso",
    "CorrectedGraphicalLassoCV",
    "GaussianDP",
    "Graph",
    "GraphDiff",
    "Plan",
    "Release",
    "Solution",
    "TextFormat",
    "__version__",
    "compare",
    "datasets",
    "errors",
    "graphical_lasso",
    "graphical_lasso_path",
    "load",
    "nearest_psd_max_norm",
    "publish",
    "recover",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"hazeglass.{name}")
    else:
        raise AttributeError(f"module 'hazeglass' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
