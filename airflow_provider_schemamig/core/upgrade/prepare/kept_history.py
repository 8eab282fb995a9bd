"""Is the history of a release's tables kept for as long as its way back is open? Said before promotion: the hold is a promise.

What came in since the release is read from a table's log. What a log that was cleaned up costs is said by what the step is: of an evolved
table everything counts as having come, of a replaced one rows may be lost, of a rewritten one nobody knows which rows have to go back.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pendulum

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.release.merge.chain import Evolve, MergedStep, Replace, RewriteStep
from airflow_provider_schemamig.core.release.merge.key_on_way_back import gives_key_back
from airflow_provider_schemamig.core.release.queries.query import placeholders
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG, hours_of
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.retention import made_at
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import held_of, open_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View

_HIDDEN = "does not know any more what came in: columns that it added stay hidden, NOT NULL and CHECKs that it dropped stay dropped"
_LOSSY = "does not know any more whether rows came in, and asks for --allow-lossy"
_FILES_GONE = "is refused (`way_back_gone`)"
_REFUSED = "is refused (`way_back_gone`), because it does not know any more which rows have to go back"


def with_history_notes(env: EnvironmentRoot, view: View, planned: Planned, hold: timedelta) -> Planned:
    """Return the plan with a note a collection whose log is kept for a shorter time than ``hold``."""
    return planned.noted(*_notes(env, view, planned, hold.total_seconds() / 3600))


def _notes(env: EnvironmentRoot, view: View, planned: Planned, hold_hours: float) -> Iterator[str]:
    if not hold_hours or view.state is None or planned.plan.target.source is None:
        return
    for step in planned.plan.target.steps:
        cost = _cost(planned, step)
        if cost is None:
            continue
        kept, keys = _kept(view, step)
        needed = hold_hours + (_oldest_age(env, view, step) if isinstance(step, Evolve) else 0.0)
        if needed > kept:
            text = f"its history is kept for {kept:g} hours, and a rollback may need {needed:.3g}; past that it {cost}"
            yield f"{step.collection}: {text} (raise {' and '.join(keys)}, or take a shorter --hold)"
        for name, files in _lookups_kept(view, step):
            if hold_hours > files:
                text = f"a rollback may look its rows up in {name} as that is at the copy, whose files are kept for {files:g} hours"
                yield f"{step.collection}: {text}; past that it {_FILES_GONE} (raise {FILES} of {name}, or take a shorter --hold)"


def _cost(planned: Planned, step: MergedStep) -> str | None:
    """Describe the cost of a rollback that comes too late; None: it needs no history."""
    match step:
        case RewriteStep():
            return _LOSSY if step.down is None else _REFUSED
        case Replace():
            return _LOSSY
        case Evolve():
            changes = [change for stage in planned.plan.of_collection(step.old.name) for change in stage.changes]
            return _HIDDEN if changes else None
    return None


def _kept(view: View, step: MergedStep) -> tuple[float, tuple[str, ...]]:
    """Return for how many hours history is kept, and by which properties: those of the release, which are in force then.

    A rewrite's way back reads files, too.
    """
    assert isinstance(step, Evolve | Replace | RewriteStep)
    head = view.heads.get(step.old.name) if isinstance(step, Evolve) else None
    settings = {**(head.properties if head is not None else {}), **dict(step.new.properties)}
    keys = (FILES, LOG) if isinstance(step, RewriteStep) and step.down is not None else (LOG,)
    kept = {key: hours_of(key, settings.get(key)) for key in keys}
    shortest = min(kept.values())
    return shortest, tuple(key for key in keys if kept[key] == shortest)


def _lookups_kept(view: View, step: MergedStep) -> Iterator[tuple[CollectionName, float]]:
    """Yield the tables that a rewrite's way back looks up as they were, and for how many hours they keep removed files."""
    if not isinstance(step, RewriteStep) or step.down is None or step.old.primary_key is None or gives_key_back(step):
        return
    for name in placeholders(step.up):
        head = view.heads.get(name) if name != step.old.name else None
        if head is not None:
            yield name, hours_of(FILES, head.properties.get(FILES))


def _oldest_age(env: EnvironmentRoot, view: View, step: Evolve) -> float:
    """Return the hours since the oldest release that is still held changed the table: its way back leads over this one's."""
    state = view.state
    assert state is not None and step.old.name in state.objects  # what evolves is there
    shard: ShardId = state.objects[step.old.name].shard
    head = view.heads.get(step.old.name)
    held = [table.before or 0 for _, table in held_of(state, shard, open_holds(state))]
    if not held or head is None:
        return 0.0
    try:
        since = made_at(table_store(env, state, shard), min(held), head.version)
    except LogTruncated:  # gone already: that was said when it was promoted
        return 0.0
    return 0.0 if since is None else max((pendulum.now("UTC") - since).total_seconds() / 3600, 0.0)
