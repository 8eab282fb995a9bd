"""``schemamig diff``: what differs between two schema files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import JsonOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console


@answered
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A .sql file, or a Spark StructType as .json.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same for afterwards.")],
    as_json: JsonOption = False,
) -> Answer:
    """Compare two schemas: what changes from one to the other, and what that costs (none, instant, online or rewrite)."""
    from airflow_provider_schemamig.cli.compare import compare_files

    document = compare_files(local_path(old), local_path(new))

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_diff

        show_diff(to, document)

    return Answer(document, show)
