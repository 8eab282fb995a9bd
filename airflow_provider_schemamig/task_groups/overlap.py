"""A run of a schedule that is slower than the schedule: the next run of the same environment is skipped, others are not held."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowSkipException

if TYPE_CHECKING:
    from airflow.sdk import Context


def unless_running(context: Context) -> None:
    """Skip a task if the run before is at work on the same environment: a ``pre_execute`` of DAGs with the parameter ``environment``."""
    before = context["ti"].get_previous_dagrun(state="running")
    if before is None:
        return
    default = context["dag"].params.get("environment")
    if (before.conf or {}).get("environment", default) == context["params"]["environment"]:
        reason = f"Run {before.run_id} is still at work on {context['params']['environment']}."
        logging.getLogger(__name__).info("Skipped: %s", reason)  # Airflow has it as a field of a line that is folded away
        raise AirflowSkipException(reason)
