"""Triggers that look at the streams from one environment to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pendulum

from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.triggers.base import LookingTrigger
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.environment import Environment


class StreamTrigger(LookingTrigger):
    """Base of those that look at streams.

    :param origin: connection id or URI of the environment that they come from.
    :param target: connection id or URI of the environment that they go to.
    :param collections: their collections; None: all that the origin has.
    :param depth: how many previous schemas of the target are accepted.
    """

    def __init__(
        self, origin: str, target: str, poll_interval: float, deadline: float, depth: int, collections: Sequence[str] | None = None
    ) -> None:
        super().__init__(poll_interval, deadline)
        self.origin = origin
        self.target = target
        self.depth = depth
        self.collections = None if collections is None else list(collections)

    def arguments(self) -> dict[str, Any]:
        own = {"origin": self.origin, "target": self.target, "collections": self.collections, "depth": self.depth}
        return {**own, **super().arguments()}

    def ends(self) -> tuple[Environment, Environment]:
        """Return origin and target."""
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        return SchemamigHook(self.origin).environment, SchemamigHook(self.target).environment


class SchemaMatchTrigger(StreamTrigger):
    """Waits until the target accepts the schemas that the origin has."""

    @property
    def awaited(self) -> str:
        return f"schemas of {self.origin} that {self.target} accepts"

    def look(self) -> bool:
        from airflow_provider_schemamig.core import commands

        found = commands.mismatches(*self.ends(), self.collections, self.depth)
        for mismatch in found:
            self.log.info("%s: %s", mismatch.collection, visible(mismatch.detail))
        return not found


class StreamWorkTrigger(StreamTrigger):
    """Waits until a run of the streams would find something to do, and tells both environments of each other meanwhile.

    There is something to do if a paused stream was woken, or its time to be looked at has come; if there is a commit that is not brought
    yet; and, unless ``follow``, if no stream is paused any more, because somebody else ran it.

    :param recompute: seconds until the target's schema is worked out again while a stream is paused.
    :param brought: what the task has brought so far; kept for it.
    """

    def __init__(self, *args: Any, recompute: float, follow: bool, brought: Mapping[str, int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.recompute = recompute
        self.follow = follow
        self.brought = dict(brought)
        self._told_at = pendulum.now("UTC")  # by the task, which has just run

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "recompute": self.recompute, "follow": self.follow, "brought": self.brought}

    def kept(self) -> dict[str, Any]:
        return {**super().kept(), "brought": self.brought}

    @property
    def awaited(self) -> str:
        return f"something to bring from {self.origin} to {self.target}"

    def look(self) -> bool:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.replication.model import StreamSettings

        settings = StreamSettings(self.depth, timedelta(seconds=self.poll_interval), timedelta(seconds=self.recompute))
        ends, now = self.ends(), pendulum.now("UTC")
        self._tell(*ends, now)
        found = commands.look(*ends, self.collections, settings, now)
        return found.due or not (self.follow or found.waiting)

    def _tell(self, origin: Environment, target: Environment, now: pendulum.DateTime) -> None:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.replication.cluster.registry import HEARTBEAT

        if now - self._told_at < HEARTBEAT:
            return
        self._told_at = now
        try:
            commands.exchange(origin, target, now)
        except SchemamigError as error:  # nothing that is brought depends on it
            self.log.info("The environments could not be told of each other: %s", error)
