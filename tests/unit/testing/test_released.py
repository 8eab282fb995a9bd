"""Releases in the order they came out: backports that break paths, that are mended, that were forgotten; by list, file and git tags."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot
from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.testing.rehearse import Rehearsal
from airflow_provider_schemamig.core.testing.results import PathKind, PathVerdict
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.product import Product
from tests.unit.testing.samples import PLAIN, WITH_X, WITH_XY, WITH_XYZ, rehearsed, take, with_fixtures

EVOLVE = 'evolution("a")'


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """The main branch after the backport was merged: 1.0.0, 1.0.1, 1.1.0, and 1.1.1 that is being written."""
    product = Product(tmp_path / "main")
    for version, schema in (("1.0.0", PLAIN), ("1.0.1", WITH_X), ("1.1.0", WITH_XY)):
        product.release(version, schema, EVOLVE)
    return with_fixtures(product.release("1.1.1", WITH_XYZ, EVOLVE))


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """The same without 1.1.1: 1.1.0 is the head."""
    product = Product(tmp_path / "main")
    product.release("1.0.0", PLAIN)
    product.release("1.0.1", WITH_X, EVOLVE)
    return with_fixtures(product.release("1.1.0", WITH_XY, EVOLVE))


def ways(found: Rehearsal) -> list[str]:
    return [path.way for path in found.paths if path.kind is PathKind.RELEASED]


def broken(found: Rehearsal) -> dict[str, str]:
    return {path.way: refusal.code for path, refusal in found.missing.items()}


def test_in_order_nothing_is_missing(merged: Path, tmp_path: Path) -> None:
    found = rehearsed(merged, tmp_path / "work", released="1.0.0,1.0.1,1.1.0")
    assert sorted(ways(found)) == ["1.0.0..1.0.1", "1.0.0..1.1.0", "1.0.0..1.1.1", "1.0.1..1.1.0", "1.0.1..1.1.1", "1.1.0..1.1.1"]
    results = [found.run(path) for path in found.paths if path.kind is PathKind.RELEASED]
    assert {result.verdict for result in results} == {PathVerdict.PASSED}, [result.findings for result in results]


def test_a_backport_breaks_the_path_to_what_is_out(head: Path, tmp_path: Path) -> None:
    found = rehearsed(head, tmp_path / "work", released="1.0.0,1.1.0,1.0.1")
    assert broken(found) == {"1.0.1..1.1.0": "backport_breaks_path"}
    (result,) = [result for result in take(found, "1.0.1..1.1.0") if result.path.kind is PathKind.RELEASED]
    assert result.verdict is PathVerdict.FAILED
    text = result.findings[0].reason
    assert "1.0.1 was released after 1.1.0 and brings evolve a" in text
    assert "the chain of 1.1.0 does not have it" in text
    assert "release 1.1.1 with 1.0.1 in its folder" in result.findings[0].remedy


def test_the_product_refuses_that_path(head: Path, tmp_path: Path) -> None:
    """What is said without running it is what a user would meet: 1.1.0 as it came out does not know 1.0.1."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.testing.workspace import throwaway
    from tests.support.lake import no_spark

    found = rehearsed(head, tmp_path / "work", released="1.0.0,1.1.0,1.0.1")
    assert found.released is not None
    folders = {str(point.version): point.release.path for point in found.released.points if point.release is not None}
    env = throwaway(tmp_path / "lake")
    commands.upgrade(env, folders["1.0.1"], jobs=no_spark, create=True)
    with pytest.raises(SchemamigError, match="unknown_source_version"):
        commands.upgrade(env, folders["1.1.0"], jobs=no_spark)


def test_a_patch_with_the_backport_mends_it(merged: Path, tmp_path: Path) -> None:
    found = rehearsed(merged, tmp_path / "work", released="1.0.0,1.1.0,1.0.1")
    assert broken(found) == {}
    assert "1.0.1..1.1.0" not in ways(found)
    (result,) = [result for result in take(found, "1.0.1..1.1.1") if result.path.kind is PathKind.RELEASED]
    assert result.verdict is PathVerdict.PASSED, result.findings


def test_on_the_branch_of_the_backport_it_fails_before_the_release(tmp_path: Path) -> None:
    product = Product(tmp_path / "branch")
    product.release("1.0.0", PLAIN)
    folder = with_fixtures(product.release("1.0.1", WITH_X, EVOLVE))
    listed = tmp_path / "released.txt"
    listed.write_text("# in the order they came out\n1.0.0\n1.1.0  # from main\n")
    found = rehearsed(folder, tmp_path / "work", released=str(listed))
    assert broken(found) == {"1.0.1..1.1.0": "backport_breaks_path"}
    assert found.released is not None
    assert "1.1.0 is above this folder's head" in found.released.notes[0]


def test_a_release_that_was_forgotten(tmp_path: Path) -> None:
    product = Product(tmp_path / "main")
    product.release("1.0.0", PLAIN)
    folder = with_fixtures(product.release("1.1.0", WITH_XY, EVOLVE))
    found = rehearsed(folder, tmp_path / "work", released="1.0.0,1.0.1")
    assert broken(found) == {"1.0.1..1.1.0": "release_forgotten"}


