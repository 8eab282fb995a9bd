"""What somebody else made of a live table: the changes behind a drift, and what it takes to undo them (docs/adopting.md).

Drift itself is found by ``live_tables.drift_of``. Here is said what it comes from: a column that goes by another name in the schema and by
its old one in the data files was renamed, not dropped and added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from airflow_provider_schemamig.core.delta.log.commits import files_since, nulls_since
from airflow_provider_schemamig.core.delta.log.head import Head, LogTruncated, read_head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.names import fields_in, physical_name
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.diff.drift import keeps_enough, live_differences
from airflow_provider_schemamig.core.schema.diff.renames import is_stand_in
from airflow_provider_schemamig.core.schema.expressions.parse import column_references
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import field_at, parent_and_name, translate
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.upgrade.drift.errors import SealedByLostHistory
from airflow_provider_schemamig.core.upgrade.plan.column_names import exchanged
from airflow_provider_schemamig.core.upgrade.plan.live_tables import came_again
from airflow_provider_schemamig.core.upgrade.tables.inverse import inverse_renames
from airflow_provider_schemamig.exceptions import Refusal


@dataclass(frozen=True)
class Foreign:
    """A table that differs from ``entry``, or has another id than ``table_id``. ``renames``: recorded path -> its last name now.

    ``again``: columns that were dropped and added again. No change of a schema says so, the ledger takes note of it.
    """

    entry: SchemaEntry
    table_id: str
    head: Head
    recorded: Declaration
    live: Declaration
    renames: Mapping[ColumnPath, str]
    again: tuple[ColumnPath, ...]

    @property
    def has_other_id(self) -> bool:
        return self.head.table_id != self.table_id

    @cached_property
    def changes(self) -> tuple[c.Change, ...]:
        """Return the changes from the recorded to the live declaration. Raises NameTaken, RenameInLambda."""
        return _worth(diff(self.recorded, self.live, self.renames).changes)

    @cached_property
    def inverse(self) -> tuple[c.Change, ...]:
        """Return the changes from the live to the recorded declaration, orders included. Raises as ``changes``."""
        return diff(self.live, self.recorded, inverse_renames(tuple(self.renames.items()))).changes

    @cached_property
    def visible(self) -> tuple[c.Change, ...]:
        """Return the changes without those of hidden columns, which no release declares. Raises as ``changes``, and NotApplicable."""
        declared = {path for path, _ in walk(self.entry.declared.fields)}
        hidden = outermost(path for path, _ in walk(self.recorded.fields) if path not in declared)
        if not hidden:
            return self.changes
        now = [translate(path, self.renames) for path in hidden]
        before = apply(self.recorded, [c.DropColumn(path) for path in hidden])
        after = apply(self.live, [c.DropColumn(path) for path in now if field_at(self.live.fields, path) is not None])
        return _worth(diff(before, after, {path: name for path, name in self.renames.items() if path in declared}).changes)


def refuse_lost_seal(state: State, name: CollectionName, head: Head) -> None:
    """Raise SealedByLostHistory for a seal that the ledger does not know.

    Whoever asks what can be done about drift then looks for why nothing can be written: that there is no drift would be no answer.
    """
    if head.sealed_for is not None and not state.intents_of(state.shard_of(name).shard):
        raise SealedByLostHistory(collection=name, uri=head.location.uri, moved_to=head.sealed_for)


def foreign_changes(state: State, collection: CollectionName, head: Head) -> Foreign | None:
    """Return the changes that others made to a table; None if the table is as recorded. Not to be asked about another table.

    Intents are not looked at: ``drift_of`` says whether the table is about to be changed by us.
    """
    entry = state.entry(collection)
    live = head.declaration(collection)
    table_id = state.shards[entry.shard].table_id
    again = tuple(ColumnPath(difference.path) for difference in came_again(state, entry, head))
    if head.table_id == table_id and not live_differences(entry.physical, live) and not exchanged(entry, head) and not again:
        return None
    declared = dict(entry.physical.properties)
    # A retention that is longer than declared is no drift, so nobody has to accept or revert it: it may be a pin's.
    longer = {key: value for key, value in declared.items() if keeps_enough(key, head.properties.get(key), value)}
    found = {key: value for key, value in live.properties if key in declared or key == FORGETS} | longer
    live = replace(live, properties=tuple(sorted(found.items())))
    return Foreign(entry, table_id, head, _comparable(entry.physical), _comparable(live), _renames(entry, head), again)


def _comparable(declaration: Declaration) -> Declaration:
    """Return the declaration without what is no part of drift: keys are on no table, clustering is not in its metaData."""
    return replace(declaration, clustered_by=(), primary_key=None, uniques=(), foreign_keys=())


def _worth(changes: Iterable[c.Change]) -> tuple[c.Change, ...]:
    """Return the changes without comments and orders, which are no drift."""
    return tuple(change for change in changes if change.cost is not c.Cost.NONE)


def outermost(paths: Iterable[ColumnPath]) -> list[ColumnPath]:
    """Return the paths without those inside of another one, which comes before them."""
    found: list[ColumnPath] = []
    for path in paths:
        if not any(path.startswith(f"{outer}.") for outer in found):
            found.append(path)
    return found


def _renames(entry: SchemaEntry, head: Head) -> dict[ColumnPath, str]:
    """Return the recorded fields that have another name now, by the name they have in the data files, in the same struct.

    The new name is one that nobody had, or that another one had and lost.
    """
    live = {path: physical_name(field) for path, field in fields_in(head.schema)}
    stored, moved = dict(entry.stored_names), {ColumnPath(difference.path) for difference in exchanged(entry, head)}
    known = [path for path, _ in walk(entry.physical.fields)]
    found: dict[ColumnPath, str] = {}
    for path in known:  # outer before inner: what is inside of a renamed struct is looked for there
        here = translate(path, found)
        parent, name = parent_and_name(here)
        identity, taken = stored.get(path, name), {translate(other, found) for other in known} - moved
        if live.get(here) == identity or (here in live and not moved):
            continue
        for other, its_name in live.items():
            if its_name == identity and parent_and_name(other)[0] == parent and other not in taken:
                found[path] = parent_and_name(other)[1]
                break
    return found


# --- undoing it ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reversal:
    """What it takes to bring the table back. ``losses``: what would be gone for good; ``impossible``: why it cannot be done at all.

    ``forget``: columns among the drops that no file carries. ``began``: the version that began the drift, None if the log does not tell.
    """

    changes: tuple[c.Change, ...]
    forget: tuple[ColumnPath, ...]
    losses: tuple[str, ...]
    impossible: tuple[str, ...]
    began: int | None


def reversal(store: ReadStore, foreign: Foreign) -> Reversal:
    """Return how ``revert`` would undo what was done to the table."""
    began = began_at(store, foreign)
    files_came = began is None or files_since(store, began - 1)
    changes = foreign.inverse
    losses = [f"{path}: it was dropped, and its values are gone; the one that was added since stays" for path in foreign.again]
    impossible = _asked_of_lost_values(foreign, changes)
    for change in changes:
        loss, obstacle = _judged(store, foreign, change, began, files_came)
        losses += [loss] if loss else []
        impossible += [obstacle] if obstacle else []
    forget = () if files_came else tuple(change.path for change in changes if isinstance(change, c.DropColumn))
    if not impossible:
        impossible += _tried(foreign, changes, forget)
    return Reversal(changes, forget, tuple(losses), tuple(impossible), began)


def emptied_columns(foreign: Foreign, changes: Sequence[c.Change]) -> list[ColumnPath]:
    """Return the columns whose values are gone once these changes have undone it."""
    return outermost([*(change.path for change in changes if isinstance(change, c.AddColumn)), *foreign.again])


def _asked_of_lost_values(foreign: Foreign, changes: Sequence[c.Change]) -> list[str]:
    """Return, in words, the rules that cannot come back, because their columns have NULL in older rows now.

    NULL breaks a CHECK, too: Delta asks for TRUE.
    """
    emptied = emptied_columns(foreign, changes)
    found = []
    for change in changes:
        if isinstance(change, c.SetNotNull) and any(_is_within(change.path, lost) for lost in emptied):
            found.append(f"{change.path} was NOT NULL, and the column with its values is gone")
        elif isinstance(change, c.AddCheck):
            names = column_references(change.check.expression)
            lost = sorted({path for path in emptied for name in names if _is_within(name, path) or _is_within(path, name)})
            found += [f"CHECK {change.check.name} was dropped, and the values of {', '.join(lost)} are gone"] if lost else []
    return found


def _is_within(path: str, outer: str) -> bool:
    """Return whether ``path`` is ``outer``, or inside of it. Expressions may have names in other letters."""
    return f"{path}.".lower().startswith(f"{outer}.".lower())


def began_at(store: ReadStore, foreign: Foreign) -> int | None:
    """Return the first version of the drift: right before it the table was as recorded. None if that cannot be seen any more."""
    try:
        for version in range(foreign.head.version, foreign.entry.since_table_version, -1):
            commit = read_commit(store, version)
            if commit.metadata is not None and _is_recorded(foreign, read_head(store, at=version - 1)):
                return version
    except LogTruncated:
        return None
    return None


def _is_recorded(foreign: Foreign, head: Head) -> bool:
    return head.table_id == foreign.table_id and not _left(foreign, head)


def _left(foreign: Foreign, head: Head) -> list[str]:
    """Return how the table still differs from what is recorded."""
    differences = live_differences(foreign.recorded, head.declaration(foreign.entry.collection))
    return [str(difference) for difference in (*differences, *exchanged(foreign.entry, head))]


def _judged(store: ReadStore, foreign: Foreign, change: c.Change, began: int | None, files_came: bool) -> tuple[str | None, str | None]:
    """Return (what the change loses, why it cannot be made), each None if there is nothing to say."""
    before = "" if began is None else f" (RESTORE TABLE to version {began - 1} would bring its values back, and undo all since)"
    match change:
        case c.DropColumn(path=path) if files_came:
            return f"{path}: its values are gone", None
        case c.RenameColumn(path=path, name=name) if files_came and is_stand_in(path) and not is_stand_in(name):
            return f"{name}: it has NULL in rows whose values are in {path} no more, or not yet{before}", None
        case c.AddColumn(path=path, field=field) if not field.nullable:
            return None, f"{path} was NOT NULL, and the column with its values is gone{before}"
        case c.AddColumn(path=path):
            return f"{path}: it comes back with NULL in every row{before}", None
        case c.SetNotNull(path=path) if began is None or nulls_since(store, foreign.head, path, began - 1) is not False:
            return None, f"{path} was NOT NULL, and a NULL may have come in since"
        case c.AddCheck(check=check) if files_came:
            return None, f"CHECK {check.name} was dropped, and rows came in without it"
        case c.ChangeType(path=path):
            return None, f"{path} has another type, and files hold it that way"
        case c.ChangePartitioning() | c.ChangeClustering():
            return None, "the rows are laid out another way"
        case _:
            return None, None


def _tried(foreign: Foreign, changes: Sequence[c.Change], forget: Sequence[ColumnPath]) -> list[str]:
    """Return the committer's own edit, in memory: what it refuses, or what would still differ after it."""
    head = foreign.head
    try:
        edited = edit(head.protocol, head.metadata, changes, forget=forget, clustering=head.clustering, stood_before=True)
    except Refusal as refusal:
        return [refusal.message.rstrip(".")]
    return _left(foreign, replace(head, protocol=edited.protocol, metadata=edited.metadata))


