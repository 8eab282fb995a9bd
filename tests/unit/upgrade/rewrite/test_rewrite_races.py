"""Somebody else acts at every durable write of a rewrite: a twin, another generation, a rollback, a writer.

Whatever happens, each acknowledged write is there exactly once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import (
    SECOND,
    Rewritten,
    Work,
    acted_at,
    back,
    built,
    chosen,
    claimed,
    cutover,
    follow,
    jobs,
    moments,
    upgrade,
)

pytestmark = pytest.mark.some(3, of="races of rewrites")


def again(work: Callable[[], object], times: int = 6) -> None:
    """As Airflow would: while it says that trying again helps."""
    for _ in range(times):
        try:
            work()
        except SchemamigError as error:
            if not error.retryable:
                raise
        else:
            return
    raise AssertionError("it meets one conflict after the other")


def sweep(
    start: Rewritten,
    folder: Path,
    ours: Work,
    other: Callable[[Rewritten], object],
    check: Callable[[Rewritten, BaseException | None], None],
    tries: int | None,
) -> None:
    count = len(moments(start.copy(folder / "count"), ours))
    assert count
    for moment in chosen(count, tries):
        found = start.copy(folder / str(moment))
        error = acted_at(found, moment, ours, lambda found=found: other(found))  # type: ignore[misc]
        try:
            check(found, error)
        except Exception as failure:
            raise AssertionError(f"held up at moment {moment}, ours: {error!r}") from failure


def there_and_back(found: Rewritten) -> None:
    """At the target; new writes arrive; and all of it goes back."""
    found.check("1.1.0")
    found.write_all(4)
    found.check("1.1.0")
    back(found.env, jobs())
    found.check("1.0.0")


# --- twins and other generations -----------------------------------------------------------------------------------------------------


def test_twin_at_every_write_of_the_cutover(ready: Rewritten, tmp_path: Path, tries: int | None) -> None:
    def check(found: Rewritten, error: BaseException | None) -> None:
        assert error is None, error
        there_and_back(found)

    sweep(ready, tmp_path, cutover, lambda found: cutover(found.env, jobs()), check, tries)


def test_twin_copies_at_every_write_of_the_copy(deployed: Rewritten, tmp_path: Path, tries: int | None) -> None:
    def preflight(env: Environment, runner: RowJobs) -> object:
        return commands.preflight(env, deployed.lake.second, jobs=runner, claim_id="run")

    def check(found: Rewritten, error: BaseException | None) -> None:
        assert error is None, error
        assert found.state.deployments.keys() == {1, 2}
        upgrade(found, found.env, jobs(), claim_id="run")
        found.check("1.1.0")
        found.check_clean()

    sweep(deployed, tmp_path, preflight, lambda found: preflight(found.env, jobs()), check, tries)


def test_twin_goes_all_the_way_at_every_write_of_an_upgrade(deployed: Rewritten, tmp_path: Path, tries: int | None) -> None:
    """A process that stood still meanwhile finds the release committed, and says so, wherever it stood."""

    def whole_way(env: Environment, runner: RowJobs) -> object:
        return commands.upgrade(env, deployed.lake.second, jobs=runner, claim_id="run")

    def check(found: Rewritten, error: BaseException | None) -> None:
        assert error is None, error
        there_and_back(found)

    sweep(deployed, tmp_path, whole_way, lambda found: again(lambda: whole_way(found.env, jobs())), check, tries)


def test_twin_commits_at_every_write_of_a_tail_round(deployed: Rewritten, tmp_path: Path, tries: int | None) -> None:
    """The gate opened while the tail was at work, and the other process went all the way."""
    start = deployed.copy(tmp_path / "start")
    claimed(start)
    start.write_all(1)

    def other(found: Rewritten) -> None:
        found.write_all(2)
        commands.promote(found.env, SECOND)
        commands.expand(found.env, SECOND)
        again(lambda: cutover(found.env, jobs()))
        found.write_all(3)

    sweep(start, tmp_path, follow, other, lambda found, error: there_and_back(found), tries)


def test_takeover_at_every_write_of_the_cutover(ready: Rewritten, tmp_path: Path, tries: int | None) -> None:
    def other(found: Rewritten) -> None:
        upgrade(found, found.env, jobs(), claim_id="another")

    sweep(ready, tmp_path, cutover, other, lambda found, error: there_and_back(found), tries)


def test_rollback_at_every_write_of_the_cutover(ready: Rewritten, tmp_path: Path, tries: int | None) -> None:
    def check(found: Rewritten, error: BaseException | None) -> None:
        found.check("1.0.0")
        upgrade(found, found.env, jobs())
        there_and_back(found)

    sweep(ready, tmp_path, cutover, lambda found: back(found.env, jobs()), check, tries)


def test_rollback_and_upgrade_at_every_write_of_a_rollback(upgraded: Rewritten, tmp_path: Path, tries: int | None) -> None:
    def other(found: Rewritten) -> None:
        with contextlib.suppress(SchemamigError):
            back(found.env, jobs())
        found.write_all(5)
        upgrade(found, found.env, jobs())

    sweep(upgraded, tmp_path, back, other, lambda found, error: there_and_back(found), tries)


def test_rollback_at_every_write_of_a_rollback(upgraded: Rewritten, tmp_path: Path, tries: int | None) -> None:
    def check(found: Rewritten, error: BaseException | None) -> None:
        found.check("1.0.0")
        upgrade(found, found.env, jobs())
        there_and_back(found)

    sweep(upgraded, tmp_path, back, lambda found: back(found.env, jobs()), check, tries)


def test_takeover_at_every_write_of_the_copy(deployed: Rewritten, tmp_path: Path, tries: int | None) -> None:
    """Two generations copy at once and one of them is promoted; what the other goes on building is cleaned up after it."""

    def preflight(env: Environment, runner: RowJobs) -> object:
        return commands.preflight(env, deployed.lake.second, jobs=runner, claim_id="run")

    def check(found: Rewritten, error: BaseException | None) -> None:
        found.check("1.1.0")
        leader = found.state.leader
        assert leader is not None
        commands.cleanup(found.env, leader.generation)
        there_and_back(found)

    sweep(deployed, tmp_path, preflight, lambda found: upgrade(found, found.env, jobs(), claim_id="another"), check, tries)


# --- writers -------------------------------------------------------------------------------------------------------------------------


def write(found: Rewritten) -> None:
    """Into both tables, each refused where its table is sealed: what is acknowledged then has to arrive."""
    found.settle_shape()
    new = found.shape == "1.1.0"
    found.insert("keyed", [{"id": 77, "v": 77 if new else "77"}])
    found.insert("plain", [{"line": "zz", "n": 1, **({"day": "zz"} if new else {})}])


def test_a_writer_at_every_write(deployed: Rewritten, ready: Rewritten, upgraded: Rewritten, tmp_path: Path, tries: int | None) -> None:
    """Sealed: refused; else it arrives exactly once, in the copy, the tail, the cut-over, and on the way back."""

    def check(found: Rewritten, error: BaseException | None) -> None:
        assert error is None or getattr(error, "retryable", False), error
        if error is not None:
            cutover(found.env, jobs())
        there_and_back(found)

    sweep(ready, tmp_path, cutover, write, check, tries)

    def copied(found: Rewritten, error: BaseException | None) -> None:
        assert error is None, error
        upgrade(found, found.env, jobs())
        there_and_back(found)

    def preflight(env: Environment, runner: RowJobs) -> object:
        return commands.preflight(env, deployed.lake.second, jobs=runner)

    sweep(deployed, tmp_path / "copy", preflight, write, copied, tries)
    claim = deployed.copy(tmp_path / "claimed")
    claimed(claim)
    claim.write_all(1)
    sweep(claim, tmp_path / "tail", follow, write, copied, tries)

    def was_rolled_back(found: Rewritten, error: BaseException | None) -> None:
        if error is not None:
            back(found.env, jobs())
        found.check("1.0.0")

    sweep(upgraded, tmp_path / "back", back, write, was_rolled_back, tries)


# --- a copy that is given up while a twin uses it ----------------------------------------------------------------------------------------


def test_a_slow_digest_does_not_take_a_twins_commit_away(ready: Rewritten, tmp_path: Path) -> None:
    """While we compare, a twin tails on, commits, and users write: the rows differ from those that we were to find."""
    found = ready.copy(tmp_path)
    runner = jobs()

    def before(job: str, request: object) -> None:
        if job == "digest":
            runner.before = None
            cutover(found.env, jobs())
            found.write_all(8)

    runner.before = before
    with contextlib.suppress(SchemamigError):
        cutover(found.env, runner)
    found.write_all(9)
    there_and_back(found)


def test_a_copy_that_is_begun_anew_is_not_committed_by_a_twin(ready: Rewritten, tmp_path: Path, tries: int | None) -> None:
    """A process that finds the source's history gone begins anew at each moment of its twin's cut-over."""
    from airflow_provider_schemamig.core.ledger.store import LedgerWriter
    from airflow_provider_schemamig.core.progress import silent
    from airflow_provider_schemamig.core.upgrade.context.context import plan_of
    from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
    from airflow_provider_schemamig.core.upgrade.prepare.copy import CopyContext, begin_anew
    from airflow_provider_schemamig.core.upgrade.prepare.transfers import row_of

    def other(found: Rewritten) -> None:
        writer = LedgerWriter(found.env)
        state = writer.state()
        deployment = state.deployments[SECOND]
        stage = plan_of(found.env, deployment).of_kind(Copy)[0]
        copying = CopyContext(found.env, writer, deployment, stage, jobs(), silent)
        begin_anew(copying, row_of(state, deployment, stage.collection), "a test says so")

    def check(found: Rewritten, error: BaseException | None) -> None:
        assert error is None or getattr(error, "retryable", False), error
        again(lambda: cutover(found.env, jobs()))
        there_and_back(found)

    sweep(ready, tmp_path, cutover, other, check, tries)


def test_rows_that_come_into_the_new_shard_while_it_is_compared_are_seen(ready: Rewritten, tmp_path: Path) -> None:
    found = ready.copy(tmp_path)
    runner = jobs()

    def after(job: str, request: object) -> None:
        if job == "digest":
            runner.after = None
            tables.insert(built(found, "keyed"), [{"id": -1, "v": -1}])

    runner.after = after
    with pytest.raises(SchemamigError) as caught:
        cutover(found.env, runner)
    assert caught.value.retryable
    again(lambda: cutover(found.env, jobs()))
    there_and_back(found)
