"""Telling running work to wait, to go slowly, to keep to some hours, or to wait before its last step: rows that every batch, and the last
step of an online change, looks at before it begins, and a pause also every append that takes an upgrade further.

Nobody leads for this: it changes nothing but the pace, and whoever may write to the ledger may say so. It is remembered in the history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pendulum

from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history, because, told_reason
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.throttle import EVERYWHERE, last_step_key
from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
from airflow_provider_schemamig.core.user import user_name
from airflow_provider_schemamig.credentials import blank_typed
from airflow_provider_schemamig.exceptions import Refusal


class BadThrottle(Refusal):
    """A limit that no work could keep."""

    code = "bad_throttle"
    message = "this limit cannot be kept: {reason}."
    next_action = "Rows a second, files a batch and commits a minute are 1 or more; a window is two different hours UTC, such as 22-6."
    reason: str


def pause(env: EnvironmentRoot, collection: str | None, *, by: str | None = None, reason: str | None = None) -> Control:
    """Work on the rows of ``collection`` (None: of all) begins no further batch, what is in flight ends; and no upgrade that is about it is
    promoted, changes a live table, seals or commits (``upgrade.pausing``). A way back is not held.

    ``by``: who wants it (None: this process's user); with the time and the ``reason`` it is shown wherever something waits.
    """
    return _say(env, "pause", collection, by, reason, lambda control, paused: paused(control))


def resume(env: EnvironmentRoot, collection: str | None, *, by: str | None = None, reason: str | None = None) -> Control:
    """Take a pause, or a postponement, back; limits stay."""
    return _say(env, "resume", collection, by, reason, lambda control, _: _running(control), postponed=False)


def still_paused(env: EnvironmentRoot, written: Control) -> tuple[Control, ...]:
    """Return the pauses and postponements still in force beside the control just ``written``.

    Each verb takes back its own only. For a collection that is also what was said of all; for all, what was said of any.
    """
    controls = sorted(LedgerReader(env).state().controls.items())
    others = [control for key, control in controls if control.paused and key != written.key]
    return tuple(control for control in others if written.scope == EVERYWHERE or control.scope in (EVERYWHERE, written.scope))


def still_words(control: Control) -> str:
    """Return, in words, another control that makes work wait, and how to take it back."""
    is_all = control.scope == EVERYWHERE
    scope, state = "everything" if is_all else control.scope, "postponed" if control.last_step else "paused"
    why, field = f": {control.reason}" if control.reason else "", "an empty collection" if is_all else f"the collection {control.scope}"
    return f"{scope} is still {state} by {control.paused_by}{why}. Resume with {field} takes that back."


def postpone(env: EnvironmentRoot, collection: str | None, *, by: str | None = None, reason: str | None = None) -> Control:
    """Work on the rows of ``collection`` (None: of all) goes on, unless it is paused, but the last step of an online change, the commit
    after it, waits for ``resume``. Rows that come meanwhile are filled right before it. The control of the last step."""
    _say(env, "postpone", collection, by, reason, lambda control, _: control, postponed=True)
    last = Control(collection or EVERYWHERE, last_step=True)
    return LedgerReader(env).state().controls.get(last.key, last)


def force(env: EnvironmentRoot, collection: str, *, by: str | None = None, reason: str | None = None) -> Control:
    """Let writers be sealed off for the last step of the online change of ``collection`` after they were faster once (else: twice).

    The same holds for a fill that they outrun. It applies to one change: when that has ended it is forgotten. Takes a postponement of the
    collection back, not one of all.
    """
    wanted, started = Control(collection, last_step=True), pendulum.now("UTC")

    def decide(state: State) -> Sequence[Update]:
        _check_known(state, collection)
        return [Put(wanted)]

    LedgerWriter(env).transact(decide)
    entry = HistoryEntry.ended("force", started, collection=collection, who=by and blank_typed(by), detail=told_reason(reason) or "")
    append_history(env, entry)
    return wanted


def throttle(
    env: EnvironmentRoot,
    collection: str | None,
    *,
    rows_per_second: int | None = None,
    max_files: int | None = None,
    commits_per_minute: int | None = None,
    window: tuple[int, int] | None = None,
    by: str | None = None,
    reason: str | None = None,
) -> Control:
    """Set the limits of ``collection`` (None: of all) to exactly these; without any, there are none any more. Each batch is one commit."""
    for name, limit in (("rows a second", rows_per_second), ("files a batch", max_files), ("commits a minute", commits_per_minute)):
        if limit is not None and limit < 1:
            raise BadThrottle(collection=collection, reason=f"{limit} {name}")
    if window is not None and window != (0, 24) and (window[0] % 24 == window[1] % 24 or not all(0 <= hour <= 24 for hour in window)):
        raise BadThrottle(collection=collection, reason=f"the window {window[0]}-{window[1]}")

    def limited(control: Control, _: _Paused) -> Control:
        return replace(control, rows_per_second=rows_per_second, max_files=max_files, commits_per_minute=commits_per_minute, window=window)

    told = limit_words(rows_per_second, max_files, commits_per_minute, hours_of(window))
    return _say(env, "throttle", collection, by, reason, limited, told=told)


def limit_words(rows_per_second: int | None, max_files: int | None, commits_per_minute: int | None, window: str | None) -> str:
    """Return limits for people."""
    limits = (
        f"{rows_per_second:,} rows/s" if rows_per_second else "",
        f"{max_files:,} files a batch" if max_files else "",
        f"{commits_per_minute:,} commits a minute" if commits_per_minute else "",
        f"only in the hours {window} UTC" if window else "",
    )
    return ", ".join(filter(None, limits)) or "no limits"


def hours_of(window: tuple[int, int] | None) -> str | None:
    """Return a window as it is typed and shown: ``22-6``."""
    return None if window is None else f"{window[0]}-{window[1]}"


#: The control, paused.
_Paused = Callable[[Control], Control]


def _say(
    env: EnvironmentRoot,
    what: str,
    collection: str | None,
    by: str | None,
    reason: str | None,
    change: Callable[[Control, _Paused], Control],
    *,
    postponed: bool | None = None,
    told: str = "",
) -> Control:
    """Write a control of ``collection`` (None: of all) and return it; a pause that is repeated keeps its time, and its
    reason unless there is another one.

    ``postponed`` None: the last step stays as it is. ``told``: what the history says beside the reason.
    """
    scope, started = collection or EVERYWHERE, pendulum.now("UTC")
    # Whoever waits for it is shown both, and the ledger keeps them: not with a credential that somebody pasted along.
    last, who = Control(scope, last_step=True), blank_typed(by or user_name())
    why = told_reason(reason)

    def paused(control: Control) -> Control:
        if control.paused and why is None:  # who said why is not forgotten for somebody who says nothing
            return control
        return replace(control, paused=True, paused_by=who, paused_at=control.paused_at or started, reason=why)

    def decide(state: State) -> Sequence[Update]:
        if collection is not None:
            _check_known(state, collection)
        control = change(state.controls.get(scope, Control(scope)), paused)
        updates: list[Update] = [Put(control) if control != Control(scope) else Drop(Control, scope)]
        if postponed is not None:
            updates.append(Put(paused(state.controls.get(last.key, last))) if postponed else Drop(Control, last.key))
        return updates

    state = LedgerWriter(env).transact(decide)
    append_history(env, HistoryEntry.ended(what, started, collection=collection, who=who, detail=because(told, why) if told else why or ""))
    return state.controls.get(scope, Control(scope))


def _running(control: Control) -> Control:
    return replace(control, paused=False, paused_by=None, paused_at=None, reason=None)


def _check_known(state: State, collection: str) -> None:
    """Raise UnknownCollection for a name that nothing has.

    A name that is gone since is taken if it has a control, which still holds whatever goes back to it, and has to be taken back.
    """
    is_built = any(row.collection == CollectionName(collection) for row in state.replacements.values())
    was_told = collection in state.controls or last_step_key(collection) in state.controls
    if collection not in state.objects and not is_built and not was_told:
        raise UnknownCollection(collection=collection)
