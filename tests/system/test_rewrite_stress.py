"""A rewrite that is killed again and again while four writers of four kinds are at work: each acknowledged write is there once.

The seed is printed; SCHEMAMIG_STRESS_ROUNDS and SCHEMAMIG_TEST_SEED repeat it. ``make soak`` plays 100 rounds, and one for whoever has
little time.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Self

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from tests.support.processes import wait_until
from tests.support.product import Product
from tests.support.spark.connect import connect_server
from tests.support.spark.stress_writer import KINDS, Row, replay

pytestmark = [pytest.mark.spark, pytest.mark.system]

OLD = "CREATE TABLE t (id BIGINT NOT NULL, owner STRING, v INT{key}){cdf};\n"
NEW = "CREATE TABLE t (id BIGINT NOT NULL, owner STRING NOT NULL, v STRING{key}){cdf};\n"
UP = "SELECT id, owner, concat('v', v) AS v FROM {t}"
DOWN = "SELECT id, owner, CAST(substr(v, 2) AS INT) AS v FROM {t}"
STEP = f'rewrite("t", up="{UP}", down="{DOWN}")'
#: With a key and a change data feed, and with neither: both ways of following the source.
SHAPES = (
    {"key": ", PRIMARY KEY (id)", "cdf": " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"},
    {"key": "", "cdf": ""},
)
#: Tried so often after the kills: a statement that lives on in the server is in the way, and so are writers if the machine is busy.
TRIES = 10
#: The exit code of what is to be tried again.
CONFLICT = 75
SMALL, MANY = 1, 100
SCHEMAMIG = str(Path(sys.executable).with_name("schemamig"))


#: It lives for thousands of statements in the default heap of 1 GiB: what it remembers of them must not fill it, nor the sessions of those
#: who were killed.
FORGETFUL = {
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.connect.session.manager.defaultSessionTimeout": "2m",
    "spark.databricks.delta.delta.log.cacheSize": "20",
}


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A server and four writers that live through all rounds, as they would."""
    folder = tmp_path_factory.mktemp("crew")
    with connect_server(folder, FORGETFUL, master="local[2]") as url, Crew.at_work(url, folder) as crew:
        yield crew


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_few_rounds(crew: Crew, tmp_path: Path) -> None:
    play_rounds(crew, tmp_path, range(SMALL), kills=1)


@pytest.mark.soak
@pytest.mark.timeout(3600 * 3)
def test_rewrite_stress_many_rounds(crew: Crew, tmp_path: Path) -> None:
    play_rounds(crew, tmp_path, range(SMALL, int(os.environ.get("SCHEMAMIG_STRESS_ROUNDS", MANY))), kills=3)


@dataclass(frozen=True)
class Crew:
    """The writers of all kinds (tests/support/spark/stress_writer.py) and the server that some of them use."""

    server: str
    processes: Mapping[str, subprocess.Popen[str]]

    @classmethod
    @contextmanager
    def at_work(cls, server: str, folder: Path) -> Iterator[Self]:
        command = [sys.executable, "-m", "tests.support.spark.stress_writer"]
        with ExitStack() as ends:
            processes = {}
            for kind in KINDS:
                errors = ends.enter_context((folder / f"{kind}.err").open("w"))
                processes[kind] = subprocess.Popen([*command, kind, server], stdin=PIPE, stdout=PIPE, stderr=errors, text=True)
                ends.callback(processes[kind].kill)
            crew = cls(server, processes)
            crew._expect("ready")
            yield crew

    @contextmanager
    def writing(self, env: Environment, logs: Mapping[str, Path], seed: str, *, patient: bool = False) -> Iterator[None]:
        """All four at work inside, on collection ``t``, each until it is refused; ``patient``: and then again."""
        for kind, log in logs.items():
            job = {"env": env.location.uri, "collection": "t", "log": str(log), "seed": seed, "patient": patient}
            self._tell(kind, json.dumps(job))
        try:
            # Who checks a key reads the table, so each append of others is in the way: that takes tries, and a busy machine draws them out.
            wait_until(lambda: all(log.exists() and '"ack"' in log.read_text() for log in logs.values()), seconds=300)
            yield
        finally:
            for kind in KINDS:
                self._tell(kind, "")
            self._expect("done")

    def _tell(self, kind: str, line: str) -> None:
        pipe = self.processes[kind].stdin
        assert pipe is not None
        pipe.write(line + "\n")
        pipe.flush()

    def _expect(self, word: str) -> None:
        for kind, process in self.processes.items():
            assert process.stdout is not None
            assert (answer := process.stdout.readline().strip()) == word, f"{kind} said {answer!r}"


