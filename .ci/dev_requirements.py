"""Print the requirements of the development group, one a word, for a pip that knows no dependency groups."""

import sys
import tomllib
from pathlib import Path

group = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["dependency-groups"]["dev"]
sys.stdout.write(" ".join(item.replace(" ", "") for item in group))
