#!/bin/sh
# For runners that expect it: runs the checks over the workspace and writes the reward and the progress.
exec python3 -I -B "$(dirname "$0")/run_checks.py" "${1:-/app}" "${2:-/logs/verifier}"
