"""A table's head: version, protocol and metaData, read without its files.

The newest commits are read backwards until protocol and metaData are found; a ``.crc`` or a checkpoint on the way ends the search. Raw
actions are kept whole, unknown keys included, because the committer writes them back (A9).
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction
from airflow_provider_schemamig.core.delta.errors import AnotherTable, LogDamaged, LogTruncated, TableMissing
from airflow_provider_schemamig.core.delta.features import CATALOG_MANAGED, CatalogManagedTable, effective_features
from airflow_provider_schemamig.core.delta.log.listing import LogFiles, commit_key, list_from, list_log, list_on, read_commit, table_exists
from airflow_provider_schemamig.core.delta.log.snapshot import LogSnapshot, read_checkpoint, read_crc
from airflow_provider_schemamig.core.delta.metadata.clustering import Clustering, clustering_of
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.validate import TableState
from airflow_provider_schemamig.core.delta.names import PHYSICAL_NAME, logical_path, stored_names
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT
from airflow_provider_schemamig.core.names import SEAL_PREFIX, CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.delta_json import InvalidSchemaJson, UnknownDeltaType, declaration_from_delta
from airflow_provider_schemamig.core.schema.delta_rules.table_features import CLUSTERING_DOMAIN, FEATURES, IDENTITY, IDENTITY_GIVEN
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import Location, ReadStore

__all__ = [
    "AnotherTable",
    "Head",
    "LogDamaged",
    "LogTruncated",
    "TableMissing",
    "another_table",
    "head_or_none",
    "look_at_head",
    "look_or_none",
    "read_head",
    "table_exists",
]


#: The state that a feature keeps in a domain of its own.
_DOMAINS = {row.name: row.domain for row in FEATURES.values() if row.domain}


@dataclass(frozen=True)
class Head:
    """A table at one version. ``domains``: domain -> its domainMetadata action, read only of a table with a feature that has one."""

    location: Location
    version: int
    protocol: RawAction
    metadata: RawAction
    domains: Mapping[str, RawAction] = field(default_factory=dict)
    #: True if it is another table than the one that is known to lie there (``ReadStore.table_id``); only ``look_at_head`` gives such heads.
    is_another: bool = False

    @property
    def table_id(self) -> str:
        return str(self.metadata["id"])

    @functools.cached_property
    def features(self) -> frozenset[str]:
        """Return all table features, those implied by legacy protocol numbers included."""
        return effective_features(self.protocol)

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the table's configuration as it stands."""
        return self.metadata.get("configuration") or {}

    @property
    def schema(self) -> dict[str, Any]:
        """Return the schema as Delta's JSON, parsed anew: of 10,000 tables it would be 170 MiB."""
        found: dict[str, Any] = json.loads(self.metadata["schemaString"])
        return found

    @property
    def identities(self) -> tuple[str, ...]:
        """Return the identity columns: of a row that is there nobody can change their values."""
        return tuple(self._identities)

    @property
    def identities_always(self) -> tuple[str, ...]:
        """Return the columns GENERATED ALWAYS AS IDENTITY: no writer can bring a row with a value of theirs."""
        return tuple(name for name, is_given in self._identities.items() if not is_given)

    @property
    def _identities(self) -> dict[str, bool]:
        """Return the identity columns, each with whether a writer may give a value."""
        if IDENTITY not in self.metadata["schemaString"]:
            return {}
        fields = ((field["name"], field.get("metadata") or {}) for field in self.schema["fields"])
        return {name: bool(metadata.get(IDENTITY_GIVEN)) for name, metadata in fields if IDENTITY in metadata}

    @property
    def stored_names(self) -> dict[ColumnPath, str]:
        """Return what ``names.stored_names`` finds in the schema."""
        return stored_names(self.schema) if PHYSICAL_NAME in self.metadata["schemaString"] else {}

    @functools.cached_property
    def clustering(self) -> Clustering:
        """Return the clustering columns as physical paths."""
        return clustering_of(self.domains.get(CLUSTERING_DOMAIN))

    def declaration(self, name: CollectionName) -> Declaration:
        """Return what the table says of itself. Keys are not in a table; schemamig's own constraints are left out.

        Raises InvalidSchemaJson, UnknownDeltaType.
        """
        try:
            found = self._declaration
        except (InvalidSchemaJson, UnknownDeltaType) as refusal:
            refusal.collection = name
            raise
        return found if found.name == name else replace(found, name=name)

    @functools.cached_property
    def _declaration(self) -> Declaration:
        found = declaration_from_delta(CollectionName(""), self.metadata)
        if not self.clustering:
            return found
        return replace(found, clustered_by=tuple(logical_path(self.schema, path) for path in self.clustering))

    def edited(self, changes: tuple[Change, ...], forget: tuple[ColumnPath, ...] = (), *, stood_before: bool = False) -> TableState:
        """Return what ``edit`` makes of the table, worked out once: a plan tries it, promotion does, and the commit takes it."""
        asked = (changes, forget, stood_before)
        after = self._edited.get(asked)
        if after is None:
            clustering = self.clustering
            after = edit(self.protocol, self.metadata, changes, forget=forget, clustering=clustering, stood_before=stood_before)
            self._edited.clear()  # the last one alone; threads share a head
            self._edited[asked] = after
        return after

    @functools.cached_property
    def _edited(self) -> dict[tuple[Any, ...], TableState]:
        return {}

    @property
    def sealed_for(self) -> str | None:
        """Return the shard that a seal of ours says the rows have moved to; None if the table is open."""
        prefix = CONSTRAINT + SEAL_PREFIX
        return next((key.removeprefix(prefix) for key in self.properties if key.startswith(prefix)), None)


