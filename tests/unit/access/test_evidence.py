"""What a table's files prove about a promise that its schema took back."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from airflow_provider_schemamig.core.access.statement import Stamp
from airflow_provider_schemamig.core.delta.log.commits import unproven_since, values_in
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.names import CollectionName, Generation, Version
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from tests.support.lake import Lake
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, releases, two_releases

OLD = "CREATE TABLE t (id BIGINT NOT NULL, n INT, s STRUCT<a: INT>);"
NEW = "CREATE TABLE t (id BIGINT, n BIGINT, s STRUCT<a: BIGINT>);"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, OLD, NEW, 'evolution("t")')
    foreign.write(found.path("t"), [{"id": 1, "n": 1}], statistics=False)
    found.upgrade(found.second)
    return found


def fenced(lake: Lake, column: str, release: str | None = "1.0.0") -> bool:
    try:
        lake.env.reader("t", release).pin([column])
    except ReaderFenced:
        return True
    return False


def add(lake: Lake, stats: Any, **more: Any) -> None:
    file = {"path": f"part-{stats!r}", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    foreign.commit(lake.path("t"), {"add": {**file, "stats": json.dumps(stats) if stats is not None else None, **more}})


def test_files_from_before_need_to_prove_nothing(lake: Lake) -> None:
    assert not any(fenced(lake, column) for column in ("id", "n", "s"))


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ({"numRecords": 2, "nullCount": {"id": 0, "n": 2, "s": {"a": 2}}}, (False, False, False)),
        ({"numRecords": 2, "nullCount": {"id": 1, "n": 1}, "minValues": {"n": -5}, "maxValues": {"n": 2**31 - 1}}, (True, False, True)),
        ({"numRecords": 2, "nullCount": {"id": 0}, "minValues": {"n": -(2**31) - 1}, "maxValues": {"n": 0}}, (False, True, True)),
        ({"numRecords": 2, "nullCount": {"id": 0}, "minValues": {"n": 0}, "maxValues": {"n": 2**31}}, (False, True, True)),
        ({"numRecords": 2, "minValues": {"n": 0, "s": {"a": 0}}, "maxValues": {"n": 1, "s": {"a": 1}}}, (True, False, False)),
        ({"numRecords": 2, "maxValues": {"n": 1}}, (True, True, True)),
        ({"numRecords": 0}, (False, False, False)),
        ({}, (True, True, True)),
        (None, (True, True, True)),
        ("not an object", (True, True, True)),
    ],
)
def test_later_ones_do_by_their_statistics(lake: Lake, stats: Any, expected: tuple[bool, ...]) -> None:
    add(lake, stats)
    assert tuple(fenced(lake, column) for column in ("id", "n", "s")) == expected
    foreign.commit(lake.path("t"), {"remove": {"path": f"part-{stats!r}", "dataChange": True}})
    assert not any(fenced(lake, column) for column in ("id", "n", "s")), "rows that are gone do not count"


# --- types whose values no bounds tell ---------------------------------------------------------------------------------------------

FLOATS = "CREATE TABLE t (id BIGINT, x FLOAT, s STRUCT<y: FLOAT>, d DATE, p DECIMAL(4,1));"
DOUBLES = "CREATE TABLE t (id BIGINT, x DOUBLE, s STRUCT<y: DOUBLE>, d TIMESTAMP_NTZ, p DECIMAL(9,3));"
WIDENED = ("x", "s", "d", "p")


@pytest.fixture
def floats(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, FLOATS, DOUBLES, 'evolution("t")')
    foreign.commit(found.path("t"), {"add": file("before")})
    return found


def any_fenced(lake: Lake, release: str | None = "1.0.0") -> set[str]:
    return {column for column in WIDENED if fenced(lake, column, release)}


def file(name: str, **more: Any) -> dict[str, Any]:
    return {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, **more}


def by_handle(lake: Lake, release: str, declared: str) -> str:
    """What a commit of a writer of the release says."""
    [declaration] = parse_schema(declared, "schema.sql")
    return Stamp(fingerprint(declaration), Version.parse(release), None, "env").text


def expand(lake: Lake) -> Generation:
    generation = commands.preflight(lake.env, lake.second, jobs=without_spark).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    return generation


def test_evidence_what_was_there_before_a_widening_is_served_at_every_stage(floats: Lake) -> None:
    """Also by the release's own readers after a rollback, before its commit and after it."""
    generation = expand(floats)
    assert not any_fenced(floats)
    assert not any_fenced(floats, None)
    commands.rollback(floats.env)
    assert not any_fenced(floats)
    floats.upgrade(floats.second)
    assert not any_fenced(floats)
    commands.rollback(floats.env)
    assert generation < max(floats.state.deployments)
    assert not any_fenced(floats)
    assert not any_fenced(floats, None)


