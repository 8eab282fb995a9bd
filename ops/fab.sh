#!/usr/bin/env bash
# Puts Airflow's FAB auth manager into a folder of its own, .fab, for the one test of the page that needs it: in .venv it would bring Flask
# along for everybody, and an older dateutil. Does nothing if the folder is of requirements-fab.txt. The test is skipped without it.
set -uo pipefail
cd "$(dirname "$0")/.."

stamp=.fab/schemamig-setup
digest=$(sha256sum < requirements-fab.txt)
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$digest" ] && exit 0
rm -rf .fab
source ops/uv_settings.sh
if .venv/bin/uv pip install --quiet --no-deps --require-hashes --python .venv/bin/python --target .fab -r requirements-fab.txt; then
  echo "$digest" > "$stamp"
else
  rm -rf .fab
  echo "== no FAB auth manager: its test of the page is skipped" >&2
fi
exit 0