@pytest.mark.parametrize("text", ["", "1.0", "1.0.0,1.0.0", "nobody.txt"])
def test_released_paths_what_is_no_list(head: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(SchemamigError, match="invalid_released"):
        rehearsed(head, tmp_path / "work", released=text)


# --- tags ----------------------------------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str, day: int = 1) -> None:
    who = [item for key, value in (("name", "Test"), ("email", "test@example.com")) for item in ("-c", f"user.{key}={value}")]
    dates = {f"GIT_{what}_DATE": f"2026-01-{day:02}T00:00:00Z" for what in ("AUTHOR", "COMMITTER")}
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, env={**os.environ, **dates})


def commit(repository: Path, source: Path, tag: str | None, day: int) -> Path:
    """The release folder ``source`` as ``flights_lake`` of the repository, committed and tagged on that day."""
    folder = repository / "data" / "flights_lake"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, copy_function=shutil.copy)  # with times of their own, by which git sees that files changed
    git(repository, "add", "-A", day=day)
    git(repository, "commit", "-m", "a release", day=day)
    if tag is not None:
        git(repository, "tag", tag, day=day)
    return folder


def test_by_tags_each_folder_is_what_git_has(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    main = Product(tmp_path / "main")
    first = main.release("1.0.0", PLAIN)
    second = main.release("1.1.0", WITH_XY, EVOLVE)
    branch = Product(tmp_path / "branch")
    branch.release("1.0.0", PLAIN)
    backport = branch.release("1.0.1", WITH_X, EVOLVE)
    git(repository, "commit", "--allow-empty", "-m", "nothing yet", day=1)
    git(repository, "tag", "v0.9.0", day=1)
    for day, (source, tag) in enumerate([(first, "v1.0.0"), (second, "v1.1.0"), (backport, "v1.0.1")], start=2):
        commit(repository, source, tag, day)
    merged = Product(tmp_path / "merged")
    for version, schema in (("1.0.0", PLAIN), ("1.0.1", WITH_X), ("1.1.0", WITH_XY)):
        merged.release(version, schema, EVOLVE)
    folder = commit(repository, with_fixtures(merged.release("1.2.0", WITH_XYZ, EVOLVE)), None, 6)
    found = rehearsed(folder, tmp_path / "work", tags="v*")
    assert found.released is not None
    assert [str(point.version) for point in found.released.points] == ["1.0.0", "1.1.0", "1.0.1", "1.2.0"]
    assert broken(found) == {"1.0.1..1.1.0": "backport_breaks_path"}
    results = [found.run(path) for path in found.paths if path.kind is PathKind.RELEASED and path not in found.missing]
    assert sorted(result.path.way for result in results) == ["1.0.0..1.0.1", "1.0.0..1.1.0", "1.0.0..1.2.0", "1.0.1..1.2.0", "1.1.0..1.2.0"]
    assert {result.verdict for result in results} == {PathVerdict.PASSED}, [result.findings for result in results]
    with pytest.raises(SchemamigError, match="invalid_released"):
        rehearsed(folder, tmp_path / "none", tags="release-*")


def test_a_repository_with_merges_and_a_squashed_base(tmp_path: Path) -> None:
    """What came in by a merge is a release like any; in a history that begins anew, at 1.1.0, the tags of before still count."""
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    product = Product(tmp_path / "main")
    commit(repository, product.release("1.0.0", PLAIN), "v1.0.0", 1)
    commit(repository, product.release("1.1.0", WITH_X, EVOLVE), "v1.1.0", 2)
    git(repository, "checkout", "-q", "-b", "feature", day=3)
    commit(repository, product.release("1.2.0", WITH_XY, EVOLVE), None, 3)
    git(repository, "checkout", "-q", "main", day=4)
    git(repository, "commit", "--allow-empty", "-m", "meanwhile", day=4)
    git(repository, "merge", "-q", "--no-ff", "-m", "the feature", "feature", day=5)
    git(repository, "tag", "v1.2.0", day=5)
    squashed = product.release("1.3.0", WITH_XYZ, EVOLVE)
    settings = squashed / "release.toml"
    settings.write_text(settings.read_text().replace('min_version = "1.0.0"', 'min_version = "1.1.0"'))
    (squashed / "snapshots" / "1.0.0.sql").unlink()
    (squashed / "migrations" / "v1_1_0.py").unlink()
    snapshot(squashed)
    git(repository, "checkout", "-q", "--orphan", "anew", day=6)
    folder = commit(repository, with_fixtures(squashed), None, 6)

    found = rehearsed(folder, tmp_path / "work", tags="v*")
    assert broken(found) == {}
    results = [found.run(path) for path in found.paths if path.kind is PathKind.RELEASED]
    assert sorted(result.path.way for result in results) == ["1.1.0..1.2.0", "1.1.0..1.3.0", "1.2.0..1.3.0"], "nobody is at 1.0.0 any more"
    assert {result.verdict for result in results} == {PathVerdict.PASSED}, [result.findings for result in results]


def test_a_tag_with_other_bytes(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    commit(repository, Product(tmp_path / "one").release("1.0.0", PLAIN), "v1.0.0", 1)
    other = Product(tmp_path / "two")
    other.release("1.0.0", WITH_X)
    folder = commit(repository, with_fixtures(other.release("1.1.0", WITH_XY, EVOLVE)), None, 2)
    with pytest.raises(SchemamigError, match="released_file_changed"):
        rehearsed(folder, tmp_path / "work", tags="v*")


def test_outside_of_git(head: Path, tmp_path: Path) -> None:
    with pytest.raises(SchemamigError, match="git says"):
        rehearsed(head, tmp_path / "work", tags="v*")
    assert load_checked(head).name == "lake"
