"""Which columns a rewrite leaves as they were."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.rewritten import handed_through
from tests.support.lake import Lake
from tests.support.online import OnlineJobs
from tests.support.upgrades import deployed, releases, two_releases


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT a, b AS c, CAST(d AS INT) AS d, upper(e) AS e FROM {t}", {"a": "a", "c": "b"}),
        ("SELECT {t}.a, t.b FROM {t}", {"a": "a"}),
        ("SELECT p.a, s.x FROM {t} AS p", {"a": "a"}),
        ("SELECT a FROM {t} WHERE a > 1", {}),
        ("SELECT a FROM {t} LATERAL VIEW explode(b) e AS c", {}),
        ("SELECT a FROM {t} JOIN {u} ON {t}.k = {u}.k", {}),
        ("SELECT a FROM (SELECT b AS a FROM {t})", {"a": "b"}),
        ("WITH w AS (SELECT b AS a FROM {t}) SELECT a FROM w", {}),
        ("SELECT DISTINCT a FROM {t}", {}),
        ("SELECT a FROM {t} LIMIT 5", {}),
        ("SELECT a FROM {t} UNION ALL SELECT b FROM {t}", {}),
    ],
)
def test_rewritten_what_a_plain_select_of_every_row_shows_as_it_is(query: str, kept: dict[str, str]) -> None:
    assert handed_through(query, None, "abcde") == kept


@pytest.mark.parametrize(
    ("up", "down", "kept"),
    [
        ("SELECT v, v AS x FROM {t}", None, {"v": "v"}),
        ("SELECT v AS x, v FROM {t}", "SELECT v FROM {t}", {"v": "v"}),
        ("SELECT v, v AS x FROM {t}", "SELECT x AS v FROM {t}", {"x": "v"}),
        ("SELECT v AS p, v AS q FROM {t}", None, {}),
        ("SELECT v AS p, v AS q FROM {t}", "SELECT p AS v FROM {t}", {"p": "v"}),
        ("SELECT v, CAST(v AS STRING) AS s FROM {t}", "SELECT CAST(s AS BIGINT) AS v FROM {t}", {}),
        ("SELECT v FROM {t}", "SELECT V FROM {t}", {"v": "v"}),
        ("SELECT v FROM {t}", "SELECT v FROM {t} WHERE v > 0", {"v": "v"}),
        ("SELECT v, v AS x FROM {t}", "SELECT x AS v FROM {t} WHERE v IS NOT NULL", {"x": "v"}),
        ("SELECT v, v AS x FROM {t}", "SELECT v FROM (SELECT x AS v, y FROM {t}) AS shown", {"x": "v"}),
        ("SELECT v, w FROM {t}", "SELECT v, w FROM (SELECT w AS v, v AS w FROM {t}) AS shown", {}),
        ("SELECT v FROM {t}", "SELECT v FROM {t} JOIN {u} ON {t}.k = {u}.k", {}),
        ("SELECT v, w FROM {t}", "SELECT v, w FROM {t} AS q(w, v)", {}),
        ("SELECT v, w FROM {t} AS q(w, v)", None, {}),
        ("SELECT v FROM (SELECT w AS v FROM {t})", None, {"v": "w"}),
        ("SELECT V, W AS X FROM {t}", "SELECT v, x AS w FROM {t}", {"v": "v", "x": "w"}),
        ("SELECT *, upper(v) AS x FROM {t}", "SELECT id, v, w FROM {t}", {"id": "id", "v": "v", "w": "w"}),
        ("SELECT q.*, v AS x FROM {t} AS q", "SELECT * FROM {t}", {"id": "id", "v": "v", "w": "w"}),
        ("SELECT * FROM (SELECT w AS v FROM {t})", None, {"v": "w"}),
        ("SELECT * EXCEPT (v) FROM {t}", None, {}),
        ("SELECT id, v FROM (SELECT *, v AS x FROM {t})", "SELECT id, v FROM {t}", {"id": "id", "v": "v"}),
        ("SELECT v FROM (SELECT v FROM {t} WHERE v > 0)", None, {}),
        ("SELECT v FROM {t} TABLESAMPLE (10 PERCENT)", None, {}),
    ],
)
def test_rewritten_a_column_is_handed_through_once_and_comes_back_by_down(up: str, down: str | None, kept: dict[str, str]) -> None:
    assert handed_through(up, down, ["id", "v", "w"]) == kept


def rows(lake: Lake, release: str) -> list[dict[str, int]]:
    return sorted(lake.env.reader("t", release).arrow().to_pylist(), key=lambda row: int(row["id"]))


@pytest.mark.parametrize(
    ("up", "down", "new"),
    [
        ("SELECT id, v, v AS x FROM {t}", "SELECT id, v FROM {t}", "v BIGINT, x BIGINT"),
        ("SELECT id, v AS x, v FROM {t}", "SELECT id, v FROM {t}", "x BIGINT, v BIGINT"),
        ("SELECT id, v AS p, v AS q FROM {t}", "SELECT id, p AS v FROM {t}", "p BIGINT, q BIGINT"),
    ],
)
def test_rewritten_what_the_release_before_sees_and_writes_is_what_a_rollback_brings(tmp_path: Path, up: str, down: str, new: str) -> None:
    step = f'rewrite("t", up="{up}", down="{down}")'
    lake = two_releases(tmp_path, "CREATE TABLE t (id BIGINT, v BIGINT);", f"CREATE TABLE t (id BIGINT, {new});", step)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    first, second = (column.split()[0] for column in new.split(", "))
    lake.env.writer("t", "1.1.0").append(pa.Table.from_pylist([{"id": 1, first: 20, second: 99}]))
    lake.env.writer("t", "1.0.0").append(pa.Table.from_pylist([{"id": 2, "v": 30}]))
    seen = rows(lake, "1.0.0")
    assert seen[1] == {"id": 2, "v": 30}
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert rows(lake, "1.0.0") == seen


def test_rewritten_in_a_leap_over_the_release_that_renamed_the_collection(tmp_path: Path) -> None:
    """Handles of the release before find its rows, also once another collection has the name."""
    one, three = "CREATE TABLE t (id BIGINT, v BIGINT);", "CREATE TABLE u (id BIGINT, v BIGINT, x STRING);"
    rewrite = 'rewrite("u", up="SELECT id, v, CAST(v AS STRING) AS x FROM {u}", down="SELECT id, v FROM {u}")'
    found = releases(
        tmp_path,
        (one, ""),
        ("CREATE TABLE u (id BIGINT, v BIGINT);", 'evolution("u", renamed_from="t")'),
        (three, rewrite),
        (f"{three}\nCREATE TABLE t (id BIGINT, other STRING);", ""),
    )
    lake = deployed(tmp_path, found[0], found[2])
    lake.env.writer("t", "1.0.0").append(pa.Table.from_pylist([{"id": 1, "v": 10}]))
    commands.upgrade(lake.env, found[2], jobs=OnlineJobs())
    for release in (None, found[3]):
        if release is not None:
            lake.upgrade(release)
        seen = rows(lake, "1.0.0")
        lake.env.writer("t", "1.0.0").append(pa.Table.from_pylist([{"id": 2 + len(seen), "v": 20}]))
        assert len(rows(lake, "1.0.0")) == len(seen) + 1, release
    commands.rollback(lake.env, jobs=OnlineJobs())
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert [row["v"] for row in rows(lake, "1.0.0")] == [10, 20, 20]
