"""``schemamig alter``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SPARK,
    ClaimOption,
    EnvOption,
    HoldOption,
    JsonOption,
    SparkOption,
    open_environment,
    parse_hold,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.progress import watched
from airflow_provider_schemamig.cli.tasks import run_task
from airflow_provider_schemamig.exceptions import error_of

if TYPE_CHECKING:
    from rich.console import Console


@answered
def alter(
    env: EnvOption,
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help="One ALTER, CREATE or DROP TABLE in Spark SQL.", show_default=False)
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would do; write nothing.")] = False,
    check_data: Annotated[bool, typer.Option("--check-data", help="With --dry-run: also check the rows with Spark.")] = False,
    hold: HoldOption = "0",
    claim_id: ClaimOption = None,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Change, create, rename or drop one table while others read and write. The next release has to contain it."""
    from airflow_provider_schemamig.core import commands

    root, kept = open_environment(env), parse_hold(hold)
    if not dry_run:
        run = functools.partial(commands.alter, root, statement, hold=kept, claim_id=claim_id)
        return run_task(lambda listen: run(jobs=spark_at(spark, listen), listen=listen))
    with watched() as listen:
        report = commands.plan_alter(root, statement, jobs=spark_at(spark, listen) if check_data else None)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.plan import show_plan

        show_plan(to, report, explain=True)
        if not kept and report.explained:
            drops = any(stage.kind in ("contract", "retire") for stage in report.explained)
            gone = "what is dropped is deleted, and there" if drops else "there"
            to.print(f"With --hold 0 (the default) the hold is over at once: {gone} is no way back after the commit.")
            to.print("With `--hold 24h`, `schemamig rollback` takes the change back for a day.")

    document = report.to_json(explained=True)
    if report.refusals:
        document["error"] = error_of(report.refusals).to_json()
    return Answer(document, show, report.exit_code)
