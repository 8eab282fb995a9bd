"""The driver's side of the exchange without Spark: when it ends by itself, and what it makes of half a document."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core.spark.driver import job
from airflow_provider_schemamig.core.spark.driver.exchange import TASK, UNSEEN, UNSEEN_TEXT


class Ended(Exception):
    """In the place of the process's end."""


class WaitLog:
    """The task as the driver sees it: what it does before each look."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / TASK
        self.folder = job._Folder(SimpleNamespace(), folder.as_uri())  # type: ignore[arg-type]
        self.count = 0
        self.ends_with = job.GONE
        self.cancelled: list[str] = []
        monkeypatch.setattr(os, "_exit", self._exit)

    def beat(self, number: int) -> None:
        self.path.write_text(json.dumps({"beat": number}))

    def until_ended(self, monkeypatch: pytest.MonkeyPatch, before_look: Any) -> int:
        """How many looks it took."""

        def sleep(seconds: float) -> None:
            self.count += 1
            assert self.count < 200, "it goes on for ever"
            before_look(self.count)

        monkeypatch.setattr(job, "time", SimpleNamespace(sleep=sleep))
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=lambda: self.cancelled.append("all")))
        with pytest.raises(Ended, match=str(self.ends_with)):
            job._end_with_task(spark, self.folder)
        assert self.cancelled == ["all"]
        return self.count

    def _exit(self, code: int) -> None:
        raise Ended(str(code))


@pytest.fixture
def wait_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WaitLog:
    found = WaitLog(tmp_path, monkeypatch)
    found.beat(0)
    return found


def test_a_driver_goes_on_while_its_task_counts_and_ends_some_looks_after(wait_log: WaitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    beats = 50
    assert wait_log.until_ended(monkeypatch, lambda look: wait_log.beat(min(look // 3, beats))) == 3 * beats + 1 + job._LOOKS


def test_a_driver_ends_at_the_next_look_when_its_task_took_the_folder_away(wait_log: WaitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_log.until_ended(monkeypatch, lambda look: wait_log.path.unlink() if look == 3 else None) == 3


def test_a_driver_that_never_saw_its_task_says_so(
    wait_log: WaitLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_log.path.unlink()
    wait_log.ends_with = UNSEEN
    assert wait_log.until_ended(monkeypatch, lambda look: None) == 0
    assert capsys.readouterr().out.strip() == UNSEEN_TEXT


def test_a_driver_has_patience_with_a_folder_that_cannot_be_read(wait_log: WaitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(name: str) -> Any:
        if wait_log.count < job._LOOKS - 1:
            raise OSError("the store does not answer")
        return {"beat": wait_log.count} if wait_log.count < 100 else None

    monkeypatch.setattr(wait_log.folder, "read", unreadable)
    assert wait_log.until_ended(monkeypatch, lambda look: None) > 100


def test_half_a_document_is_none_yet(wait_log: WaitLog) -> None:
    whole = json.dumps({"job": "fill", "request": {"query": "SELECT 'ü'"}})
    wait_log.path.write_text(whole[:-1])
    assert wait_log.folder.read(TASK) is None
    wait_log.folder.write(TASK, json.loads(whole))
    assert wait_log.folder.read(TASK) == json.loads(whole)
    assert wait_log.folder.read("request-2.json") is None
    assert [path.name for path in wait_log.path.parent.iterdir()] == [TASK]


@pytest.mark.parametrize(
    ("cores", "given", "shuffle", "snapshot"),
    [
        (1, {}, "16", "2"),
        (10, {}, "80", "10"),
        (1000, {}, "200", "50"),
        (10, {"spark.sql.shuffle.partitions": "3"}, None, "10"),
        (2, {"spark.dynamicAllocation.enabled": "true"}, None, None),
        (2, {"spark.dynamicAllocation.enabled": "false"}, "16", "2"),
    ],
)
def test_as_many_tasks_as_suit_the_cores_unless_somebody_says_how_many(
    cores: int, given: dict[str, str], shuffle: str | None, snapshot: str | None
) -> None:
    put: dict[str, str] = {}
    conf = SimpleNamespace(contains=given.__contains__, get=given.get)
    context = SimpleNamespace(getConf=lambda: conf, defaultParallelism=cores)
    spark: Any = SimpleNamespace(sparkContext=context, newSession=lambda: SimpleNamespace(conf=SimpleNamespace(set=put.__setitem__)))
    job._Serving(spark, SimpleNamespace())._session()  # type: ignore[arg-type]
    assert (put.get("spark.sql.shuffle.partitions"), put.get("spark.databricks.delta.snapshotPartitions")) == (shuffle, snapshot)
    assert put["spark.databricks.delta.delta.log.cacheSize"] == "64"
    assert put["spark.sql.ansi.enabled"] == "true"
