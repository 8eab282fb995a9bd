"""Something that happens to a table between a Spark job and the commit that follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner


class Meddling(EmbeddedRunner):
    """Something happens to the table, once, when the new files are written and not yet committed."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        super().__init__()
        self._meddle: Callable[[], object] | None = meddle

    def __call__(self) -> Meddling:
        return self

    def run(self, job: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        done = super().run(job, request)
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            meddle()
        return done
