"""The audit log as documents: every entry, or each thing that was done once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_schemamig.core.html.render import last_task, outcome
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, read_history
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

#: The outcome of what writes a second entry at its end.
BEGUN = "begun"


def history_document(env: EnvironmentRoot) -> dict[str, Any]:
    """Return the whole audit log, the newest entry first. Raises NoEnvironment."""
    state = LedgerReader(env).state()  # refused where no environment is, and where newer software wrote it
    return {"ledger_version": state.version, "entries": [entry_json(entry) for entry in reversed(once_each(read_history(env)))]}


def once_each(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Leave out the beginnings of what came to an end."""
    ends: dict[tuple[str, int | None], list[HistoryEntry]] = {}
    for entry in entries:
        if entry.outcome != BEGUN:
            ends.setdefault((entry.what, entry.generation), []).append(entry)

    def is_ended(begun: HistoryEntry) -> bool:
        mine = ends.get((begun.what, begun.generation), ())
        return any(end.started_at.add(seconds=end.seconds) >= begun.started_at for end in mine)

    return [entry for entry in entries if entry.outcome != BEGUN or not is_ended(entry)]


def last_failure(env: EnvironmentRoot, generation: int) -> dict[str, Any] | None:
    """Return the task of a deployment that ended last, if it failed: ``what``, and the error's ``code``."""
    last = last_task([entry_json(entry) for entry in once_each(read_history(env)) if entry.generation == generation])
    return {"what": last["what"], "code": last["outcome"]} if last is not None and outcome(last) == "bad" else None


def entry_json(entry: HistoryEntry) -> dict[str, Any]:
    """Return one entry for documents."""
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
