"""example/: the release folder holds what it is there to show, and the demo's way back to 1.0.0 gives a right folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.check import check
from airflow_provider_schemamig.core.release.folder.read import Release, load_release
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, Replace, RewriteStep, merge
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.testing.rows.fixtures import read_fixtures
from airflow_provider_schemamig.core.testing.workspace import cut
from example.airflow_home import PARTS, RELEASE, airflow_environment
from example.load import TABLES, csv_file
from example.rows import views
from tests.support.processes import wait_until

BEFORE = Version(1, 0, 0)


@pytest.fixture(scope="module")
def release() -> Release:
    return load_release(RELEASE)


def test_the_folder_is_right() -> None:
    assert list(check(RELEASE)) == []


def test_example_shows_every_kind_of_change_the_readme_speaks_of(release: Release) -> None:
    steps = merge(release, BEFORE).steps
    evolved = [change for step in steps if isinstance(step, Evolve) for change in diff(step.old, step.new, step.renames).changes]
    kinds = {type(change) for change in evolved}
    assert {c.AddColumn, c.RenameColumn, c.ChangeType, c.DropColumn, c.Relax} <= kinds
    assert any(isinstance(change, c.AddColumn) and "." in change.path for change in evolved), "no nested add"
    assert [step.collection for step in steps if isinstance(step, Create)] == ["cancellations"]
    (replaced,) = [step for step in steps if isinstance(step, Replace)]
    assert replaced.fill is not None
    (rewritten,) = [step for step in steps if isinstance(step, RewriteStep)]
    assert rewritten.down is not None
    # What is evolved is so at once: nothing in it may wait for another mechanism.
    assert {change.cost for change in evolved} <= {c.Cost.NONE, c.Cost.INSTANT}


def test_example_cut_back(tmp_path: Path, release: Release) -> None:
    found = load_release(cut(release, [BEFORE], tmp_path / "cut"))
    assert (found.name, found.version, found.versions) == (release.name, BEFORE, (BEFORE,))
    assert found.declarations(BEFORE) == release.declarations(BEFORE)
    assert list(check(found.path)) == []


def test_cut_back_to_the_head_is_the_folder_itself(tmp_path: Path, release: Release) -> None:
    made = cut(release, release.versions, tmp_path / "cut")
    copied = {path.relative_to(made): path.read_bytes() for path in made.rglob("*") if path.is_file()}
    here = {path.relative_to(RELEASE): path.read_bytes() for path in RELEASE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert copied == {file: data for file, data in here.items() if file.parts[0] != "fixtures"}


def test_its_fixtures_are_what_is_generated(release: Release) -> None:
    assert not read_fixtures(release).refusals


def test_every_collection_is_loaded_and_compared(release: Release) -> None:
    assert set(TABLES) == set(release.declarations(BEFORE))
    assert set(views(release, BEFORE)) == set(TABLES) - {"route_stats"}


def test_the_data_is_installed(tmp_path: Path) -> None:
    header = csv_file("flights", tmp_path).open().readline().strip().split(",")
    assert len(header) == 19
    assert csv_file("airlines", tmp_path).exists()


@pytest.mark.parametrize("how", ["a part ends", "SIGTERM"])
def test_example_what_it_starts_is_ended_with_it(tmp_path: Path, how: str) -> None:
    """A part, and what it started in its turn; SIGTERM also where a shell started it in the background, which takes Ctrl-C away."""
    note, stand_in = tmp_path / "pid", tmp_path / "airflow"
    stays = f"sleep 300 & echo $! > {note}; trap '' TERM; wait"
    stand_in.write_text(f'#!/bin/sh\nif [ "$1" = ends ]; then while [ ! -s {note} ]; do sleep 0.1; done; exit; fi\n{stays}\n')
    stand_in.chmod(0o755)
    parts = "[('stays',), ('ends',)]" if how == "a part ends" else "[('stays',)]"
    program = f"""
import signal
from example import airflow_home
signal.signal(signal.SIGINT, signal.SIG_IGN)
airflow_home.AIRFLOW = {str(stand_in)!r}
airflow_home.SECONDS_TO_END = 0.5
airflow_home.run({parts}, {{}})
"""
    process = subprocess.Popen([sys.executable, "-c", program], cwd=RELEASE.parents[1])
    wait_until(lambda: note.exists() and note.read_text().strip())
    if how == "SIGTERM":
        process.terminate()
    assert process.wait(20) == 0
    left = Path(f"/proc/{note.read_text().strip()}/cmdline")
    wait_until(lambda: not (left.exists() and left.read_bytes()))


def test_no_log_server_is_started_beside_the_page() -> None:
    """They would listen on every interface."""
    serving = {"scheduler", "triggerer", "celery worker"}
    assert all("--skip-serve-logs" in switches for name, *switches in PARTS if name in serving)
    assert {name for name, *_ in PARTS} == {"api-server", "scheduler", "dag-processor", "triggerer"}


def test_airflow_listens_on_this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__HOST", "0.0.0.0")
    assert airflow_environment()["AIRFLOW__API__HOST"] == "127.0.0.1"
