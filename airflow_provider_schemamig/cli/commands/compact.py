"""``schemamig compact``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import DEFAULT_SPARK, EnvOption, JsonOption, SparkOption, open_environment, spark_at
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.progress import watched

if TYPE_CHECKING:
    from rich.console import Console


@answered
def compact(
    env: EnvOption,
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", metavar="NAME", help="Only this one; may be given several times.", show_default=False),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show which files have which schema; rewrite nothing.")] = False,
    max_files: Annotated[int, typer.Option("--max-files", min=1, metavar="N", help="Files of one batch at most.")] = 256,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", min=1, metavar="N", help="Bytes of one batch at most; a larger file is a batch of its own.")
    ] = 16 * 2**30,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Rewrite files that were written under an older schema, batch by batch. Readers and writers go on and see no difference."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.upgrade.compact import Compacted, Limits

    root, names = open_environment(env), collection or []

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.compact import show_compaction

        show_compaction(to, document, rewritten=not plan)

    if plan:
        document = {"collections": [Compacted(age).to_json() for age in commands.schema_age(root, names)]}
        return Answer(document, show)
    with watched() as listen:
        found = commands.compact(root, names, limits=Limits(max_files, max_bytes), jobs=spark_at(spark, listen), listen=listen)
    document = found.to_json()
    return Answer(document, show)
