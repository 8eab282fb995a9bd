"""Telling running work to wait, to go slowly, to keep to some hours, or to wait before its last step: rows that every batch, and the last
step of an online change, looks at before it begins, and a pause also every append that takes an upgrade further (issue: control).

Nobody leads for this: it changes nothing but the pace, and whoever may write to the ledger may say so. It is remembered in the history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.shards.pace import EVERYWHERE, LAST_STEP
from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class BadThrottle(Refusal):
    """A limit that no work could keep."""

    code = "bad_throttle"
    reason: str

    @property
    def message(self) -> str:
        return f"this limit cannot be kept: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Rows a second, files a batch and commits a minute are 1 or more; a window is two different hours UTC, such as 22-6."


def pause(env: Environment, collection: str | None) -> Control:
    """Work on the rows of ``collection`` (None: of all) begins no further batch, what is in flight ends; and no upgrade that is about it is
    promoted, changes a live table, seals or commits (``upgrade.pausing``). A way back is not held."""
    return _put(env, collection, lambda control: replace(control, paused=True))


def resume(env: Environment, collection: str | None) -> Control:
    """Take a pause, or a postponement, back; limits stay."""
    return _put(env, collection, lambda control: replace(control, paused=False), postponed=False)


def postpone(env: Environment, collection: str | None) -> Control:
    """Work on the rows of ``collection`` (None: of all) goes on, also if it was paused, but the last step of an online change, the commit
    after it, waits for ``resume``. Rows that come meanwhile are filled right before it. The control of the last step."""
    _put(env, collection, lambda control: replace(control, paused=False), postponed=True)
    return Control(f"{LAST_STEP}{collection or EVERYWHERE}", paused=True)


def force(env: Environment, collection: str) -> Control:
    """What writers keep from the online change of ``collection``, its last step or a fill that they outrun, is done under a seal.

    It is said of one change: when that has ended it is forgotten. Takes a postponement of the collection back, not one of all."""
    wanted = Control(f"{LAST_STEP}{collection}", paused=False)

    def decide(state: State) -> Sequence[Update]:
        _check_known(state, collection)
        return [Put(wanted)]

    LedgerWriter(env).transact(decide)
    return wanted


def throttle(
    env: Environment,
    collection: str | None,
    *,
    rows_per_second: int | None = None,
    max_files: int | None = None,
    commits_per_minute: int | None = None,
    window: tuple[int, int] | None = None,
) -> Control:
    """Set the limits of ``collection`` (None: of all) to exactly these; without any, there are none any more. Each batch is one commit."""
    for name, limit in (("rows a second", rows_per_second), ("files a batch", max_files), ("commits a minute", commits_per_minute)):
        if limit is not None and limit < 1:
            raise BadThrottle(collection=collection, reason=f"{limit} {name}")
    if window is not None and (window[0] == window[1] or not all(0 <= hour <= 24 for hour in window)):
        raise BadThrottle(collection=collection, reason=f"the window {window[0]}-{window[1]}")

    def limited(control: Control) -> Control:
        return replace(control, rows_per_second=rows_per_second, max_files=max_files, commits_per_minute=commits_per_minute, window=window)

    return _put(env, collection, limited)


def _put(env: Environment, collection: str | None, change: Callable[[Control], Control], *, postponed: bool | None = None) -> Control:
    """``postponed`` None: the last step stays as it is."""
    scope = collection or EVERYWHERE
    last = Control(f"{LAST_STEP}{scope}", paused=True)
    ledger = LedgerWriter(env)

    def decide(state: State) -> Sequence[Update]:
        if collection is not None:
            _check_known(state, collection)
        control = change(state.controls.get(scope, Control(scope)))
        updates: list[Update] = [Put(control) if control != Control(scope) else Drop(Control, scope)]
        if postponed is not None:
            updates.append(Put(last) if postponed else Drop(Control, last.key))
        return updates

    return ledger.transact(decide).controls.get(scope, Control(scope))


def _check_known(state: State, collection: str) -> None:
    is_built = any(row.collection == CollectionName(collection) for row in state.replacements.values())
    if collection not in state.objects and not is_built:
        raise UnknownCollection(collection=collection)
