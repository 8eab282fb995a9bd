"""Compare-and-append: at exactly the next version or not at all, and whose commit it was is never a guess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.ledger import store
from airflow_provider_schemamig.core.ledger.codec import RawRow, encode
from airflow_provider_schemamig.core.ledger.errors import (
    LedgerConflict,
    LedgerOutcomeUnknown,
    NoEnvironment,
)
from airflow_provider_schemamig.core.ledger.leadership import Leadership
from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION, Object
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation
from airflow_provider_schemamig.core.storage import LocalStore, StorageUnreachable, WriteReceipt
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.bytes import tree
from tests.unit.ledger.samples import commit_ids, counter, elsewhere, leader, openings

COUNTER = CollectionName("counter")
UNDER_ONE = Leadership(Generation(1), Epoch(1))


def root(env: EnvironmentRoot) -> Path:
    path = env.location.local_path
    assert path is not None
    return path


# --- create ---------------------------------------------------------------------------------------------------------------------------


def test_store_nothing_there_is_missing(env: EnvironmentRoot) -> None:
    reader = LedgerReader(env)
    assert not reader.exists()
    with pytest.raises(NoEnvironment):
        reader.state()
    assert not root(env).exists(), "looking makes nothing"


def test_create_is_one_commit_and_idempotent(env: EnvironmentRoot) -> None:
    first = LedgerWriter(env).create("env-1")
    assert (first.version, first.config.env_id, first.config.format_version) == (0, "env-1", FORMAT_VERSION)
    before = tree(root(env))
    assert LedgerWriter(env).create("env-2").config == first.config
    assert tree(root(env)) == before
    assert len(commit_ids(root(env))) == 1


def test_create_goes_on_after_a_crash_before_the_commit(env: EnvironmentRoot) -> None:
    def crash(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "ledger"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LedgerWriter(replace(env, on_write=crash)).create("env-1")
    assert not LedgerReader(env).exists()
    assert LedgerWriter(env).create("env-2").config.env_id == "env-2"


def test_create_whose_answer_is_lost_is_done(env: EnvironmentRoot) -> None:
    def lose(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("after", "ledger"):
            raise ConnectionError("reset by peer")

    assert LedgerWriter(replace(env, on_write=lose)).create("env-1").config.env_id == "env-1"


# --- append ---------------------------------------------------------------------------------------------------------------------------


def test_append_replaces_by_retracting_exactly_what_was_stored(writer: LedgerWriter) -> None:
    state = writer.compare_and_append(writer.state(), [Put(counter(1))])
    state = writer.compare_and_append(state, [Put(counter(2))])
    assert state.objects[COUNTER].schema_id == 2
    collection, key, one = encode(counter(1))
    two = encode(counter(2))[2]
    assert [row for row in writer.rows() if row.collection == "objects"] == [
        RawRow(collection, key, one, 1, 1),
        RawRow(collection, key, one, 2, -1),
        RawRow(collection, key, two, 2, 1),
    ]


def test_the_state_returned_is_the_state_stored(writer: LedgerWriter) -> None:
    state = writer.compare_and_append(writer.state(), [Put(counter(1)), Put(counter(5, "other")), Put(leader())])
    state = writer.compare_and_append(state, [Put(counter(2)), Drop(Object, "other")])
    stored = LedgerReader(writer.env).state()
    assert stored.version == state.version == 2
    for found in (state, stored):
        assert {name: row.schema_id for name, row in found.objects.items()} == {"counter": 2}
        assert found.leader == leader()


@pytest.mark.parametrize("updates", [[], [Put(counter(1))], [Drop(Object, "nobody")]], ids=["none", "equal", "drop of nothing"])
def test_updates_that_change_nothing_make_no_commit(writer: LedgerWriter, updates: list[Update]) -> None:
    state = writer.compare_and_append(writer.state(), [Put(counter(1))])
    assert writer.compare_and_append(state, updates) is state
    assert LedgerReader(writer.env).state().version == 1


def test_two_updates_of_one_key_are_a_mistake(writer: LedgerWriter) -> None:
    with pytest.raises(ValueError, match="two updates"):
        writer.compare_and_append(writer.state(), [Put(counter(1)), Drop(Object, "counter")])


@pytest.mark.parametrize("versions_behind", [1, 3])
def test_an_old_state_is_a_conflict(writer: LedgerWriter, versions_behind: int) -> None:
    old = writer.state()
    other = LedgerWriter(writer.env)
    for value in range(versions_behind):
        other.transact(lambda state, value=value: [Put(counter(value))])  # type: ignore[misc]
    with pytest.raises(LedgerConflict) as caught:
        writer.compare_and_append(old, [Put(counter(99))])
    assert caught.value.retryable
    assert LedgerReader(writer.env).state().objects[COUNTER].schema_id == versions_behind - 1


def test_a_race_inside_the_commit_is_a_conflict(writer: LedgerWriter) -> None:
    other = LedgerWriter(writer.env)

    def overtake(moment: str, what: str, key: str) -> None:
        if moment == "before":
            other.compare_and_append(other.state(), [Put(counter(7))])

    racing = LedgerWriter(replace(writer.env, on_write=overtake))
    with pytest.raises(LedgerConflict):
        racing.compare_and_append(racing.state(), [Put(counter(1))])
    assert LedgerReader(writer.env).state().objects[COUNTER].schema_id == 7


def test_a_writer_opens_its_ledger_once(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = openings(monkeypatch)
    writer = LedgerWriter(elsewhere(writer.env))
    for value in range(10):
        writer.transact(lambda state, value=value: [Put(counter(value))])  # type: ignore[misc]
    assert writer.state().version == 10
    assert len(opened) == 1
    assert LedgerReader(elsewhere(writer.env)).state().objects[COUNTER].schema_id == 9


# --- unclear outcomes -----------------------------------------------------------------------------------------------------------------


class Fault:
    """Raises at the ``moment`` of a ledger write, the first ``times`` times; remembers the commit ids it saw."""

    def __init__(self, moment: str, times: int) -> None:
        self.moment = moment
        self.times = times
        self.seen: list[str] = []

    def __call__(self, moment: str, what: str, key: str) -> None:
        if what == "ledger" and moment == self.moment:
            self.seen.append(key)
            if len(self.seen) <= self.times:
                raise ConnectionError("reset by peer")


def test_store_who_goes_back_and_forth_between_environments_opens_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writers = [LedgerWriter(EnvironmentRoot.open(str(tmp_path / name))) for name in "abcd"]
    for writer in writers:
        writer.create(f"env-{writer.env.location.uri[-1]}")
    opened = openings(monkeypatch)
    for _ in range(3):
        assert [LedgerReader(writer.env).state().config.env_id for writer in writers] == ["env-a", "env-b", "env-c", "env-d"]
    assert len(opened) <= len(writers)


def test_a_lost_answer_is_found_by_the_commit_id(writer: LedgerWriter) -> None:
    fault = Fault("after", 1)
    faulty = LedgerWriter(replace(writer.env, on_write=fault))
    state = faulty.compare_and_append(faulty.state(), [Put(counter(1))])
    assert state.version == 1
    assert commit_ids(root(writer.env))[1:] == fault.seen, "one commit, and it is ours"
    assert faulty.compare_and_append(state, [Put(counter(2))]).version == 2, "the writer goes on"


def test_a_failure_before_the_store_is_sent_again_under_the_same_id(writer: LedgerWriter) -> None:
    fault = Fault("before", 2)
    faulty = LedgerWriter(replace(writer.env, on_write=fault))
    assert faulty.compare_and_append(faulty.state(), [Put(counter(1))]).version == 1
    assert len(fault.seen) == 3
    assert len(set(fault.seen)) == 1
    assert len(commit_ids(root(writer.env))) == 2


def test_a_store_that_never_answers_leaves_the_outcome_open(writer: LedgerWriter) -> None:
    faulty = LedgerWriter(replace(writer.env, on_write=Fault("before", 99)))
    with pytest.raises(LedgerOutcomeUnknown, match="reset by peer") as caught:
        faulty.compare_and_append(faulty.state(), [Put(counter(1))])
    assert caught.value.retryable
    assert LedgerReader(writer.env).state().version == 0


def test_a_lost_answer_overtaken_twice_is_still_ours(writer: LedgerWriter) -> None:
    other = LedgerWriter(writer.env)

    def land_then_lose(moment: str, what: str, key: str) -> None:
        if moment == "after":
            for value in (8, 9):
                other.transact(lambda state, value=value: [Put(counter(value, "other"))])  # type: ignore[misc]
            raise ConnectionError("reset by peer")

    faulty = LedgerWriter(replace(writer.env, on_write=land_then_lose))
    assert faulty.compare_and_append(faulty.state(), [Put(counter(1))]).version == 1
    assert faulty.state().version == 3


def test_a_crash_between_landing_and_answer_leaves_a_whole_commit(writer: LedgerWriter) -> None:
    def crash(moment: str, what: str, key: str) -> None:
        if moment == "after":
            raise KeyboardInterrupt

    crashing = LedgerWriter(replace(writer.env, on_write=crash))
    with pytest.raises(KeyboardInterrupt):
        crashing.compare_and_append(crashing.state(), [Put(counter(1)), Put(counter(2, "other"))])
    assert len(LedgerReader(writer.env).state().objects) == 2


def test_an_append_whose_first_try_landed_late_is_ours(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store gave no answer, has nothing yet when it is asked, and then it has: the second try meets the first one's commit."""
    late: list[tuple[LocalStore, str, bytes]] = []
    real = LocalStore.put_if_absent

    def put_late(store: LocalStore, key: str, data: bytes) -> WriteReceipt:
        if not late and key.endswith("1.json"):
            late.append((store, key, data))
            raise StorageUnreachable(uri=key, reason="no answer")
        if len(late) == 1:
            real(*late[0])
            late.append(late[0])
        return real(store, key, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", put_late)
    assert writer.compare_and_append(writer.state(), [Put(counter(1))]).version == 1
    assert len(commit_ids(root(writer.env))) == 2


@pytest.mark.parametrize("overtaken", [False, True])
def test_an_append_that_landed_before_it_is_sent_again_is_ours(
    writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch, overtaken: bool
) -> None:
    """The store has nothing yet when it is asked, and then it has: to decide once more would count it twice."""
    late: list[tuple[LocalStore, str, bytes]] = []
    real = LocalStore.put_if_absent

    def put_late(store: LocalStore, key: str, data: bytes) -> WriteReceipt:
        if not late and key.endswith("1.json"):
            late.append((store, key, data))
            raise StorageUnreachable(uri=key, reason="no answer")
        return real(store, key, data)

    def land(_: int) -> None:
        real(*late[0])
        if overtaken:
            other = LedgerWriter(elsewhere(writer.env))
            other.compare_and_append(other.state(), [Put(counter(7, "other"))])

    monkeypatch.setattr(LocalStore, "put_if_absent", put_late)
    monkeypatch.setattr(store, "_pause", land)
    assert writer.transact(increment).objects[COUNTER].schema_id == 1
    assert writer.state().objects[COUNTER].schema_id == 1
    assert writer.transact(increment).objects[COUNTER].schema_id == 2


def test_a_writer_goes_on_from_an_append_whose_answer_the_store_lost(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalStore.put_if_absent

    def put_and_lose(store: LocalStore, key: str, data: bytes) -> WriteReceipt:
        receipt = real(store, key, data)
        if key.endswith("1.json"):
            raise StorageUnreachable(uri=key, reason="no answer")
        return receipt

    monkeypatch.setattr(LocalStore, "put_if_absent", put_and_lose)
    state = writer.compare_and_append(writer.state(), [Put(counter(1))])
    assert writer.compare_and_append(state, [Put(counter(2))]).version == 2


def test_a_process_that_dies_between_rows_and_commit_leaves_nothing(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(store: LocalStore, key: str, data: bytes) -> WriteReceipt:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "put_if_absent", die)
        with pytest.raises(KeyboardInterrupt):
            writer.compare_and_append(writer.state(), [Put(counter(1))])
    assert LedgerReader(elsewhere(writer.env)).state().version == 0
    assert writer.compare_and_append(writer.state(), [Put(counter(2))]).version == 1


# --- transact -------------------------------------------------------------------------------------------------------------------------


def increment(state: State) -> Sequence[Update]:
    row = state.objects.get(COUNTER)
    return [Put(counter(row.schema_id + 1 if row else 1))]


def racing_first(other: LedgerWriter, times: int) -> Callable[[State], Sequence[Update]]:
    """``increment``, with another increment slipped in before it is appended, ``times`` times."""
    left = [times]

    def decide(state: State) -> Sequence[Update]:
        if left[0]:
            left[0] -= 1
            other.compare_and_append(other.state(), increment(other.state()))
        return increment(state)

    return decide


def test_transact_decides_again_on_what_is_true_then(writer: LedgerWriter) -> None:
    state = writer.transact(racing_first(LedgerWriter(writer.env), 3))
    assert state.objects[COUNTER].schema_id == 4


def test_transact_gives_up_in_time(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CONFLICT_WAIT_SECONDS", 0.2)
    with pytest.raises(LedgerConflict) as caught:
        writer.transact(racing_first(LedgerWriter(writer.env), 10_000))
    assert caught.value.tries > 1


def test_store_what_decide_raises_goes_through(writer: LedgerWriter) -> None:
    def decide(state: State) -> Sequence[Update]:
        raise KeyError(state.version)

    with pytest.raises(KeyError):
        writer.transact(decide)


# --- authority ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "fenced"),
    [(None, True), (leader(1, 1), False), (leader(1, 2), True), (leader(2, 1), True), (leader(2, 2), True)],
    ids=["nobody leads", "we lead", "later epoch", "other generation", "both"],
)
def test_authority_is_checked_in_the_state_appended_onto(writer: LedgerWriter, stored: object, fenced: bool) -> None:
    state = writer.state()
    if stored is not None:
        state = writer.compare_and_append(state, [Put(stored)])
    if not fenced:
        assert writer.compare_and_append(state, [Put(counter(1))], UNDER_ONE).version == state.version + 1
        return
    for updates in ([Put(counter(1))], []):
        with pytest.raises(Fenced) as caught:
            writer.compare_and_append(state, updates, UNDER_ONE)
        assert (caught.value.held_epoch, caught.value.current_epoch) == (1, getattr(stored, "epoch", 0))
        assert not caught.value.retryable
    assert LedgerReader(writer.env).state().version == state.version


def test_a_leader_replaced_while_it_decides_is_fenced(writer: LedgerWriter) -> None:
    other = LedgerWriter(writer.env)
    writer.compare_and_append(writer.state(), [Put(leader(1, 1))])

    def decide(state: State) -> Sequence[Update]:
        if state.leader == leader(1, 1):
            other.compare_and_append(other.state(), [Put(leader(2, 2))])
        return increment(state)

    with pytest.raises(Fenced):
        writer.transact(decide, UNDER_ONE)
    assert COUNTER not in LedgerReader(writer.env).state().objects
