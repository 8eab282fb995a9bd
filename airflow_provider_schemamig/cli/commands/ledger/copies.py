"""What ``ledger backup`` and ``ledger restore`` share: a folder with a copy of the ledger."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import open_environment
from airflow_provider_schemamig.cli.output import Answer

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.ledger.admin.backup import Backup, RestoredLedger

FolderArgument = Annotated[str, typer.Argument(metavar="FOLDER", help="The backup's folder: a URI or a plain path.")]


def kept(folder: str, done: Backup | RestoredLedger) -> Answer:
    document = {"uri": open_environment(folder).location.uri, **asdict(done)}

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_facts, show_notes

        show_facts(to, {name: value for name, value in document.items() if name != "notes"})
        show_notes(to, done.notes)

    return Answer(document, show)
