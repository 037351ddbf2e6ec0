# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that need packages of the system, which belong to the whole machine. On a terminal a person is asked;
# where nobody can be, as in the build of a container, root has them installed and is told which. APT=no installs nothing and
# asks nothing; APT=yes is the answer beforehand, and makes it an error if they cannot be had.

# offer PURPOSE PACKAGE...: install packages with apt-get; fail where that is impossible or not wanted.
offer() {
  purpose=$1 answer=${APT:-}
  shift
  { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } || return 1
  if [ -z "$answer" ] && [ -t 0 ]; then
    printf 'Packages of the system are missing for %s: %s\nInstall them with apt-get? [y/N] ' "$purpose" "$*" >&2
    read -r answer || true
    answer=${answer:-no}
  fi
  case ${answer:-yes} in [yY]*) ;; *) return 1 ;; esac
  echo "installing packages of the system for $purpose: $*"
  apt-get update -qq >/dev/null &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# do_without LINE...: say what is lost and how to get it, and end the script.
do_without() {
  printf '%s\n' "$@" >&2
  [ "${APT:-}" != yes ] || exit 1
  exit 0
}