def play_rounds(crew: Crew, folder: Path, numbers: range, kills: int) -> None:
    for number in numbers:
        before = time.monotonic()
        play(crew, folder / str(number), number, kills)
        print(f"round {number}: {time.monotonic() - before:.0f} s", flush=True)
        shutil.rmtree(folder / str(number))


def play(crew: Crew, folder: Path, number: int, kills: int) -> None:
    """Killed up to ``kills`` times, then left alone."""
    seed = f"{os.environ['SCHEMAMIG_TEST_SEED']}/{number}"
    print(f"round {number}, seed {seed}")
    rng = random.Random(seed)
    shape = SHAPES[number % len(SHAPES)]
    product = Product(folder / "product")
    first = product.release("1.0.0", OLD.format(**shape))
    second = product.release("1.1.0", NEW.format(**shape), STEP)
    env = Environment.open(str(folder / "lake"))
    commands.upgrade(env, first, jobs=without_spark, create=True)
    logs = {kind: folder / f"{kind}.log" for kind in KINDS}
    with crew.writing(env, logs, seed):
        moments = [rng.uniform(2.0, 3.0 + 2 * kills) for _ in range(rng.randint(1, kills))]
        for kill_after in [*moments, *[None] * TRIES]:
            if _upgrade(env, second, crew.server, kill_after):
                break
        wait_until(lambda: _version(env) == "1.1.0", seconds=1)
        time.sleep(1.0)
    check(env, logs, crew.server)


def _version(env: Environment) -> str:
    release = LedgerReader(env).state().release
    return str(release.version) if release is not None else ""


def _upgrade(env: Environment, release: Path, server: str, kill_after: float | None) -> bool:
    """Run the upgrade in a process of its own; False if it was killed, which its statements on the server outlive, or met a conflict."""
    command = [SCHEMAMIG, "upgrade", "--env", env.location.uri, "--release", str(release), "--spark", server, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        print(f"killed after {kill_after:.1f} s")
        return False
    assert process.returncode in (0, CONFLICT), out.decode() + err.decode()
    document = json.loads(out)
    print(*(f"{stage['kind']} {stage['seconds']:.1f} s" for stage in document.get("stages", [])), document.get("error", ""), sep=", ")
    return process.returncode == 0


def check(env: Environment, logs: dict[str, Path], server: str) -> None:
    """Every acknowledged row once, nothing else, in the new shape; no seal, no intent, no damage left."""
    from airflow_provider_schemamig.core.spark.runners import connect_session

    state = LedgerReader(env).state()
    path = env.table_location(state.shard_of(CollectionName("t")).uri).local_path
    session = connect_session(server)
    found = session.sql(f"SELECT id, owner, v FROM delta.`{path}`").collect()
    session.stop()
    rows = {row["id"]: {"id": row["id"], "owner": row["owner"], "v": int(row["v"][1:])} for row in found}
    assert len(rows) == len(found), "a row is there twice"
    expected: dict[int, Row] = {}
    for kind, log in logs.items():
        done = replay(log)
        assert done, f"{kind} never got a row in"
        expected |= done
    print(f"{len(expected)} rows acknowledged")
    assert rows == expected
    assert list(state.intents) == []
    assert verify(LedgerReader(env)) == ()
