"""Columns to numbers, shared by both sides: harmonics of columns, and clipping of rows undone. No data, no files."""
