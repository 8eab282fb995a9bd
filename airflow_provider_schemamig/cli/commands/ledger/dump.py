"""``schemamig ledger dump``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console

from airflow_provider_schemamig.cli.options import open_ledger

_FORMATS = ("table", "jsonl", "csv")


def dump(
    env: EnvOption,
    collection: Annotated[str | None, typer.Option("--collection", metavar="NAME", help="Only this one: objects, shards, ...")] = None,
    as_of: Annotated[int | None, typer.Option("--as-of", metavar="VERSION", help="The ledger as it was at this version.")] = None,
    current: Annotated[bool, typer.Option("--current", help="Only the current rows, not every update that led to them.")] = False,
    format_: Annotated[str, typer.Option("--format", metavar="FORMAT", help="table, jsonl (to paste from), or csv (for SQL).")] = "table",
    as_json: JsonOption = False,
) -> None:
    """List the stored updates: collection, key, value, time (ledger version) and difference."""
    if format_ not in _FORMATS:
        raise typer.BadParameter(f"{format_!r} is not one of {', '.join(_FORMATS)}.", param_hint="'--format'")
    if as_json and format_ != "table":
        raise typer.BadParameter("--json is one document, --format is for a file: choose one.", param_hint="'--format'")
    _dump(env=env, collection=collection, as_of=as_of, current=current, format_=format_, as_json=as_json)


@answered
def _dump(*, env: str, collection: str | None, as_of: int | None, current: bool, format_: str, as_json: bool) -> Answer:
    from airflow_provider_schemamig.core import commands

    document = commands.dump_ledger(open_ledger(env), as_of, collection=collection, current=current)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import ledger as shown

        match format_:
            case "jsonl":
                shown.write_jsonl(to.file, document)
            case "csv":
                shown.write_csv(to.file, document)
            case _:
                shown.show_dump(to, document, current=current)

    return Answer(document, show)
