"""Every schema says which release declared it and what its fields are called in the data files, or that nobody wrote that down.

Why: readers and writers of a release look for its schema by ``release``. Of what the first software of format 1 wrote they found none,
so they could not open a collection before its next upgrade; and a schema without ``stored_names`` looked like one of a table without
column mapping, in which a field could be taken for another one of its name. Both fields were optional then, and "not known" read like
"none".

What: a schema gets the release of the deployment whose commit, or rollback, wrote it or put it in place: both are of one ledger version. If
that is not to be seen any more (the history was consolidated, the row was written again), it gets the release its table was made for, if
the table never had another schema. The schema that a collection has now gets the environment's release then, which may be later than the
true one: a reader of a release in between is refused, never shown wrong rows. Other schemas get none, and those from outside of a release
(``ahead``) have none. Names are marked as not known: they are in the table, not in the ledger, and the next upgrade of a collection writes
them down before it changes it. Without them an older schema serves no reader, unless a rollback puts it in place again. Entries that have
a release stay what they are.
"""

from __future__ import annotations

from collections import Counter

from airflow_provider_schemamig.core.ledger.format import objects_v1 as v1
from airflow_provider_schemamig.core.ledger.format import objects_v2 as v2
from airflow_provider_schemamig.core.ledger.format.actions import Action, Snapshot, Update


def upgrade(snapshot: Snapshot) -> list[Action]:
    """One update a schema."""
    releases = _releases(snapshot)
    return [Update(entry, _entry(entry, releases)) for entry in snapshot.of(v1.SchemaEntry).values()]


def verify(before: Snapshot, after: Snapshot) -> str | None:
    """What is wrong with the result, or None: no schema lost or changed, and every collection's has a release or is ahead of it."""
    old, new = before.of(v1.SchemaEntry), after.of(v2.SchemaEntry)
    if {key: _same(entry) for key, entry in old.items()} != {key: _same(entry) for key, entry in new.items()}:
        return "a schema is not what it was"
    ahead = after.of(v2.Ahead)
    for item in after.of(v2.Object).values():
        entry = new.get(f"{item.collection}/{item.schema_id}")
        if entry is not None and entry.release is None and entry.key not in ahead:
            return f"the schema of {item.collection} has no release"
    return None


def _entry(entry: v1.SchemaEntry, releases: dict[str, str]) -> v2.SchemaEntry:
    known = entry.release is not None or entry.stored_names
    declared = _declaration(entry.declared)
    return v2.SchemaEntry(
        collection=entry.collection,
        schema_id=entry.schema_id,
        shard=entry.shard,
        declared=declared,
        physical=declared if entry.physical == entry.declared else _declaration(entry.physical),
        since_table_version=entry.since_table_version,
        release=entry.release if entry.release is not None else releases.get(entry.key),
        stored_names=entry.stored_names if known else None,
    )


# --- which release -------------------------------------------------------------------------------------------------------------------


def _releases(snapshot: Snapshot) -> dict[str, str]:
    """Key of a schema -> release, where it can be told; none for a schema that an ``ahead`` row is about."""
    committed, made, current = _commits(snapshot), _made_for(snapshot), _current(snapshot)
    written = snapshot.versions(v1.SchemaEntry)
    found = {key: committed.get(written[key]) or made.get(entry.shard) for key, entry in snapshot.of(v1.SchemaEntry).items()}
    put = snapshot.versions(v1.Object)
    for item in snapshot.of(v1.Object).values():
        key = f"{item.collection}/{item.schema_id}"
        found[key] = committed.get(put[item.key]) or found.get(key) or current
    ahead = snapshot.of(v1.Ahead)
    return {key: release for key, release in found.items() if release is not None and key not in ahead}


def _commits(snapshot: Snapshot) -> dict[int, str]:
    """Ledger version -> the release that a commit or a rollback of that version brought, where the history still has it."""
    since = next((row.since for row in snapshot.of(v1.LedgerSince).values()), -1)
    deployments = snapshot.of(v1.Deployment)
    found = {}
    for key, version in snapshot.versions(v1.Deployment).items():
        deployment = deployments[key]
        if version <= since:
            continue
        if deployment.state is v1.DeploymentState.COMMITTED:
            found[version] = deployment.target
        elif deployment.state is v1.DeploymentState.ROLLED_BACK and deployment.source is not None:
            found[version] = deployment.source
    return found


def _made_for(snapshot: Snapshot) -> dict[str, str]:
    """Table -> the release that it was made for, of those that only ever had one schema."""
    shards, deployments = snapshot.of(v1.Shard), snapshot.of(v1.Deployment)
    schemas = Counter(entry.shard for entry in snapshot.of(v1.SchemaEntry).values())
    made = {name: deployments.get(str(shard.generation)) for name, shard in shards.items() if schemas[name] == 1}
    return {name: by.target for name, by in made.items() if by is not None and by.state is v1.DeploymentState.COMMITTED}


def _current(snapshot: Snapshot) -> str | None:
    return next((row.version for row in snapshot.of(v1.EnvironmentRelease).values()), None)


# --- the same in the types of format 2 -----------------------------------------------------------------------------------------------


def _same(entry: v1.SchemaEntry | v2.SchemaEntry) -> tuple[object, ...]:
    """What the step leaves as it is."""
    declared, physical = (_declaration(item) if isinstance(item, v1.Declaration) else item for item in (entry.declared, entry.physical))
    return entry.collection, entry.schema_id, entry.shard, declared, physical, entry.since_table_version


def _declaration(old: v1.Declaration) -> v2.Declaration:
    return v2.Declaration(
        name=old.name,
        fields=tuple(map(_field, old.fields)),
        partitioned_by=old.partitioned_by,
        clustered_by=old.clustered_by,
        checks=tuple(v2.Check(check.name, check.expression) for check in old.checks),
        primary_key=None if old.primary_key is None else _key(old.primary_key),
        uniques=tuple(map(_key, old.uniques)),
        foreign_keys=tuple(v2.ForeignKey(key.columns, key.references, key.referenced_columns, key.name) for key in old.foreign_keys),
        properties=old.properties,
        comment=old.comment,
    )


def _field(old: v1.Field) -> v2.Field:
    return v2.Field(old.name, _type(old.type), old.nullable, old.default, old.comment)


def _key(old: v1.Key) -> v2.Key:
    return v2.Key(old.columns, old.name)


def _type(old: v1.DataType) -> v2.DataType:
    match old:
        case v1.Primitive(name=name):
            return v2.Primitive(name)
        case v1.Array(element=element, contains_null=contains_null):
            return v2.Array(_type(element), contains_null)
        case v1.Map(key=key, value=value, value_contains_null=contains_null):
            return v2.Map(_type(key), _type(value), contains_null)
        case v1.Struct(fields=fields):
            return v2.Struct(tuple(map(_field, fields)))
