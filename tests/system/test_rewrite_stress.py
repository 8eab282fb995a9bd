"""A rewrite that is killed again and again while four writers of four kinds are at work: each acknowledged write is there once (issue 4).

The seed is printed; SCHEMAMIG_STRESS_ROUNDS and SCHEMAMIG_TEST_SEED repeat it. ``make soak`` plays 100 rounds.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.ledger.verify import verify
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade import verbs
from airflow_provider_schemamig.core.upgrade.fill import without_spark
from tests.support.connect import connect_server
from tests.support.processes import wait_until
from tests.support.product import Product
from tests.support.stress_writer import KINDS, Row, replay

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
TRIES = 4
#: The exit code of what is to be tried again.
CONFLICT = 75
SMALL, MANY = 3, 100
SCHEMAMIG = str(Path(sys.executable).with_name("schemamig"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("server"), master="local[2]") as url:
        yield url


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(SMALL))
def test_a_few_rounds(server: str, tmp_path: Path, number: int) -> None:
    play(server, tmp_path, number, kills=2)


@pytest.mark.soak
@pytest.mark.timeout(3600 * 3)
def test_many_rounds(server: str, tmp_path: Path) -> None:
    for number in range(SMALL, int(os.environ.get("SCHEMAMIG_STRESS_ROUNDS", MANY))):
        play(server, tmp_path / str(number), number, kills=TRIES)


def play(server: str, folder: Path, number: int, kills: int) -> None:
    seed = f"{os.environ['SCHEMAMIG_TEST_SEED']}/{number}"
    print(f"round {number}, seed {seed}")
    rng = random.Random(seed)
    shape = SHAPES[number % len(SHAPES)]
    product = Product(folder / "product")
    first = product.release("1.0.0", OLD.format(**shape))
    second = product.release("1.1.0", NEW.format(**shape), STEP)
    env = Environment.open(str(folder / "lake"))
    verbs.upgrade(env, first, jobs=without_spark)
    logs = {kind: folder / f"{kind}.log" for kind in KINDS}
    with writers(env, logs, server, seed):
        moments = [rng.uniform(2.0, 15.0) for _ in range(kills)]
        for kill_after in [*moments, *[None] * TRIES]:  # killed, then left alone: a conflict with a zombie may take another try
            if _upgrade(env, second, server, kill_after):
                break
        wait_until(lambda: _version(env) == "1.1.0", seconds=1)
        time.sleep(1.0)
    check(env, logs, server)


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
    print(out.decode()[-2000:])
    assert process.returncode in (0, CONFLICT), err.decode()
    return process.returncode == 0


@contextmanager
def writers(env: Environment, logs: dict[str, Path], server: str, seed: str) -> Iterator[None]:
    """All four at work inside; those whom nobody refused are stopped at the end."""
    command = [sys.executable, "-m", "tests.support.stress_writer"]
    errors = {kind: Path(f"{log}.err").open("w") for kind, log in logs.items()}  # noqa: SIM115 - closed below
    started = [
        subprocess.Popen([*command, kind, env.location.uri, "t", str(log), server, seed], stderr=errors[kind]) for kind, log in logs.items()
    ]
    try:
        wait_until(lambda: all(Path(f"{log}.ready").exists() for log in logs.values()), seconds=120)
        yield
    finally:
        for process in started:
            process.terminate()
        codes = [process.wait(60) for process in started]
        for file in errors.values():
            file.close()
    assert all(code in (0, -signal.SIGTERM) for code in codes), {kind: Path(f"{log}.err").read_text()[-2000:] for kind, log in logs.items()}


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
    maybe: dict[int, list[Row | None]] = {}
    for log in logs.values():
        sure, open_ends = replay(log)
        expected |= sure
        maybe |= open_ends
    print(f"{len(expected)} rows acknowledged, {len(maybe)} without an answer")
    for row_id in maybe:
        assert rows.pop(row_id, None) in maybe[row_id]
        expected.pop(row_id, None)
    assert rows == expected
    assert all(len(log.read_text()) > 0 for log in logs.values())
    assert list(state.intents) == []
    assert verify(LedgerReader(env)) == ()
