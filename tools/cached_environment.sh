#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make a virtual environment of packages from an index, which are installed once per machine:
#   cached_environment.sh FOLDER PYTHON REQUIREMENTS NAME
# They are kept in ~/.cache/remote_inference/NAME (or under XDG_CACHE_HOME), where NAME tells what is in it. FOLDER
# gets links to the same files, and as an environment of its own what is installed there changes nothing kept.
set -euo pipefail
folder=$(realpath -m "$1") python=$2 requirements=$3 name=$4
kept=${XDG_CACHE_HOME:-$HOME/.cache}/remote_inference/$name
complete=.complete # the last file that is made

is_usable() {
  [ -f "$kept/$complete" ] && "$kept/bin/python" -c '' 2>/dev/null # its Python may have gone since
}

mkdir -p "$(dirname "$kept")"
exec 9>"$kept.lock"
flock -n 9 || { echo "waiting for another build's $kept" && flock 9; }
if ! is_usable; then
  echo "installing $requirements into $kept, once"
  rm -rf "$kept"
  "$python" -m venv "$kept"
  PATH="$kept/bin:$PATH" "$kept/bin/python" -m pip install -qq --disable-pip-version-check -r "$requirements"
  "$kept/bin/python" -m pip check
  touch "$kept/$complete"
fi
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
cp -a --link "$kept" "$folder" 2>/dev/null || { rm -rf "$folder" && cp -a "$kept" "$folder"; } # on another disk
grep -rlI "$kept/" "$folder/bin" | xargs sed -i "s|$kept/|$folder/|g" # sed writes a new file: what is kept stays
