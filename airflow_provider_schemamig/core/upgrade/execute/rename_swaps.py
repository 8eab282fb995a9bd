"""Columns that change places, in the cut-over's own metadata commits.

From the swap on a table is no longer what the release before says, and until the ledger's append not yet what the new one does. So all that
takes long comes before: every row has its value of the new type, and tables whose writers were faster twice are sealed. Then all swaps are
made, one right after the other. If the append does not come, the columns change places again: by the task itself, by its next run, or by
the next leader's ``recovery.settle``.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace

import pendulum

from airflow_provider_schemamig.core.delta.commit.commit import FilesArrived, commit_changes
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import Intent, IntentKind, SwapIntent, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, ShardId
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.transfer.errors import NeverSettles
from airflow_provider_schemamig.core.transfer.throttle import Pace, force_forgotten, forced
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.context.pausing import Allow
from airflow_provider_schemamig.core.upgrade.errors import SealExpired
from airflow_provider_schemamig.core.upgrade.execute.online_schedule import OnlineSchedule, fill_due, tell
from airflow_provider_schemamig.core.upgrade.plan.live_tables import is_in_place, table_store
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables.batches import Rush
from airflow_provider_schemamig.core.upgrade.tables.column_swap import (
    OPEN_RACES,
    TRIES,
    SwapBack,
    fill_old_column,
    rest,
    retry_on_new_files,
)
from airflow_provider_schemamig.core.upgrade.tables.durable import require_durable
from airflow_provider_schemamig.core.upgrade.tables.errors import NotInvertible, SwapRaced, SwapTakenBack
from airflow_provider_schemamig.core.upgrade.tables.inverse import after_inverse, inverse_changes
from airflow_provider_schemamig.core.upgrade.tables.seals import sealed_during
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition, commit_transitions, intent_of
from airflow_provider_schemamig.exceptions import SchemamigError

#: Rounds over all tables before the first of them is swapped, and what a round may take of the one before to be worth another one.
_ROUNDS = 5
_SHRINKS = 0.8


@dataclass(frozen=True, eq=False)
class PlannedSwap:
    """One table. ``transition``: all of its cut-over, what is renamed included."""

    schedule: OnlineSchedule
    transition: Transition

    @property
    def collection(self) -> CollectionName:
        return self.schedule.collection

    @property
    def shard(self) -> ShardId:
        return self.schedule.shard


@dataclass
class Swaps:
    """All swaps of a cut-over, in the order in which they are called: ``wait``, ``fill_until_near``, ``make``, ``check``."""

    leader: LeaderWriter
    jobs: Jobs
    all: tuple[PlannedSwap, ...]
    #: Of runs before, given up and not taken back: values do not go back.
    left: tuple[SwapIntent, ...] = ()
    held: tuple[SwapIntent, ...] = ()
    #: When the first table was about to be swapped, by ``time.monotonic``.
    began: float | None = None
    #: The version of each table at which no row lacked anything.
    _ready: dict[PlannedSwap, int] = field(default_factory=dict)

    def store(self, swap: PlannedSwap) -> Store:
        return table_store(self.leader.env, self.leader.state, swap.shard)

    # -- while everybody reads and writes -------------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Wait until nobody wants the last step of any of these tables postponed: all are committed at once."""
        pace = Pace(self.leader.newest, self.leader.listen, waits=self.leader.env.waits)
        for swap in self.all:
            if not self._is_made(swap):
                pace.begin_last_step("cutover", swap.collection)

    def fill_until_near(self) -> None:
        """Fill the rows that came since ``change``, at the pace set by people, round after round.

        It ends when nothing is left, when a round takes about as long as the one before, or after ``_ROUNDS`` rounds. Raises NeverSettles,
        and as ``column_swap.retry_on_new_files``.
        """
        before = float("inf")
        for _ in range(_ROUNDS):
            due = [swap for swap in self.all if self._is_behind(swap)]
            if not due:
                return
            if self._ready:  # somebody writes; what is timed are rows, and nobody is to wait for a driver later
                self.jobs().start(self.leader.env.options)
            started = time.monotonic()
            for swap in due:
                attempt = functools.partial(self._made_ready, swap, None)
                self._ready[swap] = retry_on_new_files(self.leader, swap.collection, swap.shard, attempt)
            seconds = time.monotonic() - started
            if seconds > before * _SHRINKS:
                if seconds > self.leader.seal_seconds / 2:  # the last one would lock writers out past the deadline
                    raise NeverSettles(collection=due[0].collection, seconds=seconds, limit=self.leader.seal_seconds, tables=len(due))
                return
            before = seconds

    def _is_made(self, swap: PlannedSwap) -> bool:
        return is_in_place(swap.transition.after, read_head(self.store(swap)))

    def _is_behind(self, swap: PlannedSwap) -> bool:
        """Return whether files came since every row had all."""
        known = self._ready.get(swap)
        if known is None:
            return not self._is_made(swap)
        return any(commit.has_files for commit in commits(self.store(swap), known))

    def _made_ready(self, swap: PlannedSwap, rush: Rush | None) -> int:
        """Return the version at which no row lacked a value."""
        assert swap.schedule.swap is not None
        fills = swap.schedule.swap.filled
        for _ in range(TRIES):
            found = [fill_due(self.leader, swap.schedule, operation, step, self.jobs, rush) for operation, step in fills]
            # The batches of one column are files, too: another one has passed them if it says so.
            if not any(commit.has_files for commit in commits(self.store(swap), min(found), max(found))):
                break
        return min(found)

    # -- while others may be locked out ---------------------------------------------------------------------------------------------------

    def make(self, allow: Allow) -> dict[CollectionName, int]:
        """Swap all tables; the version of each that did. Safe to repeat, and to race by a twin. ``allow``: see ``announce_seals``.

        Raises SealExpired, SwapRaced (only who is let through by a seal can be as fast), and what ``_made_ready`` raises.
        """
        if not self.all:
            return {}
        started, lost, sealed = time.monotonic(), Counter[ShardId](), set[ShardId]()
        self.held = _announce(self.leader, [swap.transition for swap in self.all], self.left, allow)
        with contextlib.ExitStack() as seals:
            while True:
                made = self._race(Rush(lambda: _check_time(self.leader, started)), sealed)
                if isinstance(made, dict):
                    self._tell()
                    return made
                lost.update(swap.shard for swap in made)
                self._check_races(made, lost)
                slow = {swap.collection: swap.shard for swap in self._too_slow(lost) if swap.shard not in sealed}
                if slow:
                    seals.enter_context(sealed_during(self.leader, slow))
                    sealed.update(slow.values())
                if not sealed:
                    rest(lost.total())

    def _check_races(self, made: Sequence[PlannedSwap], lost: Counter[ShardId]) -> None:
        for swap in made:
            if lost[swap.shard] >= TRIES:
                head = read_head(self.store(swap))
                raise SwapRaced(collection=swap.collection, uri=head.location.uri, version=head.version, tries=TRIES)

    def _race(self, rush: Rush, sealed: Collection[ShardId]) -> dict[CollectionName, int] | list[PlannedSwap]:
        """Try once, and return the versions, or the swaps whose writers were faster.

        No table is swapped while another one is not ready, and none that nobody else can write to before one that may still lose its race.
        """
        left = [swap for swap in self.all if not self._is_made(swap)]
        for swap in left:
            if self._is_behind(swap):
                self._ready[swap] = self._made_ready(swap, rush)
        behind = [swap for swap in left if self._is_behind(swap)]
        if behind:
            return behind
        rush.check()
        if len(left) == len(self.all):  # a race that was lost by the first of them locked nobody out
            self.began = time.monotonic()
        ordered = sorted(self.all, key=lambda swap: swap.shard in sealed)
        transitions = [replace(swap.transition, checked_at=self._ready[swap] if swap in left else None) for swap in ordered]
        try:
            return commit_transitions(self.leader, IntentKind.CUTOVER, transitions)
        except FilesArrived as arrived:
            return [swap for swap in left if self.store(swap).location.uri == arrived.uri] or left

    def _too_slow(self, lost: Counter[ShardId]) -> list[PlannedSwap]:
        """Return the swaps to be sealed: after two lost races; after one if somebody said ``force``, or if another table waits, swapped."""
        state, waiting = self.leader.newest(), any(map(self._is_made, self.all))
        return [swap for swap in self.all if lost[swap.shard] >= (1 if waiting or forced(state, swap.collection) else OPEN_RACES)]

    def _tell(self) -> None:
        for swap in self.all:
            for operation in swap.schedule.operations:
                if operation.swaps:
                    tell(self.leader, swap.collection, operation, ElementState.PUBLIC)

    def note(self) -> tuple[str, ...]:
        """Return how long handles of neither release could use the columns. To be asked right after the commit."""
        seconds = 0.0 if self.began is None else time.monotonic() - self.began
        return tuple(f"{swap.collection}: columns of another type were locked for {seconds:.1f} s at most" for swap in self.all)

    def forget_force(self, state: State) -> list[Update]:
        return force_forgotten(state, [swap.collection for swap in self.all])

    def check(self, state: State) -> None:
        """Raise SwapTakenBack if one of the swaps is not ours any more to commit upon, SealExpired if it took too long."""
        for intent in self.held:
            if not _is_held(state, intent):
                raise SwapTakenBack(collection=intent.collection, shard=intent.shard)
            if intent.deadline < pendulum.now("UTC"):
                raise SealExpired(seconds=self.leader.seal_seconds)


