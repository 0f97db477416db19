#!/bin/sh
# For other runners, in a directory that `agentrewind tasks export` made: writes the reward and the progress.
exec python3 -I -B "$(dirname "$0")/driver.py" --reward "${1:-/app}" "${2:-/logs/verifier}"
