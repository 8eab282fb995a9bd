"""Processes that race and processes that are killed: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_schemamig.core.ledger import file_lock, store
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.unit.ledger.samples import commit_ids, counter, elsewhere

PROCESSES = 8
KILLS = 30
COUNTER = CollectionName("counter")
ROOT = Path(__file__).parents[3]


def start(lake: Path, name: str, journal: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.unit.ledger.racer", str(lake), name, str(journal), *options]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TOKIO_WORKER_THREADS": "1"}, stdin=subprocess.PIPE)


def finish(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0] * len(processes)


def lines(journal: Path, word: str) -> list[list[str]]:
    text = journal.read_text() if journal.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a killed process may leave half a line
    return [line.split()[1:] for line in whole.splitlines() if line.startswith(word)]


def wait_for(journal: Path, word: str, count: int = 1) -> None:
    deadline = time.monotonic() + 60
    while len(lines(journal, word)) < count:
        assert time.monotonic() < deadline, f"{journal.name}: no {word!r}"
        time.sleep(0.01)


def account(lake: Path, journals: list[Path]) -> State:
    """Each acknowledged append is where it was said to be; each commit was sent by somebody, once; the counter missed none."""
    reader = LedgerReader(EnvironmentRoot.open(str(lake)))
    state = reader.state()
    acknowledged = [(int(version), int(count)) for journal in journals for version, count in lines(journal, "done")]
    tried = Counter(commit_id for journal in journals for (commit_id,) in lines(journal, "try"))
    landed = commit_ids(lake)[1:]

    assert len(set(acknowledged)) == len(acknowledged), "two appends were told the same version"
    assert all(version == count for version, count in acknowledged), "version n is the n-th count"
    assert len(set(landed)) == len(landed) == state.version
    assert set(landed) <= set(tried), "a commit nobody sent"
    assert state.objects[COUNTER].schema_id == state.version, "a count was lost or doubled"
    assert len(state.objects) == state.version + 1, "a row was lost"
    assert {int(count) for _, count in acknowledged} <= {row.schema_id for row in state.objects.values()}
    assert all(finding.code in ("shard_not_live", "schema_missing", "no_release") for finding in verify(reader))
    return state


@pytest.mark.some(1, of="races for the ledger")
def test_eight_processes_race(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    journals = [tmp_path / f"journal{number}" for number in range(PROCESSES)]
    ways = (["--wait"], ["--wait", "--bare"])
    processes = [start(lake, f"racer{number}", journal, *ways[number % 2]) for number, journal in enumerate(journals)]
    for journal in journals:
        wait_for(journal, "ready")
    owners = {owner for journal in journals for (owner,) in lines(journal, "ready")}
    assert len(owners) == 1, "one creator won, and all know it"
    assert len(commit_ids(lake)) == 1

    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    time.sleep(2)
    finish(*processes)

    assert all(lines(journal, "done") for journal in journals), "every writer got its turn"
    state = account(lake, journals)
    assert state.version == sum(len(lines(journal, "done")) for journal in journals), "nobody was killed: landed = acknowledged"
    assert sum(len(lines(journal, "try")) for journal in journals) > state.version + 1, "they did collide"


@pytest.mark.some(1, of="races for the ledger")
@pytest.mark.parametrize("kills_wanted", [3, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_killed_at_any_moment(tmp_path: Path, kills_wanted: int) -> None:
    lake = tmp_path / "lake"
    seed = int(os.environ.get("SCHEMAMIG_TEST_SEED", str(random.randrange(10**6))))
    print(f"SCHEMAMIG_TEST_SEED={seed}")
    chance = random.Random(seed)
    first = tmp_path / "journal"
    process = start(lake, "first", first, "--wait")
    wait_for(first, "ready")
    finish(process)

    journals = [first]
    kills = 0
    running: list[tuple[subprocess.Popen[bytes], Path]] = []
    while kills < kills_wanted:
        while len(running) < 3:
            journal = tmp_path / f"journal{len(journals)}"
            journals.append(journal)
            running.append((start(lake, f"p{len(journals)}", journal, *(["--bare"] if len(journals) % 2 else [])), journal))
        process, journal = running.pop(chance.randrange(len(running)))
        wait_for(journal, "try", chance.randrange(1, 4))
        time.sleep(chance.uniform(0, 0.02))  # about as long as a commit takes
        process.kill()
        process.wait()
        kills += 1
    finish(*(process for process, _ in running))

    state = account(lake, journals)
    acknowledged = sum(len(lines(journal, "done")) for journal in journals)
    assert acknowledged <= state.version <= acknowledged + kills_wanted, "at most one commit in flight per kill"
    # Who is killed between the two steps of a put (stage, link) leaves what it staged; nobody lists that, nor Delta's readers.
    staged = [name for name in (lake / "_schemamig/ledger/_delta_log").iterdir() if name.suffix != ".json"]
    assert len(staged) <= kills_wanted and all(name.suffix == ".tmp" for name in staged), staged


@pytest.mark.parametrize(("uri", "waits"), [("memory://{}/lake", True), ("{}", False)], ids=["an object store", "a disk, which has a lock"])
def test_a_writer_that_appends_again_and_again_leaves_gaps_to_others(
    uri: str, waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wins knows the state, and wins again. Whoever does other things between its appends, as commands do, never waits."""
    now, gaps = [1000.0], list[float]()
    clock = SimpleNamespace(sleep=gaps.append, monotonic=lambda: now[0])
    monkeypatch.setattr(file_lock, "time", clock)
    monkeypatch.setattr(store, "time", clock)

    def takes_time(moment: str, what: str, key: str) -> None:
        now[0] += 0.1 if moment == "before" and what == "ledger" else 0

    env = EnvironmentRoot.open(uri.format(tmp_path if uri == "{}" else tmp_path.name))
    writer = LedgerWriter(replace(env, on_write=takes_time))
    writer.create("one")

    def append(writer: LedgerWriter, times: int, between: float = 0.0) -> int:
        """Return how many gaps it left."""
        gaps.clear()
        for _ in range(times):
            now[0] += between
            writer.transact(lambda state: [Put(counter(state.version))])
        return sum(gap > 0 for gap in gaps)

    assert append(writer, 40, between=0.31) == 0
    assert append(writer, 16) == 0
    assert append(writer, 4) == (4 if waits else 0)
    append(LedgerWriter(elsewhere(env)), 1)
    assert append(writer, 1) == (1 if waits else 0), "of the other's commit it knows as soon as it has read"
    assert append(writer, 15) == 0
    assert append(writer, 1, between=0.31) == 0
    now[0] += 3
    assert append(writer, 20) == (3 if waits else 0)
    now[0] += 3
    assert append(writer, 80, between=0.1) == (3 if waits else 0), "a pause in which nobody else can read and append"
    assert all(gap <= 1 for gap in gaps)
