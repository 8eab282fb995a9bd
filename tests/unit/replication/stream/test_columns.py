"""Upgrades under way and drift: which row of the ledger says what an event is, and when none does."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.replication.stream.events import next_events
from airflow_provider_schemamig.core.schema.delta_json import field_to_delta
from airflow_provider_schemamig.core.schema.model import walk
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import expanded, promoted, refused
from tests.unit.replication.origin import FIRST, Origin, T, columns, make_origin

NEW = {"name": "gate", "type": "string", "nullable": True, "metadata": {}}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return make_origin(tmp_path_factory.mktemp("origin"))


@pytest.fixture
def origin(template: Origin, tmp_path: Path) -> Origin:
    found = template.copy(tmp_path)
    found.insert(1)
    return found


def alter(origin: Origin, change: Any) -> int:
    """Somebody else changes the columns: ``change(fields)``."""
    metadata = tables.snapshot(origin.path).metadata
    fields = [dict(field) for field in json.loads(metadata["schemaString"])["fields"]]
    changed = {**metadata, "schemaString": json.dumps({"type": "struct", "fields": change(fields)})}
    return origin.commit({"metaData": changed})


def add(fields: list[Any]) -> list[Any]:
    return [*fields, NEW]


def without(name: str) -> Any:
    return lambda fields: [field for field in fields if field["name"] != name]


def retyped(name: str, kind: str) -> Any:
    return lambda fields: [field | ({"type": kind} if field["name"] == name else {}) for field in fields]


# --- drift ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (add, "gate: expected nothing, found STRING"),
        (without("x"), "x: expected INT, found nothing"),
        (retyped("x", "long"), "x: expected INT, found BIGINT"),
        (retyped("x", "variant"), "column x of the table has the type variant, which schemamig does not manage"),
        (lambda fields: [{**field, "nullable": True} for field in fields], "id: expected NOT NULL, found nullable"),
        (lambda fields: [field | {"name": field["name"].replace("x", "z")} for field in fields], "x: expected INT, found nothing; z: "),
    ],
)
def test_drift_holds_up_what_comes_after_it(origin: Origin, change: Any, detail: str) -> None:
    """What lies before is brought; there the stream stands, also after the next look."""
    version = alter(origin, change)
    tables.put(origin.path, version, [{"commitInfo": {"operation": "WRITE"}}, {"add": {"path": "f", "size": 1}}])
    assert origin.ranges() == [(0, 1, "id x")]
    found = origin.found(1)
    assert (found.batch, found.seen, found.head_version) == (None, version - 1, version + 1)
    assert found.drift is not None
    assert found.drift.version == version
    assert found.drift.detail.startswith(detail)
    assert origin.found(found.seen).drift == found.drift


@pytest.mark.parametrize("change", [reversed, lambda fields: [field | {"metadata": {"comment": "c"}} for field in fields]])
def test_order_and_comments_are_no_drift(origin: Origin, change: Any) -> None:
    version = alter(origin, lambda fields: list(change(fields)))
    tables.put(origin.path, version, [{"commitInfo": {"operation": "WRITE"}}, {"add": {"path": "f", "size": 1}}])
    assert [hi for _, hi, _ in origin.ranges()] == [1, version + 1]


def test_drift_that_was_taken_back(origin: Origin) -> None:
    """A column more did not touch the others: the rows of the meantime are brought, in a batch of their own."""
    version = alter(origin, add)
    origin.insert(2, gate="B2")
    assert origin.found(1).drift is not None
    alter(origin, without("gate"))
    origin.insert(3)
    assert origin.ranges() == [(0, 1, "id x"), (version, version + 1, "id x"), (version + 2, version + 3, "id x")]


@pytest.mark.parametrize("away", [without("x"), retyped("x", "string")])
def test_rows_without_a_column_that_came_back(origin: Origin, away: Any) -> None:
    """Nobody can say what x was for them."""
    alter(origin, away)
    now = tables.snapshot(origin.path)
    file = tables.data_file(origin.path, now.fields, [{"id": 2, "x": None}])
    written = origin.commit({"add": file})
    alter(origin, lambda fields: [{**NEW, "name": "id", "type": "long", "nullable": False}, {**NEW, "name": "x", "type": "integer"}])
    found = origin.found(1)
    assert found.drift is not None
    assert (found.drift.version, found.seen) == (written, written - 1)
    assert found.drift.detail.endswith(", for a while")


def test_no_rows_in_the_meantime_no_loss(origin: Origin) -> None:
    alter(origin, without("x"))
    version = alter(origin, lambda fields: [*fields, {**NEW, "name": "x", "type": "integer"}])
    origin.insert(2)
    assert origin.ranges(1) == [(version, version + 1, "id x")]


def test_drift_that_was_taken_over(origin: Origin) -> None:
    """By ``accept``: the ledger's row begins later than the columns, which were theirs all the time."""
    version = alter(origin, add)
    origin.insert(2, gate="B2")
    origin.insert(3, gate="B3")
    accept(origin.lake.env, origin.lake.first)
    origin.insert(4, gate="B4")
    assert origin.ranges() == [(0, 1, "id x"), (version, version + 3, "id x gate")]


