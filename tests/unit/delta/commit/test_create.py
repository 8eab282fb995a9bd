"""Tables of ours: version 0 from a declaration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.delta.commit.create import TableExists, create_table
from airflow_provider_schemamig.core.delta.features import effective_features
from airflow_provider_schemamig.core.delta.log.head import read_head, table_exists
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.schema.delta_rules.property_values import UnsupportedProperty
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.model import Array, Check, Field, Primitive, Struct
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store
from tests.unit.delta.tables import INT, NAME, STRING, TAG, flights, make_table, nested, table_store

RICH = flights(
    Field("id", Primitive("bigint"), nullable=False, comment="key"),
    Field("name", Primitive("varchar(20)"), default="'x'"),
    Field("at", Primitive("timestamp_ntz")),
    Field("leg", Struct((Field("code", STRING, nullable=False), Field("großes", Array(INT))))),
    clustered_by=("id", "leg.code"),
    checks=(Check("positive", "id > 0"),),
    properties=(("delta.logRetentionDuration", "interval 60 days"), ("owned_by", "me")),
    comment="all flights",
)


def test_a_table_says_what_was_declared(tmp_path: Path) -> None:
    store = table_store(tmp_path / "t")
    assert not table_exists(store)
    made = create_table(store, RICH, "id-1", TAG)
    assert table_exists(store)
    head = read_head(store)
    assert head == made
    assert head.version == 0
    assert head.table_id == "id-1"
    assert head.declaration(NAME) == RICH
    expected = {"appendOnly", "invariants", "checkConstraints", "allowColumnDefaults", "clustering", "domainMetadata", "timestampNtz"}
    assert effective_features(head.protocol) == expected
    info = read_commit(store, 0).info
    assert info["operation"] == "CREATE TABLE"
    assert json.loads(info["userMetadata"]) == {"schemamig": {"action": "expand", "epoch": 1, "generation": 1}}


def test_a_plain_table_is_readable_by_the_oldest_clients(tmp_path: Path) -> None:
    head = create_table(table_store(tmp_path), nested(), "id", TAG)
    assert head.protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert head.declaration(NAME) == nested()


def test_the_same_table_is_made_once(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    assert create_table(store, flights(), "id", TAG) == create_table(store, flights(), "id", TAG)
    assert store.names("_delta_log") == ["00000000000000000000.json"]
    with pytest.raises(TableExists) as caught:
        create_table(store, flights(), "another", TAG)
    assert caught.value.table_id == "id"


def test_a_twin_that_was_faster_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = table_store(tmp_path)
    put = store.put_if_absent

    def beaten(key: str, data: bytes) -> object:
        monkeypatch.undo()
        create_table(store, flights(), "id", TAG)
        return put(key, data)

    monkeypatch.setattr(store, "put_if_absent", beaten)
    assert create_table(store, flights(), "id", TAG).table_id == "id"
    assert store.names("_delta_log") == ["00000000000000000000.json"]


def test_a_foreign_table_is_not_touched(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    make_table(store)
    with pytest.raises(TableExists):
        create_table(store, flights(), "id", TAG)


def test_create_what_nothing_would_enforce_is_not_made(tmp_path: Path) -> None:
    loose = flights(Field("a", Array(Struct((Field("x", INT, nullable=False),)))))
    with pytest.raises(NotApplicable, match=r"a\.element\.x"):
        create_table(table_store(tmp_path), loose, "id", TAG)
    with pytest.raises(UnsupportedProperty):
        create_table(table_store(tmp_path), flights(properties=(("delta.logRetentionDuration", "soon"),)), "id", TAG)
    assert not table_exists(table_store(tmp_path))


def test_in_an_object_store(tmp_path: Path) -> None:
    store = open_store(Location.parse(f"memory://{tmp_path.name}-create"), StorageOptions())
    create_table(store, RICH, "id", TAG)
    assert read_head(store).declaration(NAME) == RICH
