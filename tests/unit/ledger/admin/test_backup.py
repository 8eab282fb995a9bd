"""A backup restores the same ledger, byte for byte, and never over another one."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.admin import backup as backups
from airflow_provider_schemamig.core.ledger.admin.backup import backup, restore
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.errors import BackupUnusable, LedgerDamaged, NoEnvironment
from airflow_provider_schemamig.core.ledger.objects.plan_store import read_plan, write_plan
from airflow_provider_schemamig.core.ledger.rows import Shard, ShardState
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.bytes import files, tree
from tests.unit.ledger.samples import LOG, append_raw, counter, leader, sound_environment


@pytest.fixture
def lake(tmp_path: Path) -> LedgerWriter:
    writer = sound_environment(tmp_path / "lake", "flights", "planes")
    for epoch in (2, 3):
        writer.transact(lambda state, epoch=epoch: [Put(leader(1, epoch))])  # type: ignore[misc]
    return writer


@pytest.mark.parametrize("consolidated", [False, True])
def test_backup_round_trip(lake: LedgerWriter, tmp_path: Path, consolidated: bool) -> None:
    plan = write_plan(lake.env, canonical({"stages": [1, 2]}))
    if consolidated:
        compact(lake, since=2)
        lake.transact(lambda state: [Put(leader(1, 4))])
    before = tree(tmp_path / "lake")
    made = backup(lake.env, str(tmp_path / "backup"))
    assert tree(tmp_path / "lake") == before
    lake.transact(lambda state: [Put(leader(1, 9))])

    other = EnvironmentRoot.open(str(tmp_path / "other"))
    done = restore(other, str(tmp_path / "backup"))
    assert (done.version, done.files) == (made.version + 1, made.files)
    found = LedgerReader(other)
    assert found.state().version == done.version
    assert found.state(made.version).leader == leader(1, 4 if consolidated else 3)
    assert found.state(2).leader == leader(1, 2)
    assert found.state(2).raw == lake.state(2).raw
    assert verify(found) == ()
    assert read_plan(other, plan) == {"stages": [1, 2]}
    LedgerWriter(other).transact(lambda state: [Put(leader(1, 99_999))])
    assert found.state().leader == leader(1, 99_999)


@pytest.mark.parametrize("consolidated", [False, True])
def test_restore_may_be_killed_at_any_file_and_run_again(lake: LedgerWriter, tmp_path: Path, consolidated: bool) -> None:
    plan = write_plan(lake.env, canonical({"stages": []}))
    if consolidated:
        compact(lake)
    lake.transact(lambda state: [Put(counter(1))])
    made = backup(lake.env, str(tmp_path / "backup"))

    for survivors in range(made.files + 2):  # those of its own commit, too
        seen = [0]

        def crash(moment: str, what: str, key: str, seen: list[int] = seen, survivors: int = survivors) -> None:
            if moment == "before" and what == "put_if_absent":
                seen[0] += 1
                if seen[0] > survivors:
                    raise KeyboardInterrupt

        place = tmp_path / f"other{survivors}"
        env = EnvironmentRoot.open(str(place))
        with pytest.raises(KeyboardInterrupt):
            restore(EnvironmentRoot(env.location, env.options, on_write=crash), str(tmp_path / "backup"))
        with contextlib.suppress(NoEnvironment, LedgerDamaged):  # half a restore is no ledger or the whole one, never an older one
            assert as_backed_up(env) == lake.state().raw
            assert read_plan(env, plan) == {"stages": []}
        restore(env, str(tmp_path / "backup"))
        assert as_backed_up(env) == lake.state().raw


def as_backed_up(env: EnvironmentRoot) -> Any:
    """What the ledger said before the commit that a restore puts on top."""
    reader = LedgerReader(env)
    state = reader.state()
    assert state.given_out is not None, "it never opens without"
    return reader.state(state.version - 1).raw


def test_a_backup_is_no_environment(lake: LedgerWriter, tmp_path: Path) -> None:
    """A verb that is given its folder would lead the tables of its original in the same name."""
    backup(lake.env, str(tmp_path / "backup"))
    with pytest.raises(NoEnvironment):
        LedgerReader(EnvironmentRoot.open(str(tmp_path / "backup"))).state()


@pytest.mark.parametrize("folder", ["lake", "link", "lake/_schemamig", "half"])
def test_a_backup_has_a_folder_of_its_own(lake: LedgerWriter, tmp_path: Path, folder: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "ledger").symlink_to(tmp_path / "lake" / "_schemamig" / "ledger")
    before = tree(tmp_path / "lake")
    with pytest.raises(BackupUnusable, match="an environment is there"):
        backup(lake.env, str(tmp_path / folder))
    assert tree(tmp_path / "lake") == before


def test_restore_again_changes_nothing(lake: LedgerWriter, tmp_path: Path) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    shutil.rmtree(tmp_path / "lake" / "_schemamig" / "ledger")
    done = restore(lake.env, str(tmp_path / "backup"))
    before = files(tmp_path / "lake")
    assert restore(lake.env, str(tmp_path / "backup")) == done
    assert files(tmp_path / "lake") == before


@pytest.mark.parametrize(("commits", "match"), [(0, "its own of before"), (1, "another one")])
def test_a_ledger_that_is_there_is_not_overwritten(lake: LedgerWriter, tmp_path: Path, commits: int, match: str) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    for _ in range(commits):
        lake.transact(lambda state: [Put(counter(1))])
    before = tree(tmp_path / "lake")
    with pytest.raises(BackupUnusable, match=match):
        restore(lake.env, str(tmp_path / "backup"))
    assert tree(tmp_path / "lake") == before


def another(place: Path, commits: int) -> LedgerWriter:
    """A ledger of its own, with this many versions after the first."""
    writer = LedgerWriter(EnvironmentRoot.open(str(place)))
    writer.create("env-2")
    for number in range(commits):
        writer.transact(lambda state, number=number: [Put(counter(number))])  # type: ignore[misc]
    return writer


@pytest.mark.parametrize("commits", [0, 1, 30])
def test_another_environments_ledger_stays_as_it_is(lake: LedgerWriter, tmp_path: Path, commits: int) -> None:
    """Whether it has fewer versions than the backup, or more."""
    backup(lake.env, str(tmp_path / "backup"))
    other = another(tmp_path / "other", commits)
    before = tree(tmp_path / "other")
    with pytest.raises(BackupUnusable, match=r"other content|another one"):
        restore(other.env, str(tmp_path / "backup"))
    assert tree(tmp_path / "other") == before
    assert LedgerReader(other.env).state().config.env_id == "env-2"


def test_the_ledger_of_before_the_backup_stays_as_it_is(lake: LedgerWriter, tmp_path: Path) -> None:
    """Its processes may live, and append to it."""
    shutil.copytree(tmp_path / "lake", tmp_path / "before")
    lake.transact(lambda state: [Put(counter(1))])
    backup(lake.env, str(tmp_path / "backup"))
    before = tree(tmp_path / "before")
    with pytest.raises(BackupUnusable, match=r"its own of before.*move the folder .*/_schemamig/ledger away"):
        restore(EnvironmentRoot.open(str(tmp_path / "before")), str(tmp_path / "backup"))
    assert tree(tmp_path / "before") == before


@pytest.mark.parametrize("begun", [0, 1, 3])
def test_of_a_ledger_that_is_made_meanwhile_nothing_is_lost(lake: LedgerWriter, tmp_path: Path, begun: int) -> None:
    """By a process that found none. ``begun``: when so many files of the log were put."""
    backup(lake.env, str(tmp_path / "backup"))
    made = another(tmp_path / "made", 0)
    place, seen = tmp_path / "other", [0]

    def overtakes(moment: str, what: str, key: str) -> None:
        seen[0] += moment == "after" and LOG in key
        if seen[0] == begun and not (place / LOG / f"{0:020}.json").exists():
            shutil.copytree(tmp_path / "made", place, dirs_exist_ok=True)

    env = EnvironmentRoot.open(str(place))
    with pytest.raises(BackupUnusable, match="other content"):
        restore(EnvironmentRoot(env.location, env.options, on_write=overtakes), str(tmp_path / "backup"))
    assert LedgerReader(env).state().raw == made.state().raw
    assert [path.name for path in (place / LOG).iterdir()] == [f"{0:020}.json"]


@pytest.mark.parametrize("moment", range(0, 14, 3))
def test_two_restores_of_one_backup_make_one_ledger(lake: LedgerWriter, tmp_path: Path, moment: int) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    env = EnvironmentRoot.open(str(tmp_path / "other"))
    seen = [0]

    def overtakes(at: str, what: str, key: str) -> None:
        seen[0] += 1
        if seen[0] == moment * 2 + 1:
            restore(env, str(tmp_path / "backup"))

    restore(EnvironmentRoot(env.location, env.options, on_write=overtakes), str(tmp_path / "backup"))
    assert as_backed_up(env) == lake.state().raw
    assert verify(LedgerReader(env)) == ()


def test_a_backup_is_never_written_over_another(lake: LedgerWriter, tmp_path: Path) -> None:
    made = backup(lake.env, str(tmp_path / "backup"))
    assert backup(lake.env, str(tmp_path / "backup")) == made, "a try that could not say that it was done"
    lake.transact(lambda state: [Put(counter(99))])
    with pytest.raises(BackupUnusable, match="already"):
        backup(lake.env, str(tmp_path / "backup"))


#: Where a backup has the ledger's log.
KEPT_LOG = "ledger/_delta_log"


def edit_manifest(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    path = folder / "backup.json"
    document = json.loads(path.read_text())
    change(document["files"])
    path.write_text(json.dumps(document))


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / "backup.json").unlink(), "never finished"),
    "not a manifest": (lambda folder: (folder / "backup.json").write_text("[]"), "is not one"),
    "missing file": (lambda folder: (folder / KEPT_LOG / f"{0:020}.json").unlink(), "is missing"),
    "altered file": (lambda folder: (folder / KEPT_LOG / f"{0:020}.json").write_bytes(b"{}"), "was altered"),
    "smuggled path": (
        lambda folder: edit_manifest(folder, lambda files: files.update({"_schemamig/ledger/../../../x": "0"})),
        "no part of",
    ),
    "foreign file": (lambda folder: edit_manifest(folder, lambda files: files.update({"flights/x": "0"})), "no part of"),
}


@pytest.mark.parametrize(("damage", "match"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_bad_backup_writes_nothing(lake: LedgerWriter, tmp_path: Path, damage: Callable[[Path], object], match: str) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    damage(tmp_path / "backup")
    with pytest.raises(BackupUnusable, match=match):
        restore(EnvironmentRoot.open(str(tmp_path / "other")), str(tmp_path / "backup"))
    assert not (tmp_path / "other").exists()


def test_a_damaged_ledger_can_be_moved_away_and_restored(lake: LedgerWriter, tmp_path: Path) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    ledger = tmp_path / "lake" / "_schemamig" / "ledger"
    next(ledger.glob("*.parquet")).write_bytes(b"")
    assert verify(LedgerReader(lake.env))
    shutil.move(ledger, tmp_path / "damaged")
    restore(lake.env, str(tmp_path / "backup"))
    assert verify(LedgerReader(lake.env)) == ()


# --- attacks -------------------------------------------------------------------------------------------------------------------------


def test_a_backup_killed_at_any_file_is_none_and_can_be_made_again(lake: LedgerWriter, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    whole = backup(lake.env, str(tmp_path / "whole"))
    for survivors in range(0, whole.files + 1, 2):
        lake.transact(lambda state, survivors=survivors: [Put(counter(survivors))])  # type: ignore[misc]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backups, "_put", killed_after(survivors))
            with pytest.raises(KeyboardInterrupt):
                backup(lake.env, str(place))
        with pytest.raises(BackupUnusable, match="never finished"):
            restore(EnvironmentRoot.open(str(tmp_path / "other")), str(place))
        assert not (tmp_path / "other").exists()
    made = backup(lake.env, str(place))
    other = EnvironmentRoot.open(str(tmp_path / "other"))
    assert restore(other, str(place)).version == made.version + 1 == lake.state().version + 1
    assert as_backed_up(other) == lake.state().raw


def killed_after(survivors: int) -> Callable[..., None]:
    put, left = backups._put, [survivors]

    def dying(*arguments: object) -> None:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        put(*arguments)  # type: ignore[arg-type]

    return dying


def test_two_backups_into_one_folder_do_not_mix(lake: LedgerWriter, tmp_path: Path) -> None:
    """The second began before the first was finished, the ledger moved on in between: the first stays whole, the second is refused."""
    place, state = str(tmp_path / "backup"), lake.state()
    copied = backups._of_the_ledger
    pending = [lambda: (backup(lake.env, place), lake.transact(lambda _: [Put(counter(7))]))]

    def overtaken(source: Store, key: str) -> bytes:
        if pending:
            pending.pop()()
        return copied(source, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backups, "_of_the_ledger", overtaken)
        with contextlib.suppress(BackupUnusable):
            backup(lake.env, place)
    other = EnvironmentRoot.open(str(tmp_path / "other"))
    assert restore(other, place).version == state.version + 1
    assert as_backed_up(other) == state.raw


def test_a_folder_with_other_files_is_refused(lake: LedgerWriter, tmp_path: Path) -> None:
    backup(another(tmp_path / "other", 0).env, str(tmp_path / "taken"))
    (tmp_path / "taken" / "backup.json").unlink()  # as one that was killed leaves it
    before = tree(tmp_path / "taken")
    with pytest.raises(BackupUnusable, match="something else"):
        backup(lake.env, str(tmp_path / "taken"))
    assert tree(tmp_path / "taken") == before


def test_a_backup_while_writers_race_is_of_one_version(lake: LedgerWriter, tmp_path: Path) -> None:
    """An append and a compaction between any two files: what was listed at first is what is copied."""
    copied, version, raw = backups._of_the_ledger, lake.state().version, lake.state().raw
    numbers = iter(range(1_000))

    def racing(source: Store, key: str) -> bytes:
        number = next(numbers)
        lake.transact(lambda state: [Put(counter(number))])
        if number == 2:
            compact(lake)
        return copied(source, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backups, "_of_the_ledger", racing)
        assert backup(lake.env, str(tmp_path / "backup")).version == version
    other = EnvironmentRoot.open(str(tmp_path / "other"))
    restore(other, str(tmp_path / "backup"))
    assert as_backed_up(other) == raw
    assert verify(LedgerReader(other)) == ()


def test_a_backup_of_a_log_that_was_cleaned_up_opens(lake: LedgerWriter, tmp_path: Path) -> None:
    """No ``_last_checkpoint`` is in a backup: the log is listed."""
    compact(lake)
    lake.transact(lambda state: [Put(leader(1, 4))])
    log = tmp_path / "lake" / LOG
    for path in log.glob("*.json"):
        if int(path.stem) < lake.table.last_checkpoint():
            path.unlink()
    backup(lake.env, str(tmp_path / "backup"))
    other = EnvironmentRoot.open(str(tmp_path / "other"))
    restore(other, str(tmp_path / "backup"))
    assert not (tmp_path / "other" / LOG / "_last_checkpoint").exists()
    assert as_backed_up(other) == lake.state().raw
    LedgerWriter(other).transact(lambda state: [Put(leader(1, 99_999))])
    assert verify(LedgerReader(other)) == ()


def test_rows_that_are_damaged_are_kept_as_they_are(lake: LedgerWriter, tmp_path: Path) -> None:
    append_raw(lake.env, RawRow("shards", '"x"', "{", 4, 1), RawRow("objects", '"y"', "{}", 4, -1))
    found = verify(LedgerReader(lake.env))
    made = backup(lake.env, str(tmp_path / "backup"))
    assert made.notes == (f"it is not sound: {len(found)} finding(s), {found[0].code} at {found[0].where} for one",)
    other = EnvironmentRoot.open(str(tmp_path / "other"))
    assert restore(other, str(tmp_path / "backup")).version == made.version + 1
    assert verify(LedgerReader(other)) == found


def test_a_ledger_whose_files_are_damaged_is_not_taken_for_a_backup(lake: LedgerWriter, tmp_path: Path) -> None:
    data = next((tmp_path / "lake" / "_schemamig" / "ledger").glob("*.parquet"))
    data.unlink()
    with pytest.raises(LedgerDamaged):
        backup(lake.env, str(tmp_path / "backup"))
    assert not (tmp_path / "backup").exists()


def test_a_file_that_goes_while_it_is_copied_is_named(lake: LedgerWriter, tmp_path: Path) -> None:
    plan = write_plan(lake.env, canonical({"stages": []}))
    listed = backups._keys

    def listed_then_gone(*arguments: object) -> list[str]:
        keys = list(listed(*arguments))  # type: ignore[arg-type]
        lake.env.store().delete(f"_schemamig/plans/{plan}.json")
        return keys

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backups, "_keys", listed_then_gone)
        with pytest.raises(LedgerDamaged, match=rf"{plan}\.json is damaged: the file is not there"):
            backup(lake.env, str(tmp_path / "backup"))
    assert not (tmp_path / "backup" / "backup.json").exists()


def test_a_second_environment_of_one_id_is_told(lake: LedgerWriter, tmp_path: Path) -> None:
    place = "file:///elsewhere/t"
    shard = Shard(ShardId("a"), CollectionName("flights"), place, "id of a", Generation(1), ShardState.RETIRED, adopted=True)
    lake.transact(lambda state: [Put(shard)])
    backup(lake.env, str(tmp_path / "backup"))
    shutil.rmtree(tmp_path / "lake" / "_schemamig" / "ledger")
    assert restore(lake.env, str(tmp_path / "backup")).notes == (), "in its own place there is only one"
    notes = restore(EnvironmentRoot.open(str(tmp_path / "lake2")), str(tmp_path / "backup")).notes
    assert [note.split()[0] for note in notes] == ["this", "1"]
    assert lake.env.location.uri in notes[0]
    assert place in notes[1]
