"""Streams of rows from one environment to another (docs/replicas.md): bring them, wait for the target's schema, restore after a gap."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig import config
from airflow_provider_schemamig.lineage import spark_parent
from airflow_provider_schemamig.operators.arguments import as_choice, as_flag, as_number, as_text, as_time
from airflow_provider_schemamig.operators.base import SchemamigOperator, log_progress
from airflow_provider_schemamig.operators.read_only import claim_id
from airflow_provider_schemamig.operators.replica_errors import StillPaused, raise_stopped
from airflow_provider_schemamig.operators.reports import chunks
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.core.environment import Environment
    from airflow_provider_schemamig.core.progress import Listener
    from airflow_provider_schemamig.core.replication.model import StreamSettings
    from airflow_provider_schemamig.core.replication.replicate import Replicated
    from airflow_provider_schemamig.hooks.schemamig import SchemamigHook


class StreamOperator(SchemamigOperator):
    """Base of those that work on the streams from one environment to another.

    :param origin: (templated) where rows come from: connection id of type ``schemamig``, or the environment's URI or absolute path.
    :param target: (templated) where they go to. Rows are worked on by the Spark of its connection.
    """

    template_fields: Sequence[str] = ("origin", "target")
    ui_color = "#dde3f0"

    def __init__(self, *, origin: str, target: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.origin = origin
        self.target = target

    @cached_property
    def hooks(self) -> tuple[SchemamigHook, SchemamigHook]:
        """Return the hooks of origin and target."""
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        log = log_progress(self.log.info)
        target = SchemamigHook(self.target, who=self.who, spark_conf=spark_parent(self._context), listen=log)
        return SchemamigHook(self.origin, who=self.who), target

    @property
    def ends(self) -> tuple[Environment, Environment]:
        """Return origin and target."""
        origin, target = self.hooks
        return origin.environment, target.environment

    def listener(self) -> Listener:
        """Return what the work reports its progress to."""
        return self.listener_of(self.target)

    def end(self, error: BaseException | None = None) -> None:
        super().end(error)
        if "hooks" in vars(self):
            _, target = self.hooks
            target.stop_spark()

    def on_kill(self) -> None:
        """Stop the Spark job this task waits for. What it had committed stays; a retry finds it and goes on."""
        _, target = self.hooks
        target.cancel_jobs()


class StreamChunksOperator(StreamOperator):
    """Say which collections there are to bring, in chunks to map ``ReplicateCollectionOperator`` over.

    :param collections: (templated) names, or one text with commas between them; none: all that the origin has at this moment.
    :param chunk_size: collections a chunk. One: each has a task of its own, and waits and fails by itself.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "collections")

    def __init__(self, *, collections: Sequence[str] | str = "", chunk_size: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.collections = collections
        self.chunk_size = chunk_size

    def execute(self, context: Context) -> list[list[str]]:
        from airflow_provider_schemamig.core import commands

        origin, _ = self.ends
        return chunks(as_choice(self.collections) or sorted(commands.read_state(origin).objects), self.chunk_size)


class ReplicateCollectionOperator(StreamOperator):
    """Bring what the origin's collections got to the target, and wait, deferred, while the target does not have the schema for it.

    A paused stream keeps its place and its order. The trigger looks at it every ``poll_interval`` and starts no Spark; when its time has
    come (``recompute``, or ``schemamig schema refresh``) the task looks for itself and goes on, or defers again. A stream that stopped, by
    a gap, fails the task on its first try with ``GapError``. Without ``follow`` the task succeeds when all is brought; returns what it
    brought: ``{"applied_rows", "applied_batches", "restores"}``.

    :param collections: (templated) names, or one text with commas between them; none: all that the origin has.
    :param follow: (templated) minutes, or a timedelta, for which it goes on with what is committed meanwhile. At their end it succeeds, or
        is skipped if a stream is paused still: its next run waits on.
    :param timeout: seconds, or a timedelta: how long a paused stream is waited for without ``follow``; then it fails with ``StillPaused``.
    :param depth: how many previous schemas of the target are accepted.
    :param poll_interval: seconds between two looks; default ``[schemamig] poll_interval``.
    :param recompute: seconds until the target's schema is worked out again while a stream is paused; default
        ``[schemamig] recompute_interval``.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "collections", "follow")

    def __init__(
        self,
        *,
        collections: Sequence[str] | str = "",
        follow: timedelta | float | str = 0,
        timeout: timedelta | float = timedelta(days=7),
        depth: int = 1,
        poll_interval: float | None = None,
        recompute: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.collections = collections
        self.follow = follow
        self.timeout = timeout
        self.depth = depth
        self.poll_interval = poll_interval
        self.recompute = recompute

    def execute(self, context: Context) -> dict[str, int]:
        waits = self._follows or as_time("timeout", self.timeout, "seconds")
        return self._bring(time.time() + waits.total_seconds(), {})

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, int]:
        """Resume the task, because there may be something to do or because the deadline passed."""
        return self._bring(float(event["deadline"]), event["brought"])

    def _bring(self, deadline: float, before: Mapping[str, int]) -> dict[str, int]:
        """Run once over the streams. ``before``: what this task brought before it deferred."""
        from airflow_provider_schemamig.core import commands

        _, target = self.hooks
        found = commands.replicate_once(*self.ends, self._names, jobs=target.job_runner, settings=self._settings, listen=self.listener())
        brought = {name: before.get(name, 0) + getattr(found, name) for name in ("applied_rows", "applied_batches", "restores")}
        self._tell(found)
        raise_stopped(found.stopped)
        is_over = time.time() >= deadline
        if (found.paused or self._follows) and not is_over:
            self._defer(deadline, brought)
        if found.paused and self._follows:
            self.skip_for(f"Paused still: {', '.join(state.stream.collection for state in found.paused)}. The next run waits on.")
        if found.paused:
            raise StillPaused.of(found.paused[0])
        return brought

    def _tell(self, found: Replicated) -> None:
        from airflow_provider_schemamig.replica_metrics import measure

        for state in found.stopped:
            self.log.error("%s", visible(state.detail or ""))
        for state in found.paused:
            self.log.warning("%s: %s", state.stream.collection, visible(StillPaused.of(state).message))
        measure(*self.ends, found.states)

    def _defer(self, deadline: float, brought: Mapping[str, int]) -> None:
        from airflow_provider_schemamig.triggers.replicas import StreamWorkTrigger

        settings = self._settings
        trigger = StreamWorkTrigger(
            self.origin,
            self.target,
            settings.retry.total_seconds(),
            deadline,
            self.depth,
            self._names,
            recompute=settings.recompute.total_seconds(),
            follow=bool(self._follows),
            brought=brought,
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    @property
    def _follows(self) -> timedelta:
        return as_time("follow", self.follow, "minutes")

    @property
    def _names(self) -> list[str] | None:
        return as_choice(self.collections) or None

    @property
    def _settings(self) -> StreamSettings:
        from airflow_provider_schemamig.core.replication.model import StreamSettings

        retry = config.poll_interval() if self.poll_interval is None else self.poll_interval
        recompute = config.recompute_interval() if self.recompute is None else self.recompute
        return StreamSettings(self.depth, timedelta(seconds=retry), timedelta(seconds=recompute))


class RestoreCollectionOperator(StreamOperator):
    """Make a target's collection anew from its origin's rows at one version, after which its stream goes on from there.

    Refused where the target would silently lose something: rows of its own (``RestoreWouldLose``), or columns (``RestoreChangesSchema``).
    Returns ``{"version", "table_version", "rows"}``, also where a try before this one had done it and could not say so.

    :param collection: (templated) its name.
    :param version: (templated) of the origin's table; None or empty: its newest.
    :param allow_schema_change: (templated) also rows of a schema that the target never had, as far as they fit its columns.
    :param allow_lossy: (templated) also if commits of the target's own are lost.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "collection", "version", "allow_schema_change", "allow_lossy")
    ui_color = "#f3e3c7"

    def __init__(
        self,
        *,
        collection: str,
        version: int | str | None = None,
        allow_schema_change: bool | str = False,
        allow_lossy: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.collection = collection
        self.version = version
        self.allow_schema_change = allow_schema_change
        self.allow_lossy = allow_lossy

    def execute(self, context: Context) -> dict[str, int]:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.names import collection_name

        _, target = self.hooks
        done = commands.restore_rows(
            *self.ends,
            collection_name(as_text("collection", self.collection, "the collection to make anew")),
            version=as_number("version", self.version, least=0),
            allow_schema_change=as_flag("allow_schema_change", self.allow_schema_change),
            allow_lossy=as_flag("allow_lossy", self.allow_lossy),
            claim_id=claim_id(context),
            jobs=target.job_runner,
            listen=self.listener(),
        )
        return {"version": done.version, "table_version": done.table_version, "rows": done.rows}
