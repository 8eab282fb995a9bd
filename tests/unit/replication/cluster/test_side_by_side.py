"""Streams are looked at side by side, which takes requests; what Spark has to do, it does for one after the other."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core.replication import stream_worker, watch
from airflow_provider_schemamig.core.replication.model import Stream, StreamSettings
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.replicas import make_replicas
from tests.support.rows.jobs import RowJobs

COLLECTIONS = ("lines", "trips")


@pytest.mark.parametrize("looks", ["replicate", "watch"])
def test_a_stream_does_not_wait_for_the_look_at_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: str) -> None:
    two, together = make_replicas(tmp_path), threading.Barrier(len(COLLECTIONS), timeout=20)
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b", *COLLECTIONS)
    module: Any = stream_worker if looks == "replicate" else watch
    read = module.read_state

    def with_the_other(env: EnvironmentRoot, stream: Stream) -> Any:
        together.wait()  # never all there, if one is looked at after the other
        return read(env, stream)

    monkeypatch.setattr(module, "read_state", with_the_other)
    if looks == "replicate":
        assert not two.bring("a", "b", *COLLECTIONS).paused
    else:
        assert not watch.look(two.env("a"), two.env("b"), COLLECTIONS, StreamSettings(), pendulum.now("UTC")).due


def test_spark_works_for_one_stream_after_the_other(tmp_path: Path) -> None:
    """In the thread that was called: it is the one that hears Ctrl-C."""
    two, threads = make_replicas(tmp_path), list[int]()
    two.insert("a", {"id": 1, "v": "x"})
    two.insert("a", {"line": "l", "n": 1}, collection="lines")
    jobs = RowJobs({}, before=lambda job, request: threads.append(threading.get_ident()))
    two.bring("a", "b", *COLLECTIONS, jobs=jobs)
    assert set(threads) == {threading.get_ident()}
    assert len(threads) >= len(COLLECTIONS)
    assert [two.rows("b", name) for name in COLLECTIONS] == [two.rows("a", name) for name in COLLECTIONS]
