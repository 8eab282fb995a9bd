"""Rewrites of tables that are compacted all the while: by others, and by Delta after each statement of ours, under its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import COLLECTIONS, Rewritten, jobs, make_rewritten
from tests.support.rows.tables import optimize, snapshot


@pytest.fixture
def found(tmp_path: Path) -> Rewritten:
    return make_rewritten(tmp_path)


class Others:
    """Before each job they write, and compact what is not sealed."""

    def __init__(self, found: Rewritten) -> None:
        self.found, self.times = found, 0

    def __call__(self, job: str, request: Mapping[str, Any]) -> None:
        self.times += 1
        for name in COLLECTIONS:
            if not snapshot(self.found.path(name)).sealed:
                optimize(self.found.path(name))
        if self.times in (2, 5, 9):
            self.found.write_all(self.times)
            for name in COLLECTIONS:
                if not snapshot(self.found.path(name)).sealed:
                    optimize(self.found.path(name))


def compacting(found: Rewritten) -> RowJobs:
    runner = jobs()
    runner.compacts, runner.before = True, Others(found)
    return runner


def test_rewrite_compaction_there_and_back(found: Rewritten) -> None:
    commands.upgrade(found.env, found.lake.second, jobs=compacting(found))
    found.check("1.1.0")
    found.write_all(3)
    for name in COLLECTIONS:
        optimize(found.path(name))
    commands.rollback(found.env, jobs=compacting(found))
    found.check("1.0.0")
