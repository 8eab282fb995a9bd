"""Who prepares an upgrade and has claimed no generation yet: an object each, ``_schemamig/preparing/<id>.json``, gone with the claim.

Rows are checked for minutes before anything is claimed; whoever looks at the environment meanwhile is told so. Like heartbeats these are
objects and no ledger rows, and nothing depends on them: what cannot be written or read is left out.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pendulum

from airflow_provider_schemamig.core.jsonable import canonical, from_json, to_json
from airflow_provider_schemamig.core.ledger.history import here
from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

FOLDER = f"{EnvironmentRoot.SYSTEM_FOLDER}/preparing"
#: A preparation is announced after so long, and then again and again.
_FIRST_SECONDS, _AGAIN_SECONDS = 1.0, 5.0
#: One that was not announced again for so long has died.
_ALIVE = pendulum.duration(seconds=60)


@dataclass(frozen=True, slots=True)
class Preparing:
    """``done`` of ``total`` parts of ``stage``; of how many is not known: 0. ``told``: when this was written (UTC)."""

    who: str
    source: Version | None
    target: Version
    since: pendulum.DateTime
    told: pendulum.DateTime
    stage: str = ""
    done: int = 0
    total: int = 0
    note: str = ""


@contextmanager
def told_while_preparing(env: EnvironmentRoot, source: Version | None, target: Version, *, exists: bool) -> Iterator[Listener]:
    """Yield the listener that tells others how far the work inside is; where no environment ``exists`` yet there is nobody to tell."""
    if not exists:
        yield silent
        return
    now = pendulum.now("UTC")
    teller = _Teller(env, Preparing(env.who or here(), source, target, now, now))
    try:
        yield teller.hear
    finally:
        teller.close()


class _Teller:
    def __init__(self, env: EnvironmentRoot, found: Preparing) -> None:
        self._store = env.store()
        self._key = f"{FOLDER}/{uuid.uuid4()}.json"
        self._found = found
        self._due: float | None = time.monotonic() + _FIRST_SECONDS
        self._is_written = False
        self._lock = threading.Lock()

    def hear(self, event: Event) -> None:
        with self._lock:  # it is told from a thread of its own
            if self._due is None or time.monotonic() < self._due:
                return
            self._due = time.monotonic() + _AGAIN_SECONDS
            now = pendulum.now("UTC")
            told = replace(self._found, told=now, stage=event.stage, done=event.done, total=event.total, note=event.note)
            try:
                if not self._is_written:
                    self._forget_the_dead(now)
                self._store.put(self._key, canonical(to_json(told)).encode())
            except SchemamigError:  # whatever is wrong with the store, the work itself meets and reports
                return
            self._is_written = True

    def close(self) -> None:
        with self._lock:
            self._due = None
            if self._is_written:
                try:
                    self._store.delete(self._key)
                except SchemamigError:  # it counts as dead in a minute
                    return

    def _forget_the_dead(self, now: pendulum.DateTime) -> None:
        for name, found in _all(self._store):
            if found.told + _ALIVE < now:
                self._store.delete(f"{FOLDER}/{name}")


def preparing(env: EnvironmentRoot, now: pendulum.DateTime) -> tuple[Preparing, ...]:
    """Return the preparations under way, the oldest first."""
    found = [item for _, item in _all(env.store()) if item.told + _ALIVE >= now]
    return tuple(sorted(found, key=lambda item: item.since))


def _all(store: ReadStore) -> Iterator[tuple[str, Preparing]]:
    for name in store.names(FOLDER):
        try:
            yield name, from_json(Preparing, json.loads(store.get(f"{FOLDER}/{name}")))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, SchemamigError):
            # gone since it was listed, or of another version of schemamig
            continue
