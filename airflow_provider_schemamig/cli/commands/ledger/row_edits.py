"""What ``ledger edit`` and ``ledger delete`` share: one row, written or taken away by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import open_environment
from airflow_provider_schemamig.cli.output import Answer
from airflow_provider_schemamig.core.user import user_name

if TYPE_CHECKING:
    from rich.console import Console

LedgerCollectionOption = Annotated[str, typer.Option("--collection", metavar="NAME", help="The ledger's collection: objects, shards, ...")]
KeyOption = Annotated[str, typer.Option("--key", metavar="KEY", help="The row's key, as `ledger dump` prints it or without its quotes.")]
ExpectOption = Annotated[
    int | None, typer.Option("--expect", metavar="VERSION", help="Only if the row is still as it was at this ledger version.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Edit even if somebody is at work, or verify would find something new.")]


def edited(env: str, collection: str, key: str, value: str | None, expect: int | None, force: bool) -> Answer:
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.ledger.admin.edit import RowEdit

    done = commands.edit_row(open_environment(env), RowEdit(collection, key, value, expect, force), user_name())

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.ledger import show_edit

        show_edit(to, document)

    document = done.to_json()
    return Answer(document, show)
