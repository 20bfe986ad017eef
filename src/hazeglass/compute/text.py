"""placeholder until the plan branch lands"""
from __future__ import annotations
from dataclasses import dataclass

@dataclass(frozen=True)
class TextFormat:
    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
    header: bool = True
    names: tuple[str, ...] = ()
    trim: bool = True
