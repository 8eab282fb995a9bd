"""The framework of format steps, with ten formats that never were: order, crashes, races, and every way a step may be wrong."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.ledger.errors import FormatStepFailed, LedgerDamaged, LedgerFormatOld, LedgerTooNew, LedgerTooOld
from airflow_provider_schemamig.core.ledger.format import objects_v1
from airflow_provider_schemamig.core.ledger.format.actions import Action, Delete, Insert, LedgerSnapshot, Update
from airflow_provider_schemamig.core.ledger.format.formats import Formats, Step
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.ledger_format import upgrade_ledger
from tests.support.bytes import tree
from tests.unit.ledger.format.fakes import NEWEST, THINGS, formats_of, step, thing
from tests.unit.ledger.samples import deployment, leader

ALL = formats_of(1, NEWEST)
#: What ``ALL`` makes of the rows of ``old``.
THINGS_AT_LAST = {'"a"': '{"name":"a","value_10":10}', '"b"': '{"name":"b","value_10":19}', '"late"': '{"name":"late","value_10":2}'}


@pytest.fixture
def old(env: EnvironmentRoot) -> EnvironmentRoot:
    """A ledger of format 1 with three things, a leader, and rows of a collection that nobody knows."""
    writer = LedgerWriter(env, formats_of(1, 1))
    writer.create("env-1")
    rows = [thing(1, "a", 1), thing(1, "b", 10), thing(1, "doomed", 0)]
    writer.compare_and_append(writer.state(), [Put(leader()), Put(deployment()), *map(Put, rows)])
    return env


def things(env: EnvironmentRoot, formats: Formats) -> Any:
    return LedgerReader(env, formats).state().raw.get("things")


def seen(env: EnvironmentRoot, formats: Formats = ALL) -> dict[str, Any]:
    """What a reader sees, whatever is stored: every collection but the format's own number."""
    state = LedgerReader(env, formats).state()
    return {name: dict(state._texts[name]) for name in state._texts if name != "config"}


# --- the way it goes -----------------------------------------------------------------------------------------------------------------


def test_nine_steps_are_nine_commits_in_order(old: EnvironmentRoot) -> None:
    before = LedgerReader(old, ALL).state().version
    done = upgrade_ledger(old, formats=ALL)
    assert (done.source, done.target) == (1, 10)
    assert [(taken.source, taken.version) for taken in done.steps] == [(number, before + number) for number in range(1, 10)]
    assert [taken.rows for taken in done.steps] == [3, 3, 3, 3, 3, 2, 3, 3, 3]
    assert things(old, ALL) == THINGS_AT_LAST
    for number in range(10):
        assert LedgerReader(old, ALL).state(before + number).format == 1 + number, "the number came with the step's rows"


def test_framework_nothing_is_to_be_done_twice(old: EnvironmentRoot) -> None:
    upgrade_ledger(old, formats=ALL)
    before = tree(Path(str(old.location.local_path)))
    assert upgrade_ledger(old, formats=ALL).steps == ()
    assert tree(Path(str(old.location.local_path))) == before


def test_a_reader_sees_in_memory_what_the_upgrade_will_store(old: EnvironmentRoot) -> None:
    before = tree(Path(str(old.location.local_path)))
    expected = seen(old)
    assert expected["things"] == THINGS_AT_LAST
    assert tree(Path(str(old.location.local_path))) == before
    upgrade_ledger(old, formats=ALL)
    assert seen(old) == expected


@pytest.mark.parametrize("first", [1, 4, 9, 10])
def test_an_environment_made_new_equals_one_that_was_brought_here(env: EnvironmentRoot, tmp_path: Path, first: int) -> None:
    made, brought = LedgerWriter(env, ALL), LedgerWriter(EnvironmentRoot.open(str(tmp_path / "brought")), formats_of(first, first))
    made.create("env-1")
    brought.create("env-1")
    upgrade_ledger(brought.env, formats=ALL)
    stored = [dict(LedgerReader(item.env, ALL).state().raw) for item in (made, brought)]
    configs = [texts.pop("config") for texts in stored]
    assert stored[0] == stored[1]
    assert [set(texts) for texts in configs] == [{'"environment"'}] * 2
    assert LedgerReader(brought.env, ALL).state().config.format_version == 10


