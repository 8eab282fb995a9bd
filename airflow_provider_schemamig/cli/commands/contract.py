"""``schemamig contract``."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    IgnoreNodesOption,
    JsonOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import run_task
from airflow_provider_schemamig.core.names import Generation


@answered
def contract(
    env: EnvOption,
    generation: Annotated[
        int | None, typer.Option("--generation", min=1, metavar="N", help="Only this deployment's hold; all that are due if not given.")
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Also holds that are open: what they keep is deleted, and the way back is gone.")
    ] = False,
    ignore_nodes: IgnoreNodesOption = False,
    as_json: JsonOption = False,
) -> Answer:
    """Drop the columns and collections that the release dropped, once a hold is over. Holds end oldest first."""
    from airflow_provider_schemamig.core import commands

    root, only = open_environment(env), None if generation is None else Generation(generation)
    return run_task(lambda listen: commands.contract(root, only, at_once=now, ignore_nodes=ignore_nodes, listen=listen))
