"""The whole of schemamig that takes no Spark, on real servers of object stores: what the command line does with the usual variables alone,
races, kills, the way back, and reading."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage import (
    BucketMissing,
    ObjectExists,
    StorageForbidden,
    StorageOptions,
    WrongRegion,
    open_store,
    probe_put_if_absent,
)
from airflow_provider_schemamig.core.storage.location import Location
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.product import Product
from tests.support.stores.object_servers import ObjectServer, azure_server, s3_server

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
SERVERS: dict[str, Callable[[Path], AbstractContextManager[ObjectServer]]] = {"S3": s3_server, "Azure": azure_server}
PROCESSES = 8
KILLS = 8
TABLES = 12
FIRST = "".join(f"CREATE TABLE t{number} (id BIGINT NOT NULL, v INT);\n" for number in range(TABLES))
SECOND = FIRST.replace("v INT", "value INT, w STRING")
STEPS = "".join(f'    evolution("t{number}", rename={{"v": "value"}}),\n' for number in range(TABLES))


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A server that this process, and what it starts, knows by the store's usual variables only."""
    with SERVERS[request.param](tmp_path / "server") as found:
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    product = Product(tmp_path / "product")
    return product.release("1.0.0", FIRST), product.release("1.1.0", SECOND, STEPS)


def schemamig(*arguments: object, code: int = 0) -> Any:
    command = [sys.executable, "-m", "airflow_provider_schemamig.cli.main", *map(str, arguments), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_object_stores_there_and_back_by_the_command_line(server: ObjectServer, releases: tuple[Path, Path]) -> None:
    first, second = releases
    env = ["--env", f"{server.uri}/lake"]
    assert schemamig("upgrade", *env, "--release", first, code=1)["error"]["code"] == "no_environment"
    schemamig("upgrade", *env, "--release", first, "--create")
    planned = schemamig("plan", *env, "--release", second, code=3)
    assert planned["refusals"] == []
    schemamig("upgrade", *env, "--release", second)
    assert schemamig("status", *env)["version"] == "1.1.0"
    schemamig("rollback", *env)
    found = schemamig("status", *env)
    assert (found["version"], len(found["collections"])) == ("1.0.0", TABLES)
    assert schemamig("ledger", "verify", *env)["findings"] == []


def test_object_stores_what_is_read_is_what_delta_rs_wrote(server: ObjectServer, releases: tuple[Path, Path]) -> None:
    import pyarrow as pa

    env = Environment.open(f"{server.uri}/lake")
    commands.upgrade(env, releases[0], jobs=without_spark, create=True)
    env.writer("t0", release="1.0.0").append(pa.table({"id": [1, 2], "v": pa.array([10, 20], pa.int32())}))
    commands.upgrade(env, releases[1], jobs=without_spark)
    rows = env.reader("t0", release="1.1.0").arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["value"], row["w"]) for row in rows] == [(1, 10, None), (2, 20, None)]
    assert env.reader("t0", release="1.0.0").arrow().sort_by("id").to_pylist() == [{"id": 1, "v": 10}, {"id": 2, "v": 20}]


def test_one_of_eight_processes_writes_a_key(server: ObjectServer, tmp_path: Path) -> None:
    """Each of 8 processes puts each of 100 keys; everybody who was told so won."""
    script = (
        "import sys, time\n"
        "from airflow_provider_schemamig.core.storage import Location, ObjectExists, StorageOptions, open_store\n"
        "store = open_store(Location.parse(sys.argv[1]), StorageOptions())\n"
        "store.names('race')\n"
        "sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.readline()\n"
        "for number in range(100):\n"
        "    try:\n"
        "        store.put_if_absent(f'race/{number:03d}', sys.argv[2].encode())\n"
        "        print(number)\n"
        "    except ObjectExists:\n"
        "        pass\n"
    )
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", script, f"{server.uri}/lake", f"process {me}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in range(PROCESSES)
    ]
    for process in racing:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    told = [process.communicate("go\n")[0].split() for process in racing]
    assert [process.returncode for process in racing] == [0] * PROCESSES
    assert sorted(number for won in told for number in won) == sorted(map(str, range(100))), "a key with two winners, or none"
    store = open_store(Location.parse(f"{server.uri}/lake"), StorageOptions())
    written = {name: store.get(f"race/{name}").decode() for name in store.names("race")}
    assert written == {f"{int(number):03d}": f"process {me}" for me, won in enumerate(told) for number in won}


