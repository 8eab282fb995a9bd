"""Schema age: which files of a table were written under which schema id.

Delta's files do not say it, its log does: a file has the schema of the version that added it, and the ledger knows since which version
each schema id was in force. Where the log no longer goes back that far (JSON commits live 30 days by default), a file counts as written
under the shard's first schema: to rewrite one too many costs time, to take an old one for new would leave it unseen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction, file_id, size_bytes
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.names import CollectionName, SchemaId
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.transfer.file_subset import rows_in_files


@dataclass(frozen=True, slots=True)
class Share:
    """The files of one schema id: how many, their bytes, their rows (None: some file does not say)."""

    schema_id: SchemaId
    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class SchemaAge:
    """A collection's files by the schema they were written under. ``old``: those to be rewritten, the oldest schema first."""

    collection: CollectionName
    schema_id: SchemaId
    version: int
    shares: tuple[Share, ...]
    old: tuple[RawAction, ...]


def schema_age(store: ReadStore, version: int, current: SchemaEntry, known: Sequence[SchemaEntry]) -> SchemaAge:
    """Return what the table at ``version`` owes. ``known``: every entry of the collection's shard. Raises as ``active_files`` does.

    A schema that a rollback left equal to today's is not older, though its id is another.
    """
    files = active_files(store, version)
    born = birth_versions(store, version, {path for path, _ in files})
    entries = sorted(known, key=lambda entry: (entry.since_table_version, entry.schema_id))
    written: dict[str, list[RawAction]] = {entry.key: [] for entry in entries}  # ids count within one name, and a collection may get others
    for identity in sorted(files):
        written[_schema_at(entries, born.get(identity[0])).key].append(files[identity])
    there = [entry for entry in entries if written[entry.key]]
    shares = tuple(_share(entry.schema_id, written[entry.key]) for entry in there)
    old = tuple(file for entry in there if entry.physical.fields != current.physical.fields for file in written[entry.key])
    return SchemaAge(current.collection, current.schema_id, version, shares, old)


def birth_versions(store: ReadStore, version: int, paths: Set[str]) -> Mapping[str, int]:
    """Return, by path, the version that wrote each file. Files from before the log begins are left out.

    Read backwards, until every file was found. A deletion vector, RESTORE or CLONE adds a file again that is older than that commit.
    """
    born: dict[str, int] = {}
    for number in range(version, -1, -1):
        if len(born) == len(paths):
            break
        try:
            commit = read_commit(store, number)
        except LogTruncated:
            break
        born.update({path: number for path in _written_by(commit) if path in paths and path not in born})
    return born


def _written_by(commit: LogCommit) -> set[str]:
    """Return the paths of the files that this commit wrote itself."""
    if not commit.has_files or commit.restores:
        return set()
    again = {file_id(remove)[0] for remove in commit.removes}
    return {file_id(add)[0] for add in commit.adds} - again


def _schema_at(entries: Sequence[SchemaEntry], version: int | None) -> SchemaEntry:
    found = entries[0]
    for entry in entries:
        if version is not None and entry.since_table_version <= version:
            found = entry
    return found


def _share(schema_id: SchemaId, files: Sequence[RawAction]) -> Share:
    return Share(schema_id, len(files), sum(map(size_bytes, files)), rows_in_files(files))
