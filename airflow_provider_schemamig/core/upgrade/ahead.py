"""What was changed outside of a release has to be in the next one, or that release would take it away again unseen (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_provider_schemamig.core.ledger.rows import Ahead
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop
from airflow_provider_schemamig.core.names import ColumnPath, Epoch, SchemaId
from airflow_provider_schemamig.core.release.chain import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.changes import Change, Cost
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff import Diff, diff
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.paths import field_at, join, parent_and_name, translate
from airflow_provider_schemamig.core.upgrade.errors import AheadNotInRelease


def not_in_release(state: State, steps: Sequence[MergedStep]) -> Iterator[AheadNotInRelease]:
    """One refusal a collection that is ahead of its release, and whose change the next release does not make."""
    by_source = {step.old.name: step for step in steps if not isinstance(step, Create)}
    for name in sorted(state.objects):
        ahead = state.ahead_of(name)
        if ahead is None or isinstance(by_source.get(name), Remove):
            continue
        missing = missing_in(ahead, by_source.get(name))
        if missing:
            yield AheadNotInRelease(collection=name, changes=missing)


def declared_now(state: State, step: Evolve) -> Declaration:
    """What the collection is declared as before the step: by the release, or by what was changed since outside of it."""
    ahead = state.ahead_of(step.old.name)
    return step.old if ahead is None else ahead.declared


def renames_left(state: State, step: Evolve) -> Mapping[ColumnPath, str]:
    """The step's renames that were not made outside of a release already (``accept``), by the paths the columns have now."""
    ahead = state.ahead_of(step.old.name)
    if ahead is None:
        return step.renames
    done = _renames_done(ahead, step.renames)
    return {translate(path, done): name for path, name in step.renames.items() if path not in done}


def _renames_done(ahead: Ahead, renames: Mapping[ColumnPath, str]) -> dict[ColumnPath, str]:
    done: dict[ColumnPath, str] = {}
    for path, name in sorted(renames.items(), key=lambda item: item[0].count(".")):
        here = translate(path, done)
        there = join(parent_and_name(here)[0], name)
        if field_at(ahead.declared.fields, here) is None and field_at(ahead.declared.fields, there) is not None:
            done[path] = name
    return done


def went_ahead(state: State, declared: Declaration, schema_id: SchemaId, epoch: Epoch) -> Ahead:
    """The row that makes ``declared`` the collection's schema outside of a release."""
    collection = declared.name
    before = state.ahead_of(collection)
    return Ahead(
        collection=collection,
        schema_id=schema_id,
        epoch=epoch,
        declared=declared,
        released=before.released if before is not None else state.entry(collection).declared,
        released_fingerprint=state.released(state.objects[collection]),
    )


def caught_up(state: State) -> list[Drop]:
    """For a release's commit: what no way back can need. What is in force now ends with the schema ids that the commit makes."""
    return [
        Drop(Ahead, row.key) for row in state.ahead.values() if row.collection not in state.objects or row != state.ahead_of(row.collection)
    ]


def missing_in(ahead: Ahead, step: MergedStep | None) -> tuple[str, ...]:
    """The changes, in words, that the release does not make at the same place; what it drops needs none."""
    made = _made(ahead, step)
    places = {_place(change) for change in made.changes}
    done = _renames_done(ahead, step.renames) if isinstance(step, Evolve) else {}
    wanted = [change for change in diff(ahead.released, ahead.declared, done).changes if change.cost is not Cost.NONE]
    return tuple(describe(change) for change in wanted if _place(change) not in places and not _is_dropped(change, made))


def _made(ahead: Ahead, step: MergedStep | None) -> Diff:
    match step:
        case Evolve():
            return diff(ahead.released, step.new, step.renames)
        case Replace() | RewriteStep():
            return diff(ahead.released, step.new)
        case _:
            return Diff()


def _is_dropped(change: Change, made: Diff) -> bool:
    path = getattr(change, "path", "")
    return any(path == gone or path.startswith(f"{gone}.") for gone in made.dropped)


def _place(change: Change) -> tuple[str, str]:
    for name in ("path", "key", "check", "foreign_key"):
        value = getattr(change, name, None)
        if value is not None:
            return change.op, str(value)
    return change.op, ""