def _check_time(leader: LeaderView, started: float) -> None:
    if time.monotonic() - started > leader.seal_seconds:
        raise SealExpired(seconds=leader.seal_seconds)


def _announce(
    leader: LeaderWriter, transitions: Sequence[Transition], left: Collection[SwapIntent], allow: Allow
) -> tuple[SwapIntent, ...]:
    """Write the intents of all swaps in one append; those a twin announced and still holds are held together.

    Raises SwapTakenBack for one that a twin has given up meanwhile, and is not in ``left``: its commit that takes the swap back may land at
    any moment, also after ours.

    The intent of a swap that could not be taken back keeps its base: rows that came since have no value in the column that would come
    back.
    """
    held: dict[ShardId, SwapIntent] = {}

    def announce(state: State) -> list[Update]:
        allow(state)
        deadline = pendulum.now("UTC").add(seconds=leader.seal_seconds)
        for transition in transitions:
            known = state.intents.get((transition.shard, IntentKind.CUTOVER, leader.generation))
            known = known if isinstance(known, SwapIntent) and known.epoch == leader.epoch else None
            if known is not None and known.is_given_up and known not in left:
                raise SwapTakenBack(collection=known.collection, shard=known.shard)
            if known is not None and not known.is_given_up and known.deadline > pendulum.now("UTC"):
                held[transition.shard] = known
                continue
            base = read_head(table_store(leader.env, state, transition.shard)).version if known is None else known.base_version
            held[transition.shard] = _swap_of(intent_of(leader, IntentKind.CUTOVER, transition, base), deadline)
        return [Put(intent) for intent in held.values() if state.intents.get((intent.shard, intent.kind, intent.generation)) != intent]

    leader.append(announce)
    return tuple(held.values())


