#!/usr/bin/env sh
# Run the tests of one heavy extra in an environment that is kept, named by the hash of what it installs.
#   lane.sh EXTRA [pytest arguments]
# OLDEST=1: with the oldest versions that we support (.ci/oldest.txt) in place of the newest.
# PINS="torch==...": more requirements, for what would else come in a build that is larger than a test needs.
set -eu
extra=$1
shift
python=${PYTHON:-python3}
limits=${OLDEST:+.ci/oldest.txt}
# shellcheck disable=SC2086
key=$( { "$python" --version; "$python" .ci/dev_requirements.py; "$python" .ci/dev_requirements.py --extras "$extra"
  cat .ci/lane.sh $limits; echo "${PINS:-}"; } | sha256sum | cut -c1-16)
env=${LANES:-$HOME/.cache/agentrewind/lanes}/$extra-${OLDEST:+oldest-}$key
if [ ! -e "$env/complete" ]; then
  rm -rf "$env"
  "$python" -m venv "$env"
  # shellcheck disable=SC2046
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check ${limits:+-c "$limits"} ".[$extra]" ${PINS:-} $("$python" .ci/dev_requirements.py)
  "$env/bin/python" -m pip uninstall --quiet --yes agentrewind
  printf '#!/bin/sh\nexec "%s/bin/python" -m agentrewind "$@"\n' "$env" >"$env/bin/agentrewind"
  chmod +x "$env/bin/agentrewind"
  touch "$env/complete"
fi
# The package itself comes from this checkout, the environment holds only what it needs.
PYTHONPATH=$(pwd)/src exec "$env/bin/python" -m pytest "$@"
