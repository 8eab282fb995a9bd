#!/usr/bin/env bash
# Looks for the browser that the page's own tests drive, and installs Debian's chromium where that is possible. Those tests are skipped
# without one, so this never fails.
set -uo pipefail

for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
  [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "== chromium, for the tests of the page (apt-get; a minute)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >&2 && apt-get install -y -qq chromium >&2 && exit 0
fi
echo "== no chromium: the tests of the page in a browser are skipped. Debian: apt-get install chromium; or name one: CHROMIUM=/path" >&2
exit 0
