#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print the path of a Python of a version: find_python.sh 3.12 [CANDIDATE]. Without a candidate, those of the PATH, of pyenv
# and of uv are tried. Each must run: pyenv's shim of a version that is not chosen is on the PATH, and runs nothing.
set -eu
version=$1

probe='
import os, sys, sysconfig
found = "%d.%d" % sys.version_info[:2]
if found != sys.argv[1]:
    sys.exit("is Python " + found)
try:
    import ensurepip, venv
except ImportError as error:
    sys.exit("makes no virtual environments: %s" % error)
if not os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")):
    sys.exit("has no Python.h, which building the interfaces needs")
print(sys.executable)
'

list_candidates() {
  if [ -n "$1" ]; then
    echo "$1"
    return
  fi
  (
    IFS=:
    for folder in $PATH; do
      if [ -x "$folder/python$version" ]; then echo "$folder/python$version"; fi
    done
  )
  if root=$(pyenv root 2>/dev/null); then
    for python in "$root/versions/$version".*/bin/python"$version"; do
      if [ -x "$python" ]; then echo "$python"; fi
    done
  fi
  # Only those that uv has installed: among others, a shim that runs nothing makes uv fail.
  UV_PYTHON_PREFERENCE=only-managed UV_PYTHON_DOWNLOADS=never uv python find --system "$version" 2>/dev/null || true
}

problem=$(mktemp)
trap 'rm -f "$problem"' EXIT
tried=""
while IFS= read -r candidate; do
  if [ -z "$candidate" ]; then continue; fi
  if "$candidate" -c "$probe" "$version" 2>"$problem" </dev/null; then exit 0; fi
  tried="$tried
  $candidate: $(grep -m 1 . "$problem" || echo 'says nothing')"
done <<CANDIDATES
$(list_candidates "${2:-}")
CANDIDATES
echo "Found no Python $version that works.$tried" >&2
echo "Install one, for example with: uv python install $version" >&2
exit 1
