"""Training: archives to rows, rows to weights. Torch is known to `objective`, `embedded` and `tiny` alone."""
