"""Find what a table's log tells by itself: values that belong to no column (2), values that are missing (4), an index not there (5).

The numbers are those of the conditions in docs/online-changes.md. No rows are read, no JVM is started.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction, file_id, json_object
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits, null_count
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.names import physical_name, stored_field
from airflow_provider_schemamig.core.ledger.rows import IntentKind, SchemaEntry
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.online.unfilled import Past, filled_column, lays_out
from airflow_provider_schemamig.core.schema.delta_rules.table_features import DEFAULT_KEY, MAPPING_MODE
from airflow_provider_schemamig.core.schema.diff.renames import is_outdated, is_stand_in, stands_in_for
from airflow_provider_schemamig.core.schema.model import walk
from airflow_provider_schemamig.core.transfer.file_subset import rows_in_files
from airflow_provider_schemamig.core.upgrade.plan.columns.uses import schemas_upto, spans_of
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import kept_fields, unclosed_holds
from airflow_provider_schemamig.core.upgrade.verify.attempts import given_up
from airflow_provider_schemamig.core.upgrade.verify.findings import Condition, TableFinding
from airflow_provider_schemamig.core.upgrade.verify.table import MOST_FILES, File, VerifiedTable

#: A literal that is not NULL: every row that was filled with it has a value.
_VALUE = re.compile(
    r"""-?\d[\w.]*|true|false|(?:(?:date|timestamp|timestamp_ntz)\s*)?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.IGNORECASE
)


# --- 2: values without their column --------------------------------------------------------------------------------------------------


def unknown_columns(table: VerifiedTable) -> Iterator[TableFinding]:
    """Yield the columns of the table that neither the ledger nor an open change accounts for, the outermost of each."""
    known = {path for declaration in (table.entry.physical, *table.in_flight) for path, _ in walk(declaration.fields)}
    found: list[ColumnPath] = []
    for path, _ in walk(table.live.fields):
        if path not in known and not any(path.startswith(f"{outer}.") for outer in found):
            found.append(path)
    for path in found:
        text = f"the table has a column {path}, and neither the ledger nor a change under way knows of it"
        yield TableFinding(Condition.VALUE_WITHOUT_COLUMN, table.collection, f"column:{path}", text, _values(table, path))


def left_over_columns(table: VerifiedTable) -> Iterator[TableFinding]:
    """Yield the columns of the old type that a change of type set aside, and nobody is going to drop."""
    due = kept_fields(table.state, table.collection, unclosed_holds(table.state))
    if table.in_flight:
        return
    for field in table.live.fields:
        if is_outdated(field.name) and field.name not in due:
            text = f"{field.name} was set aside by a change of type, and no hold is going to drop it"
            yield TableFinding(Condition.VALUE_WITHOUT_COLUMN, table.collection, f"column:{field.name}", text, _values(table, field.name))


def values_without_column(table: VerifiedTable) -> Iterator[TableFinding]:
    """Yield the values of files under a name that the table does not have: a column of that name would bring the values back.

    Not asked of tables with column mapping, where a dropped column's name in the files is never used again.
    """
    if table.head.properties.get(MAPPING_MODE, "none").lower() != "none":
        return
    known = {physical_name(field) for field in table.head.schema["fields"]}
    by_name: dict[str, list[File]] = {}
    for file in table.files:
        for name in _names(file.add) - known:
            by_name.setdefault(name, []).append(file)
    for name, files in sorted(by_name.items()):
        text = f"files hold values under {name}, which is no column of the table: adding one of that name would bring them back"
        rows = _total(_filled_rows(file.add, name) for file in files)
        yield _finding(table, Condition.VALUE_WITHOUT_COLUMN, f"column:{name}", text, rows, files)


def _values(table: VerifiedTable, path: str) -> int | None:
    """Count the rows with a value in a top-level column; None if the statistics do not tell."""
    field = next((field for field in table.head.schema["fields"] if field["name"] == path), None)
    return None if field is None else _total(_filled_rows(file.add, physical_name(field)) for file in table.files)


def _filled_rows(add: RawAction, name: str) -> int | None:
    rows, nulls = rows_in_files([add]), null_count(add, (name,))
    return None if rows is None or nulls is None else max(rows - nulls, 0)


def _names(add: RawAction) -> frozenset[str]:
    """Return the top-level columns that a file's statistics speak of, and have a value in."""
    statistics = json_object(add.get("stats")) or {}
    rows, nulls = statistics.get("numRecords"), statistics.get("nullCount")
    return frozenset(name for name, count in nulls.items() if count != rows) if isinstance(nulls, dict) else frozenset()


