"""The writers of rows that break a key: what came since a version, by the log, and what to ask Spark about it.

No writer but ours looks at keys, and nothing on the table makes Delta abort who does not know them. So commits are looked at afterwards,
each once: the rows of files that came since are compared with all rows. Read-only; what is known to be right is the caller's to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote

from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction, file_id
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.keys import Reference, Unique
from airflow_provider_schemamig.core.storage import ReadStore

#: Of more files than this every row is asked: naming them would cost more than it spares.
_MOST_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Source:
    """A commit, as its ``commitInfo`` tells of it."""

    version: int
    operation: str
    user_metadata: str | None


@dataclass(frozen=True, slots=True)
class Validated:
    """The rows of table version ``version`` are known to keep a key; a foreign key against ``referenced`` of the table it refers to."""

    version: int
    referenced: int | None = None


@dataclass(frozen=True, slots=True)
class PinnedKeys:
    """A table at the version that is looked at, with a key's columns by their names there."""

    store: ReadStore
    head: Head
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PendingKeyCheck:
    """What has to be asked of a key. ``check``: for the job ``preflight``; None: no row came that could break it.

    ``new_files``: by name, the files whose rows are asked; None: all files are.
    """

    collection: CollectionName
    key: Unique | Reference
    check: Mapping[str, Any] | None
    new_files: Mapping[str, Source] | None
    validated: Validated


@dataclass(frozen=True, slots=True)
class KeyFinding:
    """``rows`` that break a key, up to 5 of them (or of their keys) as text. ``source``: the commit that wrote the files they lie in, which
    an UPDATE or a compaction makes another one than that which first brought them; None: all rows were asked, whoever wrote them."""

    collection: CollectionName
    key: str
    rows: int
    sample: tuple[str, ...]
    source: Source | None


# --- what came -----------------------------------------------------------------------------------------------------------------------


def new_files(store: ReadStore, since: int, upto: int) -> Mapping[str, Source]:
    """Return the files at ``upto`` that have rows from after ``since``: path -> who wrote it. Raises LogTruncated, TableMissing.

    Rows that an UPDATE copied come anew, too, because the log does not tell them from others. Rows that were only moved (OPTIMIZE) are as
    new as they were where they came from, and a file with another deletion vector has fewer rows, not other ones, but after a RESTORE.
    """
    found: dict[str, Source] = {}
    for commit in commits(store, since, upto):
        moved = {path: found.pop(path, None) for path in (file_id(remove)[0] for remove in commit.removes)}
        for add in commit.adds:
            source = _source_of(add, commit, moved)
            if source is not None:
                found[file_id(add)[0]] = source
    return found


def _source_of(add: RawAction, commit: LogCommit, moved: Mapping[str, Source | None]) -> Source | None:
    path = file_id(add)[0]
    if path in moved and not commit.restores:  # which brings back what a vector hid
        return moved[path]
    info = commit.info
    own = Source(commit.version, str(info.get("operation") or ""), info.get("userMetadata"))
    if add.get("dataChange", True):
        return own
    before = {source for source in moved.values() if source is not None}
    return before.pop() if len(before) == 1 else own if before else None


def lost_rows(store: ReadStore, since: int, upto: int) -> bool:
    """Return whether a commit after ``since`` took rows away or changed some: others may have referred to them. Raises as ``new_files``."""
    return any(remove.get("dataChange", True) for commit in commits(store, since, upto) for remove in commit.removes)


# --- what to ask ---------------------------------------------------------------------------------------------------------------------


def pending_key_check(
    collection: CollectionName, key: Unique | Reference, table: PinnedKeys, referenced: PinnedKeys | None, since: Validated | None
) -> PendingKeyCheck:
    """Return what of a key is still to be validated. Raises TableMissing.

    ``since``: None if nothing is known. ``referenced``: the table that a foreign key refers to.
    """
    new = _new_files(table, referenced, since)
    validated = Validated(table.head.version, None if referenced is None else referenced.head.version)
    if new is not None and not new:
        return PendingKeyCheck(collection, key, None, new, validated)
    check: dict[str, Any] = {
        "collection": collection,
        "uri": table.head.location.uri,
        "version": table.head.version,
        "rule": key.rule,
        "kind": "duplicate_key" if referenced is None else "orphans",
        "columns": list(table.columns),
    }
    if referenced is not None:
        check["referenced_uri"] = referenced.head.location.uri
        check["referenced_version"] = referenced.head.version
        check["referenced_columns"] = list(referenced.columns)
    if new is not None:
        check["new_files"] = sorted(new)
    return PendingKeyCheck(collection, key, check, new, validated)


def _new_files(table: PinnedKeys, referenced: PinnedKeys | None, since: Validated | None) -> Mapping[str, Source] | None:
    """Return the files that are new since ``since``, by file name; None if every row has to be asked."""
    if since is None or since.version > table.head.version:
        return None
    try:
        if referenced is not None and _may_dangle(referenced, since):
            return None
        found = new_files(table.store, since.version, table.head.version)
    except LogTruncated:
        return None
    names = {path.rpartition("/")[2]: source for path, source in found.items()}
    plain = all(percent_encoded(name) == name for name in names)  # else Spark may spell it otherwise than we do
    return names if plain and len(names) == len(found) <= _MOST_FILES else None


def _may_dangle(referenced: PinnedKeys, since: Validated) -> bool:
    known, now = since.referenced, referenced.head.version
    return known is None or known > now or lost_rows(referenced.store, known, now)


# --- what was found ------------------------------------------------------------------------------------------------------------------


def findings(asked: PendingKeyCheck, violations: Sequence[Mapping[str, Any]]) -> tuple[KeyFinding, ...]:
    """Return the job's violations of this very check, by commit; oldest first."""
    return tuple(finding for violation in violations for finding in _findings(asked, violation))


def _findings(asked: PendingKeyCheck, violation: Mapping[str, Any]) -> Iterator[KeyFinding]:
    if asked.new_files is None:
        yield KeyFinding(asked.collection, asked.key.rule, int(violation["count"]), _texts(violation["sample"]), None)
        return
    by_source: dict[Source, list[Mapping[str, Any]]] = {}
    for item in violation["by_file"]:
        name = unquote(str(item["file"])).rpartition("/")[2]
        by_source.setdefault(asked.new_files[name], []).append(item)
    for source, items in sorted(by_source.items(), key=lambda found: found[0].version):
        rows = sum(int(item["rows"]) for item in items)
        yield KeyFinding(asked.collection, asked.key.rule, rows, _texts([item["sample"] for item in items]), source)


def _texts(sample: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(", ".join(f"{name} = {value}" for name, value in row.items()) for row in sample[:5])
