"""``schemamig plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SEAL_SECONDS,
    DEFAULT_SPARK,
    EndHoldOption,
    EnvOption,
    IgnoreNodesOption,
    JsonOption,
    ReleaseOption,
    SealSecondsOption,
    SparkOption,
    local_path,
    open_environment,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.progress import watched
from airflow_provider_schemamig.exceptions import error_of

if TYPE_CHECKING:
    from rich.console import Console


@answered
def plan(
    env: EnvOption,
    release: ReleaseOption,
    explain: Annotated[bool, typer.Option("--explain", help="Why each change costs what it costs, who breaks, what stays behind.")] = False,
    check_data: Annotated[bool, typer.Option("--check-data", help="Also check the rows with Spark.")] = False,
    end_hold: EndHoldOption = False,
    ignore_nodes: IgnoreNodesOption = False,
    seal_seconds: SealSecondsOption = DEFAULT_SEAL_SECONDS,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Show what an upgrade would do. Writes nothing. Exit 0: nothing to do, 3: differences pending, 1: refused."""
    from airflow_provider_schemamig.core import commands

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.plan import show_plan

        show_plan(to, report, explain=explain)

    with watched() as listen:
        jobs = spark_at(spark, listen) if check_data else None
        root, folder = open_environment(env), local_path(release)
        report = commands.plan(root, folder, end_hold=end_hold, ignore_nodes=ignore_nodes, seal_seconds=seal_seconds, jobs=jobs)
    document = report.to_json(explained=explain)
    if report.refusals:
        document["error"] = error_of(report.refusals).to_json()
    return Answer(document, show, report.exit_code)
