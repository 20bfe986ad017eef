"""The fitted graphical model and rows drawn from it: released numbers in, rows out.

Plain arrays come in, so both sides may use it: shares of every column's states, a table for each pair of columns that
depend on each other, and their noise (tables.py makes them). `fit` finds the field with these tables, `draw` draws rows
from it. Both work in whole numbers, so that the same numbers give the same rows on every computer.
"""
