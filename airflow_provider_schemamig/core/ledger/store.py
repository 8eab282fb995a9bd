"""Read and append the ledger: a log of diffs in one Delta table.

``LedgerReader`` writes nothing at all. ``LedgerWriter`` appends with compare-and-append: at exactly the version after the state it was
decided on, or not at all. An unclear outcome is resolved by the commit's own id, because slot N+1 can hold one commit only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

import pendulum

from airflow_provider_schemamig.core.ledger.codec import RawRow, encode, encode_key
from airflow_provider_schemamig.core.ledger.errors import (
    LedgerCompacted,
    LedgerConflict,
    LedgerDamaged,
    LedgerVersionUnknown,
    NoEnvironment,
)
from airflow_provider_schemamig.core.ledger.file_lock import Streak, writing_lock
from airflow_provider_schemamig.core.ledger.fold import replaced
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS, Formats
from airflow_provider_schemamig.core.ledger.leadership import Leadership, check_authority
from airflow_provider_schemamig.core.ledger.own_table import Mode
from airflow_provider_schemamig.core.ledger.rows import FROZEN_COLLECTIONS, EnvironmentConfig, LedgerSince
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.table import LedgerTable
from airflow_provider_schemamig.core.storage import probe_put_if_absent, require_safe_log_store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import Refusal

T = TypeVar("T")

#: How long ``transact`` tries again on conflicts. Eight racing writers make about 20 appends a second, unfairly.
CONFLICT_WAIT_SECONDS = 30.0
#: How often one append is sent to an empty slot when the store gives no clear answer.
_SENDS = 3
_LONGEST_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Put:
    """Insert or replace the row of ``row.key``."""

    row: Any


@dataclass(frozen=True)
class Drop:
    """Retract the row of type ``row_type`` at ``key`` (the row's ``key`` text); fine if there is none."""

    row_type: type[Any]
    key: str


Update = Put | Drop


@dataclass(slots=True)
class OpenLedger:
    """An open ledger and the state that was seen last: to open the table and to sum it up takes longer than to read on."""

    table: LedgerTable
    state: State | None = None
    streak: Streak = field(default_factory=Streak)


class LedgerReader:
    """The ledger's states. Reading changes no byte below the environment's root.

    All readers and writers of one ``env`` share what it has open (``EnvironmentRoot.opened``), each thread its own.
    """

    def __init__(self, env: EnvironmentRoot, formats: Formats = FORMATS) -> None:
        self.env = env
        self.formats = formats

    @property
    def opened(self) -> OpenLedger:
        return self.env.opened.get(OpenLedger) or self.env.opened.keep(OpenLedger(LedgerTable(self.env)))

    @property
    def table(self) -> LedgerTable:
        return self.opened.table

    def exists(self) -> bool:
        return self.table.exists()

    def state(self, at: int | None = None) -> State:
        """Return the newest state, or the one at version ``at``.

        An older format is read as the current one. Raises, in this order: NoEnvironment, LedgerTooNew or LedgerTooOld,
        LedgerVersionUnknown, LedgerCompacted; LedgerDamaged where the stored text is not readable.
        """
        version, table = self._head(), self.table
        opened = self.opened
        known = opened.state if opened.state is not None and opened.state.formats is self.formats else None
        if known is None or (known.version, known.tag) != (version, table.tag):
            opened.streak.count = 0
            try:
                known = opened.state = self._read_on(known, version) or self._sum_up(version, table.scan())
            except LedgerDamaged:
                if not table.was_read:
                    raise
                self.env.opened.forget(OpenLedger)  # its files may be those of a ledger that lay there before
                return self.state(at)
            known.tag = table.tag
        table.was_read = True
        return known if at is None or at == version else self._state_at(at, known)

    def state_or_none(self) -> State | None:
        """Return the newest state; None where there is no environment. Raises as ``state`` does otherwise."""
        try:
            return self.state()
        except NoEnvironment:
            return None

    def _head(self) -> int:
        """Return the newest version.

        A table that was opened before another ledger was put in its place looks damaged, so it is opened anew, once.
        """
        opened_now = self.env.opened.get(OpenLedger) is None
        try:
            return self.table.head()
        except LedgerDamaged:
            if opened_now:
                raise
            self.env.opened.forget(OpenLedger)
            return self.table.head()

    def rows(self) -> tuple[RawRow, ...]:
        """Return every stored update since ``state().since``, oldest first."""
        self.state()
        return tuple(sorted(self.table.scan(), key=lambda row: (row.ts, row.collection, row.key, row.diff)))

    def _read_on(self, known: State | None, version: int) -> State | None:
        """Return the state at ``version`` from a known one and what was appended since; None where only reading it all will do.

        A writer that lost a race has to catch up as fast as the winner, or it never wins: the winner knows its state without reading.
        """
        if known is None or known.version > version or not known.is_current:
            return None
        try:
            return known.after(self.table.scan(after=known.version), version)
        except LedgerDamaged:
            # Damage is raised where it is looked at, as everywhere. Or the ledger was consolidated: then old rows carry a new version, and
            # do not fit, the config row first of all.
            return None

    def _state_at(self, at: int, newest: State) -> State:
        if not 0 <= at <= newest.version:
            raise LedgerVersionUnknown(version=at, head=newest.version)
        if at < newest.since:
            raise LedgerCompacted(version=at, since=newest.since)
        return self._sum_up(at, [row for row in self.table.scan() if row.ts <= at])

    def _sum_up(self, version: int, rows: Iterable[RawRow]) -> State:
        return State.of(version, rows, self.env.location.uri, self.formats)


class LedgerWriter(LedgerReader):
    """May append. One writer belongs to one thread; any number of writers may race."""

    def create(self, env_id: str, first: Callable[[State], Iterable[Update]] = lambda _: ()) -> State:
        """Make the ledger unless there is one, and return its state: its ``config.env_id`` says whose it is.

        ``first``: what else its first commit holds, decided on the state of the empty ledger. Of racing creators exactly one wins, and
        running it again changes nothing. The first write to an environment proves that its store honours put-if-absent
        (PutIfAbsentIgnored otherwise), and is refused on S3 without a declared LogStore (UnsafeLogStore).
        """
        require_safe_log_store(self.env.store())
        if self.exists():
            return self.state()
        self.env.opened.forget(OpenLedger)  # what lay here before was lost
        probe_put_if_absent(self.env.store(), self.env.SYSTEM_FOLDER)
        commit_id = uuid4().hex
        config = RawRow(*encode(EnvironmentConfig(env_id, self.formats.current, pendulum.now("UTC"))), ts=0, diff=1)
        empty = self._sum_up(-1, [config])
        rows = [config, *_changes(empty, first(empty))]
        try:
            self.env.before_write("ledger", commit_id)
            self.table.create(rows, commit_id)
            self.env.after_write("ledger", commit_id)
        except Exception as error:  # noqa: BLE001 - of any kind: what counts is whether there is a ledger now
            # Lost against another creator, or ours with its answer lost: either way there is one now.
            if not self.exists():
                raise self.table.write_failure(error, -1, commit_id) from None
        return self.state()

    def compare_and_append(self, state: State, updates: Sequence[Update], authority: Leadership | None = None) -> State:
        """Append ``updates`` onto exactly ``state`` and return the next state; the same state, and no commit, if they change nothing.

        Raises Fenced (the leader row in ``state`` is not ``authority``), LedgerConflict (the ledger has moved on), LedgerOutcomeUnknown,
        LedgerFormatOld (an older format takes rows of frozen collections only).
        """
        return self._compare_and_append(state, updates, authority, was_read_now=False)

    def _compare_and_append(self, state: State, updates: Sequence[Update], authority: Leadership | None, *, was_read_now: bool) -> State:
        if authority is not None:
            check_authority(state, authority)
        rows = _changes(state, updates)
        for collection in sorted({row.collection for row in rows} - FROZEN_COLLECTIONS):
            state.require_current(f"a change of its {collection}")
        if not rows:
            return state
        following = state.after(rows, state.version + 1)
        following.know(update.row for update in updates if isinstance(update, Put))
        return self._append(state, rows, following, was_read_now=was_read_now)

    def transact(self, decide: Callable[[State], Sequence[Update]], authority: Leadership | None = None) -> State:
        """Read, ``decide``, append; on a conflict all three again, after a pause with jitter. ``decide`` may run many times."""

        def act(state: State) -> State:
            return self._compare_and_append(state, decide(state), authority, was_read_now=True)

        return self._again(act, authority)

    def upgrade_format(self, allow: Callable[[State], None]) -> tuple[State, State]:
        """Take the first of the steps that lead to the current format: its rows and the format's number, in one commit.

        Returns the states before and after; the same one twice, and no commit, if the format is current. ``allow`` raises if it may not
        be; it may run many times. Raises FormatStepFailed, LedgerConflict, LedgerOutcomeUnknown.
        """
        before: list[State] = []

        def take(state: State) -> State:
            before[:] = [state]
            if state.is_current:
                return state
            allow(state)
            return self._append(state, state.upgrades[0].rows)

        after = self._again(take)
        return before[0], after

    def _again(self, act: Callable[[State], State], authority: Leadership | None = None) -> State:
        """Read and ``act``, patiently."""

        def attempt() -> State:
            state = self.state()
            if authority is not None:
                check_authority(state, authority)  # before ``act`` decides: another leader may have taken its rows away
            try:
                return act(state)
            except Refusal as refusal:  # it may go by tables that somebody changed since the state was read
                if self.state().version == state.version:
                    raise
                raise LedgerConflict(expected=state.version) from refusal

        return self.patiently(attempt)

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Make an ``attempt`` under the machine's lock, once more after every conflict, for ``CONFLICT_WAIT_SECONDS``."""
        self.opened.streak.leave_gap(self.env)
        deadline = time.monotonic() + CONFLICT_WAIT_SECONDS
        tries = 0
        while True:
            tries += 1
            try:
                with writing_lock(self.env):
                    return attempt()
            except LedgerConflict as conflict:
                if time.monotonic() > deadline:
                    raise LedgerConflict(expected=conflict.expected, tries=tries) from conflict
            _pause(tries)

    def rewrite(self, state: State, rows: Sequence[RawRow], authority: Leadership | None = None) -> State:
        """Replace all stored updates by others that sum up to the same state (but for ``since``), as the version after ``state``.

        Raises as ``compare_and_append`` does, LedgerFormatOld on any older format (its steps go by when a row was written); ValueError
        if the sums differ.
        """
        state.require_current("writing it anew")
        if authority is not None:
            check_authority(state, authority)
        if self.table.version != state.version:  # then ``rows`` may be of a later one
            raise LedgerConflict(expected=state.version)
        following = self._sum_up(state.version + 1, rows)
        if _without_since(following) != _without_since(state):
            raise ValueError("a rewrite may not change what the ledger says")
        return self._append(state, rows, following, "overwrite")

    def _append(
        self, state: State, rows: Sequence[RawRow], following: State | None = None, mode: Mode = "append", *, was_read_now: bool = False
    ) -> State:
        if following is None:
            following = state.after(rows, state.version + 1)
        began = time.monotonic()
        self._commit(rows, state.version, state.tag, mode, was_read_now=was_read_now)
        self.opened.streak.goes_on(began)
        following.tag = self.table.tag if self.table.version == following.version else None  # None: the answer was lost
        self.opened.state = following
        return following

    def _commit(
        self, rows: Sequence[RawRow], expected: int, after: str | None, mode: Mode = "append", *, was_read_now: bool = False
    ) -> None:
        """Bring ``rows`` to slot ``expected`` + 1, behind the commit of tag ``after``. The one place that writes to an existing ledger.

        Whether another ledger was put in its place is looked for, unless the state that was decided on ``was_read_now``.
        """
        commit_id = uuid4().hex
        failure: Exception | None = None
        for attempt in range(1, _SENDS + 1):
            if not (was_read_now and attempt == 1 and self.table.is_fresh and self.table.version == expected):
                self._head()
            if attempt > 1 and self.table.version != expected and self.table.commit_id(expected + 1) == commit_id:
                return  # what an earlier try sent came late
            failure = self._send(rows, expected, after, commit_id, mode)
            if failure is None:
                return
            _pause(attempt)
        raise self.table.write_failure(failure, expected, commit_id) from None

    def _send(self, rows: Sequence[RawRow], expected: int, after: str | None, commit_id: str, mode: Mode) -> Exception | None:
        """Try once. None: it is there and durable. An exception: slot ``expected`` + 1 is still empty. Raises LedgerConflict."""
        if self.table.version != expected or (after is not None and self.table.tag != after):  # the state may be of a history that was lost
            raise LedgerConflict(expected=expected)
        try:
            self.env.before_write("ledger", commit_id)
            self.table.commit(rows, commit_id, mode)
            self.env.after_write("ledger", commit_id)
        except Exception as error:  # noqa: BLE001 - of any kind: what counts is who holds the slot
            winner = self.table.commit_id(expected + 1)
            if winner is None:
                return error
            if winner != commit_id:
                raise LedgerConflict(expected=expected) from None
        return None


def _changes(state: State, updates: Iterable[Update]) -> list[RawRow]:
    """Return the updates as diffs onto ``state``: retract exactly the stored text, insert the new; nothing where the two are equal."""
    ts = state.version + 1
    rows: list[RawRow] = []
    seen: set[tuple[str, str]] = set()
    value: str | None
    for update in updates:
        match update:
            case Put(row=row):
                collection, key, value = encode(row)
            case Drop(row_type=row_type, key=dropped):
                collection, key, value = row_type.COLLECTION, encode_key(dropped), None
        if (collection, key) in seen:
            raise ValueError(f"two updates of {collection} {key} in one append")
        seen.add((collection, key))
        rows += replaced(collection, key, state.stored(collection, key), value, ts)
    return rows


def _without_since(state: State) -> dict[str, dict[str, str]]:
    since = (LedgerSince.COLLECTION, encode_key(LedgerSince.key))
    found = {name: {key: value for key, value in texts.items() if (name, key) != since} for name, texts in state.raw.items()}
    return {name: texts for name, texts in found.items() if texts}


def _pause(tries: int) -> None:
    # Full jitter, so that writers do not fall into step; and short, because whoever sleeps long loses to those who do not.
    time.sleep(random.uniform(0, min(_LONGEST_PAUSE_SECONDS, 0.01 * tries)))


def one_each(updates: Iterable[Update]) -> list[Update]:
    """Return one update a row, a Put rather than a Drop: a name that a rename gives up may be taken in the same commit."""
    found: dict[tuple[str, str], Update] = {}
    for update in updates:
        identity = (update.row.COLLECTION, update.row.key) if isinstance(update, Put) else (update.row_type.COLLECTION, update.key)
        if isinstance(update, Drop) and isinstance(found.get(identity), Put):
            continue
        found[identity] = update
    return list(found.values())


def read_state(env: EnvironmentRoot) -> State:
    """Return the newest state of an environment's ledger. Raises as ``LedgerReader.state`` does."""
    return LedgerReader(env).state()
