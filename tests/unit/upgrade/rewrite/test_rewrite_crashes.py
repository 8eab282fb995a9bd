"""Dying at every durable write of a rewrite, ours or Spark's, then going on, going back, or being overtaken.

Writers are at work in between, on tables with a key and without. Whoever comes next reaches the target or the source with exactly the rows
that writers were told are in.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import (
    COLLECTIONS,
    Rewritten,
    Work,
    back,
    chosen,
    claimed,
    die,
    expanded,
    jobs,
    moments,
    upgrade,
)


def there(found: Rewritten) -> Work:
    """The whole way, with writers at work before and after the tail, and once it is committed."""

    def work(env: Environment, runner: RowJobs) -> None:
        generation = commands.preflight(env, found.lake.second, jobs=runner).generation
        assert generation is not None
        found.write_all(1)
        commands.tail(env, generation, jobs=runner, once=True)
        found.write_all(2)
        commands.promote(env, generation)
        commands.expand(env, generation)
        commands.cutover(env, generation, jobs=runner)
        found.write_all(3)
        commands.cleanup(env, generation)

    return work


def on_with(found: Rewritten) -> None:
    upgrade(found, found.env, jobs())
    found.check("1.1.0")
    found.write_all(5)
    found.check("1.1.0")


def back_from(found: Rewritten) -> None:
    with contextlib.suppress(NothingToRollBack):  # it died before promotion: nothing was done
        back(found.env, jobs())
    found.check("1.0.0")
    found.write_all(5)
    found.check("1.0.0")


@pytest.mark.some(8, of="histories at each moment")
def test_rewrite_crashes_there(deployed: Rewritten, tmp_path: Path, tries: int | None) -> None:
    count = len(moments(found := deployed.copy(tmp_path / "count"), there(found)))
    found.check("1.1.0")
    found.check_clean()
    for moment in chosen(count, tries):
        for name in ("on", "back", "other"):
            found = deployed.copy(tmp_path / f"{moment}-{name}")
            assert die(found, moment, there(found)), moment
            found.write_all(4)
            if name == "on":
                on_with(found)
                back_from(found)
            elif name == "back":
                back_from(found)
                on_with(found)
                found.check_clean()
            else:
                upgrade(found, found.env, jobs(), claim_id="another")
                found.check("1.1.0")
                found.check_clean()
            shutil.rmtree(tmp_path / f"{moment}-{name}")


@pytest.fixture(scope="module")
def upgraded(deployed: Rewritten, tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    """At 1.1.0, and written to since."""
    found = deployed.copy(tmp_path_factory.mktemp("upgraded"))
    there(found)(found.env, jobs())
    return found


@pytest.mark.some(8, of="histories at each moment")
def test_rewrite_crashes_back(upgraded: Rewritten, tmp_path: Path, tries: int | None) -> None:
    count = len(moments(upgraded.copy(tmp_path / "count"), back))
    for moment in chosen(count, tries):
        for name in ("on", "forward"):
            found = upgraded.copy(tmp_path / f"{moment}-{name}")
            assert die(found, moment, back), moment
            if name == "on":
                if found.version == "1.1.0":
                    back(found.env, jobs())
                found.check("1.0.0")
            else:  # somebody upgrades again instead: it settles, or goes there again
                upgrade(found, found.env, jobs())
                found.check("1.1.0")
                found.write_all(6)
                back_from(found)
            on_with(found)
            found.check_clean()
            shutil.rmtree(tmp_path / f"{moment}-{name}")


def test_rewrite_crashes_cancel(deployed: Rewritten, tmp_path: Path, tries: int | None) -> None:
    """A claim whose copy was killed is given up by one that is killed, too."""
    claim = deployed.copy(tmp_path / "claimed")

    def preflight(env: Environment, runner: RowJobs) -> object:
        return commands.preflight(env, claim.lake.second, jobs=runner)

    copied = moments(claim.copy(tmp_path / "count"), preflight)
    moment = max(number for number, what in enumerate(copied) if what.startswith("after spark"))
    assert die(claim, moment, preflight)
    assert scratch_of(claim)

    def cancel(env: Environment, runner: RowJobs) -> object:
        return commands.cancel(env, Generation(2))

    count = len(moments(claim.copy(tmp_path / "cancels"), cancel))
    for moment in [*chosen(count, tries), count]:
        found = claim.copy(tmp_path / str(moment))
        die(found, moment, cancel)
        cancel(found.env, jobs())
        found.check("1.0.0")
        found.check_clean()
        assert not found.state.replacements
        on_with(found)


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("task", ["tail", "cutover"])
def test_rewrite_crashes_beginning_anew(deployed: Rewritten, tmp_path: Path, tries: int | None, task: str) -> None:
    """The source's history is gone when it is to be followed: the copy begins anew, and dies on the way."""
    gone = deployed.copy(tmp_path / "gone")
    generation = claimed(gone) if task == "tail" else expanded(gone)
    gone.write_all(1)
    for name in COLLECTIONS:
        tables.vacuum(gone.path(name))

    def follow(env: Environment, runner: RowJobs) -> object:
        if task == "cutover":
            return commands.cutover(env, generation, jobs=runner)
        return commands.tail(env, generation, jobs=runner, once=True)

    count = len(moments(counted := gone.copy(tmp_path / "count"), follow))
    assert counted.state.replacements != gone.state.replacements
    for moment in chosen(count, tries):
        found = gone.copy(tmp_path / str(moment))
        assert die(found, moment, follow), moment
        found.write_all(2)
        on_with(found)
        back_from(found)
        upgrade(found, found.env, jobs(), claim_id="a later one")
        found.check("1.1.0")
        found.check_clean()
        shutil.rmtree(tmp_path / str(moment))


def scratch_of(found: Rewritten) -> list[Path]:
    root = found.env.location.local_path or Path()
    return [path for path in (root / "_schemamig" / "scratch").rglob("*") if path.is_file()]


def test_cleanup_takes_the_scratch_of_what_was_rolled_back(deployed: Rewritten, tmp_path: Path) -> None:
    """Its shards are gone with the rollback, so nothing else tells of it."""
    start = deployed.copy(tmp_path / "start")
    generation = expanded(start)
    start.write_all(1)

    def cutover(env: Environment, runner: RowJobs) -> object:
        return commands.cutover(env, generation, jobs=runner)

    seen = moments(start.copy(tmp_path / "count"), cutover)
    found = start.copy(tmp_path / "found")
    assert die(found, max(number for number, what in enumerate(seen) if what.startswith("after spark")), cutover)
    assert scratch_of(found)
    back(found.env, jobs())
    upgrade(found, found.env, jobs())
    found.check("1.1.0")
    found.check_clean()
