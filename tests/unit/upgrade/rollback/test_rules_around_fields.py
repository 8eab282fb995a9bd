"""A CHECK of a whole struct or array, inside of which a field comes or goes: the way back and the end of a hold do not ask it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow_provider_schemamig.core import commands
from tests.support.online import OnlineJobs
from tests.support.tables import foreign
from tests.support.upgrades import deployed, releases, two_releases

RULES = "CONSTRAINT c CHECK (s IS NOT NULL), CONSTRAINT d CHECK (size(l) < 5)"
TABLE = "CREATE TABLE t (id INT, s STRUCT<a: INT{0}>, l ARRAY<STRUCT<a: INT{0}>>{1});"


def table(more: str = "", rules: str = f", {RULES}") -> str:
    return TABLE.format(more, rules)


def test_a_field_that_nobody_wrote_goes_back_under_a_rule_of_all_around_it(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, table(), table(", b: INT"), 'evolution("t")')
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"
    lake.upgrade(lake.second)


def test_a_hold_ends_under_a_rule_of_all_around_what_it_kept(tmp_path: Path) -> None:
    made = releases(
        tmp_path,
        (table(", b: INT", rules=""), ""),
        (table(rules=""), 'evolution("t", drop=["s.b", "l.element.b"])'),
        (table(), 'evolution("t")'),
        (table(", z: INT"), 'evolution("t")'),
    )
    lake = deployed(tmp_path, *made[:2])
    commands.upgrade(lake.env, made[1], hold=timedelta(days=1), jobs=OnlineJobs)
    commands.upgrade(lake.env, made[2], jobs=OnlineJobs)
    commands.upgrade(lake.env, made[3], jobs=OnlineJobs, end_hold=True)
    assert [field["name"] for field in foreign.live_schema(lake.path("t"))[1]["type"]["fields"]] == ["a", "z"]
