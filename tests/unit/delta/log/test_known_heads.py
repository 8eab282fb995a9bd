"""A head that is remembered is the head that a first look finds, whatever others do to the log in between."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.commit.fence import Fenced, newest_fence, put_fence, read_fence
from airflow_provider_schemamig.core.delta.log.head import Head, TableMissing, known_head, read_head
from airflow_provider_schemamig.core.ledger.objects.known_heads import KNOWN_HEADS, recall_heads, store_heads
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.storage import LocalStore, Location, Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.tables import foreign
from tests.unit.delta.tables import TAG, add_int, fence, flights, make_table, table_store
from tests.unit.ledger.samples import elsewhere

Step = Callable[[Path, random.Random], object]


def _rewrite_newest(path: Path, chance: random.Random) -> None:
    """What a restored folder, or Spark's local store that overwrites, does to the newest commit."""
    newest = max((path / "_delta_log").glob("*.json"))
    text = newest.read_text()
    newest.unlink()
    newest.write_text(text + json.dumps({"txn": {"appId": f"x{chance.random()}", "version": 1}}) + "\n")


STEPS: tuple[Step, ...] = (
    lambda path, chance: foreign.commit(path, {"txn": {"appId": "somebody", "version": 1}}),
    lambda path, chance: foreign.add_column(path, f"c{chance.randrange(10**6)}"),
    lambda path, chance: foreign.set_property(path, "delta.logRetentionDuration", f"interval {chance.randrange(9)} days"),
    lambda path, chance: foreign.make_anew(
        path, table_id=f"T{chance.random()}", commits=max(1, len(list((path / "_delta_log").glob("*.json"))) + chance.randrange(-1, 2))
    ),
    lambda path, chance: commit_changes(
        table_store(path), read_head(table_store(path)), [add_int(f"i{chance.randrange(10**6)}")], fence(), TAG, since=0
    ),
    _rewrite_newest,
    lambda path, chance: foreign.give_id(path, f"R{chance.random()}"),
)


def anew(path: Path) -> Head:
    return read_head(table_store(path))


@pytest.mark.parametrize("number", range(12))
def test_known_heads_what_is_remembered_is_what_a_first_look_finds(tmp_path: Path, number: int) -> None:
    seed = f"{os.environ.get('SCHEMAMIG_TEST_SEED', '1')}/{number}"
    chance = random.Random(seed)
    remembering = table_store(tmp_path)
    make_table(remembering, flights())
    for step in chance.choices(STEPS, k=25):
        step(tmp_path, chance)
        if chance.random() < 0.7:
            assert read_head(remembering) == anew(tmp_path), seed
    assert read_head(remembering) == anew(tmp_path), seed


def asked(store: Store, monkeypatch: pytest.MonkeyPatch, look: Callable[[Store], object] = read_head) -> list[str]:
    """The requests that one look takes."""
    found: list[str] = []

    def counted(name: str) -> Callable[..., object]:
        real = getattr(LocalStore, name)

        def ask(self: LocalStore, key: str, *rest: object, **more: object) -> object:
            found.append(f"{name} {key}")
            return real(self, key, *rest, **more)

        return ask

    with monkeypatch.context() as patched:
        for name in ("get", "listing", "exists", "open_random"):
            patched.setattr(LocalStore, name, counted(name))
        look(store)
    return found


def test_a_look_takes_one_request_and_one_more_for_each_new_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = table_store(tmp_path)
    make_table(store, flights())
    assert len(asked(store, monkeypatch)) == 3
    assert asked(store, monkeypatch) == ["listing _delta_log"]
    for _ in range(3):
        foreign.commit(tmp_path, {"txn": {"appId": "somebody", "version": 1}})
    assert len(asked(store, monkeypatch)) == 4
    assert asked(store, monkeypatch) == ["listing _delta_log"]


