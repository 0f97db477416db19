"""The report of a benchmark: one page that needs nothing else, and its numbers as CSV and JSON."""
