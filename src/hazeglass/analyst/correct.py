"""From a noisy covariance to the correlation scale, naming the columns that the noise hides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hazeglass.analyst.moments import NoisyCovariance

__all__ = ["Corrected", "correct"]

FloatArray = npt.NDArray[np.float64]

_DOUBT = 2.0


@dataclass(frozen=True, eq=False)
class Corrected:
    """A correlation-scale covariance ready for estimation, and what was done to get it."""

    noisy: NoisyCovariance
    standard_deviations: FloatArray
    hidden: tuple[str, ...]
    notes: tuple[str, ...]


def correct(noisy: NoisyCovariance, *, to_correlation: bool = True) -> Corrected:
    """Divide by the corrected standard deviations; a variance within two standard errors of zero counts as hidden.

    With to_correlation=False only the hidden columns are dealt with, and the standard deviations are ones.
    """
    variances = np.diag(noisy.covariance)
    doubt = _DOUBT * np.diag(noisy.error.entry_sd())
    unclear = variances < doubt
    hidden = tuple(name for name, out in zip(noisy.names, unclear, strict=True) if out)
    notes = noisy.notes
    if hidden:
        # The floor keeps the scale finite; the column's error bars stay as wide as its noise is.
        variances = np.maximum(variances, doubt)
        covariance = noisy.covariance.copy()
        np.fill_diagonal(covariance, variances)
        noisy = noisy.with_covariance(covariance)
        notes = (*notes, _hidden_note(hidden))
    deviations = np.sqrt(variances) if to_correlation else np.ones_like(variances)
    return Corrected(noisy.rescaled(1 / deviations), deviations, hidden, notes)


def _hidden_note(hidden: tuple[str, ...]) -> str:
    shown = ", ".join(hidden[:5]) + (", ..." if len(hidden) > 5 else "")
    plural = "s" if len(hidden) > 1 else ""
    return (
        f"The noise hides {len(hidden)} column{plural} ({shown}): a corrected variance within two standard errors of "
        "zero. No edge of such a column can be trusted; it takes more rows, a larger epsilon, or the moments form."
    )
