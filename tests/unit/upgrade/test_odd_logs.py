"""A writer of a table puts what nobody expects into its log: it is that table's damage, or nothing, and the others are told as ever."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.lake import Lake, no_spark
from tests.support.tables import foreign
from tests.support.upgrades import two_releases

#: More levels than Python's stack has, and as many as JSON's reader takes but nothing that goes through a type.
BEYOND, DEEP = 100_000, 400
ADD = {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(
        tmp_path,
        "CREATE TABLE t (id BIGINT, a STRING); CREATE TABLE u (id BIGINT);",
        "CREATE TABLE t (id BIGINT, a STRING, g STRING); CREATE TABLE u (id BIGINT, v INT);",
        'evolution("t"), evolution("u")',
    )


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def schema(levels: int) -> str:
    text = '{"type":"array","elementType":' * levels + '"string"' + ',"containsNull":true}' * levels
    return f'{{"type":"struct","fields":[{{"name":"id","type":{text},"nullable":true,"metadata":{{}}}}]}}'


ODD: Mapping[str, Any] = {
    "a line": lambda path: f'{{"commitInfo":{{"x":{nested(BEYOND)}}}}}',
    "user metadata": lambda path: json.dumps({"commitInfo": {"operation": "WRITE", "userMetadata": nested(BEYOND)}}),
    "user metadata that is no text": lambda path: json.dumps({"commitInfo": {"operation": "WRITE", "userMetadata": 5}}),
    "statistics": lambda path: json.dumps({"add": {**ADD, "stats": f'{{"numRecords":1,"nullCount":{nested(BEYOND)}}}'}}),
    "statistics that are no text": lambda path: json.dumps({"add": {**ADD, "stats": 5}}),
    "a schema": lambda path: json.dumps({"metaData": {**foreign.metadata(path), "schemaString": nested(BEYOND)}}),
    "a schema that is no JSON": lambda path: json.dumps({"metaData": {**foreign.metadata(path), "schemaString": "nope"}}),
    "a schema that is no text": lambda path: json.dumps({"metaData": {**foreign.metadata(path), "schemaString": 5}}),
    "a schema of another form": lambda path: json.dumps({"metaData": {**foreign.metadata(path), "schemaString": "[1]"}}),
    "metadata of another form": lambda path: json.dumps({"metaData": 5}),
    "a protocol of another form": lambda path: json.dumps({"protocol": 5}),
    "settings of another form": lambda path: json.dumps({"metaData": {**foreign.metadata(path), "configuration": [1]}}),
    "commit info of another form": lambda path: json.dumps({"commitInfo": 5}),
    "a file of another form": lambda path: json.dumps({"add": 5}),
    "a transaction of another form": lambda path: json.dumps({"txn": 5}),
    "a domain of another form": lambda path: json.dumps({"domainMetadata": 5}),
    "clustering of another form": lambda path: json.dumps({"domainMetadata": {"domain": "delta.clustering", "configuration": "{}"}}),
    "half a pair of surrogates": lambda path: json.dumps({"metaData": {**foreign.metadata(path), "description": "\ud800"}}),
    "a highest id of another form": lambda path: json.dumps(
        {"metaData": {**foreign.metadata(path), "configuration": {"delta.columnMapping.maxColumnId": "x"}}}
    ),
    "a nullable of another form": lambda path: json.dumps(
        {"metaData": {**foreign.metadata(path), "schemaString": schema(0).replace('"nullable":true', '"nullable":"x"')}}
    ),
    "a type": lambda path: json.dumps({"metaData": {**foreign.metadata(path), "schemaString": schema(DEEP)}}),
    "a type beyond the stack": lambda path: json.dumps({"metaData": {**foreign.metadata(path), "schemaString": schema(BEYOND)}}),
}


def codes(ask: Callable[[], object]) -> set[str]:
    try:
        ask()
    except Refused as refused:
        return {found.code for found in refused.refusals}
    except SchemamigError as error:
        return {error.code}
    return set()


@pytest.mark.parametrize("what", ODD)
def test_an_odd_log_of_one_table_is_told_and_ends_no_command(lake: Lake, what: str) -> None:
    path = lake.path("t")
    version = foreign.commit(path)
    (path / "_delta_log" / f"{version:020}.json").write_text(ODD[what](path) + "\n")
    told = commands.status(lake.env).to_json()["collections"]
    assert set(told) == {"t", "u"} and not told["u"]["drift"]
    for ask in (
        lambda: commands.plan(lake.env, lake.second),
        lambda: commands.verify_environment(lake.env, jobs=no_spark),
        lambda: commands.upgrade(lake.env, lake.second, jobs=no_spark),
    ):
        assert codes(ask) <= {"drift", "log_damaged", "invalid_schema_json"}


#: What Delta's readers take, each with what the table's description and its setting are then.
TAKEN: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "no settings": ({"configuration": None}, {}),
    "a setting without a value": ({"configuration": {"delta.appendOnly": None}}, {}),
    "a boolean for a text": ({"configuration": {"delta.appendOnly": False}}, {"delta.appendOnly": "false"}),
    "a number for a text": ({"configuration": {"x": 5}, "description": 5}, {"x": "5"}),
}


@pytest.mark.parametrize("what", TAKEN)
def test_metadata_in_a_form_that_delta_takes_is_taken(lake: Lake, what: str) -> None:
    path = lake.path("t")
    more, settings = TAKEN[what]
    version = foreign.commit(path)
    line = {"metaData": {**foreign.metadata(path), **more}}
    (path / "_delta_log" / f"{version:020}.json").write_text(json.dumps(line) + "\n")
    assert read_head(lake.env.table_store(lake.state.shard_of(CollectionName("t")).uri)).properties == settings
    assert "log" not in " ".join(commands.status(lake.env).to_json()["collections"]["t"]["drift"])


@pytest.mark.parametrize("info", [5, ["x"], {"operation": {}, "operationParameters": []}, {"timestamp": 10**18}, {"timestamp": -1}])
def test_commit_info_may_be_anything(lake: Lake, info: Any) -> None:
    path = lake.path("t")
    version = foreign.commit(path)
    (path / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
    assert not commands.status(lake.env).to_json()["collections"]["t"]["drift"]
    lake.upgrade(lake.second)
    assert lake.version == "1.1.0"


def test_names_in_other_digits_are_no_versions(lake: Lake) -> None:
    for digit in "²٣":
        (lake.path("t") / "_delta_log" / f"{digit * 20}.json").write_text("{}")
    assert not commands.status(lake.env).to_json()["collections"]["t"]["drift"]


def test_actions_that_are_null_are_as_if_they_were_not_there(lake: Lake) -> None:
    path = lake.path("t")
    version = foreign.commit(path)
    line = {"add": None, "remove": None, "metaData": None, "protocol": None, "txn": None, "commitInfo": {"operation": "WRITE"}}
    (path / "_delta_log" / f"{version:020}.json").write_text(json.dumps(line) + "\n")
    assert not commands.status(lake.env).to_json()["collections"]["t"]["drift"]
    lake.upgrade(lake.second)
    assert lake.version == "1.1.0"
