"""Print requirements of the project, one a word: of a dependency group (`dev`), for a pip that knows no such groups; or,
after `--extras`, of the package itself with these extras (`mini,bench`).
"""

import sys
import tomllib
from pathlib import Path

settings = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
project = settings["project"]
if sys.argv[1:2] == ["--extras"]:
    extras = project["optional-dependencies"]
    found = [*project["dependencies"], *(item for name in sys.argv[2].split(",") for item in extras[name])]
else:
    found = settings["dependency-groups"][sys.argv[1] if len(sys.argv) > 1 else "dev"]
sys.stdout.write(" ".join(item.replace(" ", "") for item in found))
