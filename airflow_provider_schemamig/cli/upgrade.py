"""The commands that plan and change an environment: one for each task of the protocol (DESIGN section 5), and ``upgrade`` for all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    DEFAULT_HOLD,
    DEFAULT_SPARK,
    BackClaimOption,
    ClaimOption,
    CreateOption,
    EndHoldOption,
    EnvOption,
    GenerationOption,
    HoldOption,
    IgnoreNodesOption,
    JsonOption,
    ReleaseOption,
    SparkOption,
    local_path,
    open_environment,
    parse_hold,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.progress import watched
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.exceptions import error_of

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.progress import Listener
    from airflow_provider_schemamig.core.upgrade.context.context import Outcome

app = typer.Typer()
PANEL = "Upgrade an environment"
TASKS = "One task at a time (what the DAG runs)"


@app.command(rich_help_panel=PANEL)
@answered
def plan(
    env: EnvOption,
    release: ReleaseOption,
    explain: Annotated[bool, typer.Option("--explain", help="Why each change costs what it costs, who breaks, what stays behind.")] = False,
    check_data: Annotated[bool, typer.Option("--check-data", help="Also check the rows with Spark.")] = False,
    end_hold: EndHoldOption = False,
    ignore_nodes: IgnoreNodesOption = False,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """What an upgrade would do. Writes nothing. Exit 0: nothing to do, 3: differences pending, 1: refused."""
    from airflow_provider_schemamig.core.upgrade import commands

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_plan import show_plan

        show_plan(to, report, explain=explain)

    jobs = spark_at(spark) if check_data else None
    report = commands.plan(open_environment(env), local_path(release), end_hold=end_hold, ignore_nodes=ignore_nodes, jobs=jobs)
    document = report.to_json(explained=explain)
    if report.refusals:
        document["error"] = error_of(report.refusals).to_json()
    return Answer(document, show, report.exit_code)


@app.command(rich_help_panel=PANEL)
@answered
def upgrade(
    env: EnvOption,
    release: ReleaseOption,
    hold: HoldOption = DEFAULT_HOLD,
    end_hold: EndHoldOption = False,
    ignore_nodes: IgnoreNodesOption = False,
    claim_id: ClaimOption = None,
    create: CreateOption = False,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Take the environment to the release: every task in order. A new environment is made at the release's head."""
    from airflow_provider_schemamig.core.upgrade import commands

    root, folder, kept, jobs = open_environment(env), local_path(release), parse_hold(hold), spark_at(spark)
    run = functools.partial(commands.upgrade, root, folder, hold=kept, end_hold=end_hold, ignore_nodes=ignore_nodes)
    return run_task(lambda listen: run(claim_id=claim_id, create=create, jobs=jobs, listen=listen))


