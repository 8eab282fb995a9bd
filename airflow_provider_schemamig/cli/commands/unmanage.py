"""``schemamig unmanage``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    JsonOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console
from airflow_provider_schemamig.cli.options import CollectionOption


@answered
def unmanage(env: EnvOption, collection: CollectionOption, as_json: JsonOption = False) -> Answer:
    """Stop managing a collection: the environment forgets its table, which stays as it is."""
    from airflow_provider_schemamig.core import commands

    done = commands.unmanage(open_environment(env), collection)
    document = done.to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_notes

        if done.uri is None:
            to.print(f"{done.collection} is not managed any more.")
            return
        to.print(f"{done.collection} is not managed any more; its table stays at {done.uri}", style="bold")
        show_notes(to, done.notes)
        to.print(f'next: the next version of the release leaves it out of schema.sql, with removal("{done.collection}") in its module.')

    return Answer(document, show)
