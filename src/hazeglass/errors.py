"""Every error and warning hazeglass raises, in one tree.

::

    Exception
    └── HazeglassError
        ├── InputError (ValueError)            exit status 2: what came in is wrong
        │   ├── PlanError                      the plan file or object
        │   ├── DataError                      the rows
        │   ├── BundleError                    a release that cannot be trusted or read
        │   ├── OutputError                    where results should be written
        │   └── SolverInputError               a covariance, a penalty, weights
        │       └── UnboundedObjectiveError    no maximiser exists at this penalty
        ├── PrivacyRefusal                     exit status 3: going on would break a promise
        │   ├── BoundsMissingError             public bounds were not given: exit status 2
        │   ├── BudgetExceededError            the ledger has no room for this release
        │   └── SimulationError                a simulation passed off as a release
        ├── MissingExtraError (ImportError)    exit status 2: an optional dependency is not installed
        └── UnexpectedError                    exit status 1: a library failed on rows, in words that are not repeated
    UserWarning
    └── HazeglassWarning
        ├── ConvergenceWarning                 a solver stopped before its certificate
        ├── RepairWarning                      an indefinite covariance was moved, and by how much
        ├── SelectionWarning                   a choice at the edge of what was tried
        ├── DistrustWarning                    a release contradicts the model of its error bars: nothing is selected
        └── DeviceWarning                      a device is not there, and the CPU is used

Messages say what must hold, what came, and what to do. They never quote a cell: see :func:`quotes_no_cell`.
"""

import functools
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

__all__ = [
    "BoundsMissingError",
    "BudgetExceededError",
    "BundleError",
    "ConvergenceWarning",
    "DataError",
    "DeviceWarning",
    "DistrustWarning",
    "HazeglassError",
    "HazeglassWarning",
    "InputError",
    "MissingExtraError",
    "OutputError",
    "PlanError",
    "PrivacyRefusal",
    "RepairWarning",
    "SelectionWarning",
    "SimulationError",
    "SolverInputError",
    "UnboundedObjectiveError",
    "UnexpectedError",
]

P = ParamSpec("P")
R = TypeVar("R")


class HazeglassError(Exception):
    """Base of everything hazeglass raises on purpose."""

    exit_status = 1
    gaps: tuple[str, ...] = ()
    """Its lines, where it tells of several things at once."""


class InputError(HazeglassError, ValueError):
    """What came in is wrong."""

    exit_status = 2


class PlanError(InputError):
    """The plan is wrong or incomplete."""


class DataError(InputError):
    """The rows do not fit the plan, or cannot be read."""


class BundleError(InputError):
    """A release is damaged, incomplete, or not one."""


class OutputError(InputError):
    """The place for the results cannot be used."""


class SolverInputError(InputError):
    """A covariance, penalty or weight that no solver can use."""


class UnboundedObjectiveError(SolverInputError):
    """At this penalty the penalised likelihood grows without limit: there is no estimate."""


class PrivacyRefusal(HazeglassError):  # noqa: N818 (a refusal, not a malfunction)
    """Going on would break a promise."""

    exit_status = 3


class BoundsMissingError(PrivacyRefusal):
    """A column has no public bounds; they are never taken from the data."""

    exit_status = 2


class BudgetExceededError(PrivacyRefusal):
    """The release would exceed the dataset's total budget."""


class SimulationError(PrivacyRefusal):
    """A seeded simulation was about to be taken for a private release."""


class MissingExtraError(HazeglassError, ImportError):
    """An optional dependency is needed and not installed."""

    exit_status = 2


class UnexpectedError(HazeglassError):
    """Something failed that should not have; where, but not in whose words, because those may quote a cell."""


class HazeglassWarning(UserWarning):
    """Base of hazeglass's warnings."""


class ConvergenceWarning(HazeglassWarning):
    """A solver stopped before its certificate arrived."""


class RepairWarning(HazeglassWarning):
    """An indefinite covariance had to be moved before it could be used."""


class SelectionWarning(HazeglassWarning):
    """A choice fell on the edge of what was tried."""


class DistrustWarning(HazeglassWarning):
    """A release contradicts the model that its error bars rest on, so nothing is selected."""


class DeviceWarning(HazeglassWarning):
    """A device that was asked for is not there, and the CPU is used instead."""


def warn(message: str, category: type[HazeglassWarning]) -> None:
    """Warn at the caller's own line, the first outside hazeglass, however deep inside the reason came up."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hazeglass":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def quotes_no_cell(function: Callable[P, R]) -> Callable[P, R]:
    """For what reads rows: an error of NumPy, pandas, Arrow or anybody else may quote a cell, so none gets out.

    What the operating system says (no space, no permission) and what hazeglass says itself stays; an exception that
    such an error was made from does not hang on it any more, whoever prints it.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except HazeglassError as error:
            error.__cause__ = error.__context__ = None
            raise
        except Exception as error:
            if isinstance(error, MemoryError | HazeglassWarning) or (
                isinstance(error, OSError) and error.errno is not None
            ):
                raise
            told = UnexpectedError(_whereabouts(error))
        raise told  # here, not above, where it would hold on to the error it stands for

    return wrapped


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A sentence for the end of a message, where one of the words that are known is close to the one that came.

    >>> did_you_mean("intger", ["continuous", "integer"])
    " Did you mean 'integer'?"
    """
    import difflib

    # A name may be as long as a file; only short words are compared.
    close = difflib.get_close_matches(str(word)[:60].lower(), [one for one in known if len(one) <= 60], n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _whereabouts(error: Exception) -> str:
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-6:]]
    return (
        f"reading the rows failed unexpectedly with {type(error).__name__} at {' > '.join(places)}. Its own words are "
        "not repeated, because they may quote a cell. Check that every column of the plan holds numbers."
    )
