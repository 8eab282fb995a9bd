"""Columns that change places in the cut-over: who reads and writes meanwhile, who dies in between, and what may not take long.

Two tables whose types change and one that is rewritten, with a writer on each.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.spark.errors import ConstraintViolated
from airflow_provider_schemamig.core.spark.runners import Job
from airflow_provider_schemamig.core.upgrade.errors import SealExpired, SourceTouched
from airflow_provider_schemamig.core.upgrade.execute import cutover, rename_swaps
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from airflow_provider_schemamig.core.upgrade.tables.errors import SwapTakenBack
from tests.support.lake import Crash, Lake, rows
from tests.support.online import OnlineJobs, die_after_the_swap
from tests.support.rows.tables import change, commit_at, insert, newest, snapshot
from tests.support.upgrades import two_releases, whole

TYPED = ("a", "b")
SCHEMA = "".join(f"CREATE TABLE {name} (id BIGINT, s {{0}});\n" for name in TYPED) + "CREATE TABLE r (id BIGINT, v {0});\n"
UP, DOWN = "SELECT id, CAST(v AS INT) AS v FROM {r}", "SELECT id, CAST(v AS STRING) AS v FROM {r}"
STEPS = f'evolution("a"), evolution("b"), rewrite("r", up="{UP}", down="{DOWN}")'
COLUMN = {"a": "s", "b": "s", "r": "v"}


def cast(to: type) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    return lambda row: [{"id": row["id"], "v": None if row["v"] is None else to(row["v"])}]


def jobs(**options: Any) -> Typed:
    return Typed(queries={UP: cast(int), DOWN: cast(str)}, **options)


class Typed(OnlineJobs):
    """With the rewrite's queries beside what an online change computes."""

    def _query(self, text: str, rows: Any) -> Any:
        return super(OnlineJobs, self)._query(text, rows) if "schemamig_r" in text else super()._query(text, rows)


def lake_of(folder: Path) -> Lake:
    lake = two_releases(folder, SCHEMA.format("STRING"), SCHEMA.format("INT"), STEPS)
    for name, column in COLUMN.items():
        insert(lake.path(name), [{"id": 1, column: "007"}])
        insert(lake.path(name), [{"id": 2, column: None}])
    return lake


def copied(lake: Lake, folder: Path) -> Lake:
    shutil.copytree(lake.env.location.local_path or Path(), folder)
    return replace(lake, env=Environment.open(str(folder)))


def ready(lake: Lake) -> Generation:
    """Up to the cut-over."""
    generation = commands.preflight(lake.env, lake.second, jobs=jobs()).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.change(lake.env, generation, jobs=jobs())
    return generation


def table(lake: Lake, name: str) -> dict[int, Any]:
    return {row["id"]: row[COLUMN[name]] for row in rows(lake.path(name), "id", COLUMN[name])}


def numbers(lake: Lake, name: str) -> dict[int, int | None]:
    return {key: None if value is None else int(value) for key, value in table(lake, name).items()}


def swapped(lake: Lake, name: str) -> bool:
    fields = {column["name"]: column["type"] for column in snapshot(lake.path(name)).fields}
    return bool(fields["s"] == "integer")


def served(lake: Lake, name: str) -> bool:
    """A reader of the release before is."""
    try:
        lake.env.reader(name, release="1.0.0").pin()
    except ReaderFenced:
        return False
    return True


@dataclass
class Writers:
    """One a table, who knows no release: writes what the column in use takes, and remembers what was acknowledged."""

    lake: Lake
    wanted: dict[str, dict[int, int | None]] = field(default_factory=lambda: {name: {1: 7, 2: None} for name in COLUMN})
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMN, 0))

    def write(self, name: str, key: int, *, updates: bool = True) -> None:
        path, column = self.lake.path(name), COLUMN[name]
        text = next(found["type"] for found in snapshot(path).fields if found["name"] == column) == "string"
        try:
            insert(path, [{"id": key, column: f"0{key}" if text else key}])
            self.wanted[name][key] = key
            if updates:
                change(path, lambda row: {**row, column: str(key) if text else key} if row["id"] == 1 else row)
                self.wanted[name][1] = key
        except ConstraintViolated:
            self.refused[name] += 1

    def write_all(self, key: int) -> None:
        for name in COLUMN:
            self.write(name, key)

    def check(self, version: str) -> None:
        assert self.lake.version == version
        for name in COLUMN:
            assert numbers(self.lake, name) == self.wanted[name], name
            assert not snapshot(self.lake.path(name)).sealed
        for name in TYPED:
            assert swapped(self.lake, name) is (version == "1.1.0")
        whole(self.lake)


@dataclass
class Watched(Typed):
    """Jobs that look who is served when they begin."""

    lake: Lake | None = None
    seen: list[tuple[str, str, bool]] = field(default_factory=list)

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        if self.lake is not None:
            self.seen += [(job, name, served(self.lake, name)) for name in TYPED]
        return super().run(job, request)


