"""Rows that others brought in spite of a key: found from the log, each commit once, for as long as nobody mends them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.key_validation import Validated
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.upgrade.verify.keys import KeysVerified, verify_keys
from airflow_provider_schemamig.core.upgrade.verify.watch_keys import watch_keys
from tests.support.bytes import tree
from tests.support.lake import Lake
from tests.support.rows.tables import folder_of, snapshot
from tests.support.tables import foreign
from tests.support.upgrades import deployed, refused, releases

SCHEMA = """CREATE TABLE planes (tail STRING, PRIMARY KEY (tail));
CREATE TABLE t (id BIGINT, plane STRING, PRIMARY KEY (id), FOREIGN KEY (plane) REFERENCES planes);
CREATE TABLE plain (id BIGINT);"""
T, PLANES = CollectionName("t"), CollectionName("planes")
ID, PLANE, TAIL = (T, "PRIMARY KEY (id)"), (T, "FOREIGN KEY (plane) REFERENCES planes (tail)"), (PLANES, "PRIMARY KEY (tail)")


@dataclass
class KeyJobs(JobRunner):
    """The job's checks of keys, over rows in lists."""

    asked: list[Mapping[str, Any]] = field(default_factory=list)

    def __call__(self) -> KeyJobs:
        return self

    def run(self, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
        assert (job, request["estimates"]) == ("preflight", [])
        self.asked += request["checks"]
        return {"violations": [found for check in request["checks"] for found in _violations(check)], "estimates": []}

    def cancel(self) -> None:
        raise AssertionError("nobody asked for that")


def _key(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def _violations(check: Mapping[str, Any]) -> list[dict[str, Any]]:
    table = snapshot(folder_of(check["uri"]), check["version"])
    keys: Counter[tuple[Any, ...]] = Counter(_key(row, check["columns"]) for row in table.rows)
    known: set[tuple[Any, ...]] = set()
    if check["kind"] == "orphans":
        others = snapshot(folder_of(check["referenced_uri"]), check["referenced_version"]).rows
        known = {_key(row, check["referenced_columns"]) for row in others}
    by_file: list[dict[str, Any]] = []
    for file in table.files:
        found = [_key(row, check["columns"]) for row in table.rows_of(file)]
        complete = [key for key in found if None not in key]
        orphans, repeated = [key for key in complete if key not in known], [key for key in complete if keys[key] > 1]
        broken = orphans if check["kind"] == "orphans" else repeated
        if broken and file in check.get("new_files", table.files):
            sample = dict(zip(check["columns"], min(broken), strict=True))
            by_file.append({"file": f"file:///lake/{file}", "rows": len(broken), "sample": sample})
    count = sum(item["rows"] for item in by_file)
    result = {"collection": check["collection"], "rule": check["rule"], "count": count, "sample": [item["sample"] for item in by_file]}
    return [{**result, "by_file": by_file}] if count else []


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = deployed(tmp_path, *releases(tmp_path, (SCHEMA, "")) * 2)
    put(lake, "planes", tail=["N1", "N2"])
    put(lake, "t", id=[1], plane=["N1"])
    return lake


def put(lake: Lake, collection: str, tag: str | None = None, **columns: list[Any]) -> None:
    types = {"id": pa.int64(), "plane": pa.string(), "tail": pa.string()}
    table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
    properties = None if tag is None else CommitProperties(custom_metadata={"userMetadata": tag})
    write_deltalake(str(lake.path(collection)), table, mode="append", commit_properties=properties)


def verified(lake: Lake, since: KeysVerified, jobs: KeyJobs | None = None) -> KeysVerified:
    before = tree(lake.path("t").parents[1])
    found = verify_keys(lake.env, lake.state, jobs or KeyJobs(), since.validated)
    assert tree(lake.path("t").parents[1]) == before, "no byte was written"
    return found


def told(found: KeysVerified) -> list[tuple[str, int, tuple[str, ...], int | None]]:
    return [(item.key[:7], item.rows, item.sample, None if item.source is None else item.source.version) for item in found.findings]


def test_each_commit_is_asked_about_once(lake: Lake) -> None:
    first_jobs, later_jobs = KeyJobs(), KeyJobs()
    first = verified(lake, KeysVerified(), first_jobs)
    assert first.findings == () == first.unasked
    assert dict(first.validated) == {ID: Validated(1), PLANE: Validated(1, 1), TAIL: Validated(1)}
    assert not any("new_files" in check for check in first_jobs.asked), "nothing was known before"
    assert verify_keys(lake.env, lake.state, lambda: pytest.fail("no JVM for nothing"), first.validated) == first
    put(lake, "t", id=[2, 3], plane=["N2", None])
    second = verified(lake, first, later_jobs)
    assert (second.findings, second.validated[ID], second.validated[PLANE]) == ((), Validated(2), Validated(2, 1))
    assert [(check["collection"], len(check["new_files"])) for check in later_jobs.asked] == [("t", 1), ("t", 1)]


def test_rows_and_their_commit_are_named_until_they_are_mended(lake: Lake) -> None:
    first = verified(lake, KeysVerified())
    put(lake, "t", "nightly", id=[1, 5], plane=["N1", "N9"])
    put(lake, "t", id=[7], plane=["N2"])
    second = verified(lake, first)
    assert told(second) == [("PRIMARY", 1, ("id = 1",), 2), ("FOREIGN", 1, ("plane = N9",), 2)]
    assert second.findings[0].source is not None and second.findings[0].source.user_metadata == "nightly"
    assert dict(second.validated) == {TAIL: Validated(1)}
    again = verified(lake, KeysVerified((), {**first.validated, **second.validated}))
    assert told(again) == told(second), "not known to be right, so asked again"
    DeltaTable(str(lake.path("t"))).delete("plane = 'N9' OR id = 1")
    mended = verified(lake, KeysVerified((), {**first.validated, **second.validated}))
    assert (mended.findings, mended.validated[ID]) == ((), Validated(4))


def test_a_row_that_others_refer_to_is_taken_away(lake: Lake) -> None:
    first = verified(lake, KeysVerified())
    DeltaTable(str(lake.path("planes"))).delete("tail = 'N1'")
    found = verified(lake, first)
    assert told(found) == [("FOREIGN", 1, ("plane = N1",), None)]
    put(lake, "planes", tail=["N1"])
    assert verified(lake, found).findings == ()


def test_some_collections_only(lake: Lake) -> None:
    found = verify_keys(lake.env, lake.state, KeyJobs(), {}, [PLANES])
    assert dict(found.validated) == {TAIL: Validated(1)}


def test_verify_keys_what_our_own_writers_bring_is_right(lake: Lake) -> None:
    first = verified(lake, KeysVerified())
    lake.env.writer("t").append(pa.table({"id": [8], "plane": ["N1"]}))
    assert verified(lake, first).findings == ()


def test_a_key_over_what_is_not_there_is_said_not_to_be_asked(lake: Lake) -> None:
    foreign.drop_column(lake.path("t"), "plane")
    found = verify_keys(lake.env, lake.state, KeyJobs(), {})
    assert found.unasked == (PLANE,)
    assert commands.status(lake.env).drifted


# --- how far it got is written down ----------------------------------------------------------------------------------------------------


def marks(lake: Lake, collection: str) -> Path:
    return lake.path("t").parents[1] / "_schemamig" / "keys" / f"{collection}.json"


def watched(lake: Lake, *collections: str) -> tuple[list[tuple[str, str, int | None]], list[tuple[str, int | None]]]:
    """(element, text of the rows, commit of each finding; collection asked and how many of its files, None: all)."""
    jobs = KeyJobs()
    found = watch_keys(lake.env, jobs, [CollectionName(name) for name in collections] or None)
    told = [(item.element, item.sample[0], item.commits[0].version if item.commits else None) for item in found.findings]
    return told, [(check["collection"], len(check["new_files"]) if "new_files" in check else None) for check in jobs.asked]


def test_verify_keys_what_was_looked_at_is_remembered(lake: Lake) -> None:
    assert watched(lake) == ([], [("planes", None), ("t", None), ("t", None)])
    assert not marks(lake, "../t").exists() and marks(lake, "t").exists()
    before = tree(lake.path("t").parents[1])
    assert watched(lake) == ([], [])
    assert tree(lake.path("t").parents[1]) == before, "nothing new is no write"
    put(lake, "t", id=[1], plane=["N2"])
    broken = [("primary_key:id", "id = 1", 2)]
    assert watched(lake, "t") == (broken, [("t", 1), ("t", 1)])
    assert watched(lake) == (broken, [("t", 1)]), "found again; the other key was kept, and is not asked again"
    DeltaTable(str(lake.path("t"))).delete("id = 1 AND plane = 'N2'")
    assert watched(lake)[0] == []


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"marks": {"PRIMARY KEY (id)": 7}}', None])
def test_a_lost_mark_asks_all_rows(lake: Lake, damage: bytes | None) -> None:
    watched(lake)
    if damage is None:
        marks(lake, "t").unlink()
    else:
        marks(lake, "t").write_bytes(damage)
    assert watched(lake) == ([], [("t", None), ("t", None)])
    assert watched(lake) == ([], [])


def test_a_mark_of_another_table_counts_for_nothing(tmp_path: Path) -> None:
    other = SCHEMA.replace("id BIGINT, plane", "id STRING, plane")
    lake = deployed(tmp_path, *releases(tmp_path, (SCHEMA, ""), (other, 'replacement("t")')))
    put(lake, "t", id=[1], plane=[None])
    watched(lake)
    commands.upgrade(lake.env, lake.second, jobs=KeyJobs())
    for number in range(3):  # as many versions as the table of before had, and more
        write_deltalake(str(lake.path("t")), pa.table({"id": [str(number)], "plane": pa.array([None], pa.string())}), mode="append")
    assert watched(lake) == ([], [("t", None), ("t", None)])


def test_verify_keys_nothing_is_marked_where_asking_failed(lake: Lake) -> None:
    class Broken(KeyJobs):
        def run(self, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
            raise OSError("no Spark")

    with pytest.raises(OSError, match="no Spark"):
        watch_keys(lake.env, Broken())
    assert not marks(lake, "t").exists()
    with refused("unknown_collection", "nothing"):
        watch_keys(lake.env, KeyJobs(), [CollectionName("nothing")])
