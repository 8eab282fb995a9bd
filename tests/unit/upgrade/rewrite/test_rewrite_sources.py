"""What happens to a rewrite behind our back: its source restored, altered, vacuumed; and copies that are not what they should be.

It is noticed, said clearly, loses nothing, and there is a way to go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES
from tests.support.lake import Crash
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import UP_KEYED, Rewritten, built, claimed, expanded, jobs, make_rewritten, upgrade
from tests.support.rows.tables import Row
from tests.support.tables import foreign
from tests.support.upgrades import refused

pytestmark = pytest.mark.some(5, of="sources of rewrites")

KEYED = CollectionName("keyed")
SECOND = Generation(2)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    return make_rewritten(tmp_path_factory.mktemp("deployed"))


@pytest.fixture
def found(deployed: Rewritten, tmp_path: Path) -> Rewritten:
    return deployed.copy(tmp_path)


def cutover(found: Rewritten, runner: RowJobs | None = None) -> Any:
    return commands.cutover(found.env, SECOND, jobs=runner or jobs())


def follow(found: Rewritten) -> Any:
    return commands.tail(found.env, SECOND, jobs=jobs(), once=True)


def shard_built(found: Rewritten) -> str:
    return next(row.shard for row in found.state.replacements.values() if row.collection == KEYED)


def there_and_back(found: Rewritten) -> None:
    found.check("1.1.0")
    found.write_all(3)
    found.check("1.1.0")
    commands.rollback(found.env, jobs=jobs())
    found.check("1.0.0")


def once(at: Callable[[str, Mapping[str, Any]], bool], act: Callable[[], object], runner: RowJobs) -> RowJobs:
    """``act`` before the first job that ``at`` says yes to."""

    def before(job: str, request: Mapping[str, Any]) -> None:
        if at(job, request):
            runner.before = None
            act()

    runner.before = before
    return runner


def just_before_the_seal(found: Rewritten, act: Callable[[], None]) -> Environment:
    """An environment in which ``act`` comes between the last round of the tail and the first seal of a cut-over."""
    acted: list[bool] = []

    def hook(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "put_if_absent") and key.startswith("_delta_log/") and not acted:
            acted.append(True)
            act()

    return replace(found.env, on_write=hook)


def is_sealed(found: Rewritten) -> Callable[[str, Mapping[str, Any]], bool]:
    return lambda job, request: tables.snapshot(found.path("keyed")).sealed


# --- RESTORE -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", ["apply", "digest"])
def test_restore_after_the_seal(found: Rewritten, job: str) -> None:
    """It alone gets through a seal, and takes it away. What it brought back is what the new shard holds in the end."""
    expanded(found)
    found.write_all(1)
    version, wanted = tables.newest(found.path("keyed")), list(found.wanted["keyed"])
    found.change("keyed", lambda row: None)

    def restore() -> None:
        tables.restore(found.path("keyed"), version)
        found.wanted["keyed"] = wanted

    sealed = is_sealed(found)
    runner = once(lambda kind, request: kind == job and sealed(kind, request), restore, jobs())
    with refused("source_touched", "keyed"):
        commands.cutover(just_before_the_seal(found, lambda: found.insert("keyed", [{"id": 500, "v": None}])), SECOND, jobs=runner)
    assert found.wanted["keyed"] == wanted
    assert not tables.snapshot(found.path("keyed")).sealed
    assert not tables.snapshot(found.path("plain")).sealed
    cutover(found)
    there_and_back(found)


@pytest.mark.parametrize("job", ["apply", "digest"])
def test_an_optimize_after_the_seal_stops_nothing(found: Rewritten, job: str) -> None:
    """It gets through a seal, too, as Delta's own after the last statement before it may; and changes no row."""
    expanded(found)
    found.write_all(1)
    sealed = is_sealed(found)
    runner = once(lambda kind, request: kind == job and sealed(kind, request), lambda: foreign.compact(found.path("keyed")), jobs())
    late = just_before_the_seal(found, lambda: found.insert("keyed", [{"id": 500, "v": None}]))
    commands.cutover(late, SECOND, jobs=runner)
    assert runner.before is None, "it came"
    there_and_back(found)


def test_an_optimize_of_the_new_shard_stops_no_rollback(found: Rewritten) -> None:
    upgrade(found, found.env, jobs())
    found.write_all(1)
    path = found.path("keyed")
    runner = once(lambda job, request: request.get("collection") == "plain" and job == "apply", lambda: foreign.compact(path), jobs())
    commands.rollback(found.env, jobs=runner)
    assert runner.before is None, "it came"
    found.check("1.0.0")


