"""The paper's results, run again: one folder per result with its recipe, its run and the numbers to expect.

The privacy accounting of the paper lives here and nowhere else (accounting.py), because it is not a guarantee.
`hazeglass reproduce` loads this folder from a checkout, or from the installed wheel, as `hazeglass_experiments`.
"""
