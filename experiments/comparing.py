"""Ours beside the printed value, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .sections import CLOSE, verdict

__all__ = ["against_printed", "decibels", "level_name", "worst"]


def decibels(level: float | str) -> float | None:
    """A level of a recipe as a number; 'none' is no noise."""
    return None if level == "none" else float(level)


def level_name(level: float | str) -> str:
    """'no noise' or '20 dB'."""
    return "no noise" if level == "none" else f"{level:g} dB"


def against_printed(values: Sequence[float], printed: float | None, printed_sd: float | None) -> dict[str, Any]:
    """Mean, spread, the printed pair, the difference and a verdict."""
    ours = float(np.mean(values))
    row: dict[str, Any] = {"ours": ours, "ours_sd": float(np.std(values)), "printed": printed, "printed_sd": printed_sd}
    if printed is None:
        return row | {"difference": None, "verdict": ""}
    return row | {"difference": ours - printed, "verdict": verdict(ours, printed)}


def worst(records: Sequence[Mapping[str, Any]]) -> str:
    """One sentence about all verdicts."""
    judged = [record for record in records if record["verdict"]]
    counts = {word: sum(r["verdict"] == word for r in judged) for word in ("same", "better", "worse")}
    lowest = min(judged, key=lambda record: record["difference"])
    return (
        f"Of {len(judged)} cells {counts['same']} are within {CLOSE} of the printed AUC, {counts['better']} are better "
        f"and {counts['worse']} are worse; the lowest difference is {lowest['difference']:+.3f} ({lowest['noise']})."
    )
