"""`python -m hazeglass` is the `hazeglass` command, where scripts are not on the path."""

from hazeglass.cli import main

main()
