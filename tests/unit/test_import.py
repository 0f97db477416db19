"""`import agentrewind` is quick, quiet and complete."""

import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import agentrewind

ROOT = Path(__file__).parents[2]
THIRD_PARTY = ("click", "cryptography", "httpx", "httpx2", "platformdirs", "rich", "zstandard", "openai", "anyio")


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_it_imports_no_third_party():
    loaded = set(python("import sys, agentrewind; print(*{name.split('.')[0] for name in sys.modules})").split())
    assert not loaded & set(THIRD_PARTY)


def test_listing_its_names_imports_nothing_more():
    assert "False" in python("import sys, agentrewind; dir(agentrewind); print('rich' in sys.modules)")


def test_it_takes_less_than_150_ms_more_than_a_bare_interpreter():
    def best(code: str) -> float:
        def once() -> float:
            begun = time.perf_counter()
            python(code)
            return time.perf_counter() - begun

        return min(once() for _ in range(5))

    assert best("import agentrewind") - best("pass") < 0.150


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
