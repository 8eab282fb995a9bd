"""The names of a table's columns and fields in the data files, as the ledger knows them, and the fields under another one's name now.

A field is known by what the files call it and all that it is in: the struct around it may have another name, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.names import fields_in, physical_name
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.diff.drift import Drift
from airflow_provider_schemamig.core.schema.diff.renames import after_changes
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import join, parent_and_name, path_in_files, translate

#: What the fields are called in the data files, where that is another name (``SchemaEntry.stored_names``).
StoredNames = tuple[tuple[ColumnPath, str], ...]


def exchanged(entry: SchemaEntry, head: Head) -> tuple[Drift, ...]:
    """Return the columns and fields that go by the name of another one than the ledger recorded; types and names may be the same as ever.

    What another one is its name in the data files says. One that no schema knows is looked at where the recorded one has another name now:
    an attempt of ours may have added it, but gives no name away outside of an intent.
    """
    if _are_plain(entry, head):
        return ()
    recorded = {file: path for path, file in _recorded_in_files(entry).items()}
    called = {(file[:-1], parent_and_name(path)[1]): file for file, path in recorded.items()}
    now = {file: path for path, file in _live_in_files(head).items()}
    found = []
    for file, path in now.items():
        before = called.get((file[:-1], parent_and_name(path)[1]), file)
        owner, there = recorded.get(file), now.get(before)
        if before == file or (owner is None and there is None):
            continue
        which = f"the one they call {file[-1]}, which was {owner}" if owner is not None else f"a new one, and that is called {there}"
        found.append(Drift(path, f"the column that the data files call {before[-1]}", which))
    return tuple(found)


def added_in_place(entry: SchemaEntry, head: Head) -> tuple[Drift, ...]:
    """Return the columns and fields added under the name of a recorded one that is no longer on the table, under any name."""
    if _are_plain(entry, head):
        return ()
    recorded, now = _recorded_in_files(entry), _live_in_files(head)
    if recorded == now:
        return ()
    there, known = {file: path for path, file in now.items()}, set(recorded.values())
    called = {path: parent_and_name(there[file])[1] for path, file in recorded.items() if file in there}
    again = []
    for path, before in recorded.items():
        around, name = parent_and_name(path)
        file = now.get(join(translate(around, called), name), before)
        if file != before and before not in there and file not in known:
            again.append(Drift(path, f"the column that the data files call {before[-1]}", f"one that was added since, {file[-1]}"))
    return tuple(again)


def _are_plain(entry: SchemaEntry, head: Head) -> bool:
    """Return whether no column or field has, or had, another name in the data files than its own: none can go by the name of another."""
    return not entry.stored_names and not head.stored_names


def _recorded_in_files(entry: SchemaEntry) -> dict[ColumnPath, tuple[str, ...]]:
    names = dict(entry.stored_names)
    return {path: path_in_files(path, names) for path in known_names(entry, entry.physical)}


def _live_in_files(head: Head) -> dict[ColumnPath, tuple[str, ...]]:
    names = head.stored_names
    return {path: path_in_files(path, names) for path, _ in fields_in(head.schema)}


def known_names(entry: SchemaEntry, declaration: Declaration) -> dict[ColumnPath, str]:
    """Return what the data files call the columns and fields of one of the entry's declarations, by path.

    One that has just come under a name which the files have for another one is left out, with all that is in it: nobody has written down
    yet what they call it.
    """
    stored = dict(entry.stored_names)
    taken = {(parent_and_name(path)[0], name) for path, name in stored.items()}
    found: dict[ColumnPath, str] = {}
    unknown: list[str] = []
    for path, _ in walk(declaration.fields):  # outer before inner
        if path not in stored and (parent_and_name(path) in taken or path.startswith(tuple(unknown))):
            unknown.append(f"{path}.")
        else:
            found[path] = stored.get(path, parent_and_name(path)[1])
    return found


def names_of(head: Head) -> StoredNames:
    """Return the fields with another name in the data files, each with this name (``SchemaEntry.stored_names``)."""
    return tuple(sorted(head.stored_names.items()))


def names_after(entry: SchemaEntry, changes: Sequence[Change], head: Head) -> StoredNames:
    """Return what the fields of ``head`` are called in the data files after ``changes`` of ours; see ``names_kept``."""
    return names_kept(after_changes(known_names(entry, entry.physical), changes), head)


def names_recorded(entry: SchemaEntry, added: Collection[ColumnPath]) -> dict[ColumnPath, str]:
    """Return the names of the fields of ``entry`` in the data files, but for those that we have ``added`` again."""
    return {path: name for path, name in known_names(entry, entry.physical).items() if path not in added}


def names_kept(recorded: Mapping[ColumnPath, str], head: Head) -> StoredNames:
    """Return the names of the fields of ``head`` in the data files, for ``recorded`` fields the recorded names: what somebody made of them
    meanwhile is drift then."""
    names = {path: physical_name(field) for path, field in fields_in(head.schema)}
    names |= {path: name for path, name in recorded.items() if path in names}
    return tuple(sorted((path, name) for path, name in names.items() if name != parent_and_name(path)[1]))
