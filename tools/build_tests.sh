# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the build: runs targets of tests, tells a test that fails once in a while from one that fails, and makes what
# is needed later while tests leave a processor idle.

FAILED_TESTS=.pytest_cache/v/cache/lastfailed # pytest's own note, {name: true}
MOST_FLAKY=3
FLAKY_TESTS=()
AHEAD_LOG=build/reports/ahead.log
AHEAD= # the process that makes what is needed later

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

# make_ahead ARGUMENTS...: run make in the background, behind the tests. A target that fails, or takes longer than half
# an hour, is made again where it is needed, which is where its failure counts.
make_ahead() {
  mkdir -p "$(dirname "$AHEAD_LOG")"
  nice timeout 30m make --keep-going "$@" >"$AHEAD_LOG" 2>&1 </dev/null &
  AHEAD=$!
  trap 'kill "$AHEAD" 2>/dev/null || true' EXIT # and with it its whole group, when the build ends before
}

# Wait until what is made ahead has ended, and show what it printed.
await_ahead() {
  local code=0
  wait "$AHEAD" || code=$?
  trap - EXIT
  echo "made ahead, exit code $code:"
  cat "$AHEAD_LOG"
}