@app.command(rich_help_panel=PANEL)
@answered
def rollback(
    env: EnvOption,
    allow_lossy: Annotated[bool, typer.Option("--allow-lossy", help="Even if rows are lost on the way back.")] = False,
    claim_id: BackClaimOption = None,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Go back to the release before, while its hold is open, or undo an upgrade that was cut in the middle."""
    from airflow_provider_schemamig.core.upgrade import commands

    run = functools.partial(commands.rollback, open_environment(env), jobs=spark_at(spark), allow_lossy=allow_lossy, claim_id=claim_id)
    return run_task(lambda listen: run(listen=listen))


@app.command(rich_help_panel=TASKS)
@answered
def preflight(
    env: EnvOption,
    release: ReleaseOption,
    hold: HoldOption = DEFAULT_HOLD,
    end_hold: EndHoldOption = False,
    ignore_nodes: IgnoreNodesOption = False,
    claim_id: ClaimOption = None,
    create: CreateOption = False,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Claim a generation, check the rows, build what replaces a table, copy what is rewritten. No live table is touched."""
    from airflow_provider_schemamig.core.upgrade import commands

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_plan import show_preflight

        show_preflight(to, found)

    root, folder, kept, jobs = open_environment(env), local_path(release), parse_hold(hold), spark_at(spark)
    with watched() as listen:
        run = functools.partial(commands.preflight, root, folder, hold=kept, end_hold=end_hold, ignore_nodes=ignore_nodes)
        found = run(claim_id=claim_id, create=create, jobs=jobs, listen=listen)
    return Answer(found.to_json(), show)


@app.command(rich_help_panel=TASKS)
@answered
def approve(
    env: EnvOption,
    generation: GenerationOption,
    plan: Annotated[str, typer.Option("--plan", metavar="DIGEST", help="The digest of the plan you read.", show_default=False)],
    as_json: JsonOption = False,
) -> Answer:
    """Record that you read the plan of a generation and want it."""
    from airflow_provider_schemamig.core.upgrade import commands

    approval = commands.approve(open_environment(env), Generation(generation), plan)
    document = {"generation": generation, "plan_digest": plan, "approved_by": approval.approved_by}
    return Answer(document, lambda to: to.print(f"Generation {generation} is approved by {approval.approved_by}, plan {plan[:12]}."))


@app.command(rich_help_panel=TASKS)
@answered
def promote(env: EnvOption, generation: GenerationOption, as_json: JsonOption = False) -> Answer:
    """Make the generation the leader, if its plan is still the one that was checked."""
    from airflow_provider_schemamig.core.upgrade import commands

    return run_task(lambda listen: commands.promote(open_environment(env), Generation(generation), listen=listen))


@app.command(rich_help_panel=TASKS)
@answered
def expand(env: EnvOption, generation: GenerationOption, spark: SparkOption = DEFAULT_SPARK, as_json: JsonOption = False) -> Answer:
    """Settle what an earlier leader left, then make every change that readers and writers do not notice."""
    from airflow_provider_schemamig.core.upgrade import commands

    return run_task(lambda listen: commands.expand(open_environment(env), Generation(generation), jobs=spark_at(spark), listen=listen))


@app.command(rich_help_panel=TASKS)
@answered
def change(env: EnvOption, generation: GenerationOption, spark: SparkOption = DEFAULT_SPARK, as_json: JsonOption = False) -> Answer:
    """Work that is done on rows while readers and writers go on; fills whose inputs moved run again."""
    from airflow_provider_schemamig.core.upgrade import commands

    return run_task(lambda listen: commands.change(open_environment(env), Generation(generation), jobs=spark_at(spark), listen=listen))


@app.command(rich_help_panel=TASKS)
@answered
def cutover(env: EnvOption, generation: GenerationOption, spark: SparkOption = DEFAULT_SPARK, as_json: JsonOption = False) -> Answer:
    """Follow and check what is rewritten, seal, catch up, rename, swap, commit: the environment is at the release after it."""
    from airflow_provider_schemamig.core.upgrade import commands

    return run_task(lambda listen: commands.cutover(open_environment(env), Generation(generation), jobs=spark_at(spark), listen=listen))


@app.command(rich_help_panel=TASKS)
@answered
def cleanup(env: EnvOption, generation: GenerationOption, as_json: JsonOption = False) -> Answer:
    """Delete what earlier generations left and nothing references."""
    from airflow_provider_schemamig.core.upgrade import commands

    return run_task(lambda listen: commands.cleanup(open_environment(env), Generation(generation), listen=listen))


@app.command(rich_help_panel=TASKS)
@answered
def contract(
    env: EnvOption,
    generation: Annotated[
        int | None, typer.Option("--generation", min=1, metavar="N", help="Only this deployment's hold; all that are due if not given.")
    ] = None,
    ignore_nodes: IgnoreNodesOption = False,
    as_json: JsonOption = False,
) -> Answer:
    """When a hold is over: drop the columns and collections that the release dropped. Holds end oldest first."""
    from airflow_provider_schemamig.core.upgrade import commands

    only = None if generation is None else Generation(generation)
    return run_task(lambda listen: commands.contract(open_environment(env), only, ignore_nodes=ignore_nodes, listen=listen))


def run_task(task: Callable[[Listener], Outcome]) -> Answer:
    """Run a task under progress; its outcome is the answer."""
    with watched() as listen:
        document = task(listen).to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_outcome

        show_outcome(to, document)

    return Answer(document, show)
