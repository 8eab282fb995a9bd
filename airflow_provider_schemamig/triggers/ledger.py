"""Triggers that look at one environment, its ledger or its tables, until something is so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pendulum

from airflow_provider_schemamig import concurrent_runs
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.triggers.base import LookingTrigger


class EnvironmentTrigger(LookingTrigger):
    """Base of those that look at one environment.

    :param environment: connection id or URI.
    """

    def __init__(self, environment: str, poll_interval: float, deadline: float) -> None:
        super().__init__(poll_interval, deadline)
        self.environment = environment

    def arguments(self) -> dict[str, Any]:
        return {"environment": self.environment, **super().arguments()}


class ArrivalTrigger(EnvironmentTrigger):
    """Waits until the environment is at release ``version`` or a later one."""

    def __init__(self, environment: str, poll_interval: float, deadline: float, version: str) -> None:
        super().__init__(environment, poll_interval, deadline)
        self.version = version

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "version": self.version}

    @property
    def awaited(self) -> str:
        return f"release {self.version} or a later one"

    def look(self) -> bool:
        from airflow_provider_schemamig.core.ledger.store import LedgerReader
        from airflow_provider_schemamig.core.names import Version
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        wanted = Version.parse(self.version)
        state = LedgerReader(SchemamigHook(self.environment).environment).state_or_none()
        release = None if state is None else state.release
        return release is not None and release.version >= wanted


class DriftTrigger(EnvironmentTrigger):
    """Waits until a live table differs from what the ledger recorded."""

    @property
    def awaited(self) -> str:
        return "a table that is not what the ledger records"

    def look(self) -> bool:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        return bool(commands.status(SchemamigHook(self.environment).environment).drifted)


class PromotionTrigger(EnvironmentTrigger):
    """Waits until the plan of ``generation`` is approved in the ledger."""

    def __init__(self, environment: str, poll_interval: float, deadline: float, generation: Generation) -> None:
        super().__init__(environment, poll_interval, deadline)
        self.generation = generation

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "generation": self.generation}

    @property
    def awaited(self) -> str:
        return f"an approval of generation {self.generation} in the ledger"

    def look(self) -> bool:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        return commands.approved(SchemamigHook(self.environment).environment, self.generation)


class TailTrigger(EnvironmentTrigger):
    """Waits until there is something to follow, or nothing any more: a commit came, the generation waits no longer, the task that promotes
    has ended.

    :param generation: whose copies are followed.
    :param collections: the rewritten collections.
    :param promotes: DAG id, run id and task id of the task that promotes, and its key (``TaskOfRun``); none: the ledger alone decides.
    """

    def __init__(
        self,
        environment: str,
        poll_interval: float,
        deadline: float,
        generation: int,
        collections: Sequence[str],
        promotes: Sequence[str] = (),
    ) -> None:
        super().__init__(environment, poll_interval, deadline)
        self.generation = generation
        self.collections = list(collections)
        self.promotes = list(promotes)

    def arguments(self) -> dict[str, Any]:
        own = {"generation": self.generation, "collections": self.collections, "promotes": self.promotes}
        return {**super().arguments(), **own}

    @property
    def awaited(self) -> str:
        return f"commits on {', '.join(self.collections)}"

    def look(self) -> bool:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        env, generation = SchemamigHook(self.environment).environment, Generation(self.generation)
        if not commands.followed(env, generation, self.collections):
            return True
        if self.promotes and concurrent_runs.has_ended(*self.promotes):
            return True
        return bool(commands.behind(env, generation, self.collections))


class PauseTrigger(EnvironmentTrigger):
    """Waits until what a person told a task to wait for is over, or the task's generation is.

    :param scopes: of the controls that hold it.
    :param hours: whether their hours hold it, too.
    :param generation: the one that the task works on; None: it looks for itself.
    """

    def __init__(
        self, environment: str, poll_interval: float, deadline: float, scopes: Sequence[str], hours: bool, generation: int | str | None
    ) -> None:
        super().__init__(environment, poll_interval, deadline)
        self.scopes = list(scopes)
        self.hours = hours
        self.generation = None if generation is None else int(generation)

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "scopes": self.scopes, "hours": self.hours, "generation": self.generation}

    @property
    def awaited(self) -> str:
        return "the end of what a person told it to wait for"

    def look(self) -> bool:
        from airflow_provider_schemamig.core.ledger.store import LedgerReader
        from airflow_provider_schemamig.core.transfer.throttle import is_over
        from airflow_provider_schemamig.core.upgrade.context.pausing import has_ended
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        state = LedgerReader(SchemamigHook(self.environment).environment).state()
        if self.generation is not None and has_ended(state, Generation(self.generation)):
            return True
        return is_over(state, self.scopes, pendulum.now("UTC") if self.hours else None)


class TurnTrigger(EnvironmentTrigger):
    """Waits until the run before has ended, or its generation is open no more.

    :param generation: the one that the run before has open.
    :param dag_id: of the run before.
    :param run_id: of the run before.
    """

    def __init__(self, environment: str, poll_interval: float, deadline: float, generation: int, dag_id: str, run_id: str) -> None:
        super().__init__(environment, poll_interval, deadline)
        self.generation = generation
        self.dag_id = dag_id
        self.run_id = run_id

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "generation": self.generation, "dag_id": self.dag_id, "run_id": self.run_id}

    @property
    def awaited(self) -> str:
        return f"the end of run {self.run_id} of {self.dag_id}, or of its generation {self.generation}"

    def look(self) -> bool:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        claims = commands.open_claims(SchemamigHook(self.environment).environment)
        return self.generation not in [generation for generation, _ in claims] or not concurrent_runs.is_active(self.dag_id, self.run_id)
