"""Call numbers of the Library of Congress kind. They compare in the order in which the books stand."""

import re
from dataclasses import dataclass
from decimal import Decimal

_MARK = re.compile(r"([A-Z]{1,3})(\d+(?:\.\d+)?)((?: ?\.?[A-Z]\d+)*)(?: (\d{4}))?")
_CUTTER = re.compile(r"([A-Z])(\d+)")


@dataclass(frozen=True, order=True)
class Mark:
    """QA76.9 .D35 1998: class letters, class number, cutters, year."""

    letters: str
    number: Decimal
    cutters: tuple[tuple[str, Decimal], ...] = ()
    year: int = 0


def parse(text: str) -> Mark:
    """The mark that `text` writes.

    Raises:
        ValueError: it is none.
    """
    found = _MARK.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not a call number: {text!r}")
    letters, number, cutters, year = found.groups()
    pairs = tuple((letter, Decimal(digits)) for letter, digits in _CUTTER.findall(cutters))
    return Mark(letters, Decimal(number), pairs, int(year or 0))
