"""Spark's part without Spark: a fill writes one row a row of its inputs, a preflight finds what it was told to find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from airflow_provider_schemamig.core.spark.runners import Job, JobRunner
from tests.support.lake import rows
from tests.support.tables import foreign


@dataclass
class FakeJobs(JobRunner):
    """``row`` is what a fill writes. ``asked``: all requests, in order."""

    row: Mapping[str, Any] = field(default_factory=dict)
    violations: Sequence[Mapping[str, Any]] = ()
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    #: Delta runs an OPTIMIZE after each fill, under its settings.
    compacts: bool = False

    def __call__(self) -> FakeJobs:
        return self

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((job, request))
        return self._fill(request) if job == "fill" else self._preflight(request)

    def cancel(self) -> None:
        """It runs nothing that could be stopped."""

    @property
    def fills(self) -> list[str]:
        return [request["mode"] for job, request in self.asked if job == "fill"]

    def _preflight(self, request: Mapping[str, Any]) -> dict[str, Any]:
        sizes = [{"rows": len(rows(_path(wanted["uri"]))), "bytes": 1, "files": 1} for wanted in request["estimates"]]
        return {"unusable": [], "violations": list(self.violations) if request["checks"] else [], "estimates": sizes}

    def _fill(self, request: Mapping[str, Any]) -> dict[str, Any]:
        count = sum(len(rows(_path(source["uri"]))) for source in request["inputs"].values())
        shard = _path(request["shard_uri"])
        version = foreign.write(shard, [self.row] * count, overwrite=request["mode"] == "overwrite", says=request["user_metadata"])
        if self.compacts:
            foreign.compact(shard, request["user_metadata"])
        inputs = {source["shard"]: source["version"] for source in request["inputs"].values()}
        return {"rows": count, "table_version": version, "inputs": inputs, "skipped": False}


def _path(uri: str) -> Path:
    return Path(urlparse(uri).path)