def test_readers_of_the_release_are_served_whatever_another_table_takes(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    runner = Watched(queries=jobs().queries, lake=lake)
    commands.upgrade(lake.env, lake.second, jobs=runner)
    assert {"fill", "digest"} <= {job for job, _, _ in runner.seen}
    assert all(found for _, _, found in runner.seen), runner.seen
    assert lake.version == "1.1.0" and not any(served(lake, name) for name in TYPED)


@dataclass
class Timeline:
    """What happens between the first swap and the ledger's append, with writers on all tables before it."""

    lake: Lake
    busy: bool = True
    moments: list[str] = field(default_factory=list)
    writers: Writers = field(init=False)
    _key: int = 10
    _within: bool = False

    def __post_init__(self) -> None:
        self.writers = Writers(self.lake)

    def on_write(self, moment: str, what: str, key: str) -> None:
        if self.lake.version == "1.1.0" or self._within:
            return
        if moment == "after" and any(swapped(self.lake, name) for name in TYPED):
            self.moments.append(f"{what} {key}")
        filled = [name for name in TYPED if _filled_last(self.lake, name)]
        if moment == "before" and key.startswith("_delta_log") and self.busy and filled:
            self._within, self._key = True, self._key + 1
            for name in (*filled, "r"):
                self.writers.write(name, self._key, updates=False)
            self._within = False

    def on_job(self, job: str, request: Mapping[str, Any]) -> None:
        if any(swapped(self.lake, name) for name in TYPED) and self.lake.version == "1.0.0":
            self.moments.append(f"job {job}")


def _filled_last(lake: Lake, name: str) -> bool:
    path = lake.path(name)
    return "backfill" in json.dumps(commit_at(path, newest(path)))


@pytest.mark.some(1)
@pytest.mark.parametrize("busy", [False, True])
def test_nothing_long_comes_between_the_first_swap_and_the_ledger(tmp_path: Path, busy: bool) -> None:
    """Two commits, and what the ledger writes: no job of Spark's, also where writers were faster twice and had to wait."""
    lake = lake_of(tmp_path)
    timeline = Timeline(lake, busy)
    runner = jobs(before=timeline.on_job)
    commands.upgrade(replace(lake.env, on_write=timeline.on_write), lake.second, jobs=runner)
    assert not [moment for moment in timeline.moments if moment.startswith("job")]
    assert 2 <= len(timeline.moments) < 30, timeline.moments
    assert busy is any(timeline.writers.refused[name] for name in TYPED)
    timeline.writers.check("1.1.0")


# --- what does not come to its commit -----------------------------------------------------------------------------------------------------


def _refuse(error: BaseException) -> Callable[..., None]:
    def commit(*_: Any, **__: Any) -> None:
        raise error

    return commit


@pytest.mark.some(2)
@pytest.mark.parametrize("rows_come", [False, True])
@pytest.mark.parametrize("error", [SealExpired(seconds=60), SourceTouched(collection=CollectionName("r"), shard="x"), KeyboardInterrupt()])
def test_a_task_that_cannot_commit_swaps_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, rows_come: bool
) -> None:
    lake = lake_of(tmp_path)
    generation, writers = ready(lake), Writers(lake)

    def commit(*_: Any, **__: Any) -> None:
        assert all(swapped(lake, name) for name in TYPED)
        if rows_come:
            writers.write("a", 30)
        raise error

    runner = jobs()
    with monkeypatch.context() as patched:
        patched.setattr(cutover, "_commit", commit)
        with pytest.raises(type(error)):
            commands.cutover(lake.env, generation, jobs=runner)
    assert not any(swapped(lake, name) for name in TYPED)
    assert all(served(lake, name) for name in TYPED)
    assert numbers(lake, "a") == writers.wanted["a"]
    assert not snapshot(lake.path("r")).sealed
    writers.write_all(31)
    if rows_come:
        commands.rollback(lake.env, jobs=jobs())
        writers.check("1.0.0")
    commands.upgrade(lake.env, lake.second, jobs=jobs())
    writers.check("1.1.0")


def test_a_twin_takes_the_swaps_back_before_the_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was about to commit upon them finds them gone, and tries again."""
    lake = lake_of(tmp_path)
    generation, writers, made = ready(lake), Writers(lake), cutover._commit

    def commit(*found: Any) -> None:
        monkeypatch.setattr(cutover, "_commit", _refuse(SealExpired(seconds=60)))
        with suppress(SealExpired):
            commands.cutover(lake.env, generation, jobs=jobs())
        monkeypatch.setattr(cutover, "_commit", made)
        assert not any(swapped(lake, name) for name in TYPED)
        made(*found)

    monkeypatch.setattr(cutover, "_commit", commit)
    with pytest.raises(Exception, match=r"seal_lifted|swap_taken_back") as caught:
        commands.cutover(lake.env, generation, jobs=jobs())
    assert getattr(caught.value, "retryable", False)
    writers.write_all(40)
    commands.cutover(lake.env, generation, jobs=jobs())
    writers.check("1.1.0")


def test_swaps_that_were_taken_back_are_nobodys_to_commit_upon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a rewrite there is no seal that tells."""
    lake = two_releases(
        tmp_path,
        "CREATE TABLE a (id BIGINT, s STRING);",
        "CREATE TABLE a (id BIGINT, s INT);",
        'evolution("a")',
    )
    insert(lake.path("a"), [{"id": 1, "s": "007"}])
    generation, made = ready(lake), cutover._commit

    def commit(*found: Any) -> None:
        monkeypatch.setattr(cutover, "_commit", _refuse(SealExpired(seconds=60)))
        with suppress(SealExpired):
            commands.cutover(lake.env, generation, jobs=jobs())
        monkeypatch.setattr(cutover, "_commit", made)
        made(*found)

    monkeypatch.setattr(cutover, "_commit", commit)
    with pytest.raises(SwapTakenBack):
        commands.cutover(lake.env, generation, jobs=jobs())
    assert served(lake, "a") and lake.version == "1.0.0"
    commands.cutover(lake.env, generation, jobs=jobs())
    assert (lake.version, table(lake, "a")) == ("1.1.0", {1: 7})
    whole(lake)


