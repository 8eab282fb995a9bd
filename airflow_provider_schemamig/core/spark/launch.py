"""What it takes to start a Spark driver: a Java, and the spark-submit that goes with pyspark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from airflow_provider_schemamig.core.spark.errors import JavaMissing, PysparkMissing

REQUIRED = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')


def find_java() -> Path:
    """Find the java that Spark's launcher will start: JAVA_HOME's, else the first on PATH. Raises JavaMissing (none, or older than 17)."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if path is None:
        raise JavaMissing(required=REQUIRED)
    answer = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    match = _VERSION.search(answer)
    if match is None or int(match[1]) < REQUIRED:
        raise JavaMissing(required=REQUIRED, found=match[1] if match else "unknown")
    return Path(path)


def require_pyspark() -> Path:
    """Return the folder of pyspark. Raises PysparkMissing."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PysparkMissing
    return Path(spec.origin).parent


def spark_submit_command() -> tuple[list[str], dict[str, str]]:
    """Return spark-submit with the environment it runs in: ``SPARK_HOME``'s, else the one inside pyspark; drivers run this very Python.

    Raises PysparkMissing.
    """
    home = os.environ.get("SPARK_HOME") or str(require_pyspark())
    environment = {**os.environ, "SPARK_HOME": home, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.pop("SPARK_REMOTE", None)  # else the driver would make a Connect session
    return [str(Path(home, "bin", "spark-submit"))], environment
