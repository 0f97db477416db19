"""The settings of a workspace as a file; what its tables mean is said where each is used."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from agentrewind.core.errors import UsageError


def tables_of(path: Path) -> dict[str, Any]:
    """The tables of a settings file; none where there is no such file.

    Raises:
        UsageError: it is there and can't be read.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: can't be read as settings: {error}") from error


def table_of(path: Path, name: str, known: Collection[str]) -> dict[str, Any]:
    """One table of a settings file; an empty one where nothing is said.

    Raises:
        UsageError: as `tables_of`; or it is no table, or has a setting that isn't `known`.
    """
    table = tables_of(path).get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [{name}] must be a table")
    if unknown := sorted(table.keys() - set(known)):
        raise UsageError(f"{path}: [{name}] has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}")
    return table