def read_head(store: ReadStore, at: int | None = None) -> Head:
    """Return the newest head, or the one at version ``at``.

    Raises TableMissing, AnotherTable (than ``store.table_id``), LogDamaged, LogTruncated, CatalogManagedTable (its newest commits are not
    in the log).
    """
    head = look_at_head(store, at)
    if head.is_another:
        raise another_table(store, head)
    return head


def head_at(store: ReadStore, version: int) -> Head:
    """Return the head at ``version``; the newest, if the log was cleaned up to there. Raises as ``read_head``.

    ``version`` is mostly the newest one, which costs least to look at.
    """
    newest = read_head(store)
    try:
        return newest if newest.version == version else read_head(store, version)
    except LogTruncated:  # of a task that died long ago
        return newest


def another_table(store: ReadStore, head: Head, collection: CollectionName | None = None) -> AnotherTable:
    """Return the error about a head that ``is_another``."""
    return AnotherTable(collection=collection, uri=store.location.uri, expected=str(store.table_id), found=head.table_id)


def look_at_head(store: ReadStore, at: int | None = None) -> Head:
    """Do what ``read_head`` does, but return the head of another table, too, marked as such."""
    head = _head(store, at)
    if store.table_id in (None, head.table_id) or _had_id(store, str(store.table_id)):
        return head
    return replace(head, is_another=True)


def check_goes_on(store: ReadStore, since: Head) -> None:
    """Raise AnotherTable, TableMissing or LogTruncated unless the log goes on from ``since``.

    To be asked before a commit on top of what was looked at minutes ago. A log that begins anew is another table: a commit of ours would be
    its gap, or bring it foreign files. In one that was cleaned up beyond ``since`` nobody would read it.
    """
    now = _head(store, None)
    if now.version > since.version and not store.exists(commit_key(since.version + 1)):
        raise LogTruncated(uri=store.location.uri, version=since.version + 1)
    if now.version < since.version or not (now.table_id == since.table_id or _had_id(store, since.table_id)):
        raise AnotherTable(uri=store.location.uri, expected=since.table_id, found=now.table_id)


def _had_id(store: ReadStore, table_id: str) -> bool:
    """Return whether the log is that of the table of this id.

    CREATE OR REPLACE TABLE gives a table another id, and RESTORE its id of then, so the id may be any that the log has.
    """
    files = list_from(store, 0)
    checkpoints = (read_checkpoint(store, files.checkpoints[version]).metadata for version in sorted(files.checkpoints, reverse=True))
    commits = (read_commit(store, version).metadata for version in sorted(files.commits, reverse=True))
    return any(metadata is not None and metadata.get("id") == table_id for metadata in itertools.chain(checkpoints, commits))


#: An application id and its transaction version.
SeenFence = tuple[str, int]


@dataclass(frozen=True, slots=True)
class KnownHead:
    """A head that was read or written, and the tag of its commit: as long as that is the same, the log up to there is the same.

    ``is_conditional``: that commit is known to have been made by put-if-absent, as all of ours are.
    """

    head: Head
    tag: str
    is_conditional: bool = False
    #: An application id and a transaction version that the table was seen to have at this head, where nothing can have made it forget it.
    fence: SeenFence | None = None


def remember(store: ReadStore, head: Head, tag: str | None, *, is_conditional: bool = False, fence: SeenFence | None = None) -> None:
    """Let the next look at the table begin with this head."""
    if tag is None:
        store.memory.pop(store.location.uri, None)
    else:
        store.memory[store.location.uri] = KnownHead(head, tag, is_conditional, fence)


