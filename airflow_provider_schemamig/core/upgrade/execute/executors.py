"""Which function runs the stages of a kind, task by task: a kind that is planned and that nothing runs fails a test.

A function that stands beside several kinds runs them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec

from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.execute.contract import contract_due
from airflow_provider_schemamig.core.upgrade.execute.cutover import cut_over
from airflow_provider_schemamig.core.upgrade.execute.expand import create_tables, end_planned_holds, expand_tables, settle_first
from airflow_provider_schemamig.core.upgrade.execute.online import change_online
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.prepare.fill import BUILDERS, Jobs

P = ParamSpec("P")
Executors = Mapping[type[s.Stage], Callable[P, None]]

EXPAND: Executors[[LeaderWriter, Jobs]] = {
    s.Settle: settle_first,
    s.EndHold: end_planned_holds,
    s.CreateShard: create_tables,
    s.Expand: expand_tables,
}
CHANGE: Executors[[LeaderWriter, Jobs, Sequence[str] | None]] = {s.Online: change_online}
#: All or nothing, in one ledger append.
CUT_OVER: Executors[[LeaderWriter, Jobs]] = {s.Seal: cut_over, s.CutOver: cut_over, s.Commit: cut_over}
#: They go by what holds wrote down at their commit: a later release may have other names for it.
CONTRACT: Executors[[LeaderWriter, Generation | None, bool, bool]] = {s.Contract: contract_due, s.Retire: contract_due}

#: All kinds, by task. ``preflight`` has those of ``prepare``, which ``tail`` and the cut-over use again.
EXECUTORS: Mapping[str, Mapping[type[s.Stage], Callable[..., object]]] = {
    "preflight": BUILDERS,
    "expand": EXPAND,
    "change": CHANGE,
    "cutover": CUT_OVER,
    "contract": CONTRACT,
}


def run_stages(executors: Executors[P], *args: P.args, **options: P.kwargs) -> None:
    """Run each of a task's functions once, in their order."""
    for run in dict.fromkeys(executors.values()):
        run(*args, **options)
