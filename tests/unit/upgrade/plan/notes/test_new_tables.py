"""A plan names the properties that were set by hand on a table which a release makes anew: the new one has what is declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from tests.support.lake import Lake
from tests.support.tables import foreign
from tests.support.upgrades import two_releases

OLD = "CREATE TABLE t (id BIGINT, a INT) TBLPROPERTIES ('declared' = 'once');"
STEPS = {
    "rewrite": ("CREATE TABLE t (id BIGINT) TBLPROPERTIES ('x.new' = 'ours');", 'rewrite("t", up="SELECT id FROM {t}")'),
    "replacement": ("CREATE TABLE t (id BIGINT) TBLPROPERTIES ('x.new' = 'ours');", 'replacement("t")'),
    "evolution": ("CREATE TABLE t (id BIGINT) TBLPROPERTIES ('x.new' = 'ours');", 'evolution("t", drop=["a"])'),
}


def notes(lake: Lake) -> list[str]:
    return [note for note in commands.plan(lake.env, lake.second).to_json()["notes"] if "the new table" in note]


@pytest.mark.parametrize("kind", STEPS)
def test_properties_by_hand_are_named_where_a_new_table_will_lack_them(tmp_path: Path, kind: str) -> None:
    lake = two_releases(tmp_path, OLD, *STEPS[kind])
    commands.pin(lake.env, "t", "somebody", 1000)
    assert notes(lake) == []
    metadata = foreign.metadata(lake.path("t"))
    by_hand = {"delta.enableChangeDataFeed": "true", "x.mine": "yes", "x.new": "theirs"}
    foreign.commit(lake.path("t"), {"metaData": metadata | {"configuration": metadata["configuration"] | by_hand}})
    assert {LOG, FILES} <= foreign.metadata(lake.path("t"))["configuration"].keys(), "a pin's are no hand's"
    missing = "not delta.enableChangeDataFeed, x.mine, set by hand on the old one; declare what it is to have"
    wanted = [f"t: the new table gets what the release declares, and {missing}."]
    assert notes(lake) == ([] if kind == "evolution" else wanted)
