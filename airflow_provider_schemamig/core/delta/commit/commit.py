"""Schema changes as ONE put-if-absent commit: edited, replayed in memory, validated, and only then linked."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction, encode_actions
from airflow_provider_schemamig.core.delta.commit.append import Appended, Entry, Judge, MetadataMoved, append, uses_in_commit_timestamps
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence, check_fence, txn_of
from airflow_provider_schemamig.core.delta.commit.stream_txns import StreamMoved, check_no_stream, gives_names, txns_against_streams
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import Head, SeenFence, known_head, remember
from airflow_provider_schemamig.core.delta.metadata.clustering import clustering_domain
from airflow_provider_schemamig.core.delta.metadata.validate import TableState, validate
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import AddCheck, Change, SetNotNull
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.storage import ReadStore, Store, WriteReceipt, require_safe_log_store
from airflow_provider_schemamig.exceptions import Conflict


class FilesArrived(Conflict):
    """Rows came in after the files were looked at, and the change was only right without them; nothing was written."""

    code = "files_arrived"
    message = "rows were written to {uri} (version {version}) between looking at its files and changing its schema."
    next_action = "Try again: the files are read again."
    uri: str
    version: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The head as it is after a commit of ours, and the proof of the write for ``storage.store.confirm``."""

    head: Head
    receipt: WriteReceipt


def commit_changes(
    store: Store,
    base: Head,
    changes: Sequence[Change],
    fence: Fence,
    tag: Tag,
    *,
    since: int,
    forget: Sequence[ColumnPath] = (),
    checked_at: int | None = None,
    asked_later: bool = False,
    table_id: str | None = None,
    txns: Mapping[str, int] = MappingProxyType({}),
    stood_before: bool = False,
) -> Committed:
    """Make all ``changes`` in one commit on top of ``base``.

    Commits that came first and brought data only are stepped over; nothing is ever overwritten. Changes of nothing make a commit without
    metaData, which disturbs nobody.

    ``since``: the intent's base version; a later epoch's fence after it stops us. ``forget``: drops of columns that no file carries.
    ``checked_at``: the version at which the caller looked at the files, where the change is only right for those (``forget``, a restored
    NOT NULL or CHECK; default then: the base). ``asked_later``: the change is a CHECK of which rows are asked once it is enforced, or a
    NOT NULL that a CHECK has enforced before; rows may come in between. ``stood_before``: see ``edit``. ``table_id``: the id that the
    table gets back, which somebody took from it. ``txns``: transaction versions by application id, for the same commit.

    Raises MetadataMoved, FilesArrived, Fenced, UnsafeLogStore, UnsupportedFeature, CatalogManagedTable, and what ``edit`` raises.
    """
    after = base.edited(tuple(changes), tuple(forget), stood_before=stood_before)
    rules = not asked_later and any(isinstance(change, SetNotNull | AddCheck) for change in changes)
    depends_on_files = bool(forget) or rules
    if checked_at is None and depends_on_files:
        checked_at = base.version
    parameters = {"changes": json.dumps([describe(change) for change in changes])}
    return commit_edited(
        store,
        base,
        after,
        fence,
        tag,
        parameters=parameters,
        since=since,
        forget=forget,
        checked_at=checked_at,
        txns=txns,
        table_id=table_id,
    )


def commit_edited(
    store: Store,
    base: Head,
    after: TableState,
    fence: Fence,
    tag: Tag,
    *,
    parameters: Mapping[str, str],
    since: int,
    forget: Sequence[ColumnPath] = (),
    checked_at: int | None = None,
    txns: Mapping[str, int] = MappingProxyType({}),
    table_id: str | None = None,
) -> Committed:
    """Commit as ``commit_changes`` does, with the metadata already edited."""
    before = _state(base)
    if table_id is not None:
        before, after = _with_id(before, table_id), _with_id(after, table_id)
    uri = store.location.uri
    require_safe_log_store(store)
    check_writable(after.protocol, uri)
    actions = _actions(base, after)
    replayed = replay(base, actions)
    validate(uri, before, _state(replayed), forget)
    check_fence(store, fence, since, base.version)
    if checked_at is not None:
        for commit in commits(store, checked_at, base.version):
            _refuse_files(commit, uri)
    judge = functools.partial(_judge, uri=uri, fence=fence, exclusive=checked_at is not None)
    seen = _still_fenced(store, base, replayed, fence, txns)
    appended = _append(store, base, replayed, Entry(tag, actions, parameters), judge, txns)
    head = replace(replayed, version=appended.version)
    remember(store, head, appended.receipt.tag, is_conditional=True, fence=seen)
    return Committed(head, appended.receipt)