def test_restore_of_the_new_shard_during_a_rollback(found: Rewritten) -> None:
    """The same on the way back: sealed is the new shard then."""
    upgrade(found, found.env, jobs())
    path = found.path("keyed")
    found.write_all(1)
    version = tables.newest(path)
    wanted = list(found.wanted["keyed"])
    found.change("keyed", lambda row: None)

    def restore() -> None:
        tables.restore(path, version)
        found.wanted["keyed"] = wanted

    runner = once(lambda job, request: request.get("collection") == "plain" and job == "apply", restore, jobs())
    with refused("source_touched", "keyed"):
        commands.rollback(found.env, jobs=runner)
    commands.rollback(found.env, jobs=jobs())
    found.check("1.0.0")


# --- altered -------------------------------------------------------------------------------------------------------------------------


def take_back(found: Rewritten, fields: str) -> None:
    tables.alter(found.path("keyed"), schemaString=fields)


@pytest.mark.parametrize("work", [follow, cutover])
def test_an_altered_source_is_drift(found: Rewritten, work: Callable[[Rewritten], Any]) -> None:
    expanded(found) if work is cutover else claimed(found)
    found.write_all(1)
    fields = tables.snapshot(found.path("keyed")).metadata["schemaString"]
    tables.add_column(found.path("keyed"), "surprise")
    with refused("drift", "keyed"):
        work(found)
    assert found.version == "1.0.0"
    assert not tables.snapshot(found.path("keyed")).sealed
    take_back(found, fields)
    upgrade(found, found.env, jobs())
    there_and_back(found)


def test_change_data_turned_off_on_the_way(found: Rewritten) -> None:
    claimed(found)
    found.write_all(1)
    tables.set_property(found.path("keyed"), "delta.enableChangeDataFeed", "false")
    found.write_all(2)
    follow(found)
    tables.set_property(found.path("keyed"), "delta.enableChangeDataFeed", "true")
    found.write_all(4)
    upgrade(found, found.env, jobs())
    there_and_back(found)


# --- history gone --------------------------------------------------------------------------------------------------------------------


def vacuum(found: Rewritten) -> None:
    tables.vacuum(found.path("keyed"))


def clean_log(found: Rewritten) -> None:
    """All but the newest commits are gone, a checkpoint stands for them."""
    from deltalake import DeltaTable

    log = found.path("keyed") / "_delta_log"
    DeltaTable(str(found.path("keyed"))).create_checkpoint()
    newest = tables.newest(found.path("keyed"))
    for version in range(newest):
        (log / f"{version:020}.json").unlink()


def grow_old(found: Rewritten) -> None:
    """The table keeps its history for less time than has passed since the copy."""
    tables.set_property(found.path("keyed"), FILES, "interval 1 millisecond")


def keep_a_week(found: Rewritten) -> None:
    tables.set_property(found.path("keyed"), FILES, "interval 1 week")


@pytest.mark.parametrize("work", [follow, cutover])
@pytest.mark.parametrize("gone", [vacuum, grow_old])
def test_history_gone_begins_anew(found: Rewritten, gone: Callable[[Rewritten], None], work: Callable[[Rewritten], Any]) -> None:
    expanded(found) if work is cutover else claimed(found)
    found.write_all(1)
    before = shard_built(found)
    gone(found)
    if gone is grow_old and work is cutover:  # it grows old again at once, so take it for a rule that was changed and changed back
        runner = jobs()
        once(lambda job, request: job == "fill", lambda: keep_a_week(found), runner)
        cutover(found, runner)
    else:
        work(found)
    assert shard_built(found) != before
    if work is follow:
        keep_a_week(found)
        upgrade(found, found.env, jobs())
    there_and_back(found)


def test_history_gone_during_the_copy_begins_anew_once(found: Rewritten) -> None:
    found.write_all(1)

    def lose_history() -> None:
        found.write_all(2)
        tables.vacuum(found.path("keyed"))

    copies = iter(range(10))
    runner = once(lambda job, request: job == "fill" and next(copies) == 1, lose_history, jobs())
    upgrade(found, found.env, runner)
    there_and_back(found)


def test_history_gone_again_and_again_is_said(found: Rewritten) -> None:
    runner = jobs()
    values = iter(range(100))

    def before(job: str, request: Mapping[str, Any]) -> None:
        if job == "fill" and request["collection"] == "keyed":
            value = str(next(values))
            found.change("keyed", lambda row: {**row, "v": value})
            tables.vacuum(found.path("keyed"))

    runner.before = before
    with refused("source_vacuumed"):
        upgrade(found, found.env, runner)
    found.check("1.0.0")
    upgrade(found, found.env, jobs())
    there_and_back(found)