def _swap_of(transition: TransitionIntent, deadline: pendulum.DateTime) -> SwapIntent:
    return SwapIntent(**{item.name: getattr(transition, item.name) for item in fields(transition)}, deadline=deadline)


def _is_held(state: State, intent: SwapIntent) -> bool:
    """Return whether it stands as it was announced; its result may be known since."""
    known = state.intents.get((intent.shard, intent.kind, intent.generation))
    return isinstance(known, SwapIntent) and _terms(known) == _terms(intent)


def _terms(intent: SwapIntent) -> tuple[Epoch, pendulum.DateTime, bool]:
    return intent.epoch, intent.deadline, intent.is_given_up


# --- back ----------------------------------------------------------------------------------------------------------------------------


def unseal_swaps(leader: LeaderWriter, held: Sequence[SwapIntent], jobs: Jobs) -> None:
    """Give up swaps whose release was not committed, and let the columns change places again: not if it was, after all, and not if a twin
    or another leader has the tables now. Best effort, on the way out of a failure: the next run does what is left."""
    with contextlib.suppress(SchemamigError):
        _take_back_swaps(leader, [intent for intent in held if _is_held(leader.state, intent)], jobs)


def take_back_swaps(leader: LeaderWriter, jobs: Jobs) -> tuple[SwapIntent, ...]:
    """Take back the swaps of a run that died: nobody is to wait for what comes first in this one. Return those that stay.

    Values that do not go back stay as they are. Raises as ``column_swap.fill_old_column`` otherwise.
    """
    own = [intent for intent in leader.state.intents.values() if (intent.generation, intent.epoch) == (leader.generation, leader.epoch)]
    return _take_back_swaps(leader, [intent for intent in own if isinstance(intent, SwapIntent)], jobs)


