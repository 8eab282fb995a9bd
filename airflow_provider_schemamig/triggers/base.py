"""Triggers that look until something is so, or until their own deadline.

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

from airflow_provider_schemamig.exceptions import Conflict, SchemamigError
from airflow_provider_schemamig.wait_log import WaitLog

LOOK, DEADLINE = "look", "deadline"


def settling_seconds() -> float:
    """Return how long after a deferral the end of the task's process may still be on its way to the scheduler.

    Its supervisor looks for it once a heartbeat. A task that has resumed by then is taken for one that was killed, and tried again.
    """
    from airflow.sdk import conf

    return 2 * conf.getfloat("workers", "min_heartbeat_interval", fallback=5.0)


class LookingTrigger(BaseTrigger):
    """Base: looks every ``poll_interval`` seconds until ``deadline`` (seconds since the epoch, absolute over deferrals).

    The first look is that far away, too, or farther if that is short: the task has just looked, and its process is ending.
    """

    def __init__(self, poll_interval: float, deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poll_interval = poll_interval
        self.deadline = deadline

    def arguments(self) -> dict[str, Any]:
        """Return the arguments this trigger is made again from; subclasses add theirs."""
        return {"poll_interval": self.poll_interval, "deadline": self.deadline}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments()

    def kept(self) -> dict[str, Any]:
        """Return the values that the task gets back with the event.

        They do not go by ``defer(kwargs=...)``: ``airflow dags test`` drops those.
        """
        return {"deadline": self.deadline}

    @property
    def awaited(self) -> str:
        """Return what it waits for, as a line of the log names it."""
        raise NotImplementedError

    def look(self) -> bool:
        """Return whether the awaited condition holds. Blocking; raises typed errors."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await self._rest(max(self.poll_interval, settling_seconds()))
        wait_log = WaitLog(self.log.info)
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
            if time.time() >= self.deadline:
                yield self._event(DEADLINE)
                return
            wait_log.found_nothing(self.awaited, self.poll_interval)
            await self._rest(self.poll_interval)

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, max(self.deadline - time.time(), 0.0)))

    def _event(self, status: str) -> TriggerEvent:
        # The deadline goes back to the task: what is seen and gone again must not start the wait anew.
        return TriggerEvent({"status": status, **self.kept()})  # type: ignore[no-untyped-call]
