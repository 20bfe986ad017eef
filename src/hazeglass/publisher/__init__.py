"""TRUSTED: the only code that sees rows or secret bits."""
