"""`import agentrewind` is quick, quiet and complete."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import agentrewind
from agentrewind.compose.harnesses import KNOWN

ROOT = Path(__file__).parents[2]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


DEAR = {"asyncio", "ctypes", "dataclasses", "http", "inspect", "json", "multiprocessing", "socket", "ssl", "subprocess"}
"""Of the standard library, what takes most of the time when it is imported."""
SDKS = {"anthropic", "httpx", "httpx2", "litellm", "mcp", "openai", "pydantic", "starlette", "textual", "uvicorn"}


def loaded_by(code: str) -> set[str]:
    """The modules, by their first names, that this takes beyond a bare interpreter and our own."""
    names = "print(*{name.partition('.')[0] for name in sys.modules})"
    bare = python(f"import sys; {names}").split()
    return set(python(f"import sys\n{code}\n{names}").split()) - {*bare, "agentrewind"}


def test_it_imports_little_of_the_standard_library_and_nothing_else():
    """What it takes to import, not how long: that depends on the machine (design/dependencies.md)."""
    loaded = loaded_by("import agentrewind")
    assert loaded <= sys.stdlib_module_names
    assert not loaded & DEAR


def test_no_harness_and_no_sdk_is_imported_for_any_public_name():
    loaded = loaded_by("import agentrewind\nfor name in agentrewind.__all__: getattr(agentrewind, name)")
    assert "dataclasses" in loaded
    assert not loaded & ({known.package for known in KNOWN.values()} | SDKS)


def test_listing_its_names_imports_nothing_more():
    assert "False" in python("import sys, agentrewind; dir(agentrewind); print('rich' in sys.modules)")


def test_the_public_names_are_sorted_and_there():
    assert agentrewind.__all__ == sorted(agentrewind.__all__)
    assert all(getattr(agentrewind, name) is not None for name in agentrewind.__all__)
    assert set(agentrewind.__all__) <= set(dir(agentrewind))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rewind'"):
        _ = agentrewind.rewind


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert agentrewind.__version__ == project["version"]
