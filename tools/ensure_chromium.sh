#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of the status page and of a run's page need a real browser: offer one where it is missing.
set -eu
# shellcheck source=tools/system_packages.sh
. "$(dirname "$0")/system_packages.sh"
packages="chromium chromium-driver"
browses() {
  command -v chromium >/dev/null && command -v chromedriver >/dev/null || return 1
  profile=$(mktemp -d)
  page=$(timeout 60 chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --user-data-dir="$profile" \
    --dump-dom 'data:text/html,<script>document.write(6*7)</script>' 2>/dev/null) || true
  rm -rf "$profile"
  case $page in *42*) return 0 ;; esac
  return 1
}
browses && exit 0
# shellcheck disable=SC2086
offer "a headless browser" $packages && browses && exit 0
do_without "chromium and chromedriver do not work here: no pictures of HTML pages, and no tests of them in a browser." \
  "On Debian: sudo apt-get install $packages" \
  "Elsewhere: any Chromium and its matching chromedriver, under these names in the PATH."
