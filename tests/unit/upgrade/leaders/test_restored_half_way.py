"""A ledger brought back from a backup of before a cut-over, or a rollback: what the lost history made live stays, with its rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.admin.backup import backup
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import no_spark
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import SECOND, Rewritten, claimed, jobs, make_rewritten, upgrade
from tests.support.upgrades import brought_back, make_holds_due, refused, two_releases
from tests.support.upgrades import claimed as claimed_of

pytestmark = pytest.mark.some(6, of="restored half-way")


def go_on(found: Rewritten) -> None:
    """docs/ledger.md: a deployment that the backup holds half-way is taken up with ``expand`` of its generation."""
    commands.expand(found.env, SECOND)
    commands.cutover(found.env, SECOND, jobs=jobs())


NEXT: dict[str, Callable[[Rewritten], object]] = {
    "expand and cutover": go_on,
    "upgrade": lambda found: upgrade(found, found.env, jobs()),
    "cancel": lambda found: commands.cancel(found.env, SECOND),
    "rollback": lambda found: commands.rollback(found.env, jobs=jobs()),
}


@pytest.mark.parametrize("is_promoted", [False, True])
@pytest.mark.parametrize("then", NEXT)
def test_backup_of_half_an_upgrade(tmp_path: Path, then: str, is_promoted: bool) -> None:
    found = make_rewritten(tmp_path)
    claimed(found)
    if is_promoted:
        commands.promote(found.env, SECOND)
    backup(found.env, str(tmp_path / "backup"))  # the gate waits, and the nightly backup comes
    if not is_promoted:
        commands.promote(found.env, SECOND)
    commands.expand(found.env, SECOND)
    commands.cutover(found.env, SECOND, jobs=jobs())
    live = found.path("keyed")
    found.insert("keyed", [{"id": 9999, "v": 1}])  # acknowledged
    found.lake, _ = brought_back(found.lake, tmp_path)
    with contextlib.suppress(SchemamigError):
        NEXT[then](found)
    assert live.exists(), f"{then} deleted the table that has the only copy of an acknowledged row"
    assert any(row["id"] == 9999 for row in tables.snapshot(live).rows)


def test_backup_of_half_an_upgrade_whose_hold_is_over(tmp_path: Path) -> None:
    """The old table is gone too: nothing at all is left of the collection."""
    found = make_rewritten(tmp_path)
    claimed(found)
    backup(found.env, str(tmp_path / "backup"))
    commands.promote(found.env, SECOND)
    commands.expand(found.env, SECOND)
    commands.cutover(found.env, SECOND, jobs=jobs())
    live = found.path("keyed")
    make_holds_due(found.lake)
    commands.contract(found.env)
    found.lake, _ = brought_back(found.lake, tmp_path)
    with contextlib.suppress(SchemamigError):
        commands.cancel(found.env, SECOND)
    assert live.exists()


def test_a_new_table_of_an_upgrade_that_was_committed_since_stays(tmp_path: Path) -> None:
    """Nothing but its own fill has written into it, and no other table says anything of it."""
    one, fill = "CREATE TABLE t (id BIGINT);", "SELECT id FROM {t}"
    lake = two_releases(tmp_path, one, f"{one} CREATE TABLE n (id BIGINT);", f'replacement("n", fill="{fill}")')
    tables.insert(lake.path("t"), [{"id": 1}])
    generation = commands.preflight(lake.env, lake.second, jobs=RowJobs({fill: lambda row: [row]})).generation
    assert generation is not None
    backup(lake.env, str(tmp_path / "backup"))
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.cutover(lake.env, generation, jobs=no_spark)
    live = lake.path("n")
    lake, _ = brought_back(lake, tmp_path)
    assert any("may have been committed since" in note for note in commands.cancel(lake.env, generation).notes)
    assert tables.snapshot(live).rows == [{"id": 1}]


@pytest.mark.parametrize("is_promoted", [False, True])
@pytest.mark.parametrize("undo", ["cancel", "rollback"])
def test_a_fill_that_was_deleted_since_the_backup_is_made_again(tmp_path: Path, is_promoted: bool, undo: str) -> None:
    """The restored ledger has it for done, and its table is gone: the environment would go to an empty one."""
    one, fill = "CREATE TABLE t (id BIGINT); CREATE TABLE n (id BIGINT);", "SELECT 1 AS more, id FROM {t}"
    lake = two_releases(tmp_path, one, one.replace("n (id", "n (more INT, id"), f'replacement("n", fill="{fill}")')
    tables.insert(lake.path("t"), [{"id": 1}])
    jobs = RowJobs({fill: lambda row: [{"more": 1, **row}]})
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    if is_promoted or undo == "rollback":
        commands.promote(lake.env, generation)
    backup(lake.env, str(tmp_path / "backup"))
    if undo == "cancel":
        commands.cancel(lake.env, generation)
    else:
        commands.rollback(lake.env, jobs=jobs)
    lake, notes = brought_back(lake, tmp_path)
    assert any(f"of generation {generation}" in note for note in notes), "a restore says what was done since"
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert tables.snapshot(lake.path("n")).rows == [{"more": 1, "id": 1}]


def test_a_copy_that_was_deleted_since_the_backup_is_made_again(tmp_path: Path) -> None:
    found = make_rewritten(tmp_path)
    before = {name: len(tables.snapshot(found.path(name)).rows) for name in ("keyed", "plain")}
    claimed(found)
    backup(found.env, str(tmp_path / "backup"))
    commands.cancel(found.env, SECOND)
    found.lake, _ = brought_back(found.lake, tmp_path)
    upgrade(found, found.env, jobs())
    assert {name: len(tables.snapshot(found.path(name)).rows) for name in before} == before


def test_a_leader_without_the_tables_of_its_fills_commits_nothing(tmp_path: Path) -> None:
    one, fill = "CREATE TABLE t (id BIGINT); CREATE TABLE n (id BIGINT);", "SELECT 1 AS more, id FROM {t}"
    lake = two_releases(tmp_path, one, one.replace("n (id", "n (more INT, id"), f'replacement("n", fill="{fill}")')
    tables.insert(lake.path("t"), [{"id": 1}])
    generation = commands.preflight(lake.env, lake.second, jobs=RowJobs({fill: lambda row: [{"more": 1, **row}]})).generation
    assert generation is not None
    row = next(iter(lake.state.replacements.values()))
    folder = lake.env.table_location(lake.state.shards[row.shard].uri).local_path
    assert folder is not None
    for commit in sorted((folder / "_delta_log").glob("*1.json")):  # as after a fill that never was
        commit.unlink()
    with refused("not_built", "n"):
        commands.promote(lake.env, generation)


def test_status_shows_that_the_tables_are_elsewhere(tmp_path: Path) -> None:
    """docs/ledger.md:85: the environment is then where the backup was, its tables are not: ``status`` shows that as drift."""
    found = make_rewritten(tmp_path)
    claimed(found)
    backup(found.env, str(tmp_path / "backup"))
    commands.promote(found.env, SECOND)
    commands.expand(found.env, SECOND)
    commands.cutover(found.env, SECOND, jobs=jobs())
    found.lake, _ = brought_back(found.lake, tmp_path)
    assert set(commands.status(found.env).drifted) == {"keyed", "plain"}


def test_backup_of_an_open_hold_then_a_rollback(tmp_path: Path) -> None:
    """The rollback made the old table live again; the maintenance DAG's ``contract`` deletes it, though it is open and written into."""
    found = make_rewritten(tmp_path)
    old = found.path("keyed")
    upgrade(found, found.env, jobs())
    backup(found.env, str(tmp_path / "backup"))
    commands.rollback(found.env, jobs=jobs())
    assert found.path("keyed") == old
    found.insert("keyed", [{"id": 9999, "v": "1"}])  # acknowledged
    found.lake, _ = brought_back(found.lake, tmp_path)
    assert "keyed" in commands.status(found.env).drifted
    make_holds_due(found.lake)
    with contextlib.suppress(SchemamigError):
        commands.contract(found.env)
    assert old.exists(), "the table with the only copy of an acknowledged row"


