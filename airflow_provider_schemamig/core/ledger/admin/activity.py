"""Is anybody at work in this environment? What ``ledger edit`` and ``delete`` look at first.

Nobody can prove that nobody is: a writer without a node id and a leader between two appends leave no trace. So these are signs, in words,
and an edit is compare-and-append in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pendulum

from airflow_provider_schemamig.core.ledger.codec import RawRow, decode, row_type_of
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.fold import sums
from airflow_provider_schemamig.core.ledger.objects.nodes import heartbeats
from airflow_provider_schemamig.core.ledger.rows import Approval, Deployment, DeploymentState, Hold, HoldState, Intent, Progress
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import minute

#: A claim whose last trace is older waits for nobody (a copy or a tail writes its progress every 30 s, a gate asks a person).
RECENT = pendulum.duration(hours=1)

#: What can tell of somebody at work.
_TELLING = (Deployment, Approval, Progress, Hold, Intent)

R = TypeVar("R")


def active_parties(env: EnvironmentRoot, rows: Sequence[RawRow], now: pendulum.DateTime) -> tuple[str, ...]:
    """Return the signs that somebody uses the environment, in words; nothing if there are none.

    Signs are nodes whose lease runs, deployments that are promoted or were claimed lately, holds that are changing state, and open
    intents. ``rows``: all stored updates. What cannot be read counts as alive. Raises storage errors.
    """
    current = _CurrentRows(rows)
    found = [*_nodes(env, now), *_deployments(current, now), *_holds(current), *_intents(current)]
    return (*found, *current.unreadable)


class _CurrentRows:
    """The rows that stand, by type; those that cannot be read are collected as signs."""

    def __init__(self, rows: Sequence[RawRow]) -> None:
        self._rows: dict[type[Any], list[Any]] = {}
        self.unreadable: list[str] = []
        for (collection, key, value), count in sums(rows).items():
            row_type = row_type_of(collection, key)
            if count > 0 and row_type in _TELLING:
                self._add(row_type, key, value)

    def _add(self, row_type: type[Any], key: str, value: str) -> None:
        try:
            self._rows.setdefault(row_type, []).append(decode(row_type, key, value))
        except LedgerDamaged:
            self.unreadable.append(f"{row_type.COLLECTION} {key} cannot be read, so whether it is at work is not known")

    def of(self, row_type: type[R]) -> list[R]:
        return self._rows.get(row_type, [])


def _nodes(env: EnvironmentRoot, now: pendulum.DateTime) -> Iterator[str]:
    for node in heartbeats(env):
        if isinstance(node, LedgerDamaged):
            yield f"{node.where} cannot be read, so whether that node lives is not known"
        elif node.lease_until > now:
            yield f"{node.kind} {node.node_id} of release {node.release} has a lease until {minute(node.lease_until)}"


def _deployments(current: _CurrentRows, now: pendulum.DateTime) -> Iterator[str]:
    last = {deployment.generation: deployment.created_at for deployment in current.of(Deployment)}
    for approval in current.of(Approval):
        last[approval.generation] = max(approval.approved_at, last.get(approval.generation, approval.approved_at))
    for progress in current.of(Progress):
        last[progress.generation] = max(progress.updated_at, last.get(progress.generation, progress.updated_at))
    for deployment in current.of(Deployment):
        at = last[deployment.generation]
        if deployment.state is DeploymentState.PROMOTED:
            yield f"generation {deployment.generation} is promoted and not committed"
        elif deployment.state is DeploymentState.CLAIMED and now - at < RECENT:
            yield f"generation {deployment.generation} is claimed, its last trace is of {minute(at)}"


def _holds(current: _CurrentRows) -> Iterator[str]:
    for hold in current.of(Hold):
        if hold.state in (HoldState.ROLLING_BACK, HoldState.CONTRACTING):
            yield f"the hold of generation {hold.generation} is {hold.state}"


def _intents(current: _CurrentRows) -> Iterator[str]:
    for intent in current.of(Intent):
        if intent.done_version is None:
            yield f"the {intent.kind} of {intent.collection} by generation {intent.generation} is open"
