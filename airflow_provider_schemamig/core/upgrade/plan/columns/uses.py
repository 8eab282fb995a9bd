"""Which columns of a table rolled-back releases had, and when: written down by the rollback, asked by the fill of an upgrade
that has the column again (``online.unfilled``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.ledger.rows import Hold, Object, SchemaEntry, Use
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Put, Update
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Fingerprint, Generation
from airflow_provider_schemamig.core.online.unfilled import Past
from airflow_provider_schemamig.core.schema.clauses import fills_itself
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration, Field
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan

Names = Sequence[tuple[ColumnPath, str]]


def uses_kept(before: SchemaEntry, physical: Declaration, names: Names) -> tuple[Use, ...]:
    """Return the uses in ``before`` of columns that the table still has. ``names``: ``SchemaEntry.stored_names`` of ``physical``."""
    there = _stored(physical, names)
    return tuple(use for use in before.uses if use.column in there)


def uses_since_rollback(
    state: State, before: SchemaEntry, declared: Declaration, physical: Declaration, names: Names, upto: int
) -> tuple[Use, ...]:
    """Return ``uses_kept``, and the uses that end with a rollback from ``before`` to ``declared``, at the table's version ``upto``."""
    kept, there, stays = uses_kept(before, physical, names), _stored(physical, names), _stored(declared, names)
    ended = [
        Use(column, _in_use_after(state, before, column), upto)
        for column in (before.stored_name(field.name) for field in before.declared.fields)
        if column in there and column not in stays
    ]
    used_from_start = {use.column for use in ended if use.after == 0}
    return (*(use for use in kept if use.column not in used_from_start), *ended)


def schemas_rolled_back(state: State, plan: Plan, generation: Generation) -> list[Update]:
    """Mark the schemas that a plan's release brought with its deployment; one outside of a release is nobody's to ask for by a version."""
    target = plan.target
    changed = {*(step.collection for step in target.steps), *(declaration.name for declaration in target.restated)}
    stay = {(name, known.schema_id) for name, known in state.objects.items() if name not in changed}
    found = (entry for key, entry in state.schemas.items() if entry.release == target.version and key not in stay)
    return [] if target.ahead else [Put(replace(entry, rolled_back=generation)) for entry in found if entry.rolled_back is None]


def restated_as_before(state: State, hold: Hold, goal: dict[CollectionName, Fingerprint]) -> list[Update]:
    """Give the collections whose comments or order alone a release changed those of before, as its hold has them: no table has to know.
    ``goal``: as the release before has the collections."""
    updates: list[Update] = []
    for name, before in hold.restated:
        current, known, old = state.entry(name), state.objects[name], state.schemas[name, before]
        schema_id = state.next_schema_id(name)
        goal |= state.released(Object(name, known.shard, old.schema_id, fingerprint(old.declared)))
        updates += [Put(replace(current, schema_id=schema_id, declared=old.declared, release=old.release))]
        updates += [Put(replace(known, schema_id=schema_id))]
        unreleased = state.unreleased.get((name, old.schema_id))
        updates += [] if unreleased is None else [Put(replace(unreleased, schema_id=schema_id))]
    return updates


def past_of(state: State, collection: CollectionName, column: Field) -> Past:
    """Return the past, in the ledger, of a column that an uncommitted release adds to a collection.

    Where no release had it, and it is on the table all the same, it stayed there when an upgrade was given up, which let it be NULL until
    all rows were filled.
    """
    entry = state.entry(collection)
    stored = entry.stored_name(column.name)
    uses = spans_of(entry, stored)
    was_nullable = any(field.nullable for known in schemas_upto(state, entry) if (field := _declared(known, stored)) is not None)
    return Past(uses, frozenset(state.deployments), takes_nulls=not column.nullable and (was_nullable or not uses))


def spans_of(entry: SchemaEntry, stored: str) -> tuple[tuple[int, int], ...]:
    """Return ``Past.uses`` of the column with this name in the files."""
    return tuple((use.after, use.upto) for use in entry.uses if use.column == stored)


def _in_use_after(state: State, newest: SchemaEntry, column: str) -> int:
    """Return the table version after which every release up to ``newest`` had the column. 0: it was filled before the first one had it."""
    first = newest
    for entry in schemas_upto(state, newest):
        if _declared(entry, column) is None:
            break
        first = entry
    field = _declared(first, column)
    return 0 if field is None or fills_itself(field) else first.since_table_version


def schemas_upto(state: State, newest: SchemaEntry) -> list[SchemaEntry]:
    """Return the schemas of this very table up to this one, backwards. ``since_table_version`` is the first commit that led to each."""
    known = reversed(state.schemas_of(newest.shard))
    return [newest, *(entry for entry in known if entry.may_precede(newest))]


def _declared(entry: SchemaEntry, column: str) -> Field | None:
    return next((field for field in entry.declared.fields if entry.stored_name(field.name) == column), None)


def _stored(declaration: Declaration, names: Names) -> frozenset[str]:
    known = dict(names)
    return frozenset(known.get(ColumnPath(field.name), field.name) for field in declaration.fields)
