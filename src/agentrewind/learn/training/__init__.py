"""Training: archives to rows, rows to weights. Torch is known to the engines alone."""
