"""The JARs that Spark works with: Delta's two, and the LogStore of ours that makes its commits on S3 by put-if-absent.

Delta's are fetched once at set-up by Spark's own Ivy, verified, and from then on read from a folder without any network. A mirror is
configured where Spark looks for it (``spark.jars.ivySettings`` in spark-defaults.conf). The other 31 artifacts that Ivy would resolve are
not needed, and some are older copies of what pyspark ships, so they are excluded: 3 s instead of 17.

Ours comes in the wheel and is put beside them, so that one folder has all that is to be given to a Spark; in a clone ``ops/setup.sh``
compiles it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from airflow_provider_schemamig.core.spark.errors import (
    LogStoreNotBuilt,
    SparkJarsDiffer,
    SparkJarsMissing,
    SparkJarsNotFetched,
    SparkJarsNotStored,
)
from airflow_provider_schemamig.core.spark.launch import find_java, spark_submit_command
from airflow_provider_schemamig.core.spark.translate import last_lines

#: The Maven coordinate; its JAR, its Python wheel (delta-spark 4.4.0) and pyspark 4.2.0 go together.
PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
SHA256: Mapping[str, str] = MappingProxyType(
    {
        "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
        "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    }
)
LOG_STORE = "schemamig-log-store.jar"
JARS = (*SHA256, LOG_STORE)
#: Where its source lies, and in a wheel the JAR.
_LOG_STORE_FOLDER = Path(__file__).parent / "log_store"
_SOURCE_DIGEST = "META-INF/schemamig-source.sha256"
_NOT_NEEDED = "org.*:*,com.*:*,javax.*:*,commons-pool:*,io.airlift:*,io.unitycatalog:*,io.delta:delta-kernel-*"
_IVY_PREFIX = "io.delta_"


def jars_folder() -> Path:
    """Return ``$SCHEMAMIG_JARS``, else ``<sys.prefix>/share/schemamig/jars``."""
    named = os.environ.get("SCHEMAMIG_JARS")
    return Path(named) if named else Path(sys.prefix, "share", "schemamig", "jars")


def require_jars() -> tuple[Path, ...]:
    """Return the JARs' paths, absolute. Raises SparkJarsMissing; looks at presence only, as `fetch` verified what it put there."""
    folder = jars_folder().absolute()
    missing = tuple(name for name in JARS if not (folder / name).is_file())
    if missing:
        raise SparkJarsMissing(folder=str(folder), names=missing)
    return tuple(folder / name for name in JARS)


def verified(folder: Path) -> tuple[str, ...]:
    """Return the names of the JARs that ``folder`` has: Delta's with the pinned sha256, ours of this version's source."""
    found = tuple(name for name, digest in SHA256.items() if _verified(folder / name, digest))
    return (*found, LOG_STORE) if is_current(folder / LOG_STORE) else found


def is_current(jar: Path) -> bool:
    """Return whether a JAR of our LogStore was compiled from the source that is here. Compilers differ, so it is not known by its bytes."""
    if not jar.is_file():
        return False
    source = hashlib.sha256((_LOG_STORE_FOLDER / "ConditionalLogStore.java").read_bytes()).hexdigest()
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(_SOURCE_DIGEST).decode() == source
    except (zipfile.BadZipFile, KeyError):
        return False


def fetch(folder: Path) -> tuple[str, ...]:
    """Put the verified JARs into ``folder``; returns the names that were not there before. Does nothing where all are verified.

    Raises PysparkMissing, JavaMissing, SparkJarsNotFetched (network), SparkJarsDiffer, SparkJarsNotStored, LogStoreNotBuilt.
    """
    there = verified(folder)
    wanted = tuple(name for name in SHA256 if name not in there)
    if wanted:
        find_java()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The scratch folder lies beside the target, so that the rename into place is atomic; it takes Ivy's cache with it when it goes.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
            if wanted:
                _fetch_deltas(Path(scratch), folder, wanted)
            if LOG_STORE not in there:
                _bring(Path(scratch), folder)
    except OSError as error:
        raise SparkJarsNotStored(folder=str(folder), reason=error.strerror or str(error)) from error
    return tuple(name for name in JARS if name not in there)


def _fetch_deltas(scratch: Path, folder: Path, wanted: tuple[str, ...]) -> None:
    resolve(scratch, PACKAGE, "--exclude-packages", _NOT_NEEDED)
    fetched = scratch / "jars"
    if differ := tuple(name for name in wanted if not _verified(fetched / (_IVY_PREFIX + name), SHA256[name])):
        raise SparkJarsDiffer(names=differ)
    for name in wanted:
        (fetched / (_IVY_PREFIX + name)).replace(folder / name)


def _bring(scratch: Path, folder: Path) -> None:
    """Copy our LogStore out of the package."""
    packed = _LOG_STORE_FOLDER / LOG_STORE
    if not is_current(packed):
        raise LogStoreNotBuilt(name=LOG_STORE)
    shutil.copyfile(packed, scratch / LOG_STORE)
    (scratch / LOG_STORE).replace(folder / LOG_STORE)


def _verified(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest


def resolve(scratch: Path, package: str, *more: str) -> None:
    """Let spark-submit put a Maven package into ``scratch/jars``, for an application that does nothing: no SparkContext is started.

    Raises PysparkMissing, SparkJarsNotFetched.
    """
    command, environment = spark_submit_command()
    application = scratch / "nothing.py"
    application.touch()
    command += ["--master", "local[1]", "--packages", package, *more]
    command += ["--conf", f"spark.jars.ivy={scratch}", str(application)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SparkJarsNotFetched(reason=last_lines(done.stdout + done.stderr))
