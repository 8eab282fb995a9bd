"""Which function runs the stages of a kind, task by task: a kind that is planned and that nothing runs fails a test.

A function takes all stages of its kinds at once: tables are looked at and committed to side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec

from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.execute.contract import contract_due
from airflow_provider_schemamig.core.upgrade.execute.cutover import cut_over
from airflow_provider_schemamig.core.upgrade.execute.expand import create_tables, end_planned_holds, expand_tables, settle_first
from airflow_provider_schemamig.core.upgrade.execute.online import change_online
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.prepare.fill import BUILDERS, Jobs

P = ParamSpec("P")
#: By kind of stage, the function that gets those of the plan, as the ledger now leaves them to be run.
Executors = Mapping[type[s.Stage], Callable[Concatenate[LeaderWriter, Sequence[Any], P], None]]

EXPAND: Executors[[Jobs]] = {
    s.Settle: settle_first,
    s.EndHold: end_planned_holds,
    s.CreateShard: create_tables,
    s.Expand: expand_tables,
}
CHANGE: Executors[[Jobs, Sequence[str] | None]] = {s.Online: change_online}
#: All or nothing, in one ledger append.
CUT_OVER: Executors[[Jobs]] = {s.Seal: cut_over, s.CutOver: cut_over, s.Commit: cut_over}
#: They go by what holds wrote down at their commit, of this generation and of others: a later release may have other names for it.
CONTRACT: Mapping[type[s.Stage], Callable[[LeaderWriter, Generation | None, bool, bool], None]] = {
    s.Contract: contract_due,
    s.Retire: contract_due,
}

#: All kinds, by task. ``preflight`` has those of ``prepare``, which ``tail`` and the cut-over use again.
EXECUTORS: Mapping[str, Mapping[type[s.Stage], Callable[..., object]]] = {
    "preflight": BUILDERS,
    "expand": EXPAND,
    "change": CHANGE,
    "cutover": CUT_OVER,
    "contract": CONTRACT,
}


def run_stages(executors: Executors[P], leader: LeaderWriter, *args: P.args, **options: P.kwargs) -> None:
    """Run a task's functions in their order, each with the stages of its kinds; one that has none is left out.

    Nothing is run once the release is committed, also by another process meanwhile.
    """

    def run_all() -> None:
        for run in dict.fromkeys(executors.values()):
            stages = leader.stages(*(kind for kind, found in executors.items() if found is run))
            if stages:
                run(leader, stages, *args, **options)

    until_committed(leader, run_all)


def until_committed(leader: LeaderWriter, run: Callable[[], object]) -> None:
    """Run what is done already once the release is committed: by a twin, or before an answer was lost."""
    if leader.deployment.state is DeploymentState.COMMITTED:
        return
    with leader.until(leader.is_committed):
        run()
    leader.deployment = leader.state.deployments[leader.generation]
