"""What differs between CHECKs, keys and foreign keys, with every column under the name the table has now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import AddCheck, AddForeignKey, AddKey, Change, DropCheck, DropForeignKey, DropKey
from airflow_provider_schemamig.core.schema.errors import NameTaken
from airflow_provider_schemamig.core.schema.expressions.parse import column_references
from airflow_provider_schemamig.core.schema.expressions.renames import rename_columns
from airflow_provider_schemamig.core.schema.model import Check, Declaration, ForeignKey, Key
from airflow_provider_schemamig.core.schema.paths import translate


@dataclass(frozen=True, slots=True)
class Names:
    """How columns are called by the three schemas. Maps full paths to last names, and only where they differ."""

    #: path in the old declaration -> name in the new one: the declared renames, and the names of columns that make way for another
    old_to_new: Mapping[ColumnPath, str]
    #: path in the new declaration -> name on the table now
    new_to_now: Mapping[ColumnPath, str]
    #: New top-level columns (lower case) whose name means another column on the table until cut-over.
    late: frozenset[str]

    def now(self, column: str, used_by: str) -> str:
        """Return a column or dotted path of the new declaration as the table calls it now. Raises NameTaken."""
        if column.partition(".")[0].lower() in self.late:
            raise NameTaken(path=column, used_by=used_by)
        return translate(column, self.new_to_now)


def dropped_constraints(now: Declaration, old: Declaration, new: Declaration, names: Names) -> Iterator[Change]:
    """Yield what has to go first: it may use columns that are renamed or dropped."""
    for foreign_key in old.foreign_keys:
        if _renamed_foreign_key(foreign_key, names, old) not in new.foreign_keys:
            yield DropForeignKey(foreign_key)
    yield from _dropped_primary_key(now, old, new, names)
    for key in old.uniques:
        if _renamed_key(key, names) not in new.uniques:
            yield DropKey(key, primary=False)
    yield from _dropped_checks(now, old, new, names)


def added_constraints(now: Declaration, old: Declaration, new: Declaration, names: Names) -> Iterator[Change]:
    """Yield what the new declaration adds, with columns under the names the table has now. Raises NameTaken."""
    yield from _added_checks(now, old, new, names)
    if new.primary_key is not None and new.primary_key != _renamed_primary_key(old, names):
        primary = _key_now(new.primary_key, names, "a PRIMARY KEY")
        if primary != now.primary_key:
            yield AddKey(primary, primary=True)
    uniques = {_renamed_key(key, names) for key in old.uniques}
    for key in (_key_now(key, names, "a UNIQUE") for key in new.uniques if key not in uniques):
        if key not in now.uniques:
            yield AddKey(key, primary=False)
    known = {_renamed_foreign_key(foreign_key, names, old) for foreign_key in old.foreign_keys}
    for foreign_key in (_foreign_key_now(foreign_key, names, new) for foreign_key in new.foreign_keys if foreign_key not in known):
        if foreign_key not in now.foreign_keys:
            yield AddForeignKey(foreign_key)


def kept_foreign_keys(old: Declaration, new: Declaration, renames: Mapping[ColumnPath, str]) -> list[ForeignKey]:
    """Return the foreign keys to other collections that are no change."""
    names = Names(renames, {}, frozenset())
    before = {_renamed_foreign_key(key, names, old) for key in old.foreign_keys}
    return [key for key in new.foreign_keys if key in before and key.references != new.name]


def _dropped_checks(now: Declaration, old: Declaration, new: Declaration, names: Names) -> Iterator[Change]:
    live = {check.name: check for check in now.checks}
    wanted = {check.name: check for check in new.checks}
    for check in old.checks:
        here, after = live.get(check.name), wanted.get(check.name)
        if here is None or _renamed_check(check, names, old) == after:
            continue
        if after is None or here != _check_now(after, names, new):
            yield DropCheck(here)


def _added_checks(now: Declaration, old: Declaration, new: Declaration, names: Names) -> Iterator[Change]:
    before = {_renamed_check(check, names, old) for check in old.checks}
    declared = {check.name for check in old.checks}
    live = {check.name: check for check in now.checks}
    for check in new.checks:
        if check in before:
            continue
        wanted, here = _check_now(check, names, new), live.get(check.name)
        if here == wanted:
            continue
        if here is not None and check.name not in declared:  # left behind by a rollback
            yield DropCheck(here)
        yield AddCheck(wanted)


def _dropped_primary_key(now: Declaration, old: Declaration, new: Declaration, names: Names) -> Iterator[Change]:
    if old.primary_key is None or _renamed_primary_key(old, names) == new.primary_key:
        return
    live = now.primary_key or old.primary_key
    if new.primary_key is None or live != _key_now(new.primary_key, names, "a PRIMARY KEY"):
        yield DropKey(live, primary=True)


def _renamed_primary_key(old: Declaration, names: Names) -> Key | None:
    return None if old.primary_key is None else _renamed_key(old.primary_key, names)


def _renamed_key(key: Key, names: Names) -> Key:
    return replace(key, columns=tuple(translate(column, names.old_to_new) for column in key.columns))


def _key_now(key: Key, names: Names, used_by: str) -> Key:
    return replace(key, columns=tuple(names.now(column, used_by) for column in key.columns))


def _renamed_foreign_key(key: ForeignKey, names: Names, old: Declaration) -> ForeignKey:
    columns = tuple(translate(column, names.old_to_new) for column in key.columns)
    if key.references != old.name:
        return replace(key, columns=columns)
    return replace(key, columns=columns, referenced_columns=tuple(translate(column, names.old_to_new) for column in key.referenced_columns))


def _foreign_key_now(key: ForeignKey, names: Names, new: Declaration) -> ForeignKey:
    columns = tuple(names.now(column, "a FOREIGN KEY") for column in key.columns)
    if key.references != new.name:
        return replace(key, columns=columns)
    return replace(key, columns=columns, referenced_columns=tuple(names.now(column, "a FOREIGN KEY") for column in key.referenced_columns))


def _renamed_check(check: Check, names: Names, old: Declaration) -> Check:
    if not names.old_to_new:
        return check
    return Check(check.name, rename_columns(check.expression, names.old_to_new, old.fields))


def _check_now(check: Check, names: Names, new: Declaration) -> Check:
    if names.late:
        for column in column_references(check.expression):
            names.now(column, f"the CHECK {check.name}")
    if not names.new_to_now:
        return check
    return Check(check.name, rename_columns(check.expression, names.new_to_now, new.fields))