@pytest.mark.parametrize("crash", [0, 4, 8])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_between_two_steps_leaves_the_format_in_between(old: EnvironmentRoot, crash: int, moment: str) -> None:
    class Died(BaseException):
        pass

    count = 0

    def hook(when: str, what: str, key: str) -> None:
        nonlocal count
        if what == "ledger" and when == moment:
            if count == crash:
                raise Died
            count += 1

    with pytest.raises(Died):
        upgrade_ledger(replace(old, on_write=hook), formats=ALL)
    state = LedgerReader(old, ALL).state()
    assert state.format == 1 + crash + (moment == "after")
    assert {key: value for key, value in state.raw["things"].items() if f"value_{state.format}" in value} == state.raw["things"]
    assert seen(old)["things"] == THINGS_AT_LAST
    rest = upgrade_ledger(old, formats=ALL)
    assert rest.source == state.format
    assert things(old, ALL) == THINGS_AT_LAST


def test_racing_upgrades_take_each_step_once(old: EnvironmentRoot) -> None:
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(upgrade_ledger(EnvironmentRoot.open(str(old.location.local_path)), formats=ALL)))
    ]
    threads += [threading.Thread(target=threads[0]._target) for _ in range(2)]  # type: ignore[attr-defined]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken.source for done in found for taken in done.steps) == list(range(1, 10))
    assert things(old, ALL) == THINGS_AT_LAST


def test_an_older_process_in_flight_conflicts_reads_again_and_is_refused(old: EnvironmentRoot) -> None:
    older = LedgerWriter(old, formats_of(1, 3))
    decided: list[int] = []

    def decide(state: Any) -> list[Put]:
        decided.append(state.version)
        if len(decided) == 1:
            upgrade_ledger(old, formats=ALL)
        return [Put(deployment(2))]

    with pytest.raises(LedgerTooNew) as caught:
        older.transact(decide)
    assert (caught.value.found, caught.value.known) == ("10", 3)
    assert decided == [1], "what it decided on the old state is not appended, and nothing is decided on the new one"
    assert list(LedgerReader(old, ALL).state().deployments) == [1]


def test_rows_of_collections_that_nobody_knows_stay_as_they_are(old: EnvironmentRoot) -> None:
    from airflow_provider_schemamig.core.ledger.codec import RawRow
    from tests.unit.ledger.samples import append_raw

    append_raw(old, RawRow("unheard_of", "no key", "{", 2, 1))
    upgrade_ledger(old, formats=ALL)
    assert LedgerReader(old, ALL).state().raw["unheard_of"] == {"no key": "{"}


# --- too old, too new ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formats", "error"), [(formats_of(2, 10), LedgerTooOld), (formats_of(1, 9), LedgerTooNew)], ids=["too old", "too new"]
)
def test_outside_of_what_is_known_nothing_else_is_looked_at(
    env: EnvironmentRoot, old: EnvironmentRoot, formats: Formats, error: type[Exception], tmp_path: Path
) -> None:
    if error is LedgerTooNew:
        upgrade_ledger(old, formats=ALL)
    before = tree(Path(str(old.location.local_path)))
    for access in (
        lambda: LedgerReader(old, formats).state(),
        lambda: LedgerReader(old, formats).state(0),
        lambda: LedgerReader(old, formats).rows(),
        lambda: LedgerWriter(old, formats).create("env-2"),
        lambda: LedgerWriter(old, formats).transact(lambda state: [Put(deployment(3))]),
        lambda: upgrade_ledger(old, formats=formats),
    ):
        with pytest.raises(error):
            access()
    assert tree(Path(str(old.location.local_path))) == before


