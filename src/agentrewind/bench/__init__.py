"""Runs of tasks under strategies, harnesses and models: the matrix, its results, statistics and report."""
