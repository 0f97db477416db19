#!/usr/bin/env sh
# Build the wheel, install it alone in a fresh environment, and use it with the sources out of reach.
set -eu
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/env"
"$work/env/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work" .
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check "$work"/agentrewind-*.whl
cd "$work"
AGENTREWIND_HOME=$work/home "$work/env/bin/agentrewind" demo --workspace "$work/shelf" >"$work/out" || { cat "$work/out"; exit 1; }
AGENTREWIND_HOME=$work/home "$work/env/bin/agentrewind" log last >/dev/null
"$work/env/bin/agentrewind" tasks check wal-handoff --only reference --only violation
echo "wheel: installed alone, the demo succeeds, its log reads, and a benchmark task is sound"
