"""``init`` and ``snapshot`` write release folders, and never touch what was released."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.authoring.scaffold import WrittenFolder, init, snapshot
from airflow_provider_schemamig.core.release.check import check, load_checked
from airflow_provider_schemamig.core.release.folder.errors import (
    EditedModule,
    EditedSnapshot,
    FolderNotEmpty,
    InvalidReleaseToml,
    UnreadableFile,
)
from airflow_provider_schemamig.core.release.folder.lock import digest
from airflow_provider_schemamig.core.release.sql.errors import SqlSyntax
from airflow_provider_schemamig.exceptions import Refused
from tests.support.product import Product

V1, V2 = Version(1, 0, 0), Version(1, 1, 0)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """1.0.0 and 1.1.0, both frozen."""
    product = Product(tmp_path)
    product.release("1.0.0", "CREATE TABLE a (x INT);\n")
    return product.release("1.1.0", "CREATE TABLE a (x INT, y INT);\n", 'evolution("a")')


def bump(folder: Path, version: str) -> None:
    toml = folder / "release.toml"
    toml.write_text(toml.read_text().replace('version = "1.1.0"', f'version = "{version}"', 1))


# --- init ---------------------------------------------------------------------------------------------------------------------------


def test_init_writes_a_folder_that_passes(tmp_path: Path) -> None:
    written = init(tmp_path / "new" / "lake", "flights_lake")
    assert written == WrittenFolder(V1, ("release.toml", "schema.sql", "snapshots/1.0.0.sql", "snapshots.lock"))
    assert set(tree(tmp_path / "new/lake")) == set(written.files)
    assert check(tmp_path / "new/lake") == ()
    release = load_checked(tmp_path / "new/lake")
    assert (release.name, release.version, release.min_version) == ("flights_lake", V1, V1)
    assert release.declarations(V1) == {}


def test_init_is_deterministic(tmp_path: Path) -> None:
    init(tmp_path / "a", "lake")
    (tmp_path / "b").mkdir()  # an empty folder will do
    init(tmp_path / "b", "lake")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_init_never_writes_over_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FolderNotEmpty, match=r"notes\.txt"):
        init(tmp_path, "lake")
    assert list(tree(tmp_path)) == ["notes.txt"]


@pytest.mark.parametrize("name", ["", "a b", 'x"\nversion = "9.9.9', "../x", "1x"])
def test_init_with_a_name_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises((InvalidReleaseToml, Refused)):
        init(tmp_path / "lake", name)
    assert not (tmp_path / "lake").exists()


def test_init_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    with pytest.raises(UnreadableFile):
        init(tmp_path / "lake", "lake")


# --- snapshot -----------------------------------------------------------------------------------------------------------------------


def test_snapshot_again_changes_nothing(folder: Path) -> None:
    before = tree(folder)
    assert snapshot(folder) == WrittenFolder(V2, ())
    assert tree(folder) == before


def test_the_head_may_be_frozen_again(folder: Path) -> None:
    (folder / "schema.sql").write_text("CREATE TABLE a (x INT, y BIGINT);\n")
    before = tree(folder)
    assert snapshot(folder).files == ("snapshots/1.1.0.sql", "snapshots.lock")
    after = tree(folder)
    assert after["snapshots/1.1.0.sql"] == after["schema.sql"]
    assert {file for file in after if after[file] != before[file]} == {"snapshots/1.1.0.sql", "snapshots.lock"}
    assert check(folder) == ()


def test_a_version_bump_releases_the_one_before(folder: Path) -> None:
    bump(folder, "1.2.0")
    (folder / "migrations/v1_2_0.py").write_text('"""Nothing.\n\nWhy: to test."""\nSTEPS = []\n')
    assert {refusal.code for refusal in check(folder)} == {"missing_snapshot", "not_locked"}
    assert snapshot(folder).files == ("snapshots/1.2.0.sql", "snapshots.lock")
    assert f'"migrations/v1_1_0.py" = "{digest((folder / "migrations/v1_1_0.py").read_bytes())}"' in (folder / "snapshots.lock").read_text()
    assert check(folder) == ()


def test_scaffold_what_was_released_is_never_locked_anew(folder: Path) -> None:
    bump(folder, "1.2.0")
    (folder / "migrations/v1_2_0.py").write_text('"""Nothing."""\nSTEPS = []\n')
    snapshot(folder)
    for file in ("snapshots/1.0.0.sql", "snapshots/1.1.0.sql", "migrations/v1_1_0.py"):
        (folder / file).write_bytes((folder / file).read_bytes() + b"\n")
    before = tree(folder)
    with pytest.raises(Refused) as refused:
        snapshot(folder)
    assert [type(refusal) for refusal in refused.value.refusals] == [EditedSnapshot, EditedSnapshot, EditedModule]
    assert tree(folder) == before


def test_scaffold_what_is_no_longer_supported_leaves_the_lock(folder: Path) -> None:
    (folder / "release.toml").write_text('name = "lake"\nversion = "1.1.0"\nmin_version = "1.1.0"\n')
    for file in ("snapshots/1.0.0.sql", "migrations/v1_1_0.py"):
        (folder / file).unlink()
    assert [refusal.code for refusal in check(folder)] == ["locked_file_missing"]
    assert snapshot(folder).files == ("snapshots.lock",)
    assert check(folder) == ()


def test_a_lost_lock_is_made_again(folder: Path) -> None:
    before = tree(folder)
    (folder / "snapshots.lock").unlink()
    assert snapshot(folder).files == ("snapshots.lock",)
    assert tree(folder) == before


def test_broken_sql_is_not_frozen(folder: Path) -> None:
    (folder / "schema.sql").write_text("CREATE TABLE a (x INT,,);\n")
    before = tree(folder)
    with pytest.raises(SqlSyntax) as refused:
        snapshot(folder)
    assert refused.value.file == "schema.sql"
    assert tree(folder) == before


def test_a_broken_lock_is_not_written_over(folder: Path) -> None:
    (folder / "snapshots.lock").write_text("<<<<<<< ours\n")
    before = tree(folder)
    with pytest.raises(Exception, match="invalid_lock"):
        snapshot(folder)
    assert tree(folder) == before


def test_a_version_above_the_head(folder: Path) -> None:
    shutil.copy(folder / "snapshots/1.1.0.sql", folder / "snapshots/1.3.0.sql")
    with pytest.raises(Exception, match="version_above_head"):
        snapshot(folder)