def test_drift_taken_over_after_a_second_one(origin: Origin) -> None:
    version = alter(origin, add)
    origin.insert(2, gate="B2")
    alter(origin, lambda fields: [*fields, {**NEW, "name": "door"}])
    origin.insert(3, gate="B3", door="D")
    accept(origin.lake.env, origin.lake.first)
    assert origin.ranges(1) == [(version, version + 1, "id x gate door"), (version + 2, version + 3, "id x gate door")]


def mapped(origin: Origin) -> Origin:
    """Let the table know its columns by ids, as a release that drops one does."""
    commands.alter(origin.lake.env, "ALTER TABLE t ADD COLUMN gone STRING", jobs=origin.no_jobs)
    commands.alter(origin.lake.env, "ALTER TABLE t DROP COLUMN gone", jobs=origin.no_jobs)
    return origin


@pytest.mark.parametrize("stop", [False, True], ids=["one look", "a look behind the change"])
def test_rows_between_two_changes_that_one_accept_takes_over_have_no_value_in_what_came_later(origin: Origin, stop: bool) -> None:
    """They are of the accepted schema, also for a look that begins behind the change that they follow."""
    version = alter(origin, without("x"))
    between = insert_nested(origin, 2)
    alter(origin, add)
    last = insert_nested(origin, 3)
    accept(origin.lake.env, origin.lake.first)
    batches = origin.all(version if stop else 1)
    assert [(batch.hi, columns(batch.entry), set(batch.absent)) for batch in batches] == [
        (between, "id gate", {"gate"}),
        (last, "id gate", set()),
    ]


@pytest.mark.parametrize("stop", [False, True], ids=["one look", "a look behind the change"])
def test_a_column_that_came_back_as_another_one_was_gone_for_the_rows_between(tmp_path: Path, stop: bool) -> None:
    """Where columns have names of their own in the files, one that was added again by the name is another one."""
    origin = mapped(make_origin(tmp_path))
    version = origin.newest + 1
    foreign.drop_column(origin.path, "x")
    between = insert_nested(origin, 2)
    foreign.add_column(origin.path, "x", "integer")
    found = origin.found(version if stop else version - 1)
    assert found.drift is not None
    assert "x: expected INT, found nothing" in found.drift.detail
    accept(origin.lake.env, origin.lake.first)
    last = insert_nested(origin, 3)
    assert [batch.hi for batch in origin.all(version if stop else version - 1)] == [between, last]


def test_taken_back_before_a_release(origin: Origin) -> None:
    version = alter(origin, add)
    origin.insert(2, gate="B2")
    alter(origin, without("gate"))
    origin.lake.upgrade(origin.lake.second)
    origin.insert(3)
    assert origin.ranges(1) == [(version, version + 1, "id x"), (origin.newest - 1, origin.newest, "id x y")]


def test_the_log_begins_with_the_drift(origin: Origin) -> None:
    """Then the ledger says what the columns were."""
    version = alter(origin, add)
    (protocol,) = [action["protocol"] for action in tables.commit_at(origin.path, 0) if "protocol" in action]
    metadata = tables.snapshot(origin.path).metadata
    for old in range(version):
        (origin.path / "_delta_log" / f"{old:020}.json").unlink()
    checksum = {"protocol": protocol, "metadata": metadata}
    (origin.path / "_delta_log" / f"{version:020}.crc").write_text(json.dumps(checksum))
    found = origin.found(version - 1)
    assert found.drift is not None
    assert found.drift.detail == "gate: expected nothing, found STRING"


