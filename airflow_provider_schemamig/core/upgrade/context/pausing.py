"""Where a pause holds an upgrade: inside the appends that promote it, announce what it does to live tables, and commit it.

So a pause is exact: what is in the ledger before such an append is never passed by. Between the seals and the commit nobody waits, for
writers do: until the cut-over's own commits are announced the tables are unsealed; from then on it goes on to the commit, as near as
the way back.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_schemamig.core.ledger.rows import DeploymentState, IntentKind
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.release.merge.chain import Create
from airflow_provider_schemamig.core.transfer.throttle import check_not_paused
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan

#: Raises if an append on this state may not be made.
Allow = Callable[[State], None]


def always(state: State) -> None:
    """Allow appends that nobody holds."""


def unless_paused(leader: LeaderView, stage: str) -> Allow:
    """Return a check that raises Paused if somebody paused a collection of the plan, or all.

    It does not once the cut-over's own commits were announced.
    """
    names = collections_of(leader.plan)

    def allow(state: State) -> None:
        if not _is_past_return(leader, state):
            check_not_paused(state, stage, names)

    return allow


def collections_of(plan: Plan) -> frozenset[CollectionName]:
    """Return all that the plan is about, by the names of before and after."""
    found = {step.collection for step in plan.target.steps}
    return frozenset(found | {step.old.name for step in plan.target.steps if not isinstance(step, Create)})


def _is_past_return(leader: LeaderView, state: State) -> bool:
    return any(
        intent.kind is IntentKind.CUTOVER and (intent.generation, intent.epoch) == (leader.generation, leader.epoch)
        for intent in state.intents.values()
    )


def has_ended(state: State, generation: Generation) -> bool:
    """Return whether the generation was given up, was rolled back, or another one leads: whoever waits in its name may stop."""
    found, row = state.deployments.get(generation), state.leader
    over = found is None or found.state in (DeploymentState.ROLLED_BACK, DeploymentState.CANCELLED)
    return over or (row is not None and row.generation > generation)
