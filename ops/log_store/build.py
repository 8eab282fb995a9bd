"""Compile the LogStore for S3 into its JAR: for wheels and sdists as hatchling's hook, for a clone as a program (``ops/setup.sh``).

It is compiled against ``api``, which declares what it calls of Hadoop and Delta and nothing else, so that a build downloads no JAR of
theirs; a test compares it with what is compiled against the real ones. ``javac`` compiles, or where only a JRE is, Eclipse's compiler,
fetched from Maven by the Ivy of the pyspark that is installed beside this Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parents[2]
FOLDER = "airflow_provider_schemamig/core/spark/log_store"
SOURCE = ROOT / FOLDER / "ConditionalLogStore.java"
JAR = "schemamig-log-store.jar"
_API = Path(__file__).parent / "api"
if str(ROOT) not in sys.path:  # the package itself, where what it needs is installed
    sys.path.insert(0, str(ROOT))
_ECJ = "org.eclipse.jdt:ecj:3.38.0"
_FLAGS = ("-source", "17", "-target", "17", "-g:none", "-nowarn")
#: The oldest time that a ZIP file can hold: the same source gives the same JAR.
_TIME = (1980, 1, 1, 0, 0, 0)


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the JAR beside its source into what is built. An sdist brings it along, so nothing is compiled where that is installed; an
    editable install is of a clone, whose JAR ``ops/setup.sh`` makes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        brought = Path(self.root, FOLDER, JAR)
        if version == "editable":
            return
        self._scratch = tempfile.TemporaryDirectory(prefix="schemamig-log-store-")
        jar = brought if brought.is_file() else _set_up() or build(Path(self._scratch.name))
        build_data["force_include"][str(jar)] = f"{FOLDER}/{JAR}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._scratch.cleanup()


def _set_up() -> Path | None:
    """Return the JAR that ``ops/setup.sh`` made where only a JRE is, if it is of this source: a build needs no network then."""
    if _javac() is not None or find_spec("pyspark") is None:
        return None
    from airflow_provider_schemamig.core.spark.jars import is_current, jars_folder

    made = jars_folder() / JAR
    return made if is_current(made) else None


def build(folder: Path) -> Path:
    """Compile and pack the JAR into ``folder``; return its path. Exits where there is no compiler."""
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch, "classes")
        _compile(Path(scratch), classes)
        folder.mkdir(parents=True, exist_ok=True)
        packed = Path(scratch, JAR)
        _pack(classes, packed)
        new = folder / f".{JAR}.{os.getpid()}"
        shutil.copyfile(packed, new)
        return new.replace(folder / JAR)


def _compile(scratch: Path, classes: Path) -> None:
    java = _program("java")
    command = _javac() or (_ecj(java, scratch) if java is not None and find_spec("pyspark") is not None else None)
    if command is None:
        sys.exit(
            "The LogStore for S3 is written in Java, and there is no compiler: install a JDK 17 (apt-get install openjdk-17-jdk-headless), "
            "or build with --no-build-isolation in an environment with pyspark and Java, which fetches one."
        )
    done = subprocess.run([*command, "-d", str(classes), str(SOURCE)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{SOURCE} does not compile:\n{done.stdout}{done.stderr}")


def _program(name: str) -> str | None:
    """Return JAVA_HOME's program, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    return (shutil.which(name, path=str(Path(home, "bin"))) if home else None) or shutil.which(name)


def _javac() -> list[str] | None:
    javac = _program("javac")
    return None if javac is None else [javac, *_FLAGS, "-Xlint:-options", "-implicit:none", "-sourcepath", str(_API)]


def _ecj(java: str, scratch: Path) -> list[str]:
    """Return the command of Eclipse's compiler."""
    from airflow_provider_schemamig.core.spark.jars import resolve

    resolve(scratch, _ECJ)
    (jar,) = Path(scratch, "jars").glob("*ecj*.jar")
    # It compiles whatever it reads; what is not ours is left out of the JAR.
    return [java, "-jar", str(jar), *_FLAGS, "-sourcepath", str(_API)]


def _pack(classes: Path, jar: Path) -> None:
    """Pack what is ours, with the digest of its source, by which ``core/spark/jars.py`` knows a JAR that is out of date."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _TIME), "Manifest-Version: 1.0\r\n\r\n")
        archive.writestr(zipfile.ZipInfo("META-INF/schemamig-source.sha256", _TIME), digest)
        for path in sorted(classes.glob("schemamig/*.class")):
            archive.writestr(zipfile.ZipInfo(f"schemamig/{path.name}", _TIME), path.read_bytes())


if __name__ == "__main__":
    from airflow_provider_schemamig.core.spark.jars import jars_folder

    build(jars_folder())
