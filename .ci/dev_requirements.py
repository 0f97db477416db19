"""Print the requirements of a dependency group (`dev`), one a word, for a pip that knows no dependency groups."""

import sys
import tomllib
from pathlib import Path

groups = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["dependency-groups"]
name = sys.argv[1] if len(sys.argv) > 1 else "dev"
sys.stdout.write(" ".join(item.replace(" ", "") for item in groups[name]))
