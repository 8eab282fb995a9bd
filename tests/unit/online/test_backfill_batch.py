"""One batch of a backfill without Spark: its statement and its commit, others at work meanwhile, dying at any write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Epoch, Generation
from airflow_provider_schemamig.core.online.backfill import due_files, fill_batch
from airflow_provider_schemamig.core.online.unfilled import Fill
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.transfer.errors import FilesMoved
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewritten
from tests.support.lake import Crash
from tests.support.tables import foreign
from tests.unit.delta.tables import NAME, fence, remove_file, write
from tests.unit.online.filling import DEFAULT, SHADOW, SINCE, VECTOR, Action, add, play, step, table


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return table(tmp_path / "t")


@dataclass
class Job(JobRunner):
    """The fill job: as many rows as it is told. ``meddle`` runs when the new files are written and not yet committed."""

    rows: int
    meddle: Callable[[], object] = lambda: None
    requests: list[Mapping[str, Any]] = field(default_factory=list)

    def run(self, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
        assert job == "fill"
        self.requests.append(request)
        foreign.write(Path(unquote(urlparse(request["shard_uri"]).path)), [{"id": number, "c": 5} for number in range(self.rows)])
        self.meddle()
        return {"rows": self.rows, "table_version": 1, "skipped": False}

    def cancel(self) -> None:
        """It runs nothing that could be stopped."""


def fill_all(store: Store, fill: Fill, job: Job, on_write: Callable[[str, str, str], None] | None = None) -> list[Rewritten]:
    folder = store.location.local_path
    assert folder is not None
    env = replace(Environment.open(str(folder.parent / "lake")), on_write=on_write)
    own, done = env.table_store(str(folder)), []
    while due := due_files(own, head := read_head(own), fill):
        tag = Tag(Generation(1), Epoch(1), fill.action)
        done.append(fill_batch(env, own, NAME, head, due.batches(9, 10**9)[0], fill, fence(), tag, job)[0])
    return done


def folders(store: Store) -> list[str]:
    return [found.name for found in Path(store.location.local_path or "").glob("schemamig-backfill-*")]


def test_a_batch_is_one_statement_and_one_commit(store: Store) -> None:
    job = Job(20)
    (done,) = fill_all(store, DEFAULT, job)
    assert (done.files, done.rows, done.version) == (2, 20, SINCE + 1)
    (request,) = job.requests
    assert request["query"] == "SELECT `id`, `dep_delay`, (\n0\n) AS `c` FROM schemamig_files"
    commit = read_commit(store, done.version)
    assert DEFAULT.made(commit) and not SHADOW.made(read_commit(store, SINCE))
    assert commit.info["operation"] == "SCHEMAMIG BACKFILL"
    assert commit.info["operationParameters"] == {"column": "c", "since": "2", "files": "2", "schemaOf": "2"}
    assert all(action["dataChange"] for action in (*commit.adds, *commit.removes)), "rows are others now, and streams must see it"
    assert (commit.metadata, commit.protocol) == (None, None), "writers go on"


def test_copies_of_old_rows_keep_the_values_they_have(store: Store) -> None:
    play(store, [step(remove_file("a"), remove_file("b"), add("n", 3))])
    job = Job(10)
    fill_all(store, replace(DEFAULT, expression="0 -- nought"), job)
    assert "coalesce(`c`, (\n0 -- nought\n))" in job.requests[0]["query"]


@pytest.mark.parametrize(
    ("actions", "conflict"),
    [
        ([add("n", 3)], None),
        ([remove_file("a"), add("n", 3)], FilesMoved),
        ([remove_file("a"), add("a", deletionVector=VECTOR)], FilesMoved),
    ],
    ids=["append", "update", "deletion vector"],
)
def test_backfill_batch_what_others_commit_meanwhile(store: Store, actions: Sequence[Action], conflict: type[Exception] | None) -> None:
    job = Job(20, meddle=lambda: write(store, SINCE + 1, *actions))
    if conflict is None:
        assert [done.version for done in fill_all(store, DEFAULT, job)] == [SINCE + 2]
        assert "n" in [file["path"] for file in active_files(store, SINCE + 2).values()]
    else:
        with pytest.raises(conflict):
            fill_all(store, DEFAULT, job)
        assert folders(store) == []


def test_backfill_batch_killed_anywhere(tmp_path: Path) -> None:
    """Before the commit nothing happened, after it nothing is to be done; a rerun needs nothing but the log."""
    moments: list[str] = []
    fill_all(table(tmp_path / "counted"), DEFAULT, Job(20), lambda *moment: moments.append(" ".join(moment)))
    assert len(moments) > 8
    for dies_at in range(len(moments)):
        left = iter(range(len(moments)))

        def dies(*moment: str, left: Iterator[int] = left, dies_at: int = dies_at) -> None:
            if next(left) == dies_at:
                raise Crash

        store = table(tmp_path / str(dies_at) / "t")
        with pytest.raises(Crash):
            fill_all(store, DEFAULT, Job(20), dies)
        assert read_head(store).version in (SINCE, SINCE + 1)
        fill_all(store, DEFAULT, Job(20))
        assert read_head(store).version == SINCE + 1, moments[dies_at]
        assert len(active_files(store, SINCE + 1)) == 1
