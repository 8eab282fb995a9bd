"""Handles of one process that sign the same node on and off: by threads at one time, in a forked process, over a link."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from tests.support.lake import Lake
from tests.support.upgrades import two_releases


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, "CREATE TABLE t (id BIGINT, x INT);", "CREATE TABLE t (id BIGINT);", 'evolution("t", drop=["x"])')


def nodes(lake: Lake) -> list[str]:
    return [node["id"] for node in commands.status(lake.env).document["nodes"]]


def at_heartbeat(lake: Lake, when: str, act: Callable[[], None]) -> Environment:
    """The environment, in which ``act`` happens once, before or after a heartbeat is written or removed."""
    todo = [act]

    def hook(moment: str, what: str, key: str) -> None:
        if moment == when and "nodes" in key and todo:
            todo.pop()()

    return replace(lake.env, on_write=hook)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_node_stays_signed_on_whose_other_handle_ends_beside_it(lake: Lake, when: str) -> None:
    first = lake.env.reader("t", release="1.0.0", node="job")
    second = at_heartbeat(lake, when, first.close).reader("t", release="1.0.0", node="job")
    assert nodes(lake) == ["job"]
    second.close()
    assert nodes(lake) == []


def test_a_forked_process_signs_on_also_where_a_thread_of_its_parent_was_signing_off(lake: Lake) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        goes_on.wait()

    reader = lake.env.reader("t", release="1.0.0", node="thread")
    reader._lease.env = at_heartbeat(lake, "before", wait)
    thread = threading.Thread(target=reader.close)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        with lake.env.reader("t", release="1.0.0", node="child"):
            os._exit(0 if "child" in nodes(lake) else 1)
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    goes_on.set()
    thread.join()
    if ended == (0, 0):
        os.kill(child, 9)
    assert ended == (child, 0)


@pytest.mark.parametrize("closes", [["copy"], ["own"], ["copy", "own"], ["own", "copy"]], ids=" then ".join)
def test_a_forked_process_that_signs_off_leaves_its_parent_signed_on(lake: Lake, closes: list[str]) -> None:
    with lake.env.reader("t", release="1.0.0", node="job") as reader:
        child = os.fork()
        if child == 0:
            for handle in closes:
                (lake.env.reader("t", release="1.0.0", node="job") if handle == "own" else reader).close()
            os._exit(0)
        os.waitpid(child, 0)
        assert nodes(lake) == ["job"]
    assert nodes(lake) == []


def test_a_lake_over_a_link_is_the_same_lake(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(str(lake.env.location.local_path))
    with lake.env.reader("t", release="1.0.0", node="job"):
        with Environment.open(str(tmp_path / "link")).reader("t", release="1.0.0", node="job"):
            pass
        assert nodes(lake) == ["job"]
    assert nodes(lake) == []
