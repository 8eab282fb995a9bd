"""Triggers that look at an environment until something is so, or until their own deadline.

The deadline is part of the trigger, because Airflow enforces a deferral's timeout only in the scheduler's sweep and not at all in
``airflow dags test``. A trigger says no more than "look again" or "too late": the task that resumes looks for itself, so what an
answer means, and every typed error, is decided in one place. Credentials are read by the hook where the trigger runs; they are not
among the trigger's arguments, which Airflow stores.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.exceptions import Conflict, SchemamigError

LOOK, DEADLINE = "look", "deadline"


class EnvironmentTrigger(BaseTrigger):
    """Base: looks every ``poll_interval`` seconds until ``deadline`` (seconds since the epoch, absolute over deferrals).

    :param environment: connection id or URI.
    """

    def __init__(self, environment: str, poll_interval: float, deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.environment = environment
        self.poll_interval = poll_interval
        self.deadline = deadline

    def arguments(self) -> dict[str, Any]:
        """The arguments this trigger is made again from; subclasses add theirs."""
        return {"environment": self.environment, "poll_interval": self.poll_interval, "deadline": self.deadline}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments()

    def look(self) -> bool:
        """Whether what is waited for is so. Blocking; raises typed errors."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            try:
                answer = await asyncio.to_thread(self.look)
            except Conflict as conflict:
                self.log.info("Looking again later: %s", conflict)
                answer = False
            except SchemamigError as error:
                self.log.info("The task will see it too: %s", error)
                answer = True
            if answer:
                yield self._event(LOOK)
                return
            left = self.deadline - time.time()
            if left <= 0:
                yield self._event(DEADLINE)
                return
            await asyncio.sleep(min(self.poll_interval, left))

    def _event(self, status: str) -> TriggerEvent:
        # The deadline goes back to the task: what is seen and gone again must not start the wait anew.
        return TriggerEvent({"status": status, "deadline": self.deadline})  # type: ignore[no-untyped-call]


class ArrivalTrigger(EnvironmentTrigger):
    """Waits until the environment is at release ``version`` or a later one."""

    def __init__(self, environment: str, poll_interval: float, deadline: float, version: str) -> None:
        super().__init__(environment, poll_interval, deadline)
        self.version = version

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "version": self.version}

    def look(self) -> bool:
        from airflow_provider_schemamig.core.ledger.store import LedgerReader
        from airflow_provider_schemamig.core.names import Version
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        wanted = Version.parse(self.version)
        ledger = LedgerReader(SchemamigHook(self.environment).environment)
        release = ledger.state().release if ledger.exists() else None
        return release is not None and release.version >= wanted


class DriftTrigger(EnvironmentTrigger):
    """Waits until a live table differs from what the ledger recorded."""

    def look(self) -> bool:
        from airflow_provider_schemamig.core.upgrade import verbs
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        return bool(verbs.status(SchemamigHook(self.environment).environment).drifted)


class PromotionTrigger(EnvironmentTrigger):
    """Waits until the plan of ``generation`` is approved in the ledger."""

    def __init__(self, environment: str, poll_interval: float, deadline: float, generation: Generation) -> None:
        super().__init__(environment, poll_interval, deadline)
        self.generation = generation

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "generation": self.generation}

    def look(self) -> bool:
        from airflow_provider_schemamig.core.upgrade import verbs
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        return verbs.approved(SchemamigHook(self.environment).environment, self.generation)
