"""What came since a version, by the log alone: each kind of commit of delta-rs, and what a file's way through several of them means."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.key_validation import (
    KeyFinding,
    PinnedKeys,
    Source,
    Validated,
    findings,
    lost_rows,
    new_files,
    pending_key_check,
)
from airflow_provider_schemamig.core.online.keys import Reference, Unique
from airflow_provider_schemamig.core.storage import Location, ReadStore, StorageOptions, open_store
from tests.support.tables import foreign

T = CollectionName("t")


class Table:
    """``id``, ``g``; one file a write."""

    def __init__(self, folder: Path, *, partitioned: bool = False) -> None:
        self.path = folder / "t"
        self.partitioned = partitioned
        self.write(0)

    @property
    def store(self) -> ReadStore:
        return open_store(Location.parse(str(self.path)), StorageOptions({}))

    def write(self, *ids: int, mode: Any = "append", tag: str | None = None) -> None:
        data = pa.table({"id": pa.array(ids, pa.int64()), "g": pa.array([found % 2 for found in ids], pa.int32())})
        properties = None if tag is None else CommitProperties(custom_metadata={"userMetadata": tag})
        partition_by = ["g"] if self.partitioned else None
        write_deltalake(str(self.path), data, mode=mode, partition_by=partition_by, commit_properties=properties)

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(str(self.path))

    def new_files(self, since: int = 0) -> list[tuple[int, str]]:
        """Version and operation for each file."""
        found = new_files(self.store, since, self.delta.version())
        names = {file.rpartition("/")[2] for file in self.delta.file_uris()}
        assert {path.rpartition("/")[2] for path in found} <= names, "only files that are there"
        return sorted((source.version, source.operation) for source in found.values())

    def pinned(self, *columns: str) -> PinnedKeys:
        return PinnedKeys(self.store, read_head(self.store), columns)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def steps(*acts: Callable[[Table], object]) -> Callable[[Table], None]:
    def all_of_them(table: Table) -> None:
        for act in acts:
            act(table)

    return all_of_them


def writes(number: int, mode: str = "append") -> Callable[[Table], None]:
    return lambda table: table.write(number, mode=mode)


def deletes(number: int) -> Callable[[Table], object]:
    return lambda table: table.delta.delete(f"id = {number}")


def compacts(table: Table) -> object:
    return table.delta.optimize.compact()


def hides_a_row_and_restores_it(table: Table) -> None:
    """A deletion vector of the first file, and a RESTORE to before it."""
    lines = (table.path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    (added,) = [action["add"] for action in map(json.loads, lines) if "add" in action]
    hiding = {"storageType": "u", "pathOrInlineDv": "abcdefghij0123456789", "offset": 1, "sizeInBytes": 36, "cardinality": 1}
    removed = {"path": added["path"], "dataChange": True, "deletionTimestamp": 1}
    foreign.commit(table.path, {"remove": removed}, {"add": {**added, "deletionVector": hiding}}, operation="DELETE")
    foreign.commit(table.path, {"remove": {**removed, "deletionVector": hiding}}, {"add": added}, operation="RESTORE")


CASES: dict[str, tuple[Callable[[Table], None], list[tuple[int, str]], bool]] = {
    "nothing": (steps(), [], False),
    "append": (steps(writes(1)), [(1, "WRITE")], False),
    "two appends": (steps(writes(1), writes(2)), [(1, "WRITE"), (2, "WRITE")], False),
    "overwrite": (steps(writes(1), writes(2, "overwrite")), [(2, "WRITE")], True),
    "delete of old rows": (steps(writes(1), deletes(0)), [(1, "WRITE")], True),
    "delete of new rows": (steps(writes(1), deletes(1)), [], True),
    "update": (steps(lambda table: table.delta.update({"g": "7"}, predicate="id = 0")), [(1, "UPDATE")], True),
    "old and new compacted": (steps(writes(1), compacts), [(1, "WRITE")], False),
    "old ones compacted": (steps(compacts), [], False),
    "several compacted": (steps(writes(1), writes(2), compacts), [(3, "OPTIMIZE")], False),
    "hidden and restored": (hides_a_row_and_restores_it, [(2, "RESTORE")], True),
    "restored": (steps(deletes(0), lambda table: table.delta.restore(0)), [(2, "RESTORE")], True),
}


@pytest.mark.parametrize("name", CASES)
def test_online_watch_what_a_commit_brings(table: Table, name: str) -> None:
    act, expected, lost = CASES[name]
    act(table)
    assert table.new_files() == expected
    assert lost_rows(table.store, 0, table.delta.version()) is lost
    assert table.new_files(table.delta.version()) == []


def test_online_watch_what_was_there_before_is_not_brought_by_being_compacted(table: Table) -> None:
    table.write(1)
    table.delta.optimize.compact()
    assert table.new_files(since=1) == []
    table.write(2)
    assert table.new_files(since=1) == [(3, "WRITE")]


@pytest.mark.parametrize("since", [0, 1], ids=["new file", "old file"])
def test_a_deletion_vector_brings_no_rows(table: Table, since: int) -> None:
    table.write(1)
    (added,) = [add for add in foreign._actions(table.path) if add.get("add", {}).get("path") == foreign.active_files(table.path)[-1]]
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    remove = {"path": added["add"]["path"], "dataChange": True, "deletionTimestamp": 1}
    foreign.commit(table.path, {"remove": remove}, {"add": {**added["add"], "deletionVector": vector}})
    found = new_files(table.store, since, 2)
    assert [source.version for source in found.values()] == [1] * (since == 0)
    assert lost_rows(table.store, 1, 2)


def test_online_watch_who_it_was_is_told(table: Table) -> None:
    table.write(1, tag="nightly-load")
    ((_, source),) = new_files(table.store, 0, 1).items()
    assert source == Source(1, "WRITE", "nightly-load")


def test_a_log_that_does_not_go_back_that_far(table: Table) -> None:
    table.write(1)
    table.write(2)
    table.delta.create_checkpoint()
    (table.path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(LogTruncated):
        new_files(table.store, 0, 2)
    asked = pending_key_check(T, Unique(("id",), True), table.pinned("id"), None, Validated(0))
    assert asked.check is not None and "new_files" not in asked.check, "every row is asked"


# --- what is asked -------------------------------------------------------------------------------------------------------------------


def test_a_key_is_asked_of_what_came(table: Table) -> None:
    key = Unique(("id", "g"), False)
    nothing = pending_key_check(T, key, table.pinned("id", "g"), None, Validated(0))
    assert (nothing.check, nothing.validated) == (None, Validated(0))
    table.write(1, 2)
    asked = pending_key_check(T, key, table.pinned("id", "g"), None, Validated(0))
    check = dict(asked.check or {})
    (name,) = check.pop("new_files")
    assert name in table.delta.file_uris()[0] + table.delta.file_uris()[1]
    expected = {"collection": "t", "uri": table.store.location.uri, "version": 1, "rule": "UNIQUE (id, g)", "kind": "duplicate_key"}
    assert check == {**expected, "columns": ["id", "g"]}
    everything = pending_key_check(T, key, table.pinned("id", "g"), None, None)
    assert everything.check == check
    later = pending_key_check(T, key, table.pinned("id", "g"), None, Validated(9))
    assert later.check == check, "a version that this table never had is no knowledge of it"


def test_a_reference_is_asked_of_all_rows_if_what_they_refer_to_may_be_gone(tmp_path: Path) -> None:
    table, other = Table(tmp_path / "one"), Table(tmp_path / "other")
    key = Reference(("g",), CollectionName("other"), ("id",))

    def asked(since: Validated) -> Any:
        check = pending_key_check(T, key, table.pinned("g"), other.pinned("id"), since).check
        return None if check is None else (check["referenced_version"], len(check["new_files"]) if "new_files" in check else "all")

    assert asked(Validated(0, 0)) is None
    other.write(1)
    assert asked(Validated(0, 0)) is None, "who adds there breaks nothing here"
    table.write(1)
    assert asked(Validated(0, 0)) == (1, 1)
    assert asked(Validated(0, None)) == asked(Validated(0, 5)) == (1, "all")
    other.delta.delete("id = 0")
    assert asked(Validated(0, 1)) == (2, "all")
    assert asked(Validated(0, 2)) == (2, 1)


def test_findings_name_rows_and_commits(table: Table) -> None:
    table.write(1, tag="one")
    table.write(2)
    table.write(3)
    asked = pending_key_check(T, Unique(("id",), True), table.pinned("id"), None, Validated(0))
    files = {source.version: path for path, source in new_files(table.store, 0, 3).items()}
    by_file = [{"file": f"file:///x/{files[version]}", "rows": version, "sample": {"id": str(version)}} for version in (2, 1)]
    found = findings(asked, [{"count": 3, "sample": [], "by_file": by_file}])
    assert [(item.rows, item.sample, item.source and item.source.version) for item in found] == [(1, ("id = 1",), 1), (2, ("id = 2",), 2)]
    assert found[0] == KeyFinding(T, "PRIMARY KEY (id)", 1, ("id = 1",), Source(1, "WRITE", "one"))
    whole = pending_key_check(T, Unique(("id",), True), table.pinned("id"), None, None)
    (all_rows,) = findings(whole, [{"count": 2, "sample": [{"id": "1", "rows": 2}]}])
    assert (all_rows.rows, all_rows.sample, all_rows.source) == (2, ("id = 1, rows = 2",), None)


def test_files_of_partitions_are_known_by_their_names(tmp_path: Path) -> None:
    table = Table(tmp_path, partitioned=True)
    table.write(1, 2)
    asked = pending_key_check(T, Unique(("id",), True), table.pinned("id"), None, Validated(0))
    assert asked.check is not None
    assert sorted(asked.check["new_files"]) == sorted(uri.rpartition("/")[2] for uri in table.delta.file_uris() if _is_new(table, uri))


def _is_new(table: Table, uri: str) -> bool:
    return any(uri.endswith(path) for path in new_files(table.store, 0, 1))