# --- 4: values that are missing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Added:
    """A column that came with a default. Older rows had to get it. ``began``: the commit from which on new rows do.

    ``name``: now; ``called``: at that commit."""

    name: str
    called: str
    physical: str
    default: str
    began: int


def unfilled_defaults(table: VerifiedTable) -> Iterator[TableFinding]:
    """Yield rows that are older than a column with a default and did not get it. What the log does not reach any more is not looked at."""
    for added in _added_columns(table):
        try:
            files, stale = _without_value(table, added), _given_up(table, added)
        except LogTruncated:
            continue
        if stale:
            text = (
                f"{added.name} came with DEFAULT {added.default} in version {added.began}, and older rows have what an attempt before gave"
            )
            yield _finding(table, Condition.VALUE_MISSING, f"column:{added.name}", text, _total(file.rows for file in stale), stale)
        if files:
            text = f"{added.name} came with DEFAULT {added.default} in version {added.began}, and older rows did not get it"
            rows = _total(_missing_rows(file.add, added.physical) for file in files)
            yield _finding(table, Condition.VALUE_MISSING, f"column:{added.name}", text, rows, files)


def _added_columns(table: VerifiedTable) -> Iterator[_Added]:
    """Yield the columns added with a default by each schema of the table, and those that an online change made PUBLIC since the newest.
    What a rollback left hidden is nobody's to rely on: an upgrade that shows it again fills it first."""
    entries = schemas_upto(table.state, table.entry)[::-1]
    kept = kept_fields(table.state, table.collection, unclosed_holds(table.state))
    visible = _stored_columns(table.entry) | {table.entry.stored_name(name) for name in kept}
    ends = [entry.since_table_version - 1 for entry in entries[1:]] + [table.head.version]
    for old, new, end in zip(entries, entries[1:], ends[1:], strict=False):
        there = (_defaults(new).keys() - _stored_columns(old)) & visible
        yield from _added_between(table, new.since_table_version - 1, end, {name: _defaults(new)[name] for name in there})
    public = {name.partition(":")[2] for name in table.elements if name.startswith("column:") and table.is_public(name)}
    defaults = {column.name: column.default for column in table.live.fields}
    wanted = {physical_name(field): str(defaults[field["name"]]) for field in _fields(table.head) if field["name"] in public}
    yield from _added_between(table, entries[-1].since_table_version, table.head.version, wanted)


def _stored_columns(entry: SchemaEntry) -> frozenset[str]:
    return frozenset(entry.stored_name(field.name) for field in entry.declared.fields)


def _defaults(entry: SchemaEntry) -> Mapping[str, str]:
    """Return the defaults by the columns' names in the files."""
    return {entry.stored_name(field.name): field.default for field in entry.declared.fields if field.default is not None}


def _added_between(table: VerifiedTable, lo: int, hi: int, defaults: Mapping[str, str]) -> Iterator[_Added]:
    """Yield columns that came after version ``lo``, up to ``hi``. ``defaults``: theirs, by the columns' names in the files."""
    wanted = {physical: default for physical, default in defaults.items() if _VALUE.fullmatch(default)}
    if not wanted:
        return
    try:
        before = read_head(table.store, max(lo, 0))
        changed = [commit for commit in commits(table.store, max(lo, 0), hi) if commit.metadata is not None]
    except LogTruncated:
        return
    for field in _fields(table.head):
        physical = physical_name(field)
        began = _default_since(before, changed, physical) if physical in wanted else None
        if began is not None:
            yield _Added(str(field["name"]), began[1], physical, wanted[physical], began[0])


def _default_since(before: Head, changed: Sequence[LogCommit], physical: str) -> tuple[int, str] | None:
    """Return our last commit that added or unhid the column with a default, and its name then. A default that moves to the column of
    another type brings no value: there it is the change of type that does. Nor does a ``revert``: its column is NULL in every row."""
    began, was = None, stored_field(before.schema, physical)
    for commit in changed:
        now = stored_field(_schema_of(commit), physical)
        if now is not None and _has_default(now) and not _has_default(was):
            moved = was is not None and is_stand_in(str(was["name"]))
            is_reverted = commit.about is not None and commit.about.get("action") == IntentKind.REVERT.value
            began = began if moved or commit.about is None or is_reverted else (commit.version, str(now["name"]))
            began = None if is_reverted and was is None else began
        was = now
    return began