def test_framework_what_was_too_old_goes_through_software_in_between(old: EnvironmentRoot) -> None:
    with pytest.raises(LedgerTooOld, match="knows formats from 4 on"):
        upgrade_ledger(old, formats=formats_of(4, 10))
    upgrade_ledger(old, formats=formats_of(1, 4))
    upgrade_ledger(old, formats=formats_of(4, 10))
    assert things(old, ALL) == THINGS_AT_LAST


# --- what may be written on an older format ------------------------------------------------------------------------------------------


def test_on_an_older_format_only_frozen_collections_are_written(old: EnvironmentRoot) -> None:
    writer = LedgerWriter(old, ALL)
    state = writer.transact(lambda state: [Put(deployment(2))])
    assert (state.format, list(state.deployments)) == (1, [1, 2])
    before = tree(Path(str(old.location.local_path)))
    with pytest.raises(LedgerFormatOld) as caught:
        writer.transact(lambda state: [Put(deployment(3)), Put(thing(10, "new", 1))])
    assert (caught.value.found, caught.value.current) == (1, 10)
    with pytest.raises(LedgerFormatOld):
        writer.rewrite(writer.state(), writer.rows())
    assert tree(Path(str(old.location.local_path))) == before
    assert set(LedgerReader(old, formats_of(1, 1)).state().deployments) == {1, 2}, "and older software reads what was"


# --- tables of steps -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: formats_of(1, 4, steps=[step(1), step(3)]),
        lambda: formats_of(1, 4, steps=[step(1), step(2)]),
        lambda: formats_of(1, 3, steps=[step(1), step(2), step(3)]),
        lambda: formats_of(1, 3, steps=[step(2), step(1)]),
        lambda: formats_of(1, 3, steps=[step(1), step(1), step(2)]),
        lambda: Formats((ALL.formats[0], ALL.formats[2]), (step(1),)),
        lambda: Formats(()),
    ],
    ids=["a gap", "one too few", "one too many", "out of order", "a double", "a format is missing", "no format"],
)
def test_a_table_with_a_gap_cannot_be_made(make: Callable[[], Formats]) -> None:
    with pytest.raises(ValueError, match="format"):
        make()


# --- steps that are wrong ------------------------------------------------------------------------------------------------------------


def _all(snapshot: LedgerSnapshot) -> list[Action]:
    return list(step(1).upgrade(snapshot))


def _config(snapshot: LedgerSnapshot) -> list[Action]:
    (config,) = snapshot.of(objects_v1.EnvironmentConfig).values()
    return [*_all(snapshot), Update(config, replace(config, env_id="another"))]


def _number(snapshot: LedgerSnapshot) -> list[Action]:
    (config,) = snapshot.of(objects_v1.EnvironmentConfig).values()
    return [*_all(snapshot), Update(config, replace(config, format_version=2))]


def _leader(snapshot: LedgerSnapshot) -> list[Action]:
    return [*_all(snapshot), Delete(next(iter(snapshot.of(objects_v1.Leader).values())))]


def _shard(snapshot: LedgerSnapshot) -> list[Action]:
    return [*_all(snapshot), Insert(objects_v1.Shard("s", "c", "c/s", "id of s", 1, objects_v1.ShardState.BUILDING))]


def _moved(snapshot: LedgerSnapshot) -> list[Action]:
    return [Update(row, thing(2, row.name + "x", 0)) for row in snapshot.of(THINGS[1]).values()]


