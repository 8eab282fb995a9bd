"""``schemamig report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.core.names import Generation

if TYPE_CHECKING:
    from rich.console import Console


@answered
def report(
    env: EnvOption,
    generation: Annotated[
        int | None, typer.Option("--generation", min=1, metavar="N", help="Of which deployment; default: the newest.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as one HTML file that needs nothing else.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Tell the plan of a deployment, what it did and how far it is. With --html it is a file for mails and tickets. Writes nothing else."""
    from airflow_provider_schemamig.core import commands

    document = commands.deployment_document(open_environment(env), None if generation is None else Generation(generation))
    if html is not None:
        from airflow_provider_schemamig.core.html.render import report_html
        from airflow_provider_schemamig.core.release.folder.errors import UnwritableFile

        try:
            html.write_text(report_html(document), encoding="utf-8")
        except OSError as error:
            raise UnwritableFile(file=str(html), reason=error.strerror or str(error)) from error

    def show(to: Console) -> None:
        if html is not None:
            to.print(f"{html}: generation {document['deployment']['generation']}", soft_wrap=True)
        else:
            from airflow_provider_schemamig.cli.render.report import show_report

            show_report(to, document)

    return Answer(document, show)
