"""One live table as ``verify`` looks at it: its head, its files with the commits that wrote them, and what the ledger says of it.

Nothing here asks the engine: who checks it reads the ledger's rows and the table's log for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from airflow_provider_schemamig.core.delta.actions import FileId, LogCommit, RawAction, file_id
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head, look_or_none
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.ledger.rows import Element, SchemaEntry, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.key_validation import Source
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.pool import cached_request
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.file_subset import rows_in_files
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store

#: A finding names so many files.
MOST_FILES = 5


@dataclass(frozen=True, slots=True)
class File:
    """A file of the table, with the statistics that its commit gave it; ``source`` None: the log does not go back to that commit."""

    add: RawAction
    source: Source | None

    @property
    def path(self) -> str:
        return file_id(self.add)[0]

    @property
    def rows(self) -> int | None:
        return rows_in_files([self.add])

    @property
    def hides_rows(self) -> bool:
        """Return whether a deletion vector hides rows. The statistics still count them."""
        return bool(self.add.get("deletionVector"))


@dataclass(frozen=True)
class VerifiedTable:
    """``entry``: the schema that the ledger says it has."""

    collection: CollectionName
    state: State
    entry: SchemaEntry
    store: ReadStore
    head: Head

    @cached_property
    def live(self) -> Declaration:
        return self.head.declaration(self.collection)

    @cached_property
    def in_flight(self) -> tuple[Declaration, ...]:
        """Return what open intents say the table is, was, or is about to be."""
        intents = self.state.intents_of(self.entry.shard)
        before = [intent.before for intent in intents if isinstance(intent, TransitionIntent)]
        return (*before, *(found for intent in intents for found in intent.leads_to))

    @cached_property
    def elements(self) -> Mapping[str, Element]:
        """Return by name the elements that an online change has on its way now."""
        found = self.state.elements_of(self.entry.shard)
        return {element.name: element for element in found if element.state is not ElementState.ABSENT}

    def is_public(self, element: str) -> bool | None:
        """Return whether an online change made the element PUBLIC; None: no online change is at it."""
        found = self.elements.get(element)
        return None if found is None else found.state is ElementState.PUBLIC

    @cached_request
    def files(self) -> tuple[File, ...]:
        """Return the files of the table, by their ids. Raises what reading the log raises."""
        return tuple(file for _, file in sorted(_files(self.store, self.head.version).items()))

    @property
    def has_rows(self) -> bool:
        return any(file.rows != 0 for file in self.files)

    def written_by(self, files: Sequence[str]) -> tuple[Source, ...]:
        """Return the commits that wrote files, given by path or URI; oldest first, without those that the log does not know."""
        by_name = {file.path.rpartition("/")[2]: file.source for file in self.files}
        found = {by_name.get(unquote(file).rpartition("/")[2]) for file in files}
        return tuple(sorted((source for source in found if source is not None), key=lambda source: source.version))


def look(env: EnvironmentRoot, state: State, collection: CollectionName) -> VerifiedTable | None:
    """Read a collection's table; None if no Delta table is there, or another one than the ledger knows."""
    store = table_store(env, state, state.objects[collection].shard)
    head = look_or_none(store)
    return None if head is None or head.is_another else VerifiedTable(collection, state, state.entry(collection), store, head)


def source_of(commit: LogCommit) -> Source:
    return Source(commit.version, str(commit.info.get("operation") or ""), commit.info.get("userMetadata"))


def _files(store: ReadStore, version: int) -> Mapping[FileId, File]:
    """Return the files of a version with the commits that added them, looked for newest first, while there are any.

    A checkpoint says which files there are, but little of them.
    """
    found = {identity: File(add, None) for identity, add in active_files(store, version).items()}
    missing = set(found)
    for commit in _backwards(store, version):
        if not missing:
            break
        for add in commit.adds:
            if (identity := file_id(add)) in missing:
                missing.discard(identity)
                found[identity] = File(add, source_of(commit))
    return found


def _backwards(store: ReadStore, version: int) -> Iterator[LogCommit]:
    """Yield the newest commits, as far back as the log goes."""
    for number in range(version, -1, -1):
        try:
            yield read_commit(store, number)
        except LogTruncated:
            return
