"""The commands around long work on rows: follow it, slow it down, keep the history it needs, give it up (DESIGN sections 5 and 6)."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SPARK,
    EnvOption,
    GenerationOption,
    JsonOption,
    SparkOption,
    open_environment,
    parse_window,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.upgrade import TASKS, run_task
from airflow_provider_schemamig.core.names import Generation

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.ledger.rows import Control

app = typer.Typer()
PANEL = "While rows are copied"

ScopeOption = Annotated[
    str | None, typer.Option("--collection", metavar="NAME", help="Only this collection; all if not given.", show_default=False)
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; shown with your name wherever something waits.", show_default=False)
]
CollectionOption = Annotated[str, typer.Option("--collection", metavar="NAME", help="The collection.", show_default=False)]
HolderOption = Annotated[
    str | None,
    typer.Option(
        "--holder", metavar="ID", help="Whose pin: a generation, or your own name for it (default: your user name).", show_default=False
    ),
]


@app.command(rich_help_panel=TASKS)
@answered
def tail(
    env: EnvOption,
    generation: GenerationOption,
    once: Annotated[bool, typer.Option("--once", help="One round: everything committed until now.")] = False,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Bring what is committed to the old tables into their copies, until the generation is promoted or given up."""
    from airflow_provider_schemamig.core.upgrade import commands

    return run_task(
        lambda listen: commands.tail(open_environment(env), Generation(generation), jobs=spark_at(spark), once=once, listen=listen)
    )


@app.command(rich_help_panel=TASKS)
@answered
def cancel(env: EnvOption, generation: GenerationOption, spark: SparkOption = DEFAULT_SPARK, as_json: JsonOption = False) -> Answer:
    """Give a generation up: what it built is deleted. Promoted already: it is rolled back. Committed: refused."""
    from airflow_provider_schemamig.core.upgrade import commands

    return run_task(lambda listen: commands.cancel(open_environment(env), Generation(generation), jobs=spark_at(spark), listen=listen))


@app.command(rich_help_panel=PANEL)
@answered
def pause(env: EnvOption, collection: ScopeOption = None, reason: ReasonOption = None, as_json: JsonOption = False) -> Answer:
    """Let no upgrade go further: no batch of rows, no promotion, no seal, no commit. What is in flight ends."""
    from airflow_provider_schemamig.core.upgrade.context import controls

    return _control(controls.pause(open_environment(env), collection, reason=reason))


@app.command(rich_help_panel=PANEL)
@answered
def postpone(env: EnvOption, collection: ScopeOption = None, reason: ReasonOption = None, as_json: JsonOption = False) -> Answer:
    """Work on rows goes on, but the last step of an online change (with another type: the cut-over) waits for `resume`."""
    from airflow_provider_schemamig.core.upgrade.context import controls

    return _control(controls.postpone(open_environment(env), collection, reason=reason))


@app.command(rich_help_panel=PANEL)
@answered
def force(env: EnvOption, collection: CollectionOption, as_json: JsonOption = False) -> Answer:
    """Let busy writers wait for the last step of an online change after one lost race, not two, and for a fill that they outrun."""
    from airflow_provider_schemamig.core.upgrade.context import controls

    return _control(controls.force(open_environment(env), collection))


@app.command(rich_help_panel=PANEL)
@answered
def resume(env: EnvOption, collection: ScopeOption = None, as_json: JsonOption = False) -> Answer:
    """Go on: take a pause, a postponement, or a force, back; limits stay."""
    from airflow_provider_schemamig.core.upgrade.context import controls

    return _control(controls.resume(open_environment(env), collection))


@app.command(rich_help_panel=PANEL)
@answered
def throttle(
    env: EnvOption,
    collection: ScopeOption = None,
    rows_per_second: Annotated[int | None, typer.Option("--rows-per-second", metavar="N", help="On average.", show_default=False)] = None,
    max_files: Annotated[int | None, typer.Option("--max-files", metavar="N", help="Files a batch.", show_default=False)] = None,
    commits_per_minute: Annotated[
        int | None, typer.Option("--commits-per-minute", metavar="N", help="Each batch is one.", show_default=False)
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", metavar="HOURS", help="Batches begin only in these hours UTC: 22-6.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Set the limits of work on rows to exactly these. Without any, there are none any more."""
    from airflow_provider_schemamig.core.upgrade.context import controls

    hours = parse_window(window)
    return _control(
        controls.throttle(
            open_environment(env),
            collection,
            rows_per_second=rows_per_second,
            max_files=max_files,
            commits_per_minute=commits_per_minute,
            window=hours,
        )
    )


@app.command(rich_help_panel=PANEL)
@answered
def pin(
    env: EnvOption,
    collection: CollectionOption,
    hours: Annotated[int, typer.Option("--hours", min=1, metavar="N", help="How much history a copy needs.", show_default=False)],
    holder: HolderOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Keep a live table's history longer, for a copy that takes longer than it is kept. Commits to the table."""
    from airflow_provider_schemamig.core.upgrade.status import pin_json
    from airflow_provider_schemamig.core.upgrade.tables import pins

    pinned = pins.pin(open_environment(env), collection, holder or getpass.getuser(), hours)
    text = f"{collection} keeps its history for at least {pinned.hours} hours, until {pinned.holder} unpins it."
    return Answer(pin_json(pinned, collection), lambda to: to.print(text))


@app.command(rich_help_panel=PANEL)
@answered
def unpin(env: EnvOption, collection: CollectionOption, holder: HolderOption = None, as_json: JsonOption = False) -> Answer:
    """Take a pin back. The table's own settings come back with the last one."""
    from airflow_provider_schemamig.core.upgrade.tables import pins

    whose = holder or getpass.getuser()
    found = pins.unpin(open_environment(env), collection, whose)
    text = f"{whose} pins {collection} no longer." if found else f"{whose} has no pin on {collection}."
    return Answer({"collection": collection, "holder": whose, "unpinned": found}, lambda to: to.print(text))


def _control(control: Control) -> Answer:
    from airflow_provider_schemamig.core.upgrade.status import control_json

    document: Mapping[str, Any] = control_json(control)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_rows import control_text

        to.print(control_text(document))

    return Answer(document, show)
