# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the build: runs targets of tests, and tells a test that fails once in a while from one that fails.

FAILED_TESTS=.pytest_cache/v/cache/lastfailed # pytest's own note, {name: true}
MOST_FLAKY=3
FLAKY_TESTS=()

# run_tests ARGS TARGET...: run a target's tests; build/reports/TARGET.xml gets each test's time. Those that fail run
# once more, alone and one by one; a test that fails twice, and a run that ends for another reason than failed tests, is
# a failure.
run_tests() {
  local arguments=$1 names
  shift
  rm -f "$FAILED_TESTS"
  make "$@" ARGS="$arguments --junitxml=build/reports/$1.xml" && return 0
  names=$(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$FAILED_TESTS") || return 1
  [ -n "$names" ] || return 1
  printf 'these tests failed, and run once more:\n%s\n' "$names"
  make "$@" JOBS=0 ARGS="$arguments --last-failed --last-failed-no-failures none" || return 1
  mapfile -t -O "${#FLAKY_TESTS[@]}" FLAKY_TESTS <<<"$names"
}

# Print each test that passed only when it ran again; its first failure stands above. Fail when there are many.
tell_flaky() {
  [ "${#FLAKY_TESTS[@]}" -gt 0 ] || return 0
  printf 'flaky: %s\n' "${FLAKY_TESTS[@]}"
  [ "${#FLAKY_TESTS[@]}" -le "$MOST_FLAKY" ] && return 0
  echo "found ${#FLAKY_TESTS[@]} flaky tests, expected at most $MOST_FLAKY"
  return 1
}
