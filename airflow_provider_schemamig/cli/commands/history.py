"""``schemamig history``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.ledger.history import HistoryEntry


DEFAULT_LIMIT = 50
#: The outcome of what writes a second entry at its end.
BEGUN = "begun"


@answered
def history(
    env: EnvOption,
    collection: Annotated[
        str | None, typer.Option("--collection", metavar="NAME", help="Only what was about this one.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="The newest N.")] = DEFAULT_LIMIT,
    as_json: JsonOption = False,
) -> Answer:
    """List what was done here, the newest first: tasks, and every online change with its duration and outcome. Writes nothing."""
    from airflow_provider_schemamig.core.ledger.history import read_history
    from airflow_provider_schemamig.core.ledger.store import LedgerReader

    root = open_environment(env)
    LedgerReader(root).state()  # refused where no environment is, and where newer software wrote it
    found = [entry for entry in read_history(root) if collection in (None, entry.collection)]
    document = {"entries": [_entry(entry) for entry in reversed(found[-limit:])]}
    shown = [_entry(entry) for entry in reversed(_once_each(found)[-limit:])]

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.rows import history_table

        to.print(history_table(shown) if shown else "There are no entries.")

    return Answer(document, show)


def _once_each(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Leave out the beginnings of what came to an end."""
    ends = [entry for entry in entries if entry.outcome != BEGUN]

    def is_ended(begun: HistoryEntry) -> bool:
        mine = (end for end in ends if (end.what, end.generation) == (begun.what, begun.generation))
        return any(end.started_at.add(seconds=end.seconds) >= begun.started_at for end in mine)

    return [entry for entry in entries if entry.outcome != BEGUN or not is_ended(entry)]


def _entry(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "started_at": entry.started_at.isoformat(),
        "seconds": round(entry.seconds, 3),
        "who": entry.who,
        "what": entry.what,
        "collection": entry.collection,
        "generation": entry.generation,
        "outcome": entry.outcome,
        "detail": entry.detail,
    }
