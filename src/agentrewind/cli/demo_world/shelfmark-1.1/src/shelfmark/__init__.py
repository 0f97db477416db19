"""Call numbers in shelf order, and the records that carry them."""

from shelfmark.mark import Mark, parse
from shelfmark.record import Record, read

__all__ = ["Mark", "Record", "parse", "read"]
