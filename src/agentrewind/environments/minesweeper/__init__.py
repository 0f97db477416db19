"""MineSweeper: reveal every cell without a mine. Fully seen only where it was revealed."""
