"""The paper's eight data sets, prepared the way its printed epsilons say it prepared them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hazeglass import datasets
from hazeglass.datasets import Dataset

from .protocol import corrected_covariance, edges_of, fit

__all__ = ["SUBJECTS", "Prepared", "Subject", "prepare", "true_edges"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Subject:
    """A column of Table 2.

    alpha    the penalty; the paper names none, so this one was found by a scan (docs/paper.md)
    truth    a key of the data set's truths, 'known', or 'estimate': the paper takes glasso without noise for it
    changes  hour-to-hour changes instead of levels (the voltages)
    own      the paper's own data, as far as the printed epsilon can tell
    """

    title: str
    load: Callable[[str | Path | None], Dataset]
    alpha: float
    truth: str
    own: bool
    changes: bool = False


SUBJECTS: dict[str, Subject] = {
    "cell_signalling": Subject("Cell signalling", datasets.load_cell_signalling, 0.01, "bnlearn17", True),
    "grid11": Subject("11-bus power grid", datasets.load_grid11, 0.001, "known", False, changes=True),
    "grid115": Subject("115-bus power grid", datasets.load_grid115, 0.03, "known", False, changes=True),
    "fmri": Subject("Brain fMRI", datasets.load_fmri, 0.1, "estimate", False),
    "lawmakers": Subject("U.S. Congress lawmakers", datasets.load_lawmakers, 0.9, "estimate", True),
    "movielens": Subject("Movie recommendation", datasets.load_movielens, 0.15, "genre", False),
    "chickenpox": Subject("County-level chickenpox", datasets.load_chickenpox, 100.0, "known", True),
    "soil": Subject("Soil microbiome", datasets.load_soil, 50.0, "estimate", True),
}


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows as the paper uses them."""

    subject: Subject
    dataset: Dataset
    rows: Floats
    kind: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return self.dataset.columns


@lru_cache(maxsize=2)
def prepare(name: str, data_dir: str | None) -> Prepared:
    """Load and scale one data set."""
    subject = SUBJECTS[name]
    dataset = subject.load(data_dir)
    if not subject.changes:
        return Prepared(subject, dataset, dataset.scaled(), dataset.kind)
    steps = np.diff(dataset.data, axis=0)
    return Prepared(subject, dataset, (steps - steps.mean(axis=0)) / steps.std(axis=0), dataset.kind)


def true_edges(prepared: Prepared, alpha: float | None = None) -> Bools:
    """Which pairs count as edges: the known graph, or the graphical lasso without noise."""
    subject = prepared.subject
    if subject.truth == "estimate":
        return edges_of(fit(corrected_covariance(prepared.rows), alpha or subject.alpha))
    matrix = prepared.dataset.truth_matrix(None if subject.truth == "known" else subject.truth)
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)])
