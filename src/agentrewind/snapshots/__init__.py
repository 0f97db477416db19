"""Saving and bringing back worlds."""
