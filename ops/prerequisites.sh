#!/usr/bin/env bash
# Checks what make setup cannot bring along: Python 3.11 or newer with venv, and Java 17 or newer (Spark 4 asks for it).
# Prints the Python to use on stdout; what is wrong goes to stderr, one line each, with how to mend it.
set -euo pipefail

find_python() {
  local candidate
  # Each is run, not just looked up: a pyenv shim exists for versions that are not selected.
  for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3 python3.12 python3.13; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$candidate"
      return
    fi
  done
  echo "Python 3.11 or newer with its venv module is needed and was not found." \
    "Debian, Ubuntu: apt-get install python3 python3-venv; elsewhere: pyenv install 3.11. Or name one: make setup PYTHON=/path/to/python3.11" >&2
  return 1
}

java_major() {
  local java=java
  [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
  # 'openjdk version "17.0.15" ...'; Java 8 says "1.8.0", which reads as 1 and is refused like any old one.
  "$java" -version 2>&1 | sed -n -E 's/.*version "([0-9]+).*/\1/p' | head -n 1
}

java_is_fine() {
  local major
  major=$(java_major) || return 1
  [ -n "$major" ] && [ "$major" -ge 17 ]
}

install_java() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "Java 17 is missing; installing openjdk with apt-get (a minute or two) ..." >&2
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && { apt-get install -y -qq openjdk-17-jre-headless || apt-get install -y -qq openjdk-21-jre-headless; }; } >&2
}

python=$(find_python)
if ! java_is_fine && ! { install_java && java_is_fine; }; then
  found=$(java_major || true)
  echo "Java 17 or newer is needed for Spark (found: ${found:-none}${JAVA_HOME:+, JAVA_HOME=$JAVA_HOME})." \
    "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; or set JAVA_HOME to one." >&2
  exit 1
fi
echo "$python"