def _append(store: Store, base: Head, after: Head, entry: Entry, judge: Judge, txns: Mapping[str, int]) -> Appended:
    """Append the commit with ``txns``, and with what turns streams away if a name stands for another column."""
    ict, is_given, version = uses_in_commit_timestamps(after.metadata), gives_names(base, after), base.version

    def judge_streams(commit: LogCommit) -> None:
        judge(commit)
        if is_given:
            check_no_stream(commit)

    while True:
        moved = {**txns, **txns_against_streams(store, version, txns)} if is_given else txns
        extended = replace(entry, actions=[*entry.actions, *(txn_of(app_id, number) for app_id, number in moved.items())])
        try:
            return append(store, version, extended, judge_streams, in_commit_timestamps=ict)
        except StreamMoved as found:  # judged already, as all before it
            version = found.version


def _still_fenced(store: ReadStore, base: Head, after: Head, fence: Fence, txns: Mapping[str, int]) -> SeenFence | None:
    """Return the fence that the table is known to have once a commit follows ``base``, and such as ``_judge`` lets pass: they bring no
    properties, by which alone a table forgets, and no later epoch."""
    known = known_head(store)
    if known is None or known.head is not base or known.fence is None or FORGETS in after.properties:
        return None
    app_id, version = known.fence
    return (app_id, max(version, txns.get(app_id, version))) if app_id == fence.app_id else None


def describe(change: Change) -> dict[str, Any]:
    """Describe a change for the commit's operationParameters: its op and what it is about."""
    about = {"op": change.op}
    for name in ("path", "key", "name", "check"):
        value = getattr(change, name, None)
        if value is not None:
            about[name] = value if isinstance(value, str) else str(getattr(value, "name", None) or getattr(value, "columns", value))
    return about


def replay(base: Head, actions: Sequence[RawAction]) -> Head:
    """Return the head after these actions, read from the very bytes that will be written."""
    commit = LogCommit(base.version + 1, encode_actions(actions), base.location.uri)
    domains = {**base.domains, **{domain["domain"]: domain for domain in commit.domains}}
    return Head(base.location, base.version + 1, commit.protocol or base.protocol, commit.metadata or base.metadata, domains)


def _actions(base: Head, after: TableState) -> list[RawAction]:
    actions: list[RawAction] = []
    if after.protocol != base.protocol:
        actions.append({"protocol": after.protocol})
    if after.metadata != base.metadata:
        actions.append({"metaData": after.metadata})
    if after.clustering not in (None, base.clustering):
        actions.append({"domainMetadata": clustering_domain(after.clustering or ())})
    return actions


def _state(head: Head) -> TableState:
    return TableState(head.protocol, head.metadata, head.clustering)


def _with_id(state: TableState, table_id: str) -> TableState:
    return state._replace(metadata={**state.metadata, "id": table_id})


def _judge(commit: LogCommit, *, uri: str, fence: Fence, exclusive: bool) -> None:
    """Raise if our commit may not follow one that came in between: of a later epoch, of the table's metadata, or with files."""
    fence.check(commit)
    if commit.changes_table:
        raise MetadataMoved(uri=uri, version=commit.version)
    if exclusive:
        _refuse_files(commit, uri)


def _refuse_files(commit: LogCommit, uri: str) -> None:
    if commit.has_files:
        raise FilesArrived(uri=uri, version=commit.version)