def test_backup_of_an_open_hold_over_a_dropped_column_then_a_rollback(tmp_path: Path) -> None:
    """The rollback gave the column back, without a change of the table; ``contract`` of the restored hold drops it with what came since."""
    lake = two_releases(tmp_path, "CREATE TABLE t (id BIGINT, x INT);", "CREATE TABLE t (id BIGINT);", 'evolution("t", drop=["x"])')
    lake.upgrade(lake.second)
    backup(lake.env, str(tmp_path / "backup"))
    commands.rollback(lake.env, jobs=no_spark)
    tables.insert(lake.path("t"), [{"id": 1, "x": 26}])
    lake, _ = brought_back(lake, tmp_path)
    make_holds_due(lake)
    with contextlib.suppress(SchemamigError):
        commands.contract(lake.env)
    assert "x" in [field["name"] for field in tables.snapshot(lake.path("t")).fields]


def test_a_restore_says_what_was_done_since(tmp_path: Path) -> None:
    found = make_rewritten(tmp_path)
    claimed(found)
    backup(found.env, str(tmp_path / "backup"))
    upgrade(found, found.env, jobs())
    _, notes = brought_back(found.lake, tmp_path)
    assert any("cutover of generation 2" in note for note in notes), notes


def test_the_hold_of_a_deployment_that_was_taken_up_ends_by_itself(tmp_path: Path) -> None:
    found = make_rewritten(tmp_path)
    claimed(found)
    backup(found.env, str(tmp_path / "backup"))
    found.lake, _ = brought_back(found.lake, tmp_path)
    commands.promote(found.env, SECOND)
    go_on(found)
    make_holds_due(found.lake)
    assert commands.contract(found.env).pending == ()


def test_cancel_beside_a_damaged_table(tmp_path: Path) -> None:
    found = make_rewritten(tmp_path)
    claimed(found)
    backup(found.env, str(tmp_path / "backup"))
    found.lake, _ = brought_back(found.lake, tmp_path)
    sorted((found.path("plain") / "_delta_log").glob("*.json"))[0].unlink()  # what a clean-up that went wrong leaves
    assert any("left alone" in note for note in commands.cancel(found.env, SECOND).notes)


def test_a_new_table_that_has_a_replicas_rows_alone_stays(tmp_path: Path) -> None:
    """Batches of ``replicate`` are commits of ours, and rows of a live table all the same."""
    one = "CREATE TABLE t (id BIGINT);"
    lake = two_releases(tmp_path, one, f"{one} CREATE TABLE n (id BIGINT);", "")
    generation = claimed_of(lake, lake.second)
    backup(lake.env, str(tmp_path / "backup"))
    lake.upgrade(lake.second)
    live = lake.path("n")
    tables.insert(live, [{"id": 1}])
    commit = tables.commit_path(live, tables.newest(live))
    info = {"schemamig": {"action": "replica", "origin": "env-2", "lo": 0, "hi": 1}}
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    lines[0]["commitInfo"]["userMetadata"] = json.dumps(info)
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lake, _ = brought_back(lake, tmp_path)
    with contextlib.suppress(SchemamigError):
        commands.cancel(lake.env, generation)
    assert tables.snapshot(live).rows == [{"id": 1}]