def _without_value(table: VerifiedTable, added: _Added) -> list[File]:
    """Return today's files with rows that are NULL in the column and should not be. They are older than the column, came while it was
    hidden, or are copies of such rows. Raises LogTruncated."""
    past = _past(table, added)
    start, is_new = _came_in(table, added, past)
    owed = {file_id(add)[0] for add in active_files(table.store, start).values()} if is_new else set()
    ever, hidden = set(owed), not is_new
    for commit in commits(table.store, start, table.head.version):
        if commit.metadata is not None:
            hidden = not _has_default(stored_field(_schema_of(commit), added.physical))
        gone = {file_id(remove)[0] for remove in commit.removes}
        copies, fills = not gone.isdisjoint(owed), filled_column(commit) == added.called
        lacks = commit.version <= added.began and hidden and not gone and not past.is_used_at(commit.version)
        owed -= gone
        for add in commit.adds:
            path = file_id(add)[0]
            if path in ever and (path in gone or commit.restores):
                owed.add(path)  # the same file, with another deletion vector or brought back
            elif (copies or lacks) and _lacks(add, added.physical, filled=fills):
                owed.add(path)
        ever |= owed
    return [file for file in table.files if file.path in owed and file.rows != 0 and _missing_rows(file.add, added.physical) != 0]


def _given_up(table: VerifiedTable, added: _Added) -> list[File]:
    """Return today's files with rows that have a wrong value from a cancelled attempt. Looked for only where no release had
    the column before: what rows got then is theirs. Raises LogTruncated."""
    past = _past(table, added)
    earlier = [entry for entry in schemas_upto(table.state, table.entry) if entry.since_table_version <= added.began][1:]
    start, is_new = _came_in(table, added, past)
    if past.uses or not is_new or any(added.physical in _stored_columns(entry) for entry in earlier):
        return []
    found = given_up(table, start, added.began, added.physical, added.called)
    return [file for file in table.files if found.get(file.path, added.default) != added.default and file.rows != 0]


def _past(table: VerifiedTable, added: _Added) -> Past:
    return Past(tuple((after, upto) for after, upto in spans_of(table.entry, added.physical) if upto < added.began))


def _came_in(table: VerifiedTable, added: _Added, past: Past) -> tuple[int, bool]:
    """Return the version from which on rows have to be looked at, and whether all rows of then lack the column (it came next). Else they
    had their values: a release had filled it. Raises LogTruncated."""
    filled_at = -1 if past.all_filled_at is None else past.all_filled_at
    if stored_field(read_head(table.store, added.began - 1).schema, added.physical) is None:
        return added.began, True
    for version in range(added.began - 1, filled_at, -1):
        (commit,) = commits(table.store, version - 1, version)
        if commit.metadata is not None and stored_field(_schema_of(commit), added.physical) is None:
            return version, True
    return max(filled_at, 0), filled_at < 0


def _lacks(add: RawAction, physical: str, *, filled: bool) -> bool:
    """Return whether a file with copies of older rows has a NULL; an unknown number counts, unless a batch of ours filled the file."""
    nulls = null_count(add, (physical,))
    return nulls != 0 if not filled else nulls is not None and nulls > 0


def _missing_rows(add: RawAction, physical: str) -> int | None:
    """Count a file's rows without a value: a file that does not know of the column lacks it in every row."""
    nulls = null_count(add, (physical,))
    return rows_in_files([add]) if nulls is None else nulls


def unfilled_swaps(table: VerifiedTable) -> Iterator[TableFinding]:
    """Yield changes of type that swapped in the new column while rows had no value in it, as long as the old one is there."""
    for field in table.live.fields:
        with contextlib.suppress(LogTruncated):
            if is_outdated(field.name) and (found := _swap(table, field.name)) is not None:
                yield from _unfilled_at(table, found)


@dataclass(frozen=True, slots=True)
class _Swapped:
    """A change of type: the ``version`` that let a ``column`` take the place of another one, and what it was called until then."""

    version: int
    column: str
    shadow: str
    physical: str


def _swap(table: VerifiedTable, outdated: str) -> _Swapped | None:
    """Return the one that set a column aside under this name.

    None if it was not set aside by the newest change. Raises LogTruncated."""
    found, before = None, _fields(read_head(table.store, _newest_begin(table)))
    for commit in commits(table.store, _newest_begin(table), table.head.version):
        if commit.metadata is not None:
            after = _fields_of(commit)
            found = _swapped(commit.version, outdated, before, after) or found
            before = after
    return found


def _newest_begin(table: VerifiedTable) -> int:
    """Return a version before the commits for the table's newest schema. If it is the only one: before a change under way."""
    *before, newest = schemas_upto(table.state, table.entry)[::-1]
    return before[-1].since_table_version if before else newest.since_table_version


