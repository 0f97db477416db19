"""Sokoban: push every box onto a target. Some pushes can't be taken back."""
