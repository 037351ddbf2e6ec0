#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of the status page and of a run's page need a real browser. Install it where that is possible, say how where it is not.
set -eu
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
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing a headless browser for the tests of HTML pages: $packages"
  apt-get update -qq >/dev/null
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
  browses && exit 0
fi
echo "chromium and chromedriver do not work here; the tests of HTML pages need them." >&2
echo "On Debian: sudo apt-get install $packages" >&2
echo "Elsewhere: any Chromium and its matching chromedriver, under these names in the PATH." >&2
exit 1
