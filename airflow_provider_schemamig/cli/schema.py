"""``schemamig schema ...``: which schema this environment has, which the others have, and what waits for whom (docs/replicas.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, Exit, answered

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.environment import Environment
    from airflow_provider_schemamig.core.ledger.state import State

app = typer.Typer(no_args_is_help=True, help="Which environment has which schema, and which replication waits for it.")


@app.command()
@answered
def status(
    env: EnvOption,
    cluster: Annotated[bool, typer.Option("--cluster", help="Also every environment this one has heard of.")] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Hashes, and where the streams into this environment stand. Exit 3: one is paused or stopped, or (--cluster) schemas diverged."""
    import pendulum

    from airflow_provider_schemamig.core.replication.cluster.consistency import Verdict
    from airflow_provider_schemamig.core.replication.cluster.status import cluster_status, schema_status

    environment, now = open_environment(env), pendulum.now("UTC")
    if cluster:
        whole = cluster_status(environment, now)
        document, pending = whole.to_json(), bool(whole.waiting) or whole.verdict is Verdict.DIVERGED
    else:
        local = schema_status(environment, now)
        document, pending = local.to_json(), local.waiting

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_schema import cluster_view, local_view

        to.print((cluster_view if cluster else local_view)(document))

    return Answer(document, show, Exit.PENDING if pending else Exit.DONE)


@app.command()
@answered
def diff(
    one: Annotated[str, typer.Argument(metavar="ENV", help="An environment's root: a URI or a plain path.")],
    other: Annotated[str, typer.Argument(metavar="ENV", help="Another one.")],
    collection: Annotated[
        str | None, typer.Option("--collection", metavar="NAME", help="Only this collection.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """What would make the first environment's schemas those of the second, as `schemamig diff` says it of files."""
    from airflow_provider_schemamig.cli.compare import compare
    from airflow_provider_schemamig.core.ledger.store import LedgerReader
    from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection

    environments = open_environment(one), open_environment(other)
    states = [LedgerReader(environment).state() for environment in environments]
    if collection is not None and all(collection not in state.objects for state in states):
        raise UnknownCollection(collection=collection)
    before, after = ({name: state.entry(name).declared for name in state.objects if collection in (None, name)} for state in states)
    sides = [_side(environment, state) for environment, state in zip(environments, states, strict=True)]
    document = {"from": sides[0], "to": sides[1], **compare(before, after)}

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_diff
        from airflow_provider_schemamig.cli.render_schema import sides_text

        to.print(sides_text(document["from"], document["to"]))
        show_diff(to, document)

    return Answer(document, show)


@app.command()
@answered
def refresh(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Work out the hashes now, tell the other environments, and let paused replication look again at once."""
    import pendulum

    from airflow_provider_schemamig.core.replication.cluster.registry import refresh as refreshed
    from airflow_provider_schemamig.core.replication.stream.stored_state import read_states

    environment = open_environment(env)
    node = refreshed(environment, pendulum.now("UTC"))
    woken = [state.stream for state in read_states(environment) if state.pause is not None]
    document = {
        "env_id": node.env_id,
        "uri": node.uri,
        "hash": node.set_hash,
        "updated_at": node.updated_at.isoformat(),
        "woken": [{"origin": stream.origin, "collection": stream.collection} for stream in woken],
    }

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_schema import refreshed_view

        to.print(refreshed_view(document))

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
