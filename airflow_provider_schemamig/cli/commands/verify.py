"""``schemamig verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import DEFAULT_SPARK, EnvOption, JsonOption, SparkOption, open_environment, spark_at
from airflow_provider_schemamig.cli.output import Answer, Exit, answered
from airflow_provider_schemamig.cli.progress import watched

if TYPE_CHECKING:
    from rich.console import Console


@answered
def verify(
    env: EnvOption,
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", metavar="NAME", help="Only this one; may be given several times.", show_default=False),
    ] = None,
    new_rows: Annotated[
        bool, typer.Option("--new-rows", help="Check only keys of rows that came since the last check, and record how far it got.")
    ] = False,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Check the tables against their schemas: no stray value, none missing, no rule broken. Exit 1: not so.

    Writes nothing, except that --new-rows records how far it got.
    """
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.names import CollectionName

    names = None if not collection else [CollectionName(name) for name in collection]
    verify = commands.watch_keys if new_rows else commands.verify_environment
    with watched() as listen:
        found = verify(open_environment(env), spark_at(spark, listen), names)
    document = found.to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.verify import show_verified

        show_verified(to, document)

    return Answer(document, show, Exit.REFUSED if found.broken else Exit.DONE)
