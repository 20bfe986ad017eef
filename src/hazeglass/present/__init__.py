"""Pages and pictures, drawn from values that are handed over."""
