"""Online changes in random order, killed and cancelled, while four writers of four kinds insert, update and delete.

Accounting after Vitess: what is there is what was inserted and not deleted, each acknowledged row once, and the table's log has a commit
for each acknowledgement. The seed is printed; SCHEMAMIG_STRESS_ROUNDS and SCHEMAMIG_TEST_SEED repeat it. Only in ``make soak``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.runners import ConnectRunner, connect_session
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from airflow_provider_schemamig.core.upgrade.verify.verify import verify_environment
from tests.support.lake import append
from tests.support.product import Product
from tests.support.rows.tables import commit_at, newest
from tests.support.spark.connect import connect_server
from tests.support.spark.stress_writer import KINDS, Row, replay
from tests.support.tables.interleave import is_ours
from tests.system.test_rewrite_stress import CONFLICT, FORGETFUL, TRIES, Crew

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.soak]

ROUNDS = 10
T = CollectionName("t")
SCHEMA = "CREATE TABLE t (id BIGINT NOT NULL, owner STRING, v INT, w STRING);\n"
#: A row of ours, whose ``w`` nobody else writes; writers' ids are far above.
BASE: tuple[dict[str, Any], ...] = tuple({"id": n, "owner": "base", "v": 0, "w": str(n)} for n in range(1, 41))
#: What is done, and what no row may be once it is done (SQL; ``TRUE`` in no row).
CHANGES: Mapping[str, str] = {
    "ADD COLUMN extra BIGINT": "extra IS NOT NULL",
    "ADD COLUMN grade INT DEFAULT 3": "grade IS DISTINCT FROM 3",
    "ADD CONSTRAINT fine CHECK (v >= -1)": "v < -1 OR v IS NULL",
    "ALTER COLUMN owner SET NOT NULL": "owner IS NULL",
    "ALTER COLUMN w TYPE INT": f"id <= {len(BASE)} AND w IS DISTINCT FROM CAST(id AS INT)",
    "ADD UNIQUE (id)": "FALSE",
}
#: Writers that never pause change rows as fast as they are filled, so somebody says that they have to wait.
STARVES = ("ALTER COLUMN w TYPE INT",)


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    folder = tmp_path_factory.mktemp("crew")
    with connect_server(folder, FORGETFUL, master="local[2]") as url, Crew.at_work(url, folder) as crew:
        yield crew


@pytest.mark.timeout(3600 * 3)
def test_online_stress_random_changes(crew: Crew, tmp_path: Path) -> None:
    for number in range(int(os.environ.get("SCHEMAMIG_STRESS_ROUNDS", ROUNDS))):
        seed = f"{os.environ['SCHEMAMIG_TEST_SEED']}/{number}"
        print(f"round {number}, seed {seed}", flush=True)
        Round(crew, tmp_path / str(number), seed).play()


class Round:
    """One table, all changes, each until it is done."""

    def __init__(self, crew: Crew, folder: Path, seed: str) -> None:
        self._crew = crew
        self._seed = seed
        self._rng = random.Random(seed)
        self._env = Environment.open(str(folder / "lake"))
        self._logs = {kind: folder / f"{kind}.log" for kind in KINDS}
        self._done: list[str] = []
        self._tries = 0
        commands.upgrade(self._env, Product(folder / "product").release("1.0.0", SCHEMA), jobs=without_spark, create=True)
        for first in range(0, len(BASE), 10):
            append(self._table, list(BASE[first : first + 10]))
        self._begun = newest(self._table)

    @property
    def _table(self) -> Path:
        path = self._env.table_location(LedgerReader(self._env).state().shard_of(T).uri).local_path
        assert path is not None
        return path

    def play(self) -> None:
        left = self._rng.sample(sorted(CHANGES), len(CHANGES))
        with self._crew.writing(self._env, self._logs, self._seed, patient=True):
            while left:
                change = left.pop(0)
                if self._make(change):
                    self._done.append(change)
                else:
                    left.append(change)
                self._check()
            time.sleep(2.0)
        self._account()

    # -- a change ---------------------------------------------------------------------------------------------------------------------

    def _make(self, change: str) -> bool:
        """Killed at most once, then gone on with or taken back. False: it was taken back, and its turn comes again."""
        self._tries += 1
        alter = ("alter", f"ALTER TABLE t {change}", "--claim-id", f"try {self._tries}")
        print(f"  {change}", flush=True)
        killed = self._rng.random() < 0.5 and not self._call(*alter, kill_after=self._rng.uniform(1.0, 15.0))
        if killed and self._is_promoted() and self._rng.random() < 0.5:
            self._until_done(change, "rollback")
            print("    taken back", flush=True)
            return False
        self._until_done(change, *alter)
        return True

    def _is_promoted(self) -> bool:
        state = LedgerReader(self._env).state()
        return state.leader is not None and state.deployments[state.leader.generation].state is DeploymentState.PROMOTED

    def _until_done(self, change: str, *command: str) -> None:
        for _ in range(TRIES):
            if self._call(*command):
                return
            if change in STARVES:
                controls.force(self._env, T)
        raise AssertionError(f"{change}: it meets one conflict after the other")

    def _call(self, verb: str, *arguments: str, kill_after: float | None = None) -> bool:
        """In a process of its own; False if it was killed or met a conflict."""
        command = [sys.executable, "-m", "airflow_provider_schemamig.cli.main", verb, *arguments]
        command += ["--env", self._env.location.uri, "--spark", self._crew.server, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            print(f"    killed after {kill_after:.1f} s", flush=True)
            return False
        assert process.returncode in (0, CONFLICT), out.decode() + err.decode()
        if process.returncode:
            print(f"    {json.loads(out)['error']['code']}", flush=True)
        return process.returncode == 0

    # -- what holds -------------------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """After every change: nothing half done, no drift, and every rule that is PUBLIC keeps what it promises."""
        state = LedgerReader(self._env).state()
        assert list(state.intents) == []
        assert verify(LedgerReader(self._env)) == ()
        assert commands.status(self._env).drifted == ()
        consistent(self._env, self._crew.server)
        # Not ``WHERE (FALSE)``: that is read as an alias WHERE with a column FALSE.
        bad = " OR ".join(["FALSE", *(f"({CHANGES[change]})" for change in self._done)])
        assert self._sql(f"SELECT * FROM {{t}} WHERE {bad}") == []

    def _account(self) -> None:
        """Every acknowledged row once, nothing else; a commit for each acknowledgement."""
        found = self._sql("SELECT id, owner, v FROM {t}")
        expected: dict[int, Row] = {row["id"]: {"id": row["id"], "owner": row["owner"], "v": row["v"]} for row in BASE}
        inserts = deletes = acknowledged = 0
        for kind, log in self._logs.items():
            done = replay(log)
            assert done, f"{kind} never got a row in"
            expected |= done
            entries = [entry for entry in map(json.loads, log.read_text().splitlines()) if entry["what"] == "ack"]
            acknowledged += len(entries)
            inserts += len({row["id"] for entry in entries for row in entry["rows"]})
            deletes += 0 if kind == "ours-spark" else sum(len(entry["gone"]) for entry in entries)
        print(f"  {acknowledged} acknowledged: {inserts} inserted, {deletes} deleted; {len(found)} rows", flush=True)
        assert len(found) == len(BASE) + inserts - deletes
        assert {row["id"]: row for row in found} == expected
        assert self._foreign_commits() == acknowledged

    def _foreign_commits(self) -> int:
        versions = range(self._begun + 1, newest(self._table) + 1)
        return sum(not is_ours(commit_at(self._table, version)) for version in versions)

    def _sql(self, text: str) -> list[dict[str, Any]]:
        session = connect_session(self._crew.server)
        try:
            return [row.asDict() for row in session.sql(text.replace("{t}", f"delta.`{self._table}`")).collect()]
        finally:
            session.stop()


def consistent(env: Environment, server: str) -> None:
    """The checker of the whole environment."""
    found = verify_environment(env, lambda: ConnectRunner(server), [T])
    assert (found.findings, found.unasked) == ((), ())
