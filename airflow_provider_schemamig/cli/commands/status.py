"""``schemamig status``."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, Exit, answered

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.upgrade.status import Status


#: Between two looks of ``--watch``, in seconds.
WATCH_SECONDS = 2.0


@answered
def status(
    env: EnvOption,
    cluster: Annotated[bool, typer.Option("--cluster", help="Also the nodes that read and write, with their leases.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every 2 seconds until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Show the release, the leader, every collection and until when a rollback is possible. Exit 3: a table has drifted."""
    from airflow_provider_schemamig.core import commands

    if watch and as_json:
        raise typer.BadParameter("--json is one document, --watch never ends: choose one.", param_hint="'--watch'")
    environment = open_environment(env)
    uri = environment.location.uri
    found = commands.status(environment)
    if watch:
        return _watched(found, uri, cluster, lambda: commands.status(environment))

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.status import status_view

        to.print(status_view(uri, found.to_json(), cluster=cluster))

    return Answer(found.to_json(), show, _exit_code(found))


def _exit_code(found: Status) -> int:
    return Exit.PENDING if found.drifted else Exit.DONE


def _watched(first: Status, uri: str, cluster: bool, look: Callable[[], Status]) -> Answer:
    """Draw until Ctrl-C: the way to end it, so no failure. The exit code is that of the last look."""

    def show(to: Console) -> None:
        from rich.live import Live

        from airflow_provider_schemamig.cli.render.status import status_view

        found = first
        # Off a terminal Live prints nothing before its end, so there each change is printed below the one before.
        live = Live(console=to, auto_refresh=False) if to.is_terminal else nullcontext()
        try:
            with live:
                while True:
                    view = status_view(uri, found.to_json(), cluster=cluster)
                    if isinstance(live, Live):
                        live.update(view, refresh=True)
                    else:
                        to.print(view)
                    found = _next(found, look)
        except KeyboardInterrupt:
            raise typer.Exit(_exit_code(found)) from None

    return Answer(first.to_json(), show)


def _next(shown: Status, look: Callable[[], Status]) -> Status:
    """Wait for a status that differs from the one shown, and return it."""
    found = shown
    while found.to_json() == shown.to_json():
        time.sleep(WATCH_SECONDS)
        found = look()
    return found