def test_older_than_the_ledger(origin: Origin) -> None:
    """Nobody restored the stream at a version that schemamig knows."""
    state = origin.lake.state
    entry = replace(state.entry(T), since_table_version=5)
    later = state.after([], state.version)
    later._decoded.setdefault("schemas", {})[next(iter(later._texts["schemas"]))] = entry
    found = next_events(origin.lake.env, later, T, origin.shard, 0)
    assert found.drift is not None
    assert (found.drift.version, found.seen) == (1, 0)


# --- upgrades under way --------------------------------------------------------------------------------------------------------------


def test_an_upgrade_under_way_is_no_drift(origin: Origin) -> None:
    """Rows that somebody writes now may have a value in y, and no row of the ledger has y yet: they wait for its end."""
    generation = expanded(origin.lake, origin.lake.second)
    version = origin.newest
    origin.insert(2, y="new")
    found = origin.found(1)
    assert (found.batch, found.drift, found.seen) == (None, None, version)
    assert found.waits
    assert found.behind_since is not None
    assert origin.found(found.seen).waits == found.waits
    commands.cutover(origin.lake.env, generation, jobs=origin.no_jobs)
    assert origin.ranges(1) == [(version, version + 1, "id x y")]


def test_an_upgrade_that_was_given_up(origin: Origin) -> None:
    expanded(origin.lake, origin.lake.second)
    origin.insert(2)
    assert origin.found(1).waits
    commands.rollback(origin.lake.env)
    origin.insert(3)
    assert [names for _, _, names in origin.ranges(1)] == ["id x"] * len(origin.ranges(1))
    assert origin.all(1)[-1].hi == origin.newest


def test_our_writers_say_what_they_write_also_meanwhile(origin: Origin) -> None:
    expanded(origin.lake, origin.lake.second)
    version = origin.newest
    origin.append(2)
    origin.append(3, release="1.1.0")
    assert origin.ranges(1) == [(version, version + 1, "id x")]
    assert origin.found(version + 1).waits


def test_before_it_touches_the_table_all_goes_on(origin: Origin) -> None:
    promoted(origin.lake, origin.lake.second)
    origin.insert(2)
    assert origin.ranges() == [(0, 2, "id x")]


def test_a_ledger_that_was_read_before_the_upgrade_began(origin: Origin) -> None:
    """The table's commit is tagged: who finds it reads the ledger again."""
    state = origin.lake.state
    expanded(origin.lake, origin.lake.second)
    origin.insert(2, y="new")
    found = next_events(origin.lake.env, state, T, origin.shard, 1)
    assert found.batch is None
    assert found.waits
    assert not state.intents_of(origin.shard)


def test_a_ledger_that_was_read_before_the_upgrade_ended(origin: Origin) -> None:
    generation = expanded(origin.lake, origin.lake.second)
    version, state = origin.newest, origin.lake.state
    commands.cutover(origin.lake.env, generation, jobs=origin.no_jobs)
    origin.insert(2, y="new")
    found = next_events(origin.lake.env, state, T, origin.shard, 1).batch
    assert found is not None
    assert (found.lo, found.hi, len(found.entry.declared.fields)) == (version, version + 1, 3)


def test_a_foreign_change_while_an_upgrade_is_under_way(origin: Origin) -> None:
    generation = expanded(origin.lake, origin.lake.second)
    tables.set_property(origin.path, "delta.logRetentionDuration", "interval 3 days")
    origin.insert(2)
    assert origin.found(1).drift is None
    version = alter(origin, add)
    assert origin.found(1).waits
    with refused("drift", T):
        commands.cutover(origin.lake.env, generation, jobs=origin.no_jobs)
    alter(origin, without("gate"))
    commands.cutover(origin.lake.env, generation, jobs=origin.no_jobs)
    assert [(lo, hi) for lo, hi, _ in origin.ranges(1)] == [(version - 2, version - 1)]


