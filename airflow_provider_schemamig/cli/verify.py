"""``schemamig verify``: whether the rows keep what Delta does not enforce for foreign writers (docs/online-changes.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import DEFAULT_SPARK, EnvOption, JsonOption, SparkOption, open_environment, spark_at
from airflow_provider_schemamig.cli.output import Answer, Exit, answered

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer()
PANEL = "Keep an environment"


@app.command(rich_help_panel=PANEL)
@answered
def verify(
    env: EnvOption,
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", metavar="NAME", help="Only this one; may be given several times.", show_default=False),
    ] = None,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Whether all rows keep the keys in force: PRIMARY KEY, UNIQUE, FOREIGN KEY. Exit 1: some do not. Writes nothing."""
    from airflow_provider_schemamig.core.ledger.store import LedgerReader
    from airflow_provider_schemamig.core.names import CollectionName
    from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
    from airflow_provider_schemamig.core.upgrade.verify_keys import verify_keys

    root = open_environment(env)
    state = LedgerReader(root).state()
    names = [CollectionName(name) for name in collection or sorted(state.objects)]
    unknown = next((name for name in names if name not in state.objects), None)
    if unknown is not None:
        raise UnknownCollection(collection=unknown)
    found = verify_keys(root, state, spark_at(spark), {}, names)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_verify import show_keys

        show_keys(to, document)

    document = {
        "findings": [finding.to_json() for finding in found.findings],
        "kept": [{"collection": name, "key": key, "version": upto.version} for (name, key), upto in found.validated.items()],
        "unasked": [{"collection": name, "key": key} for name, key in found.unasked],
    }
    return Answer(document, show, Exit.REFUSED if found.findings else Exit.DONE)
