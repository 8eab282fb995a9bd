"""example/: the release folder holds what it is there to show, and the demo's way back to 1.0.0 gives a right folder."""

from __future__ import annotations

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
from example.airflow_home import RELEASE, airflow_environment
from example.load import TABLES, csv_file
from example.rows import views

BEFORE = Version(1, 0, 0)


@pytest.fixture(scope="module")
def release() -> Release:
    return load_release(RELEASE)


def test_the_folder_is_right() -> None:
    assert list(check(RELEASE)) == []


def test_it_shows_every_kind_of_change_the_readme_speaks_of(release: Release) -> None:
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


def test_cut_back(tmp_path: Path, release: Release) -> None:
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


def test_airflow_listens_on_this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__HOST", "0.0.0.0")
    assert airflow_environment()["AIRFLOW__API__HOST"] == "127.0.0.1"
