"""Online changes have a place: ``elements``, and intents that say how far a change of several steps has come.

Why: a change that needs rows read or written cannot be one commit. Between its steps the table is neither as before nor as wanted, and
whoever finds it has to know which states it may be in: ``before``, ``reached`` or ``after``.

What: every intent says ``reached`` null: no earlier software made a change of several steps. They are open intents of processes that died;
the next leader settles them as it would have. No element is written: of what older releases added at once, nothing is half way.
"""

from __future__ import annotations

from airflow_provider_schemamig.core.ledger.format import objects_v2 as v2
from airflow_provider_schemamig.core.ledger.format import objects_v3 as v3
from airflow_provider_schemamig.core.ledger.format.actions import Action, Snapshot, Update


def upgrade(snapshot: Snapshot) -> list[Action]:
    """One update an intent."""
    return [Update(intent, _intent(intent)) for intent in snapshot.of(v2.Intent).values()]


def verify(before: Snapshot, after: Snapshot) -> str | None:
    """What is wrong with the result, or None: no intent lost or changed, none of a change in steps, and no element."""
    if {key: _intent(old) for key, old in before.of(v2.Intent).items()} != after.of(v3.Intent):
        return "an intent is not what it was"
    return "there are elements, and nothing was changed online yet" if after.of(v3.Element) else None


def _intent(old: v2.Intent) -> v3.Intent:
    return v3.Intent(
        collection=old.collection,
        shard=old.shard,
        generation=old.generation,
        epoch=old.epoch,
        kind=v3.IntentKind(old.kind.value),
        base_version=old.base_version,
        before=None if old.before is None else _declaration(old.before),
        after=None if old.after is None else _declaration(old.after),
        reached=None,
        renames=old.renames,
        done_version=old.done_version,
        deadline=old.deadline,
    )


def _declaration(old: v2.Declaration) -> v3.Declaration:
    return v3.Declaration(
        name=old.name,
        fields=tuple(map(_field, old.fields)),
        partitioned_by=old.partitioned_by,
        clustered_by=old.clustered_by,
        checks=tuple(v3.Check(check.name, check.expression) for check in old.checks),
        primary_key=None if old.primary_key is None else _key(old.primary_key),
        uniques=tuple(map(_key, old.uniques)),
        foreign_keys=tuple(v3.ForeignKey(key.columns, key.references, key.referenced_columns, key.name) for key in old.foreign_keys),
        properties=old.properties,
        comment=old.comment,
    )


def _field(old: v2.Field) -> v3.Field:
    return v3.Field(old.name, _type(old.type), old.nullable, old.default, old.comment)


def _key(old: v2.Key) -> v3.Key:
    return v3.Key(old.columns, old.name)


def _type(old: v2.DataType) -> v3.DataType:
    match old:
        case v2.Primitive(name=name):
            return v3.Primitive(name)
        case v2.Array(element=element, contains_null=contains_null):
            return v3.Array(_type(element), contains_null)
        case v2.Map(key=key, value=value, value_contains_null=contains_null):
            return v3.Map(_type(key), _type(value), contains_null)
        case v2.Struct(fields=fields):
            return v3.Struct(tuple(map(_field, fields)))
