"""``schemamig schema refresh``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console


@answered
def refresh(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Compute the schema hashes now, publish them to the other environments, and let paused streams retry at once."""
    import pendulum

    from airflow_provider_schemamig.core import commands

    environment = open_environment(env)
    node = commands.refresh(environment, pendulum.now("UTC"))
    woken = [state.stream for state in commands.stream_states(environment) if state.pause is not None]
    document = {
        "env_id": node.env_id,
        "uri": node.uri,
        "hash": node.set_hash,
        "updated_at": node.updated_at.isoformat(),
        "woken": [{"origin": stream.origin, "collection": stream.collection} for stream in woken],
    }

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.schema import refreshed_view

        to.print(refreshed_view(document))

    return Answer(document, show)
