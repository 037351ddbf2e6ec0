#!/bin/sh
# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
# tell_time.sh COMMAND...: run a command that is silent for minutes, and say every half minute how long it has run.
set -eu
period_s=${PERIOD_S:-30}
(
  ran_s=0
  # The sleep may outlive the command, and must hold no pipe open.
  while sleep "$period_s" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    ran_s=$((ran_s + period_s))
    echo "  ... $ran_s s"
  done
) &
trap 'kill $! 2>/dev/null' EXIT
"$@"
