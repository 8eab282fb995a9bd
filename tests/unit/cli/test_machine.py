"""What the command line says of the machine it runs on: its version, Delta's JARs, the words that a shell can complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.core.spark import jars
from airflow_provider_schemamig.core.spark.jars import JARS, LOG_STORE, SHA256
from tests.support.bytes import tree
from tests.unit.cli.samples import Run, conforms, refused


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCHEMAMIG_JARS", str(tmp_path / "jars"))
    return tmp_path / "jars"


def test_machine_the_version(run: Run) -> None:
    ran = run("--version")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, f"schemamig {__version__}\n", "")


def test_missing_jars_are_said_with_their_folder_and_the_way_to_them(run: Run, folder: Path, tmp_path: Path) -> None:
    ran = run("jars", "--json")
    conforms(ran.document, "jars")
    assert (ran.exit_code, ran.document) == (3, {"folder": str(folder), "there": [], "missing": list(JARS), "fetched": []})
    shown = run("jars")
    assert str(folder) in shown.stdout and "schemamig jars --fetch" in shown.stdout
    assert tree(tmp_path) == {}, "looking wrote something"


def test_a_damaged_jar_does_not_count(run: Run, folder: Path) -> None:
    folder.mkdir()
    for name in JARS:
        (folder / name).write_text("half of it")
    assert run("jars", "--json").document["missing"] == list(JARS)


def test_fetched_jars_are_there(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ivy(scratch: Path, *_: str) -> None:
        (scratch / "jars").mkdir()
        for name in SHA256:
            (scratch / "jars" / f"io.delta_{name}").touch()

    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    monkeypatch.setattr(jars, "SHA256", dict.fromkeys(SHA256, empty))
    monkeypatch.setattr(jars, "resolve", ivy)
    monkeypatch.setattr(jars, "is_current", lambda jar: jar.is_file())
    monkeypatch.setattr(jars, "_LOG_STORE_FOLDER", tmp_path)
    (tmp_path / LOG_STORE).touch()
    for fetched in (list(JARS), []):
        ran = run("jars", "--fetch", "--json")
        assert (ran.exit_code, ran.document["there"], ran.document["fetched"]) == (0, list(JARS), fetched)


def test_without_java_nothing_is_fetched(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    refused(run, "jars", "--fetch", code="java_missing")
    assert not folder.exists()


@pytest.mark.parametrize(
    "typed, completed", [("schemamig pl", {"plan"}), ("schemamig plan --ex", {"--explain"}), ("schemamig -", {"--version"})]
)
def test_a_shell_completes_commands_and_options(typed: str, completed: set[str]) -> None:
    code = "from airflow_provider_schemamig.cli.main import main; import sys; sys.argv[0] = 'schemamig'; main()"
    asked = {"_SCHEMAMIG_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert completed <= set(ran.stdout.split()), ran.stdout + ran.stderr
    assert ran.stderr == ""
