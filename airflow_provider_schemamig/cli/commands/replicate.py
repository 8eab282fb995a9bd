"""``schemamig replicate``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import DEFAULT_SPARK, LONGEST_HOLD, JsonOption, SparkOption, open_environment, spark_at
from airflow_provider_schemamig.cli.output import Answer, Exit, answered
from airflow_provider_schemamig.cli.progress import watched

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.replication.model import StreamState
    from airflow_provider_schemamig.core.replication.replicate import Replicated


@dataclass
class _Total:
    """The counts of all turns, and the state of the streams after the last one."""

    states: tuple[StreamState, ...] = ()
    counts: dict[str, int] = field(default_factory=lambda: {"applied_rows": 0, "applied_batches": 0, "restores": 0})

    def add(self, made: Replicated) -> None:
        self.states = made.states
        for name in self.counts:
            self.counts[name] += getattr(made, name)

    @property
    def exit_code(self) -> Exit:
        if any(state.error is not None for state in self.states):
            return Exit.REFUSED
        return Exit.PENDING if any(state.pause is not None for state in self.states) else Exit.DONE

    def to_json(self) -> dict[str, Any]:
        import pendulum

        from airflow_provider_schemamig.core.replication.cluster.status import stream_json

        return {"streams": [stream_json(state, pendulum.now("UTC")) for state in self.states], **self.counts}


#: Seconds between two looks, at most.
_LONGEST = LONGEST_HOLD.total_seconds()


@answered
def replicate(
    origin: Annotated[str, typer.Option("--from", metavar="URI", help="The environment whose rows are brought.", show_default=False)],
    target: Annotated[str, typer.Option("--to", metavar="URI", help="The environment that gets them.", show_default=False)],
    follow: Annotated[bool, typer.Option("--follow/--once", help="Go on until Ctrl-C, or stop at the newest commits.")] = False,
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", metavar="NAME", help="Only this one; may be given several times.", show_default=False),
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help="First replace the rows of each --collection by all of the origin's.")] = False,
    version: Annotated[
        int | None,
        typer.Option(
            "--version",
            min=0,
            metavar="N",
            help="With --restore: take this version of the origin's table, not its newest.",
            show_default=False,
        ),
    ] = None,
    allow_schema_change: Annotated[
        bool,
        typer.Option("--allow-schema-change", help="With --restore: also rows of a schema that the target never had, if they fit."),
    ] = False,
    allow_lossy: Annotated[
        bool, typer.Option("--allow-lossy", help="With --restore: even if rows that only the target has are lost.")
    ] = False,
    depth: Annotated[int, typer.Option("--depth", min=0, metavar="N", help="How many previous schemas of the target are accepted.")] = 1,
    poll: Annotated[
        float, typer.Option("--poll", min=0, max=_LONGEST, metavar="SECONDS", help="Seconds between looks for new commits (--follow).")
    ] = 3,
    retry: Annotated[
        float, typer.Option("--retry", min=0, max=_LONGEST, metavar="SECONDS", help="Seconds before a paused stream is tried again.")
    ] = 30,
    recompute: Annotated[
        float,
        typer.Option(
            "--recompute", min=0, max=_LONGEST, metavar="SECONDS", help="Seconds before a paused stream reads the target's schema again."
        ),
    ] = 300,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Bring the commits of collections to another environment. Exit 3: some wait for an upgrade; exit 1: some are stopped."""
    from datetime import timedelta

    import pendulum

    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.names import collection_name
    from airflow_provider_schemamig.core.replication.model import StreamSettings
    from airflow_provider_schemamig.core.replication.stream.position import StreamEnds

    names = [collection_name(name) for name in collection or ()]
    if restore and not names:
        raise typer.BadParameter("name what is to be restored with --collection.", param_hint="'--restore'")
    if version is not None and (not restore or len(names) != 1):
        raise typer.BadParameter("it is of one table: restore it alone, with --restore and one --collection.", param_hint="'--version'")
    ends = open_environment(origin), open_environment(target)
    total = _Total()
    StreamEnds.of(*ends)  # nothing is written if one of them is none
    with watched() as listen:
        jobs = spark_at(spark, listen)
        if restore:
            words: dict[str, Any] = {"version": version, "allow_schema_change": allow_schema_change, "allow_lossy": allow_lossy}
            for done in commands.restore_all(*ends, names, **words, jobs=jobs, listen=listen):
                total.counts["restores"] += 1
                total.counts["applied_rows"] += done.rows
        commands.wake(ends[1], pendulum.now("UTC"))  # who starts this wants to know how it is now
        intervals = {"poll": poll, "retry": retry, "recompute": recompute}
        settings = StreamSettings(depth, **{name: timedelta(seconds=seconds) for name, seconds in intervals.items()})
        if not follow:
            total.add(commands.replicate_once(*ends, names or None, jobs=jobs, settings=settings, listen=listen))
        else:
            try:
                for made in commands.follow(*ends, names or None, jobs=jobs, settings=settings, listen=listen, until=lambda: False):
                    total.add(made)
            except KeyboardInterrupt:
                pass  # that is how it ends
    document = total.to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.schema import show_streams

        show_streams(to, document)

    return Answer(document, show, total.exit_code)
