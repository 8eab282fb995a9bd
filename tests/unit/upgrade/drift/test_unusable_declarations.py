"""What a table has and no release may declare: neither ``accept`` nor ``adopt`` writes a version that ``check`` would refuse."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from tests.support.bytes import unwritten
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.tables.adopting import Site, field
from tests.support.upgrades import deployed, refused, releases

SETTINGS = f"TBLPROPERTIES ('{FILES}' = 'interval 400 hours', '{LOG}' = 'interval 900 hours')"
#: A property, what somebody sets it to, and with what code a release that declares it is refused.
UNUSABLE = [
    (LOG, "interval 20 hours", "unsupported_property", "removed files would be kept for longer than the log"),
    ("delta.constraints.c", "id > rand()", "unusable_expression", "RAND cannot be used"),
]


@pytest.mark.parametrize("key, value, code, says", UNUSABLE)
def test_unusable_drift_is_not_accepted_and_can_be_reverted(tmp_path: Path, key: str, value: str, code: str, says: str) -> None:
    (first,) = releases(tmp_path, (f"CREATE TABLE t (id BIGINT) {SETTINGS};", ""))
    lake, folder = deployed(tmp_path, first, first), tmp_path / "release"
    shutil.copytree(first, folder)
    foreign.set_property(lake.path("t"), key, value)
    with unwritten(lake.env), refused("cannot_accept", "t") as found:
        commands.accept(lake.env, folder, ["t"])
    assert says in str(found[0])
    assert sorted(path.name for path in folder.rglob("*.sql")) == ["1.0.0.sql", "schema.sql"]
    commands.revert(lake.env, "t")
    assert not commands.status(lake.env).drifted


@pytest.mark.parametrize("key, value, code, says", UNUSABLE)
def test_unusable_tables_are_not_adopted(tmp_path: Path, key: str, value: str, code: str, says: str) -> None:
    site = Site(tmp_path)
    table = site.by_hand("t", [field("id", "long")], None, **{FILES: "interval 400 hours", LOG: "interval 900 hours", key: value})
    with refused(code, "t") as found:
        site.adopt(t=table)
    assert says in str(found[0])
    assert not site.release.exists()
    assert not (tmp_path / "lake").exists()
    tables.set_property(table, key, "interval 401 hours" if key == LOG else None)
    site.adopt(t=table)
    site.upgrade()
