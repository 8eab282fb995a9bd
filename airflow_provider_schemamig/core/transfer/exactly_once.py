"""How far a copy or a tail has come, read from the target table's own log: exactly once without a lock.

Work on rows goes on in links from ``lo`` to ``hi`` (files copied, or versions of the source). Each link is ONE Delta commit on the target,
made under a transaction id that names the chain and ``lo``, always with version 1. So of all who begin at the same ``lo`` exactly one gets
through: one in flight meanwhile fails with ConcurrentTransactionException, one that starts later is skipped by Delta; a killed driver that
lives on is just another of them. Where the chain stands is read from the same commits: there is no checkpoint that could lag behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import put_txns, read_fence
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, Epoch, Generation
from airflow_provider_schemamig.core.storage import ReadStore, Store, confirm, require_safe_log_store
from airflow_provider_schemamig.core.transfer.errors import StepAlreadyMade

#: One transaction version for all: what tells links apart is their application id.
TXN_VERSION = 1


@dataclass(frozen=True, slots=True)
class LinkChain:
    """``app_id``: the target shard's (``Fence.app_id``). ``name``: what goes on, ``copy`` or ``tail``, or ``rollback/<shard>``."""

    app_id: str
    name: str
    generation: Generation

    def txn_app_id(self, lo: int) -> str:
        return f"{self.app_id}:{self.name}:{lo}"

    def user_metadata(self, lo: int, hi: int) -> str:
        """Return ``{"schemamig": {"action", "generation", "hi", "lo"}}``."""
        # No epoch: a link is the same link whoever of the generation makes it, and is found by this text.
        about = {"action": self.name, "generation": self.generation, "lo": lo, "hi": hi}
        return canonical({RESERVED_PREFIX: about})


_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True)
class _EmptyLink(Tag):
    """The tag of a link that we commit. It has the same user metadata as Spark's links."""

    chain: LinkChain
    lo: int
    hi: int

    @property
    def user_metadata(self) -> str:
        return self.chain.user_metadata(self.lo, self.hi)


@dataclass(frozen=True, slots=True)
class LinkPosition:
    """Where a chain stands. ``version``: of the target, with the last link in it; ``rows``: written or taken away by all links."""

    at: int
    version: int
    rows: int = 0


def position(store: ReadStore, chain: LinkChain, start: int, after: int = 0) -> LinkPosition:
    """Follow the links in the commits of the target after version ``after``, from ``start`` on. Raises LogTruncated, TableMissing."""
    links: dict[int, tuple[int, LogCommit]] = {}
    for commit in commits(store, after):
        about = link_of(commit, chain)
        if about is not None:
            links[about["lo"]] = (about["hi"], commit)
    at, version, rows = start, after, 0
    while at in links:
        at, commit = links[at]
        version, rows = max(version, commit.version), rows + _rows(commit)
    return LinkPosition(at, version, rows)


def put_empty_link(store: Store, chain: LinkChain, lo: int, hi: int) -> int:
    """Commit a link that brings no rows, because from ``lo`` to ``hi`` nothing changed after all; return the target's version of it.

    What was undone again by ``hi`` may be on its way from a slower process that has seen less, or from a driver whose process died: it has
    to find the transaction id of ``lo`` taken. Raises StepAlreadyMade if that is so already; as ``delta.commit.commit`` does.
    """
    require_safe_log_store(store)
    head = read_head(store)
    check_writable(head.protocol, store.location.uri)
    app_id, step = chain.txn_app_id(lo), f"the step of {chain.name} after version {lo}"

    def judge(commit: LogCommit) -> None:
        if any(txn.get("appId") == app_id for txn in commit.txns):
            raise StepAlreadyMade(step=step)

    if read_fence(store, app_id) is not None:
        raise StepAlreadyMade(step=step)
    tag = _EmptyLink(chain.generation, Epoch(0), chain.name, chain, lo, hi)
    appended = put_txns(store, head, {app_id: TXN_VERSION}, tag, judge)
    if confirm([appended.receipt]):  # on a local disk a driver that was about to commit may have put its own there
        raise StepAlreadyMade(step=step)
    return appended.version


def link_of(commit: LogCommit, chain: LinkChain) -> dict[str, Any] | None:
    """Return what a commit says of itself if it is a link of ``chain``: by its words, and by the transaction id that only one commit can
    have."""
    about = commit.about
    if about is None or (about.get("action"), about.get("generation")) != (chain.name, chain.generation):
        return None
    return about if any(txn.get("appId") == chain.txn_app_id(about["lo"]) for txn in commit.txns) else None


def foreign_commits(store: ReadStore, after: int) -> Iterator[LogCommit]:
    """Yield commits after a version that are none of ours and add or remove rows."""
    for commit in commits(store, after):
        if commit.about is None and commit.changes_rows:
            yield commit


def _rows(commit: LogCommit) -> int:
    metrics = commit.info.get("operationMetrics") or {}
    if commit.info.get("operation") == "MERGE":  # its output holds the rows of a touched file that stayed as they are
        return sum(int(metrics.get(name, 0)) for name in _MERGED)
    return int(metrics.get("numOutputRows", 0))
