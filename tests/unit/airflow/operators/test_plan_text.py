"""What the person who approves a plan reads: everything that the plan knows, in full words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.objects.nodes import Node, NodeKind, write_heartbeat
from airflow_provider_schemamig.core.names import Fingerprint, Version
from airflow_provider_schemamig.operators.read_only import ReadOnlyMigrationOperator
from airflow_provider_schemamig.operators.reports import SECTION_LINES, PlanQuestion, plain, plan_markdown
from tests.support.lake import Lake, no_spark
from tests.support.upgrades import two_releases

OLD = "CREATE TABLE flights (id BIGINT NOT NULL, dep_delay INT, hour INT, n SMALLINT);"
NEW = "CREATE TABLE flights (id BIGINT NOT NULL, departure_delay INT, n INT, gate STRING);"
STEP = 'evolution("flights", rename={"dep_delay": "departure_delay"}, drop=["hour"])'
NOW = datetime(2026, 11, 24, 3, 0, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, OLD, NEW, STEP)


def preflight(lake: Lake, **arguments: Any) -> dict[str, Any]:
    operator = ReadOnlyMigrationOperator(task_id="preflight", environment=lake.env.location.uri, release=str(lake.second), **arguments)
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="preflight", map_index=-1, xcom_push=lambda *_: None)
    context: Any = {"ti": ti, "dag": SimpleNamespace(folder="/"), "dag_run": SimpleNamespace(dag_id="d", run_id="r")}
    found: dict[str, Any] = operator.execute(context)
    return found


def test_all_that_a_person_decides_on_is_there(lake: Lake) -> None:
    now = pendulum.now("UTC")
    dash = Node("dash-7", NodeKind.READER, Version(1, 0, 0), Fingerprint("f" * 64), now.add(hours=1), now)
    write_heartbeat(lake.env, dash)
    found = preflight(lake, hold=36)
    text = found["plan"]
    assert text.startswith(f"**lake from 1.0.0 to 1.1.0** on `{lake.env.location.uri}`\n")
    assert f"Generation 2, plan `{found['plan_digest']}`" in text
    titles = [section.split("**")[0] for section in text.split("\n**")[1:]]
    assert titles == [
        "Why",
        "What changes",
        "What breaks, and for whom",
        "For good: no rollback undoes it",
        "What it costs",
        "Way back",
        "Connected now",
    ]
    for words in (
        "- 1.1.0: ",
        "rename dep_delay to departure_delay",
        "widen n from SMALLINT to INT",
        "add gate STRING",
        "drop hour",
        "- `flights`: readers and writers that use the old name fail from the cut-over on",
        "- `flights`: hour is gone once contract has run",
        "- No row is read or written",
        "- No writer is blocked",
        "- Open for 36 h after the commit; if that were now, until ",
        f"- `schemamig rollback --env {lake.env.location.uri}`, or the DAG schemamig_rollback",
        "- `flights`: n stays INT",
        "- reader `dash-7` with release 1.0.0 since ",
        f"Full report: {found['report_uri']}",
    ):
        assert words in text, words


def test_without_a_hold_there_is_no_way_back_and_it_says_so(lake: Lake) -> None:
    text = preflight(lake, hold=0)["plan"]
    assert "- None once it is committed: the hold is 0" in text
    assert "schemamig rollback" not in text
    assert "- No reader, writer or replica that says so" in text


def test_the_log_has_the_plan_without_marks(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    preflight(lake)
    told = capsys.readouterr().out.partition("The plan:")[2].partition("Full report:")[0]
    assert "rename dep_delay to departure_delay" in told
    assert "**" not in told and "`" not in told


def stage(**more: Any) -> dict[str, Any]:
    return {
        "kind": "expand",
        "collection": "a",
        "summary": "add x INT",
        "cost": "instant",
        "breaks": [],
        "irreversible": [],
        "rollback": [],
        "columns": [],
        "queries": {},
        **more,
    }


def document(*stages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "release": "lake",
        "from": "1.0.0",
        "to": "1.1.0",
        "plan_digest": "d" * 64,
        "explanations": list(stages),
        "estimates": [],
        "timing": None,
        "blocked_seconds": [0, 0],
        "pending": [],
        "nodes": [],
        "notes": [],
        **more,
    }


def text_of(plan: dict[str, Any]) -> str:
    asked = PlanQuestion(
        "s3://lake/prod", 7, [("1.1.0", "Gates.\n\nWhy: **people** miss flights.")], timedelta(hours=24), "s3://lake/r.json"
    )
    return plan_markdown(plan, asked, NOW)


def test_plan_text_what_happens_to_many_alike_is_one_line() -> None:
    stages = [stage(collection=f"c{number}", breaks=["writers abort once"]) for number in range(1000)]
    text = text_of(document(*stages))
    assert "- `c0`, `c1`, `c2`, `c3`, `c4` and 995 more: add x INT (instant)" in text
    assert "- `c0`, `c1`, `c2`, `c3`, `c4` and 995 more: writers abort once" in text
    assert len(text) < 2000


def test_a_section_is_cut_and_says_so() -> None:
    text = text_of(document(*(stage(collection=f"c{number}", summary=f"add x{number} INT") for number in range(SECTION_LINES + 3))))
    assert text.count("INT (instant)") == SECTION_LINES
    assert "- … and 3 more, in the report" in text


def test_a_change_keeps_its_line_where_columns_and_queries_of_others_do_not_fit() -> None:
    query = "\n".join(f"line {number}" for number in range(11))
    rewrites = [
        stage(kind="copy", collection=f"r{number}", summary=f"copy r{number}", columns=["change x"], queries={"up": query, "down": query})
        for number in range(3)
    ]
    text = text_of(
        document(*rewrites, stage(collection="c", summary="rename dep_delay to delay"), stage(collection="c", summary="drop hour"))
    )
    for line in ("copy r0", "copy r1", "copy r2", "rename dep_delay to delay", "drop hour"):
        assert f": {line} (" in text, line
    assert text.count("~~~sql") == 2, "both queries of the first"
    assert text.count("queries are in the report") == 2


def test_plan_text_what_a_rewrite_costs() -> None:
    plan = document(
        stage(kind="copy", summary="copy a on Spark into a new shard", cost="rewrite"),
        estimates=[{"collection": "a", "input": "a", "rows": 6400000, "bytes": 1234567890, "files": 16}],
        timing={"seconds": 150.4},
        blocked_seconds=[1, 4],
        pending=[{"generation": 3, "until": "2026-11-25T00:00:00+00:00", "from": "0.9.0", "to": "1.0.0"}],
    )
    text = text_of(plan)
    assert "- `a`: Spark reads 6,400,000 rows, 1.2 GB in 16 files of a and rewrites them" in text
    assert "- In all 6,400,000 rows, 1.2 GB; time: about 150 s at the speed of earlier copies here" in text
    assert "- Writers are blocked for 1 to 4 s" in text
    assert "- Until 2026-11-25T00:00:00+00:00 there is a way back to 0.9.0 (generation 3)" in text
    assert "if that were now, until 2026-11-25 03:00 UTC" in text
    assert "- 1.1.0: Gates.\n  Why: **people** miss flights." in text
    assert "1.1.0: Gates." in plain(text)


def test_the_way_through_several_releases_has_each_ones_reasons(lake: Lake) -> None:
    found = commands.preflight(lake.env, lake.second, jobs=no_spark).report
    assert [version for version, _ in found.reasons] == ["1.1.0"]
    lake.upgrade(lake.second)
    assert commands.preflight(lake.env, lake.second, jobs=no_spark).report.reasons == ()
    new = Lake(Environment.open(f"{lake.env.location.uri}-new"), lake.first, lake.second)
    assert commands.preflight(new.env, lake.second, jobs=no_spark, create=True).report.reasons == ()


REWRITE = '''rewrite("flights", up="""
        SELECT id, CAST(dep_delay AS DECIMAL(8, 2)) AS dep_delay, 'A1' AS gate
        FROM {flights}
    """, down="SELECT id, CAST(dep_delay AS INT) AS dep_delay, 0 AS hour FROM {flights}")'''


def test_a_rewrite_is_approved_with_its_columns_and_queries(tmp_path: Path) -> None:
    old = "CREATE TABLE flights (id BIGINT NOT NULL, dep_delay INT, hour INT);"
    new = "CREATE TABLE flights (id BIGINT NOT NULL, dep_delay DECIMAL(8, 2), gate STRING) PARTITIONED BY (gate);"
    lake = two_releases(tmp_path, old, new, REWRITE)
    text = text_of(commands.plan(lake.env, lake.second).to_json(explained=True))
    changes = text.partition("**What changes**")[2].partition("**What breaks")[0]
    assert changes.strip().splitlines()[:14] == [
        "- `flights`: copy flights on Spark into a new shard (rewrite)",
        "  - convert dep_delay from INT to DECIMAL(8,2)",
        "  - add gate STRING",
        "  - partition by (gate)",
        "  - drop hour",
        "  - up:",
        "",
        "    ~~~sql",
        "    SELECT id, CAST(dep_delay AS DECIMAL(8, 2)) AS dep_delay, 'A1' AS gate",
        "    FROM {flights}",
        "    ~~~",
        "  - down:",
        "",
        "    ~~~sql",
    ]


def test_a_new_table_is_approved_with_its_columns(tmp_path: Path) -> None:
    gates = "CREATE TABLE gates (id BIGINT NOT NULL, name STRING DEFAULT 'A1');"
    old = "CREATE TABLE flights (id BIGINT NOT NULL);"
    text = preflight(two_releases(tmp_path, old, f"{old}\n{gates}", ""))["plan"]
    assert "- `gates`: create the collection (2 columns) (instant)\n  - id BIGINT NOT NULL\n  - name STRING DEFAULT 'A1'\n" in text


def test_a_query_cannot_end_its_block_and_a_long_one_is_cut() -> None:
    query = "SELECT '~~~' AS a,\n" + ",\n".join(f"b{number}" for number in range(20))
    text = text_of(document(stage(kind="build", summary="build a", cost="rewrite", queries={"fill": query})))
    assert "    ~~~~sql\n    SELECT '~~~' AS a,\n" in text
    assert "    -- 9 more lines, in the report\n    ~~~~" in text
