#!/usr/bin/env sh
# The models of the trajectory format (ATIF) are those of the package harbor. It needs Python 3.12 and 300 MB of others;
# its models need pydantic and toml alone, so only the wheel is fetched, and unpacked without being installed.
set -eu
python=${PYTHON:-python3}
to=${LANES:-$HOME/.cache/agentrewind/lanes}/harbor-0.26.0
[ ! -d "$to/toml" ] || exit 0
part=$(mktemp -d)
"$python" -m pip download --quiet --no-deps --python-version 3.13 --only-binary=:all: -d "$part" harbor==0.26.0
mkdir -p "$to"
"$python" -m zipfile -e "$part"/harbor-0.26.0-*.whl "$to"
"$python" -m pip install --quiet --no-deps --target "$to" toml
rm -rf "$part"
