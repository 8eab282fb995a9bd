"""``schemamig schema status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, Exit, answered

if TYPE_CHECKING:
    from rich.console import Console


@answered
def status(
    env: EnvOption,
    cluster: Annotated[bool, typer.Option("--cluster", help="Also every environment that this one knows.")] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Show schema hashes and how far streams are. Exit 3: a stream is paused or stopped, or (--cluster) schemas diverged."""
    import pendulum

    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.replication.cluster.consistency import ClusterVerdict

    environment, now = open_environment(env), pendulum.now("UTC")
    if cluster:
        found = commands.cluster_status(environment, now)
        document, pending = found.to_json(), bool(found.waiting) or found.verdict is ClusterVerdict.DIVERGED
    else:
        local = commands.schema_status(environment, now)
        document, pending = local.to_json(), local.waiting

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.schema import cluster_view, local_view

        to.print((cluster_view if cluster else local_view)(document))

    return Answer(document, show, Exit.PENDING if pending else Exit.DONE)
