"""THE BOUNDARY: what a release is, how it is written, how it is read and checked."""
