"""What a program built for release 1.0.0 of the flights lake looks like in Airflow, and one built for 1.1.0 that reads what the first one
reads. Both run before, while and after the lake is upgraded; a task whose release the lake no longer serves fails with `reader_fenced` or
`writer_fenced`, which says what to do and is not worth a retry."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, task

from airflow_provider_schemamig.retry import SchemamigRetryPolicy
from airflow_provider_schemamig.task_groups.params import environment_param


@task
def mean_delays(environment: str) -> dict[str, float]:
    """Mean departure delay by carrier. At 1.1.0 the column is `departure_delay`, and this program need not know."""
    from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

    flights = SchemamigHook(environment).environment.reader("flights", release="1.0.0", node="report-delays")
    rows = flights.df(columns=["carrier", "dep_delay"]).groupBy("carrier").avg("dep_delay").collect()
    return {row["carrier"]: round(row["avg(dep_delay)"], 1) for row in rows}


@task
def note_cancellations(environment: str, run_number: str) -> int | None:
    """Write down which flights never left, once a run however often this is tried; gives the table's version."""
    from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

    env = SchemamigHook(environment).environment
    flights = env.reader("flights", release="1.1.0").df(columns=["time_hour", "carrier", "flight", "dep_time"])
    cancelled = flights.where("dep_time IS NULL").drop("dep_time")
    with env.writer("cancellations", release="1.1.0", node="report-cancellations") as writer:
        return writer.merge(cancelled, on=["time_hour", "carrier", "flight"], txn=("flights_report", int(run_number))).version


with DAG(
    dag_id="flights_report",
    description="Read and write the flights lake by the shapes of a release",
    doc_md=__doc__,
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1),
    default_args={"retries": 3, "retry_policy": SchemamigRetryPolicy()},
    tags=["schemamig", "example"],
    params={"environment": environment_param()},
) as dag:
    place = "{{ params.environment }}"
    # A run's own number, the same for all its tries and higher for each later run.
    mean_delays(place) >> note_cancellations(place, "{{ (dag_run.run_after.timestamp() * 1000) | int }}")