def test_eight_processes_race_for_the_ledger(server: ObjectServer, tmp_path: Path) -> None:
    uri = f"{server.uri}/lake"
    journals = [tmp_path / f"journal{me}" for me in range(PROCESSES)]
    racing = [racer(uri, f"racer{me}", journal, "--wait") for me, journal in enumerate(journals)]
    wait_for(lambda: all("ready" in said(journal) for journal in journals))
    assert len({words[1] for journal in journals for words in lines(journal, "ready")}) == 1, "one creator won, and all know it"
    for process in racing:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    wait_for(lambda: all(lines(journal, "done") for journal in journals))
    time.sleep(5)
    for process in racing:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(120) for process in racing] == [0] * PROCESSES

    done = [(int(version), int(count)) for journal in journals for _, version, count in lines(journal, "done")]
    state = LedgerReader(Environment.open(uri)).state()
    assert len(set(done)) == len(done) == state.version, "landed and acknowledged are the same"
    assert all(version == count for version, count in done), "version n is the n-th count"
    assert state.objects[CollectionName("counter")].schema_id == state.version, "a count was lost or doubled"
    assert len(state.objects) == state.version + 1, "a row was lost"


def racer(uri: str, name: str, journal: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.unit.ledger.racer", uri, name, str(journal), *options]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)


def said(journal: Path) -> str:
    return journal.read_text() if journal.exists() else ""


def lines(journal: Path, word: str) -> list[list[str]]:
    return [line.split() for line in said(journal).splitlines() if line.startswith(word)]


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


@pytest.mark.parametrize("verb", ["upgrade", "rollback"])
def test_killed_at_any_moment_it_goes_on(verb: str, server: ObjectServer, releases: tuple[Path, Path]) -> None:
    first, second = releases
    env = Environment.open(f"{server.uri}/lake")
    commands.upgrade(env, first, jobs=without_spark, create=True)
    if verb == "rollback":
        commands.upgrade(env, second, jobs=without_spark)
    arguments = ["upgrade", "--release", str(second)] if verb == "upgrade" else ["rollback", "--claim-id", "back"]
    command = [sys.executable, "-m", "airflow_provider_schemamig.cli.main", *arguments, "--env", env.location.uri]
    whole = duration_of_import()
    for _ in range(KILLS):
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(whole + random.uniform(0, 2.5))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    release = LedgerReader(env).state().release
    assert release is not None and str(release.version) == ("1.1.0" if verb == "upgrade" else "1.0.0")
    assert commands.status(env).drifted == ()
    assert schemamig("ledger", "verify", "--env", env.location.uri)["findings"] == []


def duration_of_import() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "airflow_provider_schemamig.cli.main", "--version"], cwd=ROOT, check=True, capture_output=True)
    return time.monotonic() - started


@pytest.mark.parametrize("server", ["S3"], indirect=True)
@pytest.mark.parametrize(
    "wrong, uri, kind",
    [
        ({"aws_region": "eu-west-1"}, "s3://bucket/lake", WrongRegion),
        ({"aws_secret_access_key": "another"}, "s3://bucket/lake", StorageForbidden),
        ({"aws_access_key_id": "nobody"}, "s3://bucket/lake", StorageForbidden),
        ({}, "s3://nobucket/lake", BucketMissing),
    ],
    ids=["region", "secret", "key", "bucket"],
)
def test_a_real_server_refuses_in_words_of_ours(
    wrong: Mapping[str, str], uri: str, kind: type[SchemamigError], server: ObjectServer
) -> None:
    store = open_store(Location.parse(uri), StorageOptions({**server.options, **wrong}))
    for ask in (lambda: store.get("a"), lambda: store.names("a"), lambda: store.put_if_absent("a", b"1")):
        with pytest.raises(kind):
            ask()


def test_a_real_server_is_fit_for_a_log(server: ObjectServer) -> None:
    store = open_store(Location.parse(f"{server.uri}/lake"), StorageOptions())
    probe_put_if_absent(store, "_schemamig")
    assert store.names("_schemamig") == []
    for name in ("0", "1", "2"):
        store.put_if_absent(f"log/{name}", b"x")
    assert [store.names("log", start_after=name) for name in ("0", "15", "2")] == [["1", "2"], ["2"], []]
    with pytest.raises(ObjectExists):
        store.put_if_absent("log/2", b"y")