def _swapped(version: int, outdated: str, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> _Swapped | None:
    """Return the swap in a commit, whatever else it renames: another column may get the name that was set aside."""
    was, now = ({physical_name(field): str(field["name"]) for field in fields} for fields in (before, after))
    aside = next((was[physical] for physical, name in now.items() if name == outdated and physical in was), outdated)
    if aside == outdated:
        return None
    shadows = (physical for physical, name in was.items() if stands_in_for(name, aside) and not is_outdated(name))
    came = next((physical for physical in shadows if physical in now and not is_stand_in(now[physical])), None)
    return None if came is None else _Swapped(version, now[came], was[came], came)


def _unfilled_at(table: VerifiedTable, swapped: _Swapped) -> Iterator[TableFinding]:
    """Yield files at a swap that no batch of its fill wrote: nobody else keeps a shadow column right."""
    version, column, filled = swapped.version, swapped.column, _filled(table, swapped)
    files = [File(add, None) for identity, add in sorted(active_files(table.store, version).items()) if identity[0] not in filled]
    files = [file for file in files if file.rows != 0]
    if files:
        text = f"{column} got its new type in version {version}, when rows had no value of that type yet"
        yield _finding(table, Condition.VALUE_MISSING, f"type:{column}", text, _total(file.rows for file in files), files)


def _filled(table: VerifiedTable, swapped: _Swapped) -> frozenset[str]:
    """Return the files written by batches of the swap's fill, and those that batches for another column, or clustering, made of them.

    The shadow may have come with an earlier attempt: the fill is looked for from there, or from where it was the column in use: what was
    there then had its values. Raises LogTruncated.
    """
    seen: list[LogCommit] = []
    filled: set[str] = set()
    aside = swapped.version
    for version in range(swapped.version - 1, 0, -1):
        (commit,) = commits(table.store, version - 1, version)
        if commit.metadata is not None:
            field = stored_field(_schema_of(commit), swapped.physical)
            if field is None:
                break
            if not is_stand_in(str(field["name"])):
                filled = {identity[0] for identity in active_files(table.store, aside)}
                break
            aside = version
        if filled_column(commit) is not None or lays_out(commit):
            seen.append(commit)
    begin = next((_begin_of(commit) for commit in seen if filled_column(commit) == swapped.shadow), None)
    for commit in reversed(seen):
        own = filled_column(commit) == swapped.shadow and _begin_of(commit) == begin
        gone = {file_id(remove)[0] for remove in commit.removes}
        if own or (gone and gone <= filled):
            filled |= {file_id(add)[0] for add in commit.adds}
    return frozenset(filled)


def _begin_of(commit: LogCommit) -> str | None:
    """Return the version of the metadata commit that the batch's fill began with: another attempt has another one."""
    return (commit.info.get("operationParameters") or {}).get("since")


# --- 5: an index that is not there ---------------------------------------------------------------------------------------------------


def missing_clustering(table: VerifiedTable) -> Iterator[TableFinding]:
    """Yield a missing clustering, by its columns alone: which files are in order is Delta's to know, and no answer depends on it."""
    known = {declaration.clustered_by for declaration in (table.entry.physical, *table.in_flight)}
    wanted = table.entry.declared.clustered_by
    if wanted and table.live.clustered_by not in known:
        found = ", ".join(table.live.clustered_by) or "nothing"
        text = f"declared CLUSTER BY ({', '.join(wanted)}), and the table is clustered by {found}"
        yield TableFinding(Condition.INDEX_INCOMPLETE, table.collection, "clustering", text, None)


# --- common --------------------------------------------------------------------------------------------------------------------------


def _finding(table: VerifiedTable, condition: Condition, element: str, text: str, rows: int | None, files: Sequence[File]) -> TableFinding:
    shown = tuple(file.path for file in files[:MOST_FILES])
    return TableFinding(condition, table.collection, element, text, rows, (), shown, table.written_by(shown))


def _total(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _fields(head: Head) -> Sequence[Mapping[str, Any]]:
    return tuple(head.schema["fields"])


def _fields_of(commit: LogCommit) -> Sequence[Mapping[str, Any]]:
    return tuple(_schema_of(commit)["fields"])


def _schema_of(commit: LogCommit) -> Mapping[str, Any]:
    """Return the schema of a commit with metadata."""
    assert commit.metadata is not None
    schema: Mapping[str, Any] = json.loads(commit.metadata["schemaString"])
    return schema


def _has_default(field: Mapping[str, Any] | None) -> bool:
    return field is not None and DEFAULT_KEY in (field.get("metadata") or {})
