"""Names that come from files, made safe to print."""

from __future__ import annotations

__all__ = ["plain"]


def plain(text: object) -> str:
    """No markup, no control characters."""
    from rich.markup import escape

    return escape("".join(c if c.isprintable() else "\ufffd" for c in str(text)))