WRONG: dict[str, tuple[Step, str]] = {
    "forgets all of its work": (step(1, upgrade=lambda snapshot: []), "was left behind"),
    "forgets one row": (step(1, upgrade=lambda snapshot: _all(snapshot)[1:]), 'things "a" was left behind'),
    "loses a row": (step(1, upgrade=lambda s: [Delete(row) for row in s.of(THINGS[1]).values()]), r"\['a', 'b', 'doomed'\] are gone"),
    "says that it is not content": (step(1, verify=lambda before, after: "nothing was counted"), "nothing was counted"),
    "touches the config": (step(1, upgrade=_config), "config is the same in every format"),
    "writes the number itself": (step(1, upgrade=_number), "config is the same in every format"),
    "takes the leader away": (step(1, upgrade=_leader), "leader is the same in every format"),
    "makes a shard": (step(1, upgrade=_shard), "shards is the same in every format"),
    "inserts what is there": (step(1, upgrade=lambda s: [*_all(s)[1:], Insert(thing(2, "a", 2))]), "which is there already"),
    "updates what is not there": (
        step(1, upgrade=lambda s: [*_all(s), Update(thing(1, "z", 1), thing(2, "z", 1))]),
        "which is not stored like that",
    ),
    "updates what it was not": (
        step(1, upgrade=lambda s: [*_all(s)[1:], Update(thing(1, "a", 7), thing(2, "a", 1))]),
        "which is not stored like that",
    ),
    "deletes what is not there": (step(1, upgrade=lambda s: [*_all(s), Delete(thing(1, "z", 1))]), "which is not stored like that"),
    "moves a row": (step(1, upgrade=_moved), "it moves"),
    "changes a row twice": (step(1, upgrade=lambda s: [*_all(s), *_all(s)]), "twice"),
    "answers in an older type": (step(1, upgrade=lambda s: [Insert(thing(1, "n", 1))]), "no row of format 2"),
    "answers in a newer type": (step(1, upgrade=lambda s: [Insert(thing(3, "n", 1))]), "no row of format 2"),
    "changes a row of a newer type": (step(1, upgrade=lambda s: [Update(thing(2, "a", 1), thing(2, "a", 2))]), "no row of format 1"),
}


@pytest.mark.parametrize(("wrong", "reason"), WRONG.values(), ids=WRONG.keys())
def test_a_step_that_is_wrong_is_found_before_anything_is_written(old: EnvironmentRoot, wrong: Step, reason: str) -> None:
    formats = formats_of(1, 3, steps=[wrong, step(2)])
    before = tree(Path(str(old.location.local_path)))
    with pytest.raises(FormatStepFailed, match=reason) as caught:
        upgrade_ledger(old, formats=formats)
    assert (caught.value.source, caught.value.target) == (1, 2)
    with pytest.raises(FormatStepFailed, match=reason):
        seen(old, formats)
    assert LedgerReader(old, formats).state().leader == leader(), "what is frozen is seen all the same"
    assert tree(Path(str(old.location.local_path))) == before
    assert LedgerReader(old, formats_of(1, 1)).state().raw["things"], "and the software before it still works"


def test_a_later_step_that_is_wrong_stops_the_first_one_too(old: EnvironmentRoot) -> None:
    formats = formats_of(1, 4, steps=[step(1), step(2), step(3, upgrade=lambda snapshot: [])])
    before = tree(Path(str(old.location.local_path)))
    with pytest.raises(FormatStepFailed) as caught:
        upgrade_ledger(old, formats=formats)
    assert (caught.value.source, caught.value.target) == (3, 4)
    assert tree(Path(str(old.location.local_path))) == before
    upgrade_ledger(old, formats=ALL)
    assert things(old, ALL) == THINGS_AT_LAST


def test_a_damaged_row_stops_the_step_and_hides_nothing_frozen(old: EnvironmentRoot) -> None:
    from airflow_provider_schemamig.core.ledger.codec import RawRow
    from tests.unit.ledger.samples import append_raw

    append_raw(old, RawRow("things", '"c"', '{"name":"c"}', 2, 1))
    with pytest.raises(LedgerDamaged, match='things "c"'):
        upgrade_ledger(old, formats=ALL)
    state = LedgerReader(old, ALL).state()
    assert (state.format, state.leader) == (1, leader())


def test_a_copy_of_the_ledger_is_as_good(old: EnvironmentRoot, tmp_path: Path) -> None:
    shutil.copytree(Path(str(old.location.local_path)), tmp_path / "copy")
    copy = EnvironmentRoot.open(str(tmp_path / "copy"))
    upgrade_ledger(copy, formats=ALL)
    assert things(copy, ALL) == THINGS_AT_LAST
    assert LedgerReader(old, ALL).state().format == 1
