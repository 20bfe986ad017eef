"""Attacks on our own mechanisms: certified lower bounds on mu beside the claimed one (docs/maths/audit.md)."""
