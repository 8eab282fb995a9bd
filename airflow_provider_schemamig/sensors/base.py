"""How a sensor waits: in a trigger that carries the deadline, or as Airflow's own poke and reschedule."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowSensorTimeout

from airflow_provider_schemamig import config
from airflow_provider_schemamig.exceptions import Conflict
from airflow_provider_schemamig.operators.base import EnvironmentOperator, SchemamigOperator
from airflow_provider_schemamig.wait_log import WaitLog

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.triggers.base import LookingTrigger


class WaitingSensor(SchemamigOperator, BaseSensorOperator):
    """Base of the sensors. What they wait for is their trigger's ``look``, whether the trigger runs or not.

    :param deferrable: wait in the triggerer; default ``[operators] default_deferrable``.
    :param poke_interval: seconds between two looks; default ``[schemamig] poll_interval``.
    """

    def __init__(
        self,
        *,
        deferrable: bool | None = None,
        poke_interval: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=config.poll_interval() if poke_interval is None else poke_interval, **kwargs)
        self.deferrable = conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable

    def trigger(self, deadline: float) -> LookingTrigger:
        """Return the trigger that waits for the same as this sensor, until ``deadline`` (seconds since the epoch)."""
        raise NotImplementedError

    @cached_property
    def _looks(self) -> WaitLog:
        return WaitLog(self.log.info)

    def result(self) -> Any:
        """Return what the sensor returns once its condition holds."""
        return None

    def tell_how(self, deadline: float) -> None:
        """Write to the log what a person can do to end the wait before ``deadline``; nothing if nobody can."""

    def poke(self, context: Context) -> bool:
        trigger = self.trigger(deadline=0)
        try:
            if trigger.look():
                return True
        except Conflict as conflict:
            self.log.info("Looking again later: %s", self.typed(conflict))
            return False
        self._looks.found_nothing(trigger.awaited, self.poke_interval)
        return False

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            self.tell_how(time.time() + self.timeout)
            super().execute(context)
            return self.result()
        return self._wait(context, deadline=time.time() + self.timeout)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Resume the sensor, because the trigger saw something or because its deadline passed."""
        from airflow_provider_schemamig.triggers.base import DEADLINE

        if event["status"] == DEADLINE:
            raise AirflowSensorTimeout(f"{self.task_id} waited {timedelta(seconds=self.timeout)} in vain; clear the task to wait again.")
        return self._wait(context, deadline=float(event["deadline"]))

    def _wait(self, context: Context, deadline: float) -> Any:
        if not self.poke(context):
            self.tell_how(deadline)
            self.defer(trigger=self.trigger(deadline), method_name="execute_complete")
        return self.result()


class EnvironmentSensor(EnvironmentOperator, WaitingSensor):
    """Base of those that wait for one environment."""
