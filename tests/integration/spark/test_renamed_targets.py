"""A release of the target exchanges names between a stream's look and its statement, which Delta skips then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner, Job
from tests.support.replicas import Replicas
from tests.unit.replication.races.test_renamed_meanwhile import KEYS, about_to_bring

pytestmark = pytest.mark.spark


@dataclass
class UpgradedMeanwhile:
    """Spark, which runs the first statement once the target has the next release."""

    two: Replicas
    jobs: EmbeddedRunner
    ran: list[str] = field(default_factory=list)

    def run(self, job: Job, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.ran:
            self.two.upgrade("b", to=2, end_hold=False)
        self.ran.append(job)
        return self.jobs.run(job, request)


@pytest.mark.some(1, of="flows of Spark")
@KEYS
def test_a_statement_planned_after_a_target_exchanged_names_writes_nothing(tmp_path: Path, key: str) -> None:
    two = about_to_bring(tmp_path, key)
    jobs = UpgradedMeanwhile(two, EmbeddedRunner())
    assert two.state("a", "b", jobs=lambda: jobs).error is None
    assert jobs.ran == ["apply", "apply"]
    assert two.declared_rows("b") == [{"id": number, "u": "V", "v": "U"} for number in (1, 2)]