@pytest.mark.parametrize("committed", [False, True])
def test_rows_of_its_own_handles_are_served_and_others_are_not(floats: Lake, committed: bool) -> None:
    if committed:
        floats.upgrade(floats.second)
    else:
        expand(floats)
    commands.rollback(floats.env)
    ours, theirs = by_handle(floats, "1.0.0", FLOATS), by_handle(floats, "1.1.0", DOUBLES)
    foreign.commit(floats.path("t"), {"add": file("ours")}, says=ours)
    assert not any_fenced(floats)
    for says in (None, theirs, "not json", '["schema_hash", "attempt"]', ours.replace("sf1:", "sf1:0")):
        foreign.commit(floats.path("t"), {"add": file("theirs")}, says=says)
        assert any_fenced(floats) == set(WIDENED), says
        foreign.commit(floats.path("t"), {"remove": {"path": "theirs", "dataChange": True}})
        assert not any_fenced(floats), says


def test_files_that_are_written_anew_are_what_their_rows_were(floats: Lake) -> None:
    """Compaction of what fits fits; a merge by a handle carries on what was in the files that it replaces, and so do deleted rows."""
    floats.upgrade(floats.second)
    ours, gone = by_handle(floats, "1.0.0", FLOATS), {"dataChange": False}
    foreign.commit(floats.path("t"), {"add": file("a")}, says=ours)
    foreign.commit(floats.path("t"), {"remove": {"path": "a", **gone}}, {"add": file("b", **gone)})
    assert not any_fenced(floats)
    foreign.commit(
        floats.path("t"),
        {"remove": {"path": "b", "dataChange": True}},
        {"add": file("b", deletionVector={"storageType": "u", "pathOrInlineDv": "v"})},
    )
    assert not any_fenced(floats), "rows deleted by anybody"
    foreign.commit(floats.path("t"), {"add": file("theirs")})
    assert any_fenced(floats)
    foreign.commit(floats.path("t"), {"remove": {"path": "theirs", "dataChange": True}}, {"add": file("merged")}, says=ours)
    assert any_fenced(floats), "a handle's merge keeps others' values"
    foreign.commit(floats.path("t"), {"remove": {"path": "merged", **gone}}, {"add": file("compacted", **gone)})
    assert any_fenced(floats)
    foreign.commit(floats.path("t"), {"remove": {"path": "compacted", "dataChange": True}}, {"add": file("c")})
    assert any_fenced(floats), "an UPDATE of somebody else"


@pytest.mark.parametrize(("action", "proven"), [("backfill:w", True), ("backfill:x", False), ("cluster", False)])
def test_a_batch_that_fills_another_column_keeps_the_rows_of_handles(tmp_path: Path, action: str, proven: bool) -> None:
    first, second = "CREATE TABLE t (x FLOAT, w STRING);", "CREATE TABLE t (x DOUBLE, w STRING);"
    lake = two_releases(tmp_path, first, second, 'evolution("t")')
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    batch = json.dumps({"schemamig": {"action": action, "epoch": 9, "generation": 9}})
    foreign.commit(lake.path("t"), {"add": file("ours")}, says=by_handle(lake, "1.0.0", first))
    assert not fenced(lake, "x")
    foreign.commit(lake.path("t"), {"remove": {"path": "ours", "dataChange": True}}, {"add": file("filled")}, says=batch)
    assert fenced(lake, "x") is not proven
    foreign.commit(lake.path("t"), {"add": file("theirs")})
    foreign.commit(lake.path("t"), {"remove": {"path": "theirs", "dataChange": True}}, {"add": file("kept")}, says=batch)
    assert fenced(lake, "x"), "the rows of others stay theirs"


