"""Pure mathematics of the promise: no data, no input or output, no other package."""
