#!/usr/bin/env sh
# Run the tests of the command-line agents of .ci/cli-agents/package.json, installed by npm into a directory of the lanes
# that is kept, named by the hash of what it holds. Python's side is the lane of the extra mcp.
set -eu
lanes=${LANES:-$HOME/.cache/agentrewind/lanes}
to=$lanes/cli-agents-$(sha256sum <.ci/cli-agents/package.json | cut -c1-16)
if [ ! -e "$to/complete" ]; then
  rm -rf "$to"
  mkdir -p "$to"
  cp .ci/cli-agents/package.json "$to"
  npm install --no-audit --no-fund --loglevel=error --prefix "$to"
  touch "$to/complete"
fi
PATH="$to/node_modules/.bin:$PATH" exec sh .ci/lane.sh mcp tests/lanes/cli \
  "tests/docs/test_examples.py::test_the_examples_of_a_page_work[command-line-agents.md]" --timeout 600 "$@"
