#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes a policy server out of service and waits until its robots have moved on to another one.
#   drain.sh NODE HEALTH_PORT SECONDS
# A paused robot asks for nothing and so does not hear of it: after SECONDS the server need not wait any longer.
set -euo pipefail
node=$1 port=$2 deadline=$((SECONDS + $3))

timeout 10 "$(dirname "$0")/entrypoint.sh" ros2 lifecycle set --no-daemon --spin-time 2 "$node" deactivate

count_sessions() {
    python3 - "http://localhost:$port/status.json" <<'PYTHON'
import json, sys, urllib.request
print(len(json.load(urllib.request.urlopen(sys.argv[1], timeout=5))["sessions"]))
PYTHON
}

while ((SECONDS < deadline)) && [[ $(count_sessions) != 0 ]]; do
    sleep 0.5
done
