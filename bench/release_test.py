"""Benchmark of ``schemamig test``: how long the author of a long history waits until every upgrade path was taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.testing.rows.fixtures import write_fixtures
from bench.release import SCHEMAMIG, write_history
from bench.tools.measure import run
from bench.tools.table import Row, cell

VERSIONS, COLLECTIONS = 100, 20


def take_paths(folder: Path) -> Iterator[Row]:
    """Every path of 100 versions of 20 collections, each of which changes one collection; no JVM."""
    history = folder / "history"
    write_history(history, VERSIONS, COLLECTIONS)
    write_fixtures(load_checked(history))
    usage = run([SCHEMAMIG, "test", "--release", str(history), "--spark", "none", "--json"])
    answer = json.loads(usage.output)
    paths = len(answer["paths"])
    assert answer["counts"] == {"passed": paths, "failed": 0, "needs_spark": 0}
    yield Row(
        f"test, {VERSIONS} versions x {COLLECTIONS} collections: {paths} paths",
        cell("{:.1f} s wall, {:.1f} s CPU of all processes, {:.0f} MiB", usage.wall_s, usage.cpu_s, usage.peak_mib),
        ratio=cell("{:.2f} s CPU a path", usage.cpu_s / paths),
        goal="60 s on 2 cores",
    )
