"""A struct of whose fields a file has none: the release that has them all anew is contracted, and delta-rs fails with such a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.rows.tables import insert
from tests.support.tables import foreign
from tests.support.upgrades import make_holds_due, refused, two_releases
from tests.unit.access.support import rows

OLD = "CREATE TABLE t (id BIGINT, s {});"
KINDS = {
    "a struct": ("STRUCT<{}: STRING>", "s.p", {"p": "P"}, {"r": None}),
    "in an array": ("ARRAY<STRUCT<{}: STRING>>", "s.element.p", [{"p": "P"}], [{"r": None}]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_fields_it_is_left_to_spark(tmp_path: Path, kind: str) -> None:
    declared, path, value, shown = KINDS[kind]
    first, second = (OLD.format(declared.format(name)) for name in "pr")
    lake = two_releases(tmp_path, first, second, f'evolution("t", drop=["{path}"])')
    insert(lake.path("t"), [{"id": 1, "s": value}])
    lake.upgrade(lake.second)
    assert rows(lake, "1.1.0") == [{"id": 1, "s": shown}]
    make_holds_due(lake)
    commands.contract(lake.env, None)
    with refused("needs_spark", "t"):
        rows(lake, "1.1.0")
    assert rows(lake, "1.1.0", ["id"]) == [{"id": 1}]
    foreign.delete_all(lake.path("t"))
    assert rows(lake, "1.1.0") == []
