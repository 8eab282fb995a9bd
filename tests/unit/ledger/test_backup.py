"""A backup restores the same ledger, byte for byte, and never over another one."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.backup import backup, restore
from airflow_provider_schemamig.core.ledger.blobs import read_plan, write_plan
from airflow_provider_schemamig.core.ledger.errors import BackupUnusable, LedgerDamaged, LedgerMissing
from airflow_provider_schemamig.core.ledger.maintenance import compact
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.ledger.verify import verify
from tests.support.bytes import tree
from tests.unit.ledger.samples import LOG, counter, leader, sound_environment


@pytest.fixture
def lake(tmp_path: Path) -> LedgerWriter:
    writer = sound_environment(tmp_path / "lake", "flights", "planes")
    for epoch in (2, 3):
        writer.transact(lambda state, epoch=epoch: [Put(leader(1, epoch))])  # type: ignore[misc]
    return writer


@pytest.mark.parametrize("consolidated", [False, True])
def test_round_trip(lake: LedgerWriter, tmp_path: Path, consolidated: bool) -> None:
    plan = write_plan(lake.env, {"stages": [1, 2]})
    if consolidated:
        compact(lake, since=2)
        lake.transact(lambda state: [Put(leader(1, 4))])
    before = tree(tmp_path / "lake")
    made = backup(lake.env, str(tmp_path / "backup"))
    assert tree(tmp_path / "lake") == before
    lake.transact(lambda state: [Put(leader(1, 9))])

    other = Environment.open(str(tmp_path / "other"))
    assert restore(other, str(tmp_path / "backup")) == made
    found = LedgerReader(other)
    assert found.state().version == made.version
    assert found.state().leader == leader(1, 4 if consolidated else 3)
    assert found.state(2).leader == leader(1, 2)
    assert found.state(2).raw == lake.state(2).raw
    assert verify(found) == ()
    assert read_plan(other, plan) == {"stages": [1, 2]}
    LedgerWriter(other).transact(lambda state: [Put(leader(1, 5))])
    assert found.state().leader == leader(1, 5)


@pytest.mark.parametrize("consolidated", [False, True])
def test_restore_may_be_killed_at_any_file_and_run_again(lake: LedgerWriter, tmp_path: Path, consolidated: bool) -> None:
    plan = write_plan(lake.env, {"stages": []})
    if consolidated:
        compact(lake)
    lake.transact(lambda state: [Put(counter(1))])
    made = backup(lake.env, str(tmp_path / "backup"))

    for survivors in range(made.files):
        seen = [0]

        def crash(moment: str, what: str, key: str, seen: list[int] = seen, survivors: int = survivors) -> None:
            if moment == "before" and what == "put_if_absent":
                seen[0] += 1
                if seen[0] > survivors:
                    raise KeyboardInterrupt

        place = tmp_path / f"other{survivors}"
        env = Environment.open(str(place))
        with pytest.raises(KeyboardInterrupt):
            restore(Environment(env.location, env.options, on_write=crash), str(tmp_path / "backup"))
        with contextlib.suppress(LedgerMissing, LedgerDamaged):  # half a restore is no ledger or the whole one, never an older one
            assert LedgerReader(env).state().raw == lake.state().raw
            assert read_plan(env, plan) == {"stages": []}
        restore(env, str(tmp_path / "backup"))
        assert LedgerReader(env).state().raw == lake.state().raw


def files(root: Path) -> dict[str, tuple[bytes | None, int]]:
    """Without the folders: their time changes with every attempt to put a file in."""
    return {name: found for name, found in tree(root).items() if found[0] is not None}


def test_restore_again_changes_nothing(lake: LedgerWriter, tmp_path: Path) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    before = files(tmp_path / "lake")
    restore(lake.env, str(tmp_path / "backup"))
    assert files(tmp_path / "lake") == before


def test_a_ledger_that_went_on_is_not_overwritten(lake: LedgerWriter, tmp_path: Path) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    lake.transact(lambda state: [Put(counter(1))])
    before = tree(tmp_path / "lake")
    with pytest.raises(BackupUnusable, match="another ledger"):
        restore(lake.env, str(tmp_path / "backup"))
    assert tree(tmp_path / "lake") == before


def test_another_environments_ledger_is_not_mixed_in(lake: LedgerWriter, tmp_path: Path) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    other = LedgerWriter(Environment.open(str(tmp_path / "other")))
    other.create("env-2")
    with pytest.raises(BackupUnusable, match="other content"):
        restore(other.env, str(tmp_path / "backup"))
    assert LedgerReader(other.env).state().config.env_id == "env-2"


def test_a_backup_is_never_written_over_another(lake: LedgerWriter, tmp_path: Path) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    with pytest.raises(BackupUnusable, match="already"):
        backup(lake.env, str(tmp_path / "backup"))


def edit_manifest(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    path = folder / "backup.json"
    document = json.loads(path.read_text())
    change(document["files"])
    path.write_text(json.dumps(document))


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / "backup.json").unlink(), "never finished"),
    "not a manifest": (lambda folder: (folder / "backup.json").write_text("[]"), "is not one"),
    "missing file": (lambda folder: (folder / LOG / f"{0:020}.json").unlink(), "is missing"),
    "altered file": (lambda folder: (folder / LOG / f"{0:020}.json").write_bytes(b"{}"), "was altered"),
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
        restore(Environment.open(str(tmp_path / "other")), str(tmp_path / "backup"))
    assert not (tmp_path / "other").exists()


def test_a_damaged_ledger_can_be_moved_away_and_restored(lake: LedgerWriter, tmp_path: Path) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    ledger = tmp_path / "lake" / "_schemamig" / "ledger"
    next(ledger.glob("*.parquet")).write_bytes(b"")
    assert verify(LedgerReader(lake.env))
    shutil.move(ledger, tmp_path / "damaged")
    restore(lake.env, str(tmp_path / "backup"))
    assert verify(LedgerReader(lake.env)) == ()
