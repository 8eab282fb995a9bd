"""Every kind of stage that can be planned has a function that runs it, in one task."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from airflow_provider_schemamig.core.upgrade.execute.executors import EXECUTORS
from airflow_provider_schemamig.core.upgrade.plan import stages as s


def test_every_kind_of_stage_is_run_by_one_task() -> None:
    found = Counter(kind for kinds in EXECUTORS.values() for kind in kinds)
    assert found == Counter(get_args(s.Stage))


def test_tasks_run_the_kinds_in_the_order_of_a_plan() -> None:
    """But for the ends of holds and what was left open, which come first in a plan and wait for the leader."""
    listed = [kind.kind for kinds in EXECUTORS.values() for kind in kinds]
    first = [s.Build.kind, s.Copy.kind]
    assert listed == [*first, *(kind for kind in s.PLAN_KINDS if kind not in first)]
