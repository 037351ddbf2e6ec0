#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command with ROS 2 and this package set up, in place of this shell: signals reach the command itself.
set -eo pipefail # not -u: the setup files read variables that are unset
# shellcheck source=/dev/null
source /opt/remote_inference/setup.bash
exec "$@"
