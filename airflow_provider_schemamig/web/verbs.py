"""The verbs that act on the ledger alone, as the reading process carries them out: a brake must not wait for a scheduler.

What touches tables is a run of a DAG (``runs``). Each is the command line's verb of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pendulum

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.credentials import blank_typed


def pause(env: Environment, who: str, *, collection: str | None, reason: str) -> dict[str, Any]:
    return _told(commands.pause(env, collection, by=who, reason=reason), "is paused")


def resume(env: Environment, who: str, *, collection: str | None, reason: str) -> dict[str, Any]:
    return _with_reason(env, who, "resume", reason, _told(commands.resume(env, collection, by=who), "goes on"), collection)


def postpone(env: Environment, who: str, *, collection: str | None, reason: str) -> dict[str, Any]:
    return _told(commands.postpone(env, collection, by=who, reason=reason), "waits before its last step")


def force(env: Environment, who: str, *, collection: str, reason: str) -> dict[str, Any]:
    return _with_reason(env, who, "force", reason, _told(commands.force(env, collection, by=who), "may lock writers out"), collection)


def throttle(
    env: Environment,
    who: str,
    *,
    collection: str | None,
    reason: str,
    rows_per_second: int | None,
    max_files: int | None,
    commits_per_minute: int | None,
    window: tuple[int, int] | None,
) -> dict[str, Any]:
    limits: dict[str, Any] = {"rows_per_second": rows_per_second, "max_files": max_files, "commits_per_minute": commits_per_minute}
    hours = None if window is None else (window[0], window[1])
    control = commands.throttle(env, collection, **limits, window=hours, by=who)
    return _with_reason(
        env,
        who,
        "throttle",
        reason,
        _told(control, "has these limits" if any((*limits.values(), hours)) else "has no limits now"),
        collection,
    )


def approve(env: Environment, who: str, *, generation: int, plan: str, reason: str) -> dict[str, Any]:
    """Record the approval. Raises PlanChanged where the plan is another one by now."""
    approval = commands.approve(env, Generation(generation), plan, who)
    told = {"text": f"Generation {generation} is approved by {approval.approved_by}."}
    return _with_reason(env, who, "approve", reason, told, None, generation)


def ask(env: Environment, who: str, *, what: str, collection: str | None, generation: int | None, reason: str) -> dict[str, Any]:
    """Write down who asked for a run of a DAG, and why; the run itself is remembered when it has worked."""
    return _with_reason(env, who, f"{what} asked", reason, {"text": ""}, collection, generation)


def _with_reason(
    env: Environment, who: str, what: str, reason: str, told: dict[str, Any], collection: str | None, generation: int | None = None
) -> dict[str, Any]:
    """Write down why, for verbs that keep no reason themselves."""
    why = " ".join(blank_typed(reason).split())
    number = None if generation is None else Generation(generation)
    entry = HistoryEntry.ended(what, pendulum.now("UTC"), collection=collection, generation=number, who=who, detail=f"because: {why}")
    note = append_history(env, entry)
    return told if note is None else {**told, "text": f"{told['text']} {note}"}


def _told(control: Control, does: str) -> dict[str, Any]:
    return {"text": f"{'Everything' if control.scope == '*' else control.scope} {does}."}


VERBS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "pause": pause,
    "resume": resume,
    "postpone": postpone,
    "force": force,
    "throttle": throttle,
    "approve": approve,
    "ask": ask,
}
