"""On S3: whether the Sparks that write tables do so by put-if-absent, before anything is claimed."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head, known_head, remember
from airflow_provider_schemamig.core.delta.log.listing import commit_key, read_commit
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage import UnsafeLogStore, needs_log_store, require_safe_log_store
from airflow_provider_schemamig.core.storage.log_stores import newest_commit
from airflow_provider_schemamig.core.storage.own_places import SCRATCH
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View


def unsafe_writers(env: EnvironmentRoot, view: View, planned: Planned) -> Iterator[UnsafeLogStore]:
    """Yield a refusal for each table of the plan whose newest commit Spark made without put-if-absent.

    On S3 only, one request for each commit of which that is not known yet.
    """
    concerned = {stage.collection for stage in planned.plan.stages}
    heads = [(name, head) for name, head in sorted(view.heads.items()) if name in concerned and head is not None]
    asked = [(name, head) for name, head in heads if needs_log_store(head.location, env.options)]
    return (unsafe for unsafe in env.each(functools.partial(_unsafe, env), asked) if unsafe is not None)


def _unsafe(env: EnvironmentRoot, table: tuple[CollectionName, Head]) -> UnsafeLogStore | None:
    collection, head = table
    store = env.table_store(head.location.uri)
    known = known_head(store)
    if known is not None and known.head.version == head.version and known.is_conditional:
        return None
    try:
        read_commit(store, head.version)
        require_safe_log_store(store)
    except LogTruncated:  # only its checkpoint is left: an old one
        return None
    except UnsafeLogStore as unsafe:
        unsafe.collection = collection
        return unsafe
    if known is not None and known.head.version == head.version:
        remember(store, head, known.tag, is_conditional=True, fence=known.fence)
    return None


@contextmanager
def proven_session(env: EnvironmentRoot) -> Iterator[Mapping[str, Any]]:
    """Yield what a job of preflight is asked for more, on S3: a table of one commit. Afterwards that commit tells how it was made.

    Raises UnsafeLogStore, which names the session.
    """
    if not needs_log_store(env.location, env.options):
        yield {}
        return
    key = f"{SCRATCH}/log-store-{uuid.uuid4().hex}"
    store = env.store()
    try:
        yield {"log_store": env.location.child(*key.split("/")).uri}
        store.get(f"{key}/{commit_key(0)}")
        made = newest_commit(env.table_location(key).uri)
        if made is None or not made.is_conditional:
            raise UnsafeLogStore(uri=env.location.uri, who="the Spark that this upgrade uses")
    finally:
        store.delete_tree(key)
