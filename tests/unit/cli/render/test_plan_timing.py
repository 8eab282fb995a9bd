"""What a checked plan says of the time that it takes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from airflow_provider_schemamig.cli.render.plan import _timing
from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.upgrade.plan.estimate import Timing
from airflow_provider_schemamig.core.upgrade.plan.explain import Explanation


class _Stage:
    def __init__(self, kind: str) -> None:
        self.kind, self.cost = kind, Cost.ONLINE


@pytest.mark.parametrize(
    ("kinds", "shown"),
    [
        (["expand", "commit"], "No row would be read or written."),
        (["expand", "change", "commit"], "Nothing would be copied; how long the online changes take is not estimated."),
    ],
    ids=["instant", "online"],
)
def test_rows_that_an_online_change_fills_are_not_denied(kinds: list[str], shown: str) -> None:
    stages = [cast(Explanation, cast(Any, _Stage(kind))) for kind in kinds]
    assert _timing(Timing(checked_seconds=0.2, rows=0, rows_per_second=None), stages) == f"Checked in 0.2 s. {shown}"
