"""``make setup``: what it says where something is missing that it cannot bring along, and that it does nothing the second time."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What the scripts may use; no apt-get, so nothing is installed here, whoever runs the tests.
TOOLS = ("bash", "cat", "cut", "dirname", "env", "head", "id", "sed", "sha256sum")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with the tools and a fitting Python, and without Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    add_program(folder, "python3.11", f'exec {sys.executable} "$@"')
    return folder


def add_program(folder: Path, name: str, body: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/bash\n{body}\n")
    program.chmod(0o755)


def add_java(folder: Path, version: str) -> None:
    add_program(folder, "java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")


def prerequisites(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "ops/prerequisites.sh"], env={"PATH": str(path), **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2", "25"])
def test_names_the_python_to_use(path: Path, version: str) -> None:
    add_java(path, version)
    done = prerequisites(path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(path / "python3.11"), "")


@pytest.mark.parametrize("version, found", [(None, "none"), ("11.0.2", "11"), ("1.8.0_402", "1")])
def test_one_line_says_how_to_get_java(path: Path, version: str | None, found: str) -> None:
    if version is not None:
        add_java(path, version)
    done = prerequisites(path)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Java 17 or newer is needed for Spark (found: {found}).")
    assert "apt-get install openjdk-17-jre-headless" in line


def test_java_home_counts_before_the_path(path: Path, tmp_path: Path) -> None:
    add_java(path, "17.0.15")
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    add_java(home / "bin", "11.0.2")
    done = prerequisites(path, JAVA_HOME=str(home))
    assert done.returncode == 1
    assert f"(found: 11, JAVA_HOME={home})" in done.stderr


def test_one_line_says_how_to_get_python(path: Path) -> None:
    add_java(path, "17.0.15")
    add_program(path, "python3.11", "exit 1")  # a pyenv shim of a version that is not selected does this
    done = prerequisites(path)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Python 3.11 or newer")
    assert "PYTHON=" in line


def test_a_named_python_is_taken(path: Path) -> None:
    add_java(path, "17.0.15")
    add_program(path, "python3.11", "exit 1")
    done = prerequisites(path, PYTHON=sys.executable)
    assert (done.returncode, done.stdout.strip()) == (0, sys.executable)


def test_the_second_time_nothing_is_done(tmp_path: Path, path: Path) -> None:
    project = tmp_path / "project"
    (project / ".venv").mkdir(parents=True)
    log_store = "airflow_provider_schemamig/core/spark/log_store/ConditionalLogStore.java"
    sources = ("requirements.txt", "pyproject.toml", "ops/setup.sh", "ops/log_store/build.py", log_store)
    for name in sources:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    digest = hashlib.sha256(b"".join((project / name).read_bytes() for name in sources)).hexdigest()
    (project / ".venv/schemamig-setup").write_text(digest + "\n")
    setup = project / "ops/setup.sh"

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run([setup], env={"PATH": str(path)}, capture_output=True, text=True, check=False)

    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with (project / "requirements.txt").open("a") as requirements:
        requirements.write("# another one\n")
    assert run().returncode != 0, "changed requirements were not seen: it would have to go on to ops/prerequisites.sh, which is not there"
