"""What a scratch table's one commit says: absolute paths as Hadoop reads them, deletion vectors included."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.commit.scratch import scratch_table
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.log.listing import commit_key
from airflow_provider_schemamig.core.storage import Location, Store
from tests.unit.delta.tables import make_table, table_store

PREFIXED = "ab^-aqEH.-t@S}K{vb[*k^"
#: The protocol's own examples: a prefix of two characters, and none.
VECTOR_FILE = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@pytest.fixture
def root(tmp_path: Path) -> Store:
    return table_store(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Head:
    store = table_store(tmp_path / "source")
    make_table(store, delta__columnMapping__mode="name", delta__columnMapping__maxColumnId="2", delta__appendOnly="true")
    return read_head(store)


def file(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "partitionValues": {"p": None}, "size": 3, "modificationTime": 4, "dataChange": False, **more}


def adds(root: Store, location: Location) -> list[dict[str, Any]]:
    key = location.uri.removeprefix(f"{root.location.uri}/")
    actions = [json.loads(line) for line in root.get(f"{key}/{commit_key(0)}").splitlines()]
    return [action["add"] for action in actions if "add" in action]


@pytest.mark.parametrize(
    "table, path, absolute",
    [
        ("file:///a b/50%/é", "p=x%2520y/1.parquet", "file:///a%20b/50%25/%C3%A9/p=x%2520y/1.parquet"),
        ("s3://bucket/t", "1.parquet", "s3a://bucket/t/1.parquet"),
        ("s3a://bucket", "1.parquet", "s3a://bucket/1.parquet"),
        ("abfss://box@account.dfs.core.windows.net/t", "1.parquet", "abfss://box@account.dfs.core.windows.net/t/1.parquet"),
        ("file:///t", "s3://elsewhere/t/1%20.parquet", "s3a://elsewhere/t/1%20.parquet"),
        ("file:///t", "file:/elsewhere/1.parquet", "file:/elsewhere/1.parquet"),
        ("file:///t", "/elsewhere/1.parquet", "/elsewhere/1.parquet"),
    ],
)
def test_paths_are_what_hadoop_reads(root: Store, source: Head, table: str, path: str, absolute: str) -> None:
    (found,) = adds(
        root,
        scratch_table(root, "_schemamig/scratch/7", replace(source, location=Location(table)), [file(path, stats="{}", baseRowId=1)]),
    )
    assert found == file(absolute, dataChange=True)


@pytest.mark.parametrize(
    "kind, text, wanted",
    [
        ("u", PREFIXED, ("p", f"file:///t/ab/{VECTOR_FILE}")),
        ("u", PREFIXED[2:], ("p", f"file:///t/{VECTOR_FILE}")),
        ("p", "s3://b/x%20.bin", ("p", "s3a://b/x%20.bin")),
        ("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None),
    ],
)
def test_deletion_vectors_are_found_from_anywhere(root: Store, source: Head, kind: str, text: str, wanted: tuple[str, str] | None) -> None:
    vector = {"storageType": kind, "pathOrInlineDv": text, "offset": 1, "sizeInBytes": 36, "cardinality": 2}
    head = replace(source, location=Location("file:///t"))
    (found,) = adds(root, scratch_table(root, "k", head, [file("a", deletionVector=vector)]))
    expected = vector if wanted is None else {**vector, "storageType": wanted[0], "pathOrInlineDv": wanted[1]}
    assert found["deletionVector"] == expected


def test_scratch_is_a_table_of_its_own_with_the_schema_and_none_of_the_properties(root: Store, source: Head) -> None:
    location = scratch_table(root, "_schemamig/scratch/7", source, [file("a")])
    found = read_head(table_store(location.local_path or Path()))
    assert found.protocol == source.protocol
    assert found.table_id != source.table_id
    assert found.properties == {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    same = ("schemaString", "partitionColumns", "format", "unknownKey")
    assert {key: found.metadata[key] for key in same} == {key: source.metadata[key] for key in same}


def test_its_place_is_named_by_its_content(root: Store, source: Head, tmp_path: Path) -> None:
    """A session remembers a table by its path; other files under the same key must be another path."""
    one = scratch_table(root, "_schemamig/scratch/7", source, [file("a")])
    data = (tmp_path / "_schemamig/scratch/7" / one.uri.rpartition("/")[2] / commit_key(0)).read_bytes()
    assert scratch_table(root, "_schemamig/scratch/7", source, [file("a")]) == one
    assert (tmp_path / "_schemamig/scratch/7" / one.uri.rpartition("/")[2] / commit_key(0)).read_bytes() == data
    assert scratch_table(root, "_schemamig/scratch/7", source, [file("b")]) != one
    root.delete_tree("_schemamig/scratch/7")
    assert not (tmp_path / "_schemamig/scratch/7").exists()