def test_rename_widen_and_drop_between_events(tmp_path: Path) -> None:
    """The row that is valid at the event's version, whatever the table is by now."""
    second = "CREATE TABLE t (id BIGINT NOT NULL, z BIGINT, PRIMARY KEY (id));"
    origin = make_origin(tmp_path, FIRST.replace("x INT", "x INT, w STRING"), second, 'evolution("t", rename={"x": "z"}, drop=["w"])')
    origin.insert(1)
    origin.lake.upgrade(origin.lake.second, hold=timedelta(0))
    origin.insert(2, z=1 << 40)
    first, last = origin.all()
    assert [field.name for field in first.entry.declared.fields] == ["id", "x", "w"]
    assert [field.name for field in last.entry.declared.fields] == ["id", "z"]
    assert (first.hi, last.lo, last.hi) == (1, origin.newest - 1, origin.newest)
    assert first.fingerprint != last.fingerprint


def test_between_expand_and_the_renames_of_the_cut_over(tmp_path: Path) -> None:
    """Versions of one release at which the table was on its way: they are the release's, once that is in force."""
    second = "CREATE TABLE t (id BIGINT NOT NULL, z BIGINT, y STRING, PRIMARY KEY (id));"
    origin = make_origin(tmp_path, FIRST, second, 'evolution("t", rename={"x": "z"})')
    generation = expanded(origin.lake, origin.lake.second)
    version = origin.insert(2, y="new")
    commands.cutover(origin.lake.env, generation, jobs=origin.no_jobs)
    origin.insert(3)
    assert origin.ranges() == [(version - 1, version, "id z y"), (origin.newest - 1, origin.newest, "id z y")]


# --- fields inside of columns --------------------------------------------------------------------------------------------------------

NESTED = {
    "column": ("a STRING", "a STRING, b STRING"),
    "struct": ("s STRUCT<a: STRING>", "s STRUCT<a: STRING, b: STRING>"),
    "array": ("s ARRAY<STRUCT<a: STRING>>", "s ARRAY<STRUCT<a: STRING, b: STRING>>"),
    "map": ("s MAP<STRING, STRUCT<a: STRING>>", "s MAP<STRING, STRUCT<a: STRING, b: STRING>>"),
}


@pytest.fixture(params=NESTED)
def nested(request: pytest.FixtureRequest, tmp_path: Path) -> Origin:
    first, second = (f"CREATE TABLE t (id BIGINT NOT NULL, {columns});" for columns in NESTED[request.param])
    return make_origin(tmp_path, first, second)


def insert_nested(origin: Origin, number: int) -> int:
    """Insert a row with NULL for all columns but its id: a stream goes by what the table has, not by values."""
    return tables.insert(origin.path, [{field["name"]: None for field in tables.snapshot(origin.path).fields} | {"id": number}])


def has_b(origin: Origin, after: int) -> list[tuple[int, bool]]:
    """Return the last event of each batch, and whether its schema has the field b."""
    return [(batch.hi, "b" in [path.rpartition(".")[2] for path, _ in walk(batch.entry.declared.fields)]) for batch in origin.all(after)]


def test_an_added_field_of_an_upgrade_that_was_given_up_and_made_again_is_brought_at_any_depth(nested: Origin) -> None:
    expanded(nested.lake, nested.lake.second)
    during = insert_nested(nested, 2)
    commands.rollback(nested.lake.env)
    between = insert_nested(nested, 3)
    nested.lake.upgrade(nested.lake.second)
    found = has_b(nested, 0)
    assert all(added for version, added in found if version in (during, between)), found
    assert max(version for version, _ in found) == between


def test_a_row_right_before_an_accept_has_the_accepted_field_at_any_depth(nested: Origin) -> None:
    """Also for a look that begins behind the change, as that of a stream whose target has to be upgraded first."""
    (wanted,) = parse_schema((nested.lake.second / "schema.sql").read_text(), "schema.sql")
    version = nested.write_metadata({"type": "struct", "fields": [field_to_delta(field) for field in wanted.fields]}, None)
    last = insert_nested(nested, 2)
    accept(nested.lake.env, nested.lake.first)
    assert has_b(nested, version) == [(last, True)]
