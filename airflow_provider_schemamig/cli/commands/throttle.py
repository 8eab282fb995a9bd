"""``schemamig throttle``."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    JsonOption,
    ScopeOption,
    open_environment,
    parse_window,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import control_answer


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
    """Limit work on rows. The options given replace all limits; without any, there is no limit."""
    from airflow_provider_schemamig.core import commands

    hours = parse_window(window)
    return control_answer(
        commands.throttle(
            open_environment(env),
            collection,
            rows_per_second=rows_per_second,
            max_files=max_files,
            commits_per_minute=commits_per_minute,
            window=hours,
        )
    )