def test_a_late_way_back_leaves_a_twins_swap_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One gave its swaps up and stood still; its twin has swapped anew since, and commits."""
    lake = lake_of(tmp_path)
    generation, writers, go_back, made = ready(lake), Writers(lake), rename_swaps._take_back_swap, cutover._commit

    def late(*found: Any) -> bool:
        monkeypatch.setattr(rename_swaps, "_take_back_swap", go_back)
        monkeypatch.setattr(cutover, "_commit", made)
        commands.cutover(lake.env, generation, jobs=jobs())
        assert lake.version == "1.1.0"
        return go_back(*found)

    monkeypatch.setattr(cutover, "_commit", _refuse(SealExpired(seconds=60)))
    monkeypatch.setattr(rename_swaps, "_take_back_swap", late)
    commands.cutover(lake.env, generation, jobs=jobs())
    writers.check("1.1.0")


def test_a_swap_that_could_not_be_taken_back_is_taken_back_once_its_rows_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that came between the swap and the kill fits the new type only; another one came with it."""
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT, s INT);", "CREATE TABLE a (id BIGINT, s STRING);", 'evolution("a")')
    insert(lake.path("a"), [{"id": 1, "s": 7}])
    generation = ready(lake)
    die_after_the_swap(lake.env, lake.path("a"), generation, jobs())
    insert(lake.path("a"), [{"id": 2, "s": "two"}, {"id": 3, "s": "3"}])
    monkeypatch.setattr(cutover, "_commit", _refuse(SealExpired(seconds=60)))
    for left in ({1: "7", 2: "two", 3: "3"}, {1: 7, 3: 3}):
        with pytest.raises(SealExpired):
            commands.cutover(lake.env, generation, jobs=jobs())
        assert table(lake, "a") == left
        change(lake.path("a"), lambda row: None if row["id"] == 2 else row)
    monkeypatch.undo()
    commands.cutover(lake.env, generation, jobs=jobs())
    assert (lake.version, table(lake, "a")) == ("1.1.0", {1: "7", 3: "3"})
    whole(lake)


# --- killed -------------------------------------------------------------------------------------------------------------------------------


@contextmanager
def killed(lake: Lake, at: int) -> Iterator[tuple[Lake, Callable[[], bool]]]:
    """``lake`` for a process that dies at its ``at``-th moment, and whether it did."""
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count > at:
            raise Crash

    with suppress(Crash):
        yield replace(lake, env=replace(lake.env, on_write=hook)), lambda: count > at


def go_on(lake: Lake, generation: Generation, writers: Writers) -> None:
    if lake.version == "1.0.0":
        commands.cutover(lake.env, generation, jobs=jobs())
    writers.check("1.1.0")


def go_back(lake: Lake, generation: Generation, writers: Writers) -> None:
    with suppress(NothingToRollBack):
        commands.rollback(lake.env, jobs=jobs())
    writers.check("1.0.0")


def another(lake: Lake, generation: Generation, writers: Writers) -> None:
    commands.upgrade(lake.env, lake.second, jobs=jobs(), claim_id="another")
    writers.check("1.1.0")


THEN = {"on": go_on, "back": go_back, "another": another}


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_killed_at_every_write_of_the_cut_over(tmp_path: Path, stride: int) -> None:
    start = lake_of(tmp_path / "start")
    generation, before = ready(start), Writers(start)
    before.write_all(20)
    moment, dies = 0, True
    while dies:
        for number, (name, then) in enumerate(THEN.items()):
            if stride > 1 and (moment // stride + number) % len(THEN):
                continue
            lake = copied(start, tmp_path / f"{moment}-{name}")
            writers = Writers(lake, {found: dict(values) for found, values in before.wanted.items()})
            with killed(lake, moment) as (dying, died):
                commands.cutover(dying.env, generation, jobs=jobs())
            dies = died()
            for found in COLUMN:
                with suppress(ConstraintViolated):
                    writers.write(found, 50)
            then(lake, generation, writers)
            writers.write_all(60)
            assert all(numbers(lake, found) == writers.wanted[found] for found in COLUMN)
            shutil.rmtree(tmp_path / f"{moment}-{name}")
        moment += stride
    assert moment > 2 * stride