def _take_back_swaps(leader: LeaderWriter, intents: Sequence[SwapIntent], jobs: Jobs) -> tuple[SwapIntent, ...]:
    """Give up in the ledger first: whoever would commit upon these swaps finds them gone. Return those that were not taken back."""
    if not intents:
        return ()

    def give_up(state: State) -> list[Update]:
        return [Put(replace(known, is_given_up=True)) for intent in intents if (known := _known(state, intent)) is not None]

    leader.append(give_up)
    given = [known for intent in intents if (known := _known(leader.state, intent)) is not None]
    gone: list[SwapIntent] = []
    for intent in given:
        with contextlib.suppress(NotInvertible):
            if retry_on_new_files(leader, intent.collection, intent.shard, functools.partial(_take_back_swap, leader, intent, jobs)):
                gone.append(intent)
    leader.append(lambda state: [Drop(Intent, intent.key) for intent in gone if _known(state, intent) == intent])
    return tuple(intent for intent in given if intent not in gone)


def _known(state: State, intent: SwapIntent) -> SwapIntent | None:
    """Return what the ledger says of it now; None if a twin announced it anew."""
    known = state.intents.get((intent.shard, intent.kind, intent.generation))
    if not isinstance(known, SwapIntent) or known.epoch != intent.epoch:
        return None
    return known if known.is_given_up or known.deadline == intent.deadline else None


def _take_back_swap(leader: LeaderWriter, intent: SwapIntent, jobs: Jobs) -> bool:
    """Return whether the table is as it was before its swap. Nothing happens to one that a twin has swapped anew."""
    before, after = intent.before, intent.after
    started, store = time.monotonic(), table_store(leader.env, leader.state, intent.shard)
    seen = read_head(store)
    if not is_in_place(after, seen):  # neither of both: somebody has to put it right before it can go back
        return is_in_place(before, seen)
    swap_back = SwapBack(intent.collection, intent.shard, after, before, intent.renames, intent.base_version)
    checked_at = fill_old_column(leader, swap_back, jobs)
    head = read_head(store)
    leader.refresh()
    if _known(leader.state, intent) != intent or not is_in_place(after, head):
        return False
    made_in = intent.base_version if intent.done_version is None else intent.done_version
    inverse = inverse_changes(store, head, after, before, intent.renames, made_in)
    if live_differences(before, after_inverse(after, inverse)):  # a part would stay behind, and look like somebody else's doing
        return False
    fence, tag = leader.fence(intent.shard), leader.tag(IntentKind.TAKE_BACK.value)
    made = commit_changes(
        store, head, inverse.changes, fence, tag, since=intent.base_version, forget=inverse.forget, checked_at=checked_at, stood_before=True
    )
    require_durable(intent.collection, [made])
    leader.report("undo", intent.collection, made.head.version, started)
    return True
