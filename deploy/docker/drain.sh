#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes a policy server out of service and waits until its robots have moved on to another one.
#   drain.sh NODE HEALTH_PORT SECONDS
# A paused robot sends no requests and so does not learn of the drain: after SECONDS the script stops waiting.
set -euo pipefail
node=$1 port=$2 patience=$3

timeout 25 "$(dirname "$0")/entrypoint.sh" ros2 lifecycle set --no-daemon --spin-time 1 "$node" deactivate

readiness() {
    python3 - "http://localhost:$port/readyz" <<'PYTHON'
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
PYTHON
}

# `ros2 lifecycle set` ends with 0 when the transition has failed, too.
deadline=$((SECONDS + 5))
until [[ $(readiness) == 503 ]]; do
    if ((SECONDS >= deadline)); then
        echo "drain.sh: $node: found it ready after deactivate, expected 503 of /readyz" >&2
        exit 1
    fi
    sleep 0.5
done

count_sessions() {
    python3 - "http://localhost:$port/status.json" <<'PYTHON'
import json, sys, urllib.request
print(len(json.load(urllib.request.urlopen(sys.argv[1], timeout=5))["sessions"]))
PYTHON
}

deadline=$((SECONDS + patience))
while ((SECONDS < deadline)) && [[ $(count_sessions) != 0 ]]; do
    sleep 0.5
done
