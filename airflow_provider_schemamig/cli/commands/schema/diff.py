"""``schemamig schema diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.environment import Environment
    from airflow_provider_schemamig.core.ledger.state import State


@answered
def diff(
    one: Annotated[str, typer.Argument(metavar="ENV", help="An environment's root: a URI or a plain path.")],
    other: Annotated[str, typer.Argument(metavar="ENV", help="Another one.")],
    collection: Annotated[
        str | None, typer.Option("--collection", metavar="NAME", help="Only this collection.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Show the changes that lead from the first environment's schemas to the second's, as `schemamig diff` does for files."""
    from airflow_provider_schemamig.cli.compare import compare
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection

    environments = open_environment(one), open_environment(other)
    states = [commands.read_state(environment) for environment in environments]
    if collection is not None and all(collection not in state.objects for state in states):
        raise UnknownCollection(collection=collection)
    before, after = ({name: state.entry(name).declared for name in state.objects if collection in (None, name)} for state in states)
    sides = [_side(environment, state) for environment, state in zip(environments, states, strict=True)]
    document = {"from": sides[0], "to": sides[1], **compare(before, after)}

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_diff
        from airflow_provider_schemamig.cli.render.schema import sides_text

        to.print(sides_text(document["from"], document["to"]))
        show_diff(to, document)

    return Answer(document, show)


def _side(environment: Environment, state: State) -> dict[str, Any]:
    from airflow_provider_schemamig.core.schema.fingerprint import set_fingerprint

    release = state.release
    return {
        "env_id": state.config.env_id,
        "uri": environment.location.uri,
        "release": None if release is None else str(release.version),
        "hash": set_fingerprint({name: item.fingerprint for name, item in state.objects.items()}),
    }
