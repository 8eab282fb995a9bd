"""The verbs that act on the ledger alone, as the reading process carries them out: a brake must not wait for a scheduler.

What touches tables is a run of a DAG (``runs``). Each is the command line's verb of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pendulum

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history, because
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.context.controls import still_words


def pause(env: Environment, who: str, *, collection: str | None, reason: str) -> dict[str, Any]:
    return _told(commands.pause(env, collection, by=who, reason=reason), "is paused")


def resume(env: Environment, who: str, *, collection: str | None, reason: str) -> dict[str, Any]:
    control = commands.resume(env, collection, by=who, reason=reason)
    held = _held(env, control)
    return _told(control, "goes on, but not all of it" if held else "goes on", *held)


def postpone(env: Environment, who: str, *, collection: str | None, reason: str) -> dict[str, Any]:
    control = commands.postpone(env, collection, by=who, reason=reason)
    return _told(control, "waits before its last step", *_held(env, control))


def force(env: Environment, who: str, *, collection: str, reason: str) -> dict[str, Any]:
    control = commands.force(env, collection, by=who, reason=reason)
    return _told(control, "may lock writers out", *_held(env, control))


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
    control = commands.throttle(env, collection, **limits, window=hours, by=who, reason=reason)
    return _told(control, "has these limits" if any((*limits.values(), hours)) else "has no limits now")


def approve(env: Environment, who: str, *, generation: int, plan: str, reason: str, rejected_at: str | None = None) -> dict[str, Any]:
    """Record the approval; ``rejected_at``: of the no that stood when Airflow's own approval asked (ISO 8601). Raises PlanChanged where the
    plan is another one by now."""
    known = None if rejected_at is None else pendulum.instance(datetime.fromisoformat(rejected_at))
    approval = commands.approve(env, Generation(generation), plan, who, reason=reason, rejected_at=known)
    return {"text": f"Generation {generation} is approved by {approval.approved_by}."}


def reject(env: Environment, who: str, *, generation: int, plan: str, reason: str) -> dict[str, Any]:
    """Record the rejection. Raises PlanChanged where the plan is another one by now, WrongState once it was promoted."""
    note = commands.reject(env, Generation(generation), plan, who, reason).note
    told = f"Generation {generation} is rejected: the environment stays as it is. Start the upgrade again if it is wanted after all."
    return {"text": f"{told} {note}".rstrip()}


def ask(env: Environment, who: str, *, what: str, collection: str | None, generation: int | None, reason: str) -> dict[str, Any]:
    """Write down who asked for a run of a DAG, and why; the run itself is remembered when it has worked."""
    number = None if generation is None else Generation(generation)
    about: dict[str, Any] = {"collection": collection, "generation": number, "who": who, "detail": because("", reason)}
    return {"text": append_history(env, HistoryEntry.ended(f"{what} asked", pendulum.now("UTC"), **about)) or ""}


def _told(control: Control, does: str, *held: str) -> dict[str, Any]:
    return {"text": " ".join([f"{'Everything' if control.scope == '*' else control.scope} {does}.", *held])}


def _held(env: Environment, written: Control) -> tuple[str, ...]:
    """Return a sentence for each other pause or postponement that holds, with the way to take it back."""
    return tuple(still_words(control) for control in commands.still_paused(env, written))


VERBS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "pause": pause,
    "resume": resume,
    "postpone": postpone,
    "force": force,
    "throttle": throttle,
    "approve": approve,
    "reject": reject,
    "ask": ask,
}
