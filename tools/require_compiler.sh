#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Building the ROS interfaces needs a C and C++ compiler and Python's headers.
set -eu
missing=""
command -v cc >/dev/null || missing="gcc"
command -v c++ >/dev/null || missing="$missing g++"
[ -z "$missing" ] && exit 0
echo "No compiler found (missing: $missing). On Debian and Ubuntu: apt-get install build-essential python3-dev" >&2
exit 1
