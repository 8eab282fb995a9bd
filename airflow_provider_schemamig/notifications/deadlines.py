"""Airflow's deadline alerts for upgrades: somebody is told of a run that has not ended in time, because it waits for its gate still."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk.definitions.callback import Callback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference


def gate_deadline(after: timedelta, callback: Callback) -> DeadlineAlert:
    """Return the ``deadline`` of a DAG that upgrades: ``callback`` is called once for a run that is not over ``after`` it was triggered.

    The gate is what an upgrade waits for, so choose less than its ``approval_timeout``. The end of a hold is in no run of it:
    ``ContractOperator`` tells ``hold_ends_soon``.

    :param callback: ``AsyncCallback(SlackWebhookNotifier, {"text": "..."})``, or any other of Airflow's.
    """
    return DeadlineAlert(reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=after, callback=callback, name="schemamig gate")