def known_head(store: ReadStore) -> KnownHead | None:
    """Return the head of the table that was seen last, if any was."""
    found: KnownHead | None = store.memory.get(store.location.uri)
    return found


def _head(store: ReadStore, at: int | None) -> Head:
    """Return the head of whatever table is there. The newest one is looked for from the one that is known: that is one request."""
    if at is not None:
        return _found(store, list_log(store, at), None, _Search())
    known = known_head(store)
    if known is not None:
        later = list_on(store, known.head.version, known.tag)
        if later is not None:
            return known.head if later.version == known.head.version else _remembered(store, later, known)
    try:
        return _remembered(store, list_log(store), None)
    except TableMissing:
        store.memory.pop(store.location.uri, None)
        raise


def _remembered(store: ReadStore, files: LogFiles, known: KnownHead | None) -> Head:
    search = _Search()
    head = _found(store, files, None if known is None else known.head, search)
    remember(store, head, files.tag, fence=None if known is None or known.fence is None else search.still_fenced(known, head))
    return head


def _found(store: ReadStore, files: LogFiles, known: Head | None, found: _Search) -> Head:
    """Return the head at the newest version of ``files``, which begin with the ``known`` head, or with the log."""
    for version in range(files.version, -1 if known is None else known.version, -1):
        if _look_at(store, files, version, found):
            break
    else:
        if known is not None:
            found.take(LogSnapshot(known.protocol, known.metadata, tuple(known.domains.values()), None))
    if found.protocol is None or found.metadata is None:
        raise LogDamaged(uri=store.location.uri, reason="no protocol or metaData action in it")
    if effective_features(found.protocol) & CATALOG_MANAGED:
        raise CatalogManagedTable(uri=store.location.uri)
    domains = found.domains if _domains_of(found.protocol) else {}
    return Head(store.location, files.version, found.protocol, found.metadata, domains)


@dataclass
class _Search:
    """What has been found so far, newest first: what is there is never replaced by something older."""

    protocol: RawAction | None = None
    metadata: RawAction | None = None
    domains: dict[str, RawAction] = field(default_factory=dict)
    #: The commits that were read.
    commits: list[LogCommit] = field(default_factory=list)

    def still_fenced(self, known: KnownHead, head: Head) -> SeenFence | None:
        """Return the fence that was seen on the table, as it is now; None: look for it.

        Each commit since has to have been read, and none may have changed the table's properties: only by those does it forget.
        """
        if known.fence is None or len(self.commits) < head.version - known.head.version or any(c.metadata for c in self.commits):
            return None
        app_id, version = known.fence
        since = [int(txn["version"]) for commit in self.commits for txn in commit.txns if txn.get("appId") == app_id]
        return app_id, max([version, *since])

    @property
    def done(self) -> bool:
        return self.protocol is not None and self.metadata is not None and _domains_of(self.protocol) <= self.domains.keys()

    def take(self, found: LogSnapshot) -> None:
        self.protocol = self.protocol or found.protocol
        self.metadata = self.metadata or found.metadata
        self.domains = {domain["domain"]: domain for domain in found.domains or ()} | self.domains


def _domains_of(protocol: RawAction) -> set[str]:
    return {domain for feature, domain in _DOMAINS.items() if feature in effective_features(protocol)}


def _look_at(store: ReadStore, files: LogFiles, version: int, found: _Search) -> bool:
    """Look at one version; True if nothing older is needed."""
    if version in files.crcs:
        checksum = read_crc(store, version)
        if checksum is not None and (checksum.domains is not None or not _domains_of(checksum.protocol)):
            found.take(checksum)
            return True
    checkpoint = files.checkpoints.get(version)
    if version in files.commits:
        commit = read_commit(store, version)
        found.commits.append(commit)
        found.protocol = found.protocol or commit.protocol
        found.metadata = found.metadata or commit.metadata
        for domain in commit.domains:
            found.domains.setdefault(domain["domain"], domain)
    elif checkpoint is None:
        raise LogTruncated(uri=store.location.uri, version=version)
    if found.done:
        return True
    if checkpoint is None:
        return False
    found.take(read_checkpoint(store, checkpoint))
    return True


def head_or_none(store: ReadStore) -> Head | None:
    try:
        return read_head(store)
    except TableMissing:
        return None


def look_or_none(store: ReadStore) -> Head | None:
    """Do what ``head_or_none`` does, but return the head of another table, too, marked as such."""
    try:
        return look_at_head(store)
    except TableMissing:
        return None
