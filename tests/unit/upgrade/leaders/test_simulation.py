"""The seed's own simulation: random releases, several processes each, crashes at every write.

Ten versions of five collections; up to three processes a version, all of one generation; steps are random evolutions and replacements;
every ledger append and table write dies with a probability of 1 % just before or just after it is durable. Afterwards all processes of a
(version, generation) must have seen the same shards and fingerprints, and the environment is at the newest committed version, whole.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.exceptions import Conflict, Refusal
from tests.support.lake import Crash, no_spark
from tests.support.product import Product

COLLECTIONS = ("ants", "bees", "crows", "doves", "eels")
VERSIONS = 10
CRASH_CHANCE = 0.01
SEEDS = [int(os.environ["SCHEMAMIG_SEED"])] if "SCHEMAMIG_SEED" in os.environ else [1, 2]


# --- random releases -----------------------------------------------------------------------------------------------------------------


@dataclass
class Table:
    columns: dict[str, str]
    serial: int = 0

    def sql(self, name: str) -> str:
        return f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in self.columns.items())});"

    def fresh(self) -> str:
        self.serial += 1
        return f"c{self.serial}"


def random_step(name: str, table: Table, rng: random.Random) -> str | None:
    """Change ``table`` and return its step, or None if this version leaves it alone."""
    columns = table.columns
    if rng.random() < 0.3:
        return None
    if rng.random() < 0.25:
        victim = rng.choice(sorted(columns))
        columns[victim] = "BINARY" if columns[victim] != "BINARY" else "STRING"
        return f'replacement("{name}")'
    kind = rng.choice(["add", "rename", "drop", "relax", "widen"])
    if kind == "rename":
        old, new = rng.choice(sorted(columns)), table.fresh()
        table.columns = {new if column == old else column: type_ for column, type_ in columns.items()}
        return f'evolution("{name}", rename={{"{old}": "{new}"}})'
    if kind == "drop" and len(columns) > 1:
        old = rng.choice(sorted(columns))
        del columns[old]
        return f'evolution("{name}", drop=["{old}"])'
    required = [column for column, type_ in columns.items() if type_.endswith("NOT NULL")]
    if kind == "relax" and required:
        columns[required[0]] = columns[required[0]].removesuffix(" NOT NULL")
        return f'evolution("{name}")'
    narrow = [column for column, type_ in columns.items() if type_ == "INT"]
    if kind == "widen" and narrow:
        columns[narrow[0]] = "BIGINT"
        return f'evolution("{name}")'
    columns[table.fresh()] = rng.choice(["INT", "STRING", "STRUCT<a: INT, b: STRING>"])
    return f'evolution("{name}")'


def random_product(folder: Path, rng: random.Random) -> list[Path]:
    product = Product(folder)
    tables = {name: Table({"id": "INT NOT NULL", "note": "STRING", "size": "INT"}) for name in COLLECTIONS}
    folders = []
    for number in range(VERSIONS):
        steps = [step for name, table in tables.items() if (step := random_step(name, table, rng))] if number else []
        schema = "\n".join(table.sql(name) for name, table in tables.items())
        folders.append(product.release(f"1.{number}.0", schema, ", ".join(steps)))
    return folders


# --- processes -----------------------------------------------------------------------------------------------------------------------


@dataclass
class Process:
    """One process of a version: it goes through the protocol verb by verb, and starts over when it dies."""

    folder: Path
    claim_id: str
    env: Environment
    promotes: bool
    step: int = 0
    generation: Generation | None = None
    done: bool = False
    saw: dict[str, str] = field(default_factory=dict)

    def advance(self) -> None:
        verb = ("preflight", "promote", "expand", "change", "cutover", "cleanup")[self.step]
        try:
            getattr(self, f"do_{verb}")()
        except (Crash, Conflict):
            self.step = 0
            return
        except Fenced:
            self.done = True
            return
        self.step += 1
        self.done = self.done or self.step == 6 or (self.step == 1 and not self.promotes)

    def do_preflight(self) -> None:
        checked = commands.preflight(self.env, self.folder, claim_id=self.claim_id, hold=timedelta(0), end_hold=True, jobs=no_spark)
        self.generation = checked.generation
        if checked.generation is None:
            self.done = True
            return
        rows = LedgerReader(self.env).state().replacements.values()
        self.saw = {row.collection: row.shard for row in rows if row.generation == checked.generation}

    def do_promote(self) -> None:
        try:
            commands.promote(self.env, self._generation)
        except Refusal as refusal:
            if refusal.code not in ("wrong_state", "plan_changed"):
                raise
            self.done = True  # another version was committed meanwhile: this attempt is over, as an operator would see it

    def do_expand(self) -> None:
        commands.expand(self.env, self._generation)

    def do_change(self) -> None:
        commands.change(self.env, self._generation, jobs=no_spark)

    def do_cutover(self) -> None:
        commands.cutover(self.env, self._generation)

    def do_cleanup(self) -> None:
        commands.cleanup(self.env, self._generation)

    @property
    def _generation(self) -> Generation:
        assert self.generation is not None
        return self.generation


def run(processes: list[Process], rng: random.Random) -> None:
    """Interleave the processes at verb borders, as the seed says, until all are done."""
    for _ in range(2_000):
        alive = [process for process in processes if not process.done]
        if not alive:
            return
        rng.choice(alive).advance()
    raise AssertionError("the processes do not come to an end")


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("seed", SEEDS)
def test_any_interleaving_of_crashing_processes_reaches_the_same_state(tmp_path: Path, seed: int) -> None:
    print(f"SCHEMAMIG_SEED={seed}")
    rng = random.Random(seed)
    folders = random_product(tmp_path / "product", rng)
    crashes = 0

    def maybe_crash(moment: str, what: str, key: str) -> None:
        nonlocal crashes
        if rng.random() < CRASH_CHANCE / 2:  # two moments a write
            crashes += 1
            raise Crash(f"{moment} {what} {key}")

    quiet = Environment.open(str(tmp_path / "lake"))
    crashing = replace(quiet, on_write=maybe_crash)
    commands.upgrade(quiet, folders[0], jobs=no_spark, create=True)
    number = 0
    while number < VERSIONS - 1:
        number += rng.choice([1, 1, 2])  # some versions never run
        number = min(number, VERSIONS - 1)
        aborted = rng.random() < 0.3  # an attempt at this version that preflights and is given up
        for attempt, promotes in [("a", False), ("b", True)] if aborted else [("b", True)]:
            claim = f"{number}{attempt}"
            processes = [Process(folders[number], claim, crashing, promotes) for _ in range(rng.randint(1, 3))]
            run(processes, rng)
            check(quiet, processes, promotes, number)
    print(f"{crashes} crashes")
    assert crashes > 0
    fresh = Environment.open(str(tmp_path / "fresh"))
    commands.upgrade(fresh, folders[-1], jobs=no_spark, create=True)
    state, wanted = LedgerReader(quiet).state(), LedgerReader(fresh).state()
    assert {n: o.fingerprint for n, o in state.objects.items()} == {n: o.fingerprint for n, o in wanted.objects.items()}
    assert verify(LedgerReader(quiet)) == ()


def check(env: Environment, processes: list[Process], promoted: bool, number: int) -> None:
    state = LedgerReader(env).state()
    generations = {process.generation for process in processes if process.generation is not None}
    assert len(generations) <= 1, "twins of one claim are one generation"
    seen = [process.saw for process in processes if process.saw]
    assert all(saw == seen[0] for saw in seen), "all processes of a (version, generation) see the same shards"
    if not promoted:
        return
    assert state.release is not None and str(state.release.version) == f"1.{number}.0"
    assert not [deployment for deployment in state.deployments.values() if deployment.state is DeploymentState.PROMOTED]
    assert not commands.status(env).drifted
    for collection, shard in (seen[0] if seen else {}).items():
        assert state.objects[CollectionName(collection)].shard == shard
