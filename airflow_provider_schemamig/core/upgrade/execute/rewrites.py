"""A rewrite's cut-over: follow, check every row, seal, catch up, check what changed; the commit itself is the release's.

Writers of the source wait from the seal to the ledger's append, so what grows with rows (the full digest) comes before it, and what
comes after it grows with what was committed since the last round.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.delta.log.commits import is_as_at
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import BuildingShard
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.schema.describe import keys_in_words
from airflow_provider_schemamig.core.spark.rows_digest import NO_ROWS, RowsDigest
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.transfer.digest_check import check_all, check_cardinality_since, check_delta
from airflow_provider_schemamig.core.transfer.errors import NeverSettles, RewriteDiffers, StepAlreadyMade
from airflow_provider_schemamig.core.transfer.exactly_once import LinkPosition
from airflow_provider_schemamig.core.transfer.row_transfer import RowTransfer
from airflow_provider_schemamig.core.transfer.tail import Tailed, again, tail, where
from airflow_provider_schemamig.core.transfer.throttle import Pace
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import SourceTouched
from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
from airflow_provider_schemamig.core.upgrade.prepare.copy import LOST, STARTS, CopyContext, begin_anew, check_source
from airflow_provider_schemamig.core.upgrade.prepare.fill import FillContext, build_all, key_violations
from airflow_provider_schemamig.core.upgrade.prepare.transfers import TAIL, copied_version, forward_transfer, row_of
from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals

#: Tail rounds before the seal; with a round shorter than the one before, what is left for the seal shrinks.
_ROUNDS = 5
#: A source that is no further ahead than this may be sealed: one round more would find as much again.
_NEAR = 3
#: A round that takes more than this part of the one before gains nothing.
_SHRINKS = 0.8


@dataclass(frozen=True)
class CaughtUpRewrite:
    """A rewrite that is ready to be sealed: the target's version ``position.version`` is equal to the source's ``seen``.

    Compared in full were the target's ``checked`` and the source's ``checked_source``; ``delta``: what was tailed after them, None if a
    twin tailed some of it. ``seconds``: what the last round took, 0 if the source got nothing.
    """

    stage: Copy
    transfer: RowTransfer
    position: LinkPosition
    seen: int
    checked: int = 0
    checked_source: int = 0
    delta: RowsDigest | None = None
    seconds: float = 0.0


def follow_all(leader: LeaderWriter, jobs: Callable[[], JobRunner]) -> list[CaughtUpRewrite]:
    """Bring every rewrite close to its source and check it in full. Raises RewriteDiffers (the copy begins anew), NeverSettles."""
    followed = [_follow(leader, stage, jobs) for stage in leader.plan.of_kind(Copy)]
    seconds = sum(item.seconds for item in followed)  # all are sealed together
    if seconds > leader.seal_seconds / 2:
        slowest = max(followed, key=lambda item: item.seconds)
        raise NeverSettles(collection=slowest.stage.collection, seconds=seconds, limit=leader.seal_seconds, tables=len(followed))
    if followed:
        jobs().start(leader.env.options)  # writers are about to wait: not for a driver, should it have ended meanwhile
    return followed


def complete_copies(leader: LeaderWriter, jobs: Callable[[], JobRunner]) -> None:
    """Make the copies that were begun anew, by an earlier run or by a twin; promotion saw to it that there was one of each."""
    for stage in leader.plan.of_kind(Copy):
        _completed(leader, stage, jobs)


def _completed(leader: LeaderWriter, stage: Copy, jobs: Callable[[], JobRunner]) -> BuildingShard:
    leader.refresh()
    row = row_of(leader.state, leader.deployment, stage.collection)
    if row.filled_rows is None:
        leader.results += build_all(
            FillContext(leader.env, leader.ledger, leader.deployment, leader.plan, jobs, leader.listen), [stage.collection]
        )
        leader.refresh()
        row = row_of(leader.state, leader.deployment, stage.collection)
    return row


def _follow(leader: LeaderWriter, stage: Copy, jobs: Callable[[], JobRunner]) -> CaughtUpRewrite:
    """Follow a copy, and make one anew at once that cannot be followed any further.

    Nothing is sealed yet, and without the copy the cut-over cannot go on.
    """
    for start in range(1, STARTS + 1):
        row, runner = _completed(leader, stage, jobs), jobs()
        copying = CopyContext(leader.env, leader.ledger, leader.deployment, stage, runner, leader.listen)
        try:
            with _unless_given_up(leader, stage, row.shard):
                return again(lambda: _near_and_checked(leader, stage, runner))  # noqa: B023 - called right here
        except RewriteDiffers as error:
            begin_anew(copying, row, error.message)
            raise
        except LOST as error:
            if start == STARTS:
                raise
            begin_anew(copying, row, error.message)
    raise AssertionError("unreachable")


@contextlib.contextmanager
def _unless_given_up(leader: LeaderWriter, stage: Copy, shard: ShardId) -> Iterator[None]:
    """Raise StepAlreadyMade for what fails because a twin gave the copy up and took its files away: it can be tried again."""
    try:
        yield
    except SchemamigError as error:
        if row_of(leader.ledger.state(), leader.deployment, stage.collection).shard != shard:
            raise StepAlreadyMade(collection=stage.collection, step="a copy anew") from error
        raise


def _near_and_checked(leader: LeaderWriter, stage: Copy, jobs: JobRunner) -> CaughtUpRewrite:
    transfer, copied = (
        forward_transfer(leader.state, leader.deployment, stage, TAIL),
        copied_version(leader.state, leader.deployment, stage),
    )
    reached = where(leader.env, transfer, copied, 0)
    leader.notes.extend(note for note in check_source(leader.env, leader.state, stage, reached.at) if note not in leader.notes)
    followed = _near(leader, CaughtUpRewrite(stage, transfer, reached, reached.at), jobs)
    started = time.monotonic()
    checked = _newest(leader, transfer)
    if _since(leader, followed).version > followed.position.version:
        # The rows of ``checked`` may be those of a later version of the source: they would differ though nothing is wrong.
        raise StepAlreadyMade(collection=stage.collection, step="the next step of the tail")
    check_all(leader.env, transfer, followed.seen, checked, jobs, same_rows=not stage.any_cardinality)
    row = row_of(leader.state, leader.deployment, stage.collection)
    raise_refusals(key_violations(leader.env, leader.state, row, stage.declaration, jobs))
    leader.report("digest", stage.collection, checked, started)
    return _near(leader, replace(followed, checked=checked, checked_source=followed.seen, delta=NO_ROWS), jobs)


def _newest(leader: LeaderView, transfer: RowTransfer) -> int:
    return read_head(transfer.target_store(leader.env)).version


def _near(leader: LeaderWriter, followed: CaughtUpRewrite, jobs: JobRunner) -> CaughtUpRewrite:
    """Follow the source until few commits are left, or rounds get no shorter."""
    before = float("inf")
    pace = Pace(leader.newest, leader.listen, waits=leader.env.waits)
    for _ in range(_ROUNDS):
        pace.begin_step("tail", followed.stage.collection)
        head = read_head(followed.transfer.source_store(leader.env))
        behind = head.version - followed.seen
        if not behind:
            break
        jobs.start(leader.env.options)  # what is timed are rows
        started = time.monotonic()
        followed = _tail(leader, followed, head.version, jobs)
        seconds = time.monotonic() - started
        if behind <= _NEAR or seconds > before * _SHRINKS:
            before = seconds
            break
        before = seconds
    if before == float("inf"):
        return followed
    if before > leader.seal_seconds / 2:  # writers would be locked out past the deadline
        raise NeverSettles(collection=followed.stage.collection, seconds=before, limit=leader.seal_seconds)
    return replace(followed, seconds=before)


def _tail(leader: LeaderWriter, followed: CaughtUpRewrite, upto: int, jobs: JobRunner) -> CaughtUpRewrite:
    started = time.monotonic()
    transfer = followed.transfer

    def attempt() -> tuple[LinkPosition, Tailed]:
        reached = _since(leader, followed)
        return reached, tail(leader.env, transfer, reached, upto, jobs)

    reached, tailed = again(attempt)
    delta = followed.delta if reached.version == followed.position.version else None  # else a twin tailed since
    delta = None if delta is None or tailed.delta is None else delta + tailed.delta
    leader.report("tail", followed.stage.collection, tailed.position.version, started)
    return replace(followed, delta=delta, position=tailed.position, seen=tailed.seen)


def _since(leader: LeaderView, followed: CaughtUpRewrite) -> LinkPosition:
    """Return where the target is now.

    Only its commits after the known position are read, because writers wait for some of these looks.
    """
    return where(leader.env, followed.transfer, followed.position.at, followed.position.version)


def catch_up(leader: LeaderWriter, followed: Sequence[CaughtUpRewrite], jobs: Callable[[], JobRunner]) -> list[CaughtUpRewrite]:
    """Bring the last rows after the seal, and compare the digest of what was tailed since the full one.

    Raises RewriteDiffers, SourceTouched.
    """
    return [_catch_up(leader, item, jobs()) for item in followed]


def _catch_up(leader: LeaderWriter, followed: CaughtUpRewrite, jobs: JobRunner) -> CaughtUpRewrite:
    with _unless_given_up(leader, followed.stage, followed.transfer.target):
        return _caught_up(leader, followed, jobs)


def _caught_up(leader: LeaderWriter, followed: CaughtUpRewrite, jobs: JobRunner) -> CaughtUpRewrite:
    transfer = followed.transfer
    sealed = _sealed_version(leader, followed)
    followed = _tail(leader, followed, sealed, jobs)
    started = time.monotonic()
    newest = _newest(leader, transfer)
    if followed.delta is None:
        check_all(leader.env, transfer, sealed, newest, jobs, same_rows=not followed.stage.any_cardinality)
    elif newest > followed.checked:
        check_delta(leader.env, transfer, followed.checked, newest, followed.delta, jobs)
    if followed.delta is not None and not followed.stage.any_cardinality:
        check_cardinality_since(leader.env, transfer, followed.checked_source, sealed, followed.delta.rows, jobs)
    keys = list(keys_in_words(followed.stage.declaration)) if newest > followed.checked else []
    if keys:  # to ask all rows again would lock writers out for as long
        text = "rows that came right before its writers were stopped were not asked for"
        leader.notes.append(f"{followed.stage.collection}: {text} {', '.join(keys)}: `schemamig verify` does")
    leader.report("digest", followed.stage.collection, newest, started)
    return followed


def check_untouched(leader: LeaderView, followed: Sequence[CaughtUpRewrite]) -> None:
    """Check that each source still has the rows as they were caught up with: RESTORE gets through a seal, and so does a compaction, which
    changes none. Raises SourceTouched.

    And AnotherTable, if what the query looked up was made anew: both digests may be of rows by the new table.
    """
    for item in followed:
        item.transfer.check_lookups(leader.env)
        if not is_as_at(item.transfer.source_store(leader.env), item.seen, _sealed_version(leader, item)):
            raise SourceTouched(collection=item.stage.source, shard=item.transfer.source)


def check_current(leader: LeaderView, state: State, followed: Sequence[CaughtUpRewrite]) -> None:
    """Raise StepAlreadyMade if a copy was given up meanwhile for another one, which nobody has looked at."""
    for item in followed:
        if row_of(state, leader.deployment, item.stage.collection).shard != item.transfer.target:
            raise StepAlreadyMade(collection=item.stage.collection, step="a copy anew")


def _sealed_version(leader: LeaderView, followed: CaughtUpRewrite) -> int:
    head = read_head(followed.transfer.source_store(leader.env))
    if head.sealed_for != followed.transfer.target:
        raise SourceTouched(collection=followed.stage.source, shard=followed.transfer.source)
    return head.version
