"""Replication from one environment to another as a task group, for the shipped DAG and for DAGs of one's own (docs/airflow.md)."""

from __future__ import annotations

from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import TaskGroup

from airflow_provider_schemamig.operators.base import doc_of
from airflow_provider_schemamig.operators.replicas import ReplicateCollectionOperator, StreamChunksOperator

_RUN_TIME = "Keeps the run going for its minutes, whatever becomes of the streams."


def replicate_task_group(
    group_id: str = "replicate",
    *,
    origin: str,
    target: str,
    collections: str = "",
    minutes: float | str = 10,
    chunk_size: int = 1,
    depth: int = 1,
) -> TaskGroup:
    """Make the tasks that bring ``origin``'s collections to ``target`` for some minutes, one mapped task for each chunk of collections.

    For a DAG with the schedule ``@continuous``. Every task follows its collections to the end of the run, so one that is paused or has
    failed keeps no other from going on; and the run lasts its time whatever becomes of them, so that one that fails at once is not begun
    again at once. The arguments but ``group_id``, ``chunk_size`` and ``depth`` may be templates.

    :param origin: connection id of type ``schemamig``, or URI or absolute path of the environment that rows come from.
    :param target: the same, of the one that they go to.
    :param collections: names with commas between them; empty: all that the origin has when the run begins.
    :param minutes: for which a run follows its collections. 0: it brings what there is, waits for what is paused, and ends.
    :param chunk_size: collections of one mapped task.
    :param depth: how many previous schemas of the target are accepted.
    """
    ends = {"origin": origin, "target": target}
    with TaskGroup(group_id=group_id) as group:
        chunks = StreamChunksOperator(task_id="collections", collections=collections, chunk_size=chunk_size, **ends)
        ReplicateCollectionOperator.partial(
            task_id="bring",
            doc_md=doc_of(ReplicateCollectionOperator),
            follow=minutes,
            depth=depth,
            map_index_template="{{ task.collections | join(', ') }}",
            **ends,
        ).expand(collections=chunks.output)
        TimeDeltaSensor(task_id="run_time", doc_md=_RUN_TIME, delta=minutes, deferrable=True)  # type: ignore[arg-type]  # a template
    return group