def test_a_seal_whose_owner_died_is_lifted_before_anybody_waits_for_spark(found: Rewritten) -> None:
    expanded(found)
    found.write_all(1)
    sealed = is_sealed(found)
    late = just_before_the_seal(found, lambda: found.insert("keyed", [{"id": 500, "v": None}]))
    dead: list[bool] = []

    def dies() -> None:
        dead.append(True)
        raise Crash("killed under the seal")

    def hook(moment: str, what: str, key: str) -> None:
        if dead:  # it does not tidy up either
            dies()
        late.before_write(what, key) if moment == "before" else late.after_write(what, key)

    with pytest.raises(Crash):
        commands.cutover(replace(found.env, on_write=hook), SECOND, jobs=once(sealed, dies, jobs()))
    assert sealed("", {})
    runner = once(lambda job, request: True, lambda: found.write_all(2), jobs())
    cutover(found, runner)
    there_and_back(found)


# --- copies that are not what they should be -----------------------------------------------------------------------------------------


def wrong(row: Row) -> list[Row]:
    return [{**row, "v": 666}] if row.get("id") in (1, 600) else [row]


def test_a_copy_that_lies_is_not_committed(found: Rewritten) -> None:
    runner = jobs()
    runner.falsify = wrong
    claimed(found, runner)
    commands.promote(found.env, SECOND)
    commands.expand(found.env, SECOND)
    before = shard_built(found)
    with refused("rewrite_differs", "keyed"):
        cutover(found)
    assert found.version == "1.0.0"
    assert shard_built(found) != before
    found.write_all(1)
    cutover(found)
    there_and_back(found)


@pytest.mark.parametrize("when", ["before the digest", "under the seal"])
def test_a_tail_that_lies_is_not_committed(found: Rewritten, when: str) -> None:
    expanded(found)
    runner, env = jobs(), found.env

    def insert() -> None:
        found.insert("keyed", [{"id": 600, "v": "1"}])
        runner.falsify = wrong

    if when == "under the seal":
        env = just_before_the_seal(found, insert)
    else:
        insert()
    with refused("rewrite_differs", "keyed"):
        commands.cutover(env, SECOND, jobs=runner)
    assert found.version == "1.0.0"
    assert not tables.snapshot(found.path("keyed")).sealed
    if when == "under the seal":  # the next run compares all, and gives the copy up
        with refused("rewrite_differs", "keyed"):
            cutover(found)
    cutover(found)
    there_and_back(found)


@pytest.mark.parametrize("work", [follow, cutover])
def test_a_copy_that_lacks_rows_begins_anew(found: Rewritten, work: Callable[[Rewritten], Any]) -> None:
    """A row that goes in the source is not there: somebody wrote into the new shard."""
    expanded(found) if work is cutover else claimed(found)
    tables.change(built(found, "keyed"), lambda row: None if row["id"] == 2 else row)
    found.change("keyed", lambda row: None if row["id"] == 2 else row)
    before = shard_built(found)
    work(found)
    assert shard_built(found) != before
    upgrade(found, found.env, jobs())
    there_and_back(found)


def test_a_row_that_up_leaves_out_is_seen_also_under_the_seal(found: Rewritten) -> None:
    """Rows in are rows out, for those that came after every row was compared, too."""
    expanded(found)
    queries = dict(jobs().queries)
    up = queries[UP_KEYED]
    queries[UP_KEYED] = lambda row: [] if row["v"] == "13" else up(row)
    with refused("cardinality_changed", "keyed"):
        env = just_before_the_seal(found, lambda: found.insert("keyed", [{"id": 13, "v": "13"}]))
        commands.cutover(env, SECOND, jobs=RowJobs(queries))
    assert found.version == "1.0.0"
    assert not tables.snapshot(found.path("keyed")).sealed
    found.change("keyed", lambda row: None if row["id"] == 13 else row)
    cutover(found)
    there_and_back(found)


def test_statistics_do_not_matter_for_counting(found: Rewritten) -> None:
    expanded(found)

    def insert_without() -> None:
        found.insert("keyed", [{"id": 14, "v": "14"}])
        path = found.path("keyed")
        log = path / "_delta_log" / f"{tables.newest(path):020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))

    commands.cutover(just_before_the_seal(found, insert_without), SECOND, jobs=jobs())
    there_and_back(found)


def test_progress_is_in_the_ledger(found: Rewritten) -> None:
    claimed(found)
    rows = {row.collection: row for row in found.state.progress.values()}
    assert {(row.done, row.total, row.unit) for row in rows.values()} == {(len(tables.snapshot(found.path("keyed")).files), 2, "files")}
