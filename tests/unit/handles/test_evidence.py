"""What a table's files prove about a promise that its schema took back."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.deltalog.head import read_head
from airflow_provider_schemamig.core.deltalog.log import values_since
from airflow_provider_schemamig.core.handles.errors import ReaderFenced
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade import verbs
from tests.support import foreign
from tests.support.lake import Lake
from tests.support.upgrades import deployed, releases, two_releases

OLD = "CREATE TABLE t (id BIGINT NOT NULL, n INT, s STRUCT<a: INT>);"
NEW = "CREATE TABLE t (id BIGINT, n BIGINT, s STRUCT<a: BIGINT>);"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, OLD, NEW, 'evolution("t")')
    foreign.write(found.path("t"), [{"id": 1, "n": 1}], statistics=False)
    found.upgrade(found.second)
    return found


def fenced(lake: Lake, column: str) -> bool:
    try:
        lake.env.reader("t", "1.0.0").pin([column])
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


def test_a_null_from_before_a_way_back_still_counts(tmp_path: Path) -> None:
    """NOT NULL stays dropped after the rollback, because of that NULL: the release's own readers are not told otherwise."""
    lake = two_releases(tmp_path, OLD, NEW, 'evolution("t")')
    lake.upgrade(lake.second)
    foreign.write(lake.path("t"), [{"id": None}])
    verbs.rollback(lake.env)
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
    assert values_since(store, read_head(store), "p", 0) == (Decimal(1), Decimal("999999999999999999.01"))
    assert fenced(lake, "p"), "rather too early than too late: less than one below the limit"
