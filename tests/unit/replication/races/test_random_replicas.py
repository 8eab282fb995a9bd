"""Random writers, upgrades, rollbacks, kills and pauses on three environments that replicate: nothing is lost, doubled or out of order.

Two origins, ``a`` and ``b``, and each key belongs to one of them: there is no conflict resolution. ``c`` gets both by streams of their
own, ``a`` and ``b`` each other's. In the end all are upgraded, and have what both wrote.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.conftest import SEED
from tests.support.lake import Crash
from tests.support.replicas import EVOLVE, FIRST, Replicas, make_replicas
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import Row

#: A column more, then one less and a rename, of ``trips``; one more of ``lines``.
SECOND = FIRST.replace("v STRING,", "v STRING, w STRING,")
THIRD = SECOND.replace("v STRING,", "vv STRING,").replace("n INT", "n BIGINT, more INT")
RELEASES = ((FIRST, ""), (SECOND, EVOLVE), (THIRD, 'evolution("trips", rename={"v": "vv"}), evolution("lines")'))
ARROWS = ("ab", "ba", "ac", "bc")
#: Keys of ``a`` are even.
OWNERS = "ab"


@pytest.fixture(scope="module")
def born(tmp_path_factory: pytest.TempPathFactory) -> Replicas:
    """``a`` has rows, the others have them by their streams; then ``b`` may write, too."""
    three = make_replicas(tmp_path_factory.mktemp("born"), *RELEASES, names="abc")
    three.insert("a", *({"id": number, "v": "0"} for number in range(4)))
    for arrow in ("ab", "ac"):
        three.bring(*arrow)
    for arrow in ("ba", "bc"):
        restore(three.env(arrow[0]), three.env(arrow[1]), CollectionName("trips"), allow_lossy=True, jobs=three.runner)
    return three


@dataclass
class World:
    """``told``: what of each key was last acknowledged."""

    three: Replicas
    dice: random.Random
    told: dict[int, str | None] = field(default_factory=lambda: dict.fromkeys(range(4), "0"))
    #: Number of the release that all come to in the end.
    top: int = 3
    at: dict[str, int] = field(default_factory=lambda: dict.fromkeys("abc", 1))
    count: int = 0
    steps: list[str] = field(default_factory=list)

    # --- what happens ----------------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """New keys, changed and deleted ones; each value is greater than the one before it."""
        owner = self.dice.randrange(2)
        self.count += 1
        value = f"{self.count:04}"
        name = "v" if self.at[OWNERS[owner]] < 3 else "vv"
        mine = sorted(key for key, told in self.told.items() if key % 2 == owner and told is not None)
        kind = self.dice.choice(["insert", "update", "delete", "rekey"] if mine else ["insert"])
        fresh = 2 * self.count + 100 + owner
        chosen = self.dice.choice(mine) if mine else None

        def of(row: Row) -> Row | None:
            if row["id"] != chosen:
                return row
            return None if kind == "delete" else {**row, name: value, **({"id": fresh} if kind == "rekey" else {})}

        if kind == "insert":
            self.three.insert(OWNERS[owner], {"id": fresh, name: value})
        else:
            self.three.change(OWNERS[owner], of)
        if kind in ("delete", "rekey"):
            assert chosen is not None
            self.told[chosen] = None
        if kind != "delete":
            self.told[fresh if kind != "update" or chosen is None else chosen] = value

    def upgrade(self) -> None:
        """One release at a time, everywhere; and nobody leaves a release before events of the one before it were brought."""
        behind = [name for name, at in self.at.items() if at == min(self.at.values()) and at < self.top]
        if behind:
            name = self.dice.choice(behind)
            for arrow in ARROWS:
                if arrow[1] == name:
                    self.three.bring(*arrow)
            self.three.upgrade(name, to=self.at[name] + 1)
            self.at[name] += 1

    def bring(self) -> None:
        self.three.bring(*self.dice.choice(ARROWS))

    def killed(self) -> None:
        """At any write of ours, or at Spark's commit, with or without its driver."""
        arrow = self.dice.choice(ARROWS)
        moment = self.dice.randrange(16)
        count = 0

        def hook(when: str, what: str, key: str) -> None:
            nonlocal count
            count += 1
            if count > moment:
                raise Crash(f"{when} {what} {key}")

        leaves = self.dice.random() < 0.5
        jobs = RowJobs({}, leave_at=1) if leaves else RowJobs({}, hook)
        env = self.three.env(arrow[1]) if leaves else self.three.hooked(arrow[1], hook)
        try:
            self.three.bring(*arrow, env=env, jobs=jobs)
        except Crash:
            self.zombies.extend(jobs.zombies)

    zombies: list[Callable[[], object]] = field(default_factory=list)

    def wakes(self) -> None:
        """A driver that lived on commits now, or is turned away."""
        if self.zombies:
            zombie = self.zombies.pop(self.dice.randrange(len(self.zombies)))
            with contextlib.suppress(SchemamigError):
                zombie()

    # --- what must hold --------------------------------------------------------------------------------------------------------------

    def rows(self, name: str) -> dict[int, str]:
        column = "v" if self.at[name] < 3 else "vv"
        return {row["id"]: row[column] for row in self.three.rows(name)}

    def check_streams(self) -> None:
        """No stream is stopped; and what replicas were brought of a version came once: their links are a chain."""
        for arrow in ARROWS:
            (state,) = self.three.bring(*arrow).states
            assert state.error is None, f"{arrow}: {state.detail}"
        for name in "abc":
            reached: dict[str, int] = {}
            for commit in commits(self.three.env(name).table_store(str(self.three.path(name))), -1):
                about = commit.about
                if about is not None and about.get("action") in ("replica", "restore"):
                    key = about["origin"]
                    assert about["lo"] == reached.get(key, -1), f"{name}: {about} after {reached}"
                    reached[key] = about["hi"]

    def end(self) -> None:
        while min(self.at.values()) < self.top:
            self.upgrade()
        for _ in range(2):
            for arrow in ARROWS:
                (state,) = self.three.bring(*arrow).states
                assert state.pause is None, f"{arrow}: {state.pause}"
        wanted = {key: told for key, told in self.told.items() if told is not None}
        for name in "abc":
            assert self.rows(name) == wanted, name
        assert self.three.rows("a") == self.three.rows("b") == self.three.rows("c")


@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.soak) for number in range(1, 60))])
def test_replicas_at_random(born: Replicas, tmp_path: Path, number: int) -> None:
    seed = int(os.environ[SEED]) + number
    world = World(replace(born.copy(tmp_path / "lakes")), random.Random(seed), top=2 if number == 0 else 3)
    for _ in range(12 if number == 0 else 40):
        step = world.dice.choice(
            [world.write, world.write, world.write, world.bring, world.bring, world.killed, world.wakes, world.upgrade]
        )
        world.steps.append(step.__name__)
        try:
            step()
        except BaseException:
            print(f"seed {seed}: {world.steps}")
            raise
    try:
        world.check_streams()
        world.end()
        world.check_streams()
    except BaseException:
        print(f"seed {seed}: {world.steps}")
        raise
