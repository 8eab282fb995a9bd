"""An upgrade was killed after its expand, over an open hold; the next one is to end that hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import no_spark, rows
from tests.support.tables import foreign
from tests.support.upgrades import deployed, expanded, releases, whole


@pytest.mark.parametrize("rows_came", [False, True])
def test_end_hold_takes_over_what_was_expanded_before_is_no_drift(tmp_path: Path, rows_came: bool) -> None:
    one, two = "CREATE TABLE t (id BIGINT, gone INT);", "CREATE TABLE t (id BIGINT);"
    first, second, third = releases(
        tmp_path, (one, ""), (two, 'evolution("t", drop=["gone"])'), ("CREATE TABLE t (id BIGINT, n INT);", 'evolution("t")')
    )
    lake = deployed(tmp_path, first, second)
    foreign.write(lake.path("t"), [{"id": 1, "gone": 5}])
    lake.upgrade(second)
    expanded(lake, third)
    if rows_came:
        foreign.write(lake.path("t"), [{"id": 2, "n": 7}])
    commands.upgrade(lake.env, third, jobs=no_spark, end_hold=True)
    assert lake.version == "1.2.0"
    assert [row["id"] for row in rows(lake.path("t"))] == [1, 2][: 1 + rows_came]
    assert set(rows(lake.path("t"))[0]) == {"id", "n"}
    whole(lake)