def test_a_default_that_the_table_fills_in_proves_nothing(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE t (x FLOAT);", "CREATE TABLE t (x DOUBLE DEFAULT 0.1D);", 'evolution("t")')
    lake.upgrade(lake.second)
    foreign.commit(lake.path("t"), {"add": file("ours")}, says=by_handle(lake, "1.0.0", "CREATE TABLE t (x FLOAT);"))
    assert fenced(lake, "x")


def test_a_release_that_looks_the_same_and_had_another_column_by_the_name_proves_nothing(tmp_path: Path) -> None:
    first = "CREATE TABLE t (id BIGINT, x FLOAT, y DOUBLE);"
    second, alike = first.replace("FLOAT", "DOUBLE"), 'evolution("t", rename={"x": "y"}, drop=["y"])'
    found = releases(tmp_path, (first, ""), (second, 'evolution("t")'), (first, alike))
    lake = deployed(tmp_path, found[0], found[1])
    says = by_handle(lake, "1.2.0", first)
    foreign.commit(lake.path("t"), {"add": file("narrow")}, says=says)
    for release in found[1:]:
        lake.upgrade(release)
    foreign.commit(lake.path("t"), {"add": file("wide")}, says=says)
    for _ in range(2):
        commands.rollback(lake.env)
        assert fenced(lake, "x"), "what 1.2.0 calls y, and has written doubles into"
        assert not fenced(lake, "id")


def test_the_text_says_why_the_own_release_is_fenced(floats: Lake) -> None:
    expand(floats)
    foreign.commit(floats.path("t"), {"add": file("theirs")})
    with pytest.raises(ReaderFenced) as caught:
        floats.env.reader("t").pin(["x"])
    assert "with the environment at 1.0.0 and an upgrade to 1.1.0 under way: column x is FLOAT for it, and DOUBLE" in caught.value.message
    moved = "An upgrade is under way: move this reader to release 1.1.0 once it is committed, or leave x"
    assert caught.value.next_action.startswith(moved)
    commands.rollback(floats.env)
    with pytest.raises(ReaderFenced) as caught:
        floats.env.reader("t").pin(["x"])
    assert "under way" not in caught.value.message
    assert caught.value.next_action.startswith("A rollback left it so: take the rows out that do not fit")


def test_a_null_from_before_a_way_back_still_counts(tmp_path: Path) -> None:
    """NOT NULL stays dropped after the rollback, because of that NULL: the release's own readers are not told otherwise."""
    lake = two_releases(tmp_path, OLD, NEW, 'evolution("t")')
    lake.upgrade(lake.second)
    foreign.write(lake.path("t"), [{"id": None}])
    commands.rollback(lake.env)
    foreign.write(lake.path("t"), [{"id": 2}])
    assert (fenced(lake, "id"), fenced(lake, "s")) == (True, True)


def test_a_log_that_was_cleaned_proves_nothing(lake: Lake) -> None:
    add(lake, {"numRecords": 2, "nullCount": {"id": 0}, "minValues": {"n": 0}, "maxValues": {"n": 1}})
    assert not fenced(lake, "id")
    found = read_head(lake.env.table_store(lake.state.shard_of(CollectionName("t")).uri))
    assert found.version == 3
    (lake.path("t") / "_delta_log" / f"{3:020}.crc").write_text(
        json.dumps({"metadata": dict(found.metadata), "protocol": dict(found.protocol)})
    )
    foreign.commit(lake.path("t"))
    (lake.path("t") / "_delta_log" / f"{3:020}.json").unlink()
    assert fenced(lake, "id")


def test_decimals_are_compared_exactly(tmp_path: Path) -> None:
    found = releases(tmp_path, ("CREATE TABLE t (p DECIMAL(20,2));", ""), ("CREATE TABLE t (p DECIMAL(38,2));", 'evolution("t")'))
    lake = deployed(tmp_path, *found)
    lake.upgrade(found[1])
    add(lake, {"numRecords": 1, "minValues": {"p": 1}, "maxValues": {"p": 1}})
    text = '{"numRecords": 1, "minValues": {"p": 999999999999999999.01}, "maxValues": {"p": 999999999999999999.01}}'
    file = {"path": "exact", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "stats": text}
    foreign.commit(lake.path("t"), {"add": file})
    store = lake.env.table_store(lake.state.shard_of(CollectionName("t")).uri)
    head = read_head(store)
    files = unproven_since(store, 0, head.version, lambda commit: False)
    assert values_in(files, head, "p") == (Decimal(1), Decimal("999999999999999999.01"))
    assert fenced(lake, "p"), "rather too early than too late: less than one below the limit"


@pytest.mark.parametrize(
    "column, value, large", [("ARRAY<{}>", [1], [2**40]), ("MAP<STRING, {}>", {"k": 1}, {"k": 2**40})], ids=["element", "value"]
)
def test_evidence_of_what_arrays_and_maps_hold_is_the_files_of_before(tmp_path: Path, column: str, value: Any, large: Any) -> None:
    """Statistics do not look into them: files of before fit, and of those that came since nothing is known."""
    old, new = (f"CREATE TABLE t (id BIGINT, n {column.format(kind)});" for kind in ("INT", "BIGINT"))
    lake = two_releases(tmp_path, old, new, 'evolution("t")')
    tables.insert(lake.path("t"), [{"id": 1, "n": value}])
    lake.upgrade(lake.second)
    assert not fenced(lake, "n")
    commands.rollback(lake.env)
    assert not fenced(lake, "n")
    assert not fenced(lake, "n", None)
    tables.insert(lake.path("t"), [{"id": 2, "n": large}])
    assert fenced(lake, "n")


def broken_by_alter(path: Path, row: dict[str, Any]) -> None:
    """Let somebody take NOT NULL from v and widen n, and write a row."""
    tables.alter(path, schemaString=loosened(path))
    tables.insert(path, [row])


def broken_by_alter_and_another(path: Path, row: dict[str, Any]) -> None:
    broken_by_alter(path, row)
    tables.set_property(path, "owner", "me")


def broken_by_overwrite(path: Path, row: dict[str, Any]) -> None:
    """Overwrite the table and its schema in one commit, as Spark's ``overwriteSchema`` does."""
    now = tables.snapshot(path)
    metadata = {**now.metadata, "schemaString": loosened(path)}
    gone = [{"remove": {"path": file, "dataChange": True, "deletionTimestamp": 1}} for file in now.files]
    added = tables.data_file(path, json.loads(metadata["schemaString"])["fields"], [row])
    tables.put(path, now.version, [{"commitInfo": {"operation": "WRITE"}}, {"metaData": metadata}, *gone, {"add": added}])


def broken_by_overwrite_and_another(path: Path, row: dict[str, Any]) -> None:
    broken_by_overwrite(path, row)
    tables.set_property(path, "owner", "me")


def loosened(path: Path) -> str:
    fields = [{**field, "nullable": True, "type": field["type"].replace("integer", "long")} for field in foreign.live_schema(path)]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.mark.parametrize(
    "breaks",
    [broken_by_alter, broken_by_alter_and_another, broken_by_overwrite, broken_by_overwrite_and_another],
    ids=lambda found: found.__name__,
)
@pytest.mark.parametrize(
    ("row", "fences"),
    [
        ({"id": 2, "v": None, "n": 1}, "v is NOT NULL for it, and may hold NULL"),
        ({"id": 2, "v": "b", "n": 2**40}, "n is INT for it, and BIGINT in the table"),
        ({"id": 2, "v": "b", "n": 1}, ""),
    ],
    ids=["null", "wide", "fits"],
)
def test_rows_that_broke_a_promise_before_the_break_was_accepted_are_seen(
    tmp_path: Path, breaks: Callable[[Path, dict[str, Any]], None], row: dict[str, Any], fences: str
) -> None:
    (first,) = releases(tmp_path, ("CREATE TABLE t (id BIGINT, v STRING NOT NULL, n INT);", ""))
    lake = deployed(tmp_path, first, first)
    tables.insert(lake.path("t"), [{"id": 1, "v": "a", "n": 1}])
    breaks(lake.path("t"), row)
    commands.accept(lake.env, first)
    reader = lake.env.reader("t", release="1.0.0")
    if not fences:
        assert "b" in reader.arrow(["v"])["v"].to_pylist()
        return
    with pytest.raises(ReaderFenced, match=fences):
        reader.pin()


def test_a_type_that_nobody_knows_and_that_is_gone_again_proves_nothing(tmp_path: Path) -> None:
    (first,) = releases(tmp_path, ("CREATE TABLE t (id BIGINT, v STRING NOT NULL, n INT);", ""))
    lake = deployed(tmp_path, first, first)
    tables.insert(lake.path("t"), [{"id": 1, "v": "a", "n": 1}])
    foreign.add_column(lake.path("t"), "g", "geography")
    foreign.drop_column(lake.path("t"), "g")
    broken_by_alter(lake.path("t"), {"id": 2, "v": "b", "n": 2})
    commands.accept(lake.env, first)
    assert not fenced(lake, "v")