# --- taking it over ------------------------------------------------------------------------------------------------------------------


def refused_by_evolution(foreign: Foreign) -> tuple[str, ...]:
    """Describe the changes that no evolution step can stand for.

    Whoever made them made new rows, let columns exchange names, or takes the fence away.
    """
    found = [
        f"{difference.path} is {difference.found}, and an upgrade that makes the step of it would change these names again"
        for difference in exchanged(foreign.entry, foreign.head)
    ]
    for change in foreign.visible:
        if isinstance(change, c.SetProperty) and change.key == FORGETS:
            found.append(f"no release sets {FORGETS}, because schemamig's fence on the table would be forgotten")
        elif isinstance(change, c.ChangeType) and not change.widening:
            found.append(f"{change.path} has another type, and its values were converted")
        elif isinstance(change, c.ChangePartitioning):
            found.append("the table is partitioned otherwise")
        elif change.cost is c.Cost.REWRITE:
            found.append(f"{describe(change)}: older rows may have other values")
    return tuple(found)


def taken_over(foreign: Foreign) -> Declaration:
    """Return the release's declaration of the table once it contains the drift. Raises NotApplicable and as ``Foreign.changes``."""
    return apply(foreign.entry.declared, foreign.visible)


def dropped(foreign: Foreign) -> tuple[ColumnPath, ...]:
    """Return the declared columns that are gone, by their recorded paths."""
    gone = (
        path for path, _ in walk(foreign.entry.declared.fields) if field_at(foreign.live.fields, translate(path, foreign.renames)) is None
    )
    return tuple(outermost(gone))


def declared_renames(foreign: Foreign) -> dict[ColumnPath, str]:
    """Return the renames among declared columns."""
    declared = {path for path, _ in walk(foreign.entry.declared.fields)}
    return {path: name for path, name in foreign.renames.items() if path in declared}
