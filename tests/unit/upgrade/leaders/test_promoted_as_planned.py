"""``upgrade`` promotes the plan that it has just made by the tables as it saw them then; what came to one since, it looks at anew."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import no_spark
from tests.support.tables import foreign
from tests.support.upgrades import refused, two_releases
from tests.unit.ledger.samples import elsewhere

TABLES = "CREATE TABLE planned (id BIGINT);\nCREATE TABLE other (id BIGINT);\n"
#: What takes a table away without a commit before the seal.
TAKEN = {
    "removal": ("CREATE TABLE other (id BIGINT);", 'removal("planned")'),
    "replacement": (TABLES.replace("planned (id BIGINT", "planned (id STRING"), 'replacement("planned")'),
}


@pytest.mark.parametrize("schema, step", TAKEN.values(), ids=TAKEN)
def test_a_column_that_came_since_the_preflight_is_not_taken_away_with_its_table(tmp_path: Path, schema: str, step: str) -> None:
    lake = two_releases(tmp_path, TABLES, schema, step)
    path, begun = lake.path("planned"), list[str]()

    def add_column(moment: str, what: str, key: str) -> None:
        if not begun:
            begun.append(key)
            foreign.add_column(path, "z")

    with refused("drift", "planned") as found:
        commands.upgrade(replace(elsewhere(lake.env), on_write=add_column), lake.second, jobs=no_spark)
    assert "Undo that on the table itself" in found[0].next_action
    foreign.drop_column(path, "z")
    commands.upgrade(elsewhere(lake.env), lake.second, jobs=no_spark)
    assert lake.version == "1.1.0"


@pytest.mark.parametrize("write", range(1, 6))
@pytest.mark.parametrize("table", ["planned", "other"])
def test_a_change_that_was_accepted_since_the_preflight_is_met_as_what_it_is(tmp_path: Path, table: str, write: int) -> None:
    lake = two_releases(tmp_path, TABLES, TABLES.replace("planned (id BIGINT", "planned (id BIGINT, v STRING"), 'evolution("planned")')
    folder, path = Path(shutil.copytree(lake.first, tmp_path / "accepted")), lake.path(table)
    writes = 0

    def another_accepts(moment: str, what: str, key: str) -> None:
        nonlocal writes
        writes += moment == "before"
        if moment == "before" and writes == write:
            foreign.add_column(path, "z")
            assert commands.accept(elsewhere(lake.env), folder, [table]).changes

    with refused("ahead_not_in_release", table) as found:
        commands.upgrade(replace(elsewhere(lake.env), on_write=another_accepts), lake.second, jobs=no_spark)
    assert "add z STRING" in str(found[0])
    assert (writes >= write, lake.version) == (True, "1.0.0")