def test_after_a_commit_of_ours_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = table_store(tmp_path)
    make_table(store, flights())
    made = commit_changes(store, read_head(store), [add_int("gate")], fence(), TAG, since=0)
    assert asked(store, monkeypatch) == ["listing _delta_log"]
    assert read_head(store) == made.head == anew(tmp_path)


def test_a_table_that_is_gone_is_gone(tmp_path: Path) -> None:
    store = table_store(tmp_path)
    make_table(store, flights())
    read_head(store)
    for path in (tmp_path / "_delta_log").iterdir():
        path.unlink()
    with pytest.raises(TableMissing):
        read_head(store)


# --- from one process to the next ----------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> tuple[EnvironmentRoot, Path]:
    env = EnvironmentRoot.open(str(tmp_path / "lake"))
    (tmp_path / "lake/flights").mkdir(parents=True)
    make_table(env.table_store("flights"), flights())
    return env, tmp_path / "lake/flights"


def test_the_next_process_begins_with_what_was_stored(lake: tuple[EnvironmentRoot, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    env, path = lake
    head = read_head(env.table_store("flights"))
    store_heads(env, [env.table_location("flights")])
    following = elsewhere(env)
    recall_heads(following)
    assert asked(following.table_store("flights"), monkeypatch) == ["listing _delta_log"]
    assert read_head(following.table_store("flights")) == head == anew(path)


def test_known_heads_what_is_stored_of_another_table_counts_for_nothing(lake: tuple[EnvironmentRoot, Path]) -> None:
    env, path = lake
    read_head(env.table_store("flights"))
    store_heads(env, [env.table_location("flights")])
    foreign.make_anew(path)
    following = elsewhere(env)
    recall_heads(following)
    assert read_head(following.table_store("flights")).table_id == "ANOTHER"


def test_the_head_of_a_table_that_is_gone_is_known_no_more(lake: tuple[EnvironmentRoot, Path]) -> None:
    env, path = lake
    read_head(env.table_store("flights"))
    store_heads(env, [env.table_location("flights")])
    shutil.rmtree(path)
    following = elsewhere(env)
    recall_heads(following)
    with pytest.raises(TableMissing):
        read_head(following.table_store("flights"))
    assert known_head(following.table_store("flights")) is None


#: The last one is whole but for its first block.
BROKEN = (b"", b"{}", b"\x1f\x8b\x08", bytes(range(64)), b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff\xff")
FORMS: tuple[object, ...] = (
    [],
    {},
    {"format": 1},
    {"format": 1, "heads": {"file:///x": ["tag", True, 0, {}, {"id": "x"}, {}]}},
    {"format": 3, "heads": {}},
    {"format": 2, "heads": {"file:///x": ["tag", True, 0, {}, {}, {}, None]}},
    {"format": 2, "heads": {"file:///x": ["tag", True, 0, {}, {"id": "x"}, {}, ["fence", "1"]]}},
    {"format": 2, "heads": {"file:///x": ["tag", True, 0, {}, {"id": "x"}, {}, 1]}},
    {"format": 2, "heads": {"file:///x": ["tag", 1]}},
    "x",
    None,
)


@pytest.mark.parametrize("text", [*BROKEN, *FORMS], ids=repr)
def test_known_heads_what_is_stored_may_be_anything(lake: tuple[EnvironmentRoot, Path], text: object) -> None:
    import gzip

    env, path = lake
    env.store().put(KNOWN_HEADS, text if isinstance(text, bytes) else gzip.compress(json.dumps(text).encode()))
    recall_heads(env)
    assert read_head(env.table_store("flights")) == anew(path)


def test_known_heads_nothing_is_stored_twice(lake: tuple[EnvironmentRoot, Path]) -> None:
    env, _ = lake
    read_head(env.table_store("flights"))
    place: list[Location] = [env.table_location("flights")]
    store_heads(env, place)
    env.store().delete(KNOWN_HEADS)
    store_heads(env, place)
    assert not env.store().exists(KNOWN_HEADS)


# --- fences --------------------------------------------------------------------------------------------------------------------------


def look_for_fence(store: Store) -> int | None:
    return newest_fence(store, read_head(store), fence().app_id)


def _somebodys(path: Path, version: int) -> object:
    return foreign.commit(path, {"txn": {"appId": fence().app_id, "version": version}})


FENCE_STEPS: tuple[Step, ...] = (
    *STEPS,
    lambda path, chance: foreign.set_property(path, FORGETS, "interval 1 second"),
    lambda path, chance: foreign.set_property(path, "delta.appendOnly", "false"),
    lambda path, chance: _somebodys(path, chance.randrange(10**6)),
)


@pytest.mark.parametrize("number", range(12))
def test_a_fence_that_is_remembered_is_the_one_that_a_first_look_finds(tmp_path: Path, number: int) -> None:
    """Others and leaders work on the table, and it is replaced by another one: what its log does not show is never believed."""
    seed = f"{os.environ.get('SCHEMAMIG_TEST_SEED', '1')}/{number}"
    chance = random.Random(seed)
    remembering = table_store(tmp_path)
    make_table(remembering, flights())
    put_fence(remembering, fence(), TAG)
    for step in chance.choices(FENCE_STEPS, k=25):
        step(tmp_path, chance)
        if chance.random() < 0.3:
            with contextlib.suppress(Fenced):
                put_fence(remembering, fence(), TAG)
        if chance.random() < 0.7:
            assert look_for_fence(remembering) == read_fence(table_store(tmp_path), fence().app_id), seed
    assert look_for_fence(remembering) == read_fence(table_store(tmp_path), fence().app_id), seed


def test_a_fence_that_was_seen_is_not_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = table_store(tmp_path)
    make_table(store, flights())
    put_fence(store, fence(), TAG)
    assert asked(store, monkeypatch, look_for_fence) == ["listing _delta_log"]
    commit_changes(store, read_head(store), [add_int("gate")], fence(), TAG, since=0)
    assert asked(store, monkeypatch, look_for_fence) == ["listing _delta_log"], "after a commit of ours"
    foreign.commit(tmp_path, {"txn": {"appId": "somebody", "version": 1}})
    assert len(asked(store, monkeypatch, look_for_fence)) == 2, "of somebody else's commit, that one"
    foreign.add_column(tmp_path, "other")
    assert len(asked(store, monkeypatch, look_for_fence)) > 2, "after another's change of the table, all of them"
    assert asked(store, monkeypatch, look_for_fence) == ["listing _delta_log"]


def test_the_next_process_knows_the_fence(lake: tuple[EnvironmentRoot, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    env, path = lake
    put_fence(env.table_store("flights"), fence(), TAG)
    store_heads(env, [env.table_location("flights")])
    following = elsewhere(env)
    recall_heads(following)
    assert asked(following.table_store("flights"), monkeypatch, look_for_fence) == ["listing _delta_log"]
    assert look_for_fence(following.table_store("flights")) == fence().version
    foreign.make_anew(path)
    assert look_for_fence(following.table_store("flights")) is None


def test_a_table_that_forgot_its_fence_is_looked_at_until_it_is_there_again(tmp_path: Path) -> None:
    """Forgotten by a late checkpoint: the property was there and is gone, and for some time so is not the fence."""
    store = table_store(tmp_path)
    make_table(store, flights())
    put_fence(store, fence(), TAG)
    foreign.set_property(tmp_path, FORGETS, "interval 1 second")
    foreign.commit(tmp_path, {"metaData": foreign.metadata(tmp_path) | {"configuration": {}}})
    assert look_for_fence(store) == fence().version
    known = known_head(store)
    assert known is not None and known.fence is None
    put_fence(store, fence(2), TAG)
    known = known_head(store)
    assert known is not None and known.fence == (fence().app_id, fence(2).version)
