"""`python -m hazeglass.cli`: the same as the `hazeglass` command."""

from hazeglass.cli import main

main()
