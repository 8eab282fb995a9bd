"""When work outside of a deployment has to wait."""

from __future__ import annotations

from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, HoldOpen
from airflow_provider_schemamig.core.upgrade.plan.open_holds import open_holds


def no_open_deployment(state: State) -> None:
    """Raises DeploymentOpen while a deployment is promoted and not committed."""
    leader = state.leader
    if leader is not None and state.deployments[leader.generation].state is DeploymentState.PROMOTED:
        raise DeploymentOpen(generation=leader.generation)


def no_open_hold(state: State) -> None:
    """Raises HoldOpen while a release can be rolled back: what its way back may undo hangs on what came to the tables since."""
    for hold in open_holds(state):
        raise HoldOpen(generation=hold.generation, until=hold.until)
