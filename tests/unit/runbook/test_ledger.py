"""The runbook's entries of the ledger: lost, damaged, rebuilt, edited, of another age. Each is provoked, and its own words are followed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.seal import seal
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId
from airflow_provider_schemamig.core.upgrade.plan.live_tables import fence_of, table_store
from tests.support.bytes import tree
from tests.support.lake import append, rows
from tests.unit.cli.samples import Run
from tests.unit.ledger.format.synthetic.lakes import OLDER, older_known, unpack
from tests.unit.ledger.samples import append_raw
from tests.unit.runbook.book import follow, sees
from tests.unit.runbook.scenes import ROW, Scene

GONE, DAMAGED, AGE = "The ledger is gone", "The ledger is damaged", "The software and the ledger are not of one age"


def lose(scene: Scene) -> None:
    shutil.rmtree(Path(scene.env) / "_schemamig" / "ledger")


def backed_up(scene: Scene, tmp_path: Path) -> Path:
    assert scene.run("ledger", "backup", "--env", scene.env, tmp_path / "backup").exit_code == 0
    return tmp_path / "backup"


def test_a_typo_makes_no_environment(first: Scene, tmp_path: Path) -> None:
    upgrade = ("upgrade", "--env", tmp_path / "typo", "--release", first.releases.two)
    first.refused("no_environment", "There is no environment", *upgrade)
    assert not (tmp_path / "typo").exists()
    (shown,) = follow(first.run, "There is no environment", "with the right place", ENV=first.env)
    assert shown.exit_code == 0


def test_a_ledger_that_is_gone_comes_from_its_backup(first: Scene, tmp_path: Path) -> None:
    folder = backed_up(first, tmp_path)
    lose(first)
    found = first.refused("no_environment", "There is no environment", "upgrade", "--env", first.env, "--release", first.releases.two)
    assert "ledger restore" in found["next"]
    done = follow(first.run, "The ledger is gone", "there is a backup", ENV=first.env, FOLDER=folder)
    assert [ran.exit_code for ran in done] == [0, 0, 0]
    first.is_right("1.0.0")
    first.upgrade(first.releases.two)
    first.is_right("1.1.0")


def test_a_ledger_that_is_gone_is_rebuilt(second: Scene) -> None:
    """Without a backup, inside the hold of a release; it goes on from there."""
    append(second.lake.path("t"), [{"id": 2, "b": "z"}])
    wanted = second.lake.env.reader("t").arrow().to_pylist()
    lose(second)
    second.refused("no_environment", "There is no environment", "upgrade", "--env", second.env, "--release", second.releases.two)
    tables = {path: data for path, data in tree(Path(second.env)).items() if "_schemamig" not in path}
    done = follow(second.run, "The ledger is gone", "there is none", ENV=second.env, RELEASE=second.releases.two)
    assert [ran.exit_code for ran in done] == [0, 0, 0]
    assert {path: data for path, data in tree(Path(second.env)).items() if path in tables} == tables, "no table got a byte"
    second.is_right("1.1.0")
    assert Environment.open(second.env).reader("t").arrow().to_pylist() == wanted
    second.upgrade(second.releases.wider)
    second.is_right("1.2.0")


def test_a_rebuild_that_has_to_ask(first: Scene) -> None:
    path = first.lake.path("t")
    shutil.copytree(path, path.parent / "g7-0123456789ab")
    lose(first)
    rebuild = ("ledger", "rebuild", "--env", first.env, "--release", first.releases.one)
    first.refused("several_tables", GONE, *rebuild)
    words = {"ENV": first.env, "RELEASE": first.releases.one, "COLLECTION": "t", "URI": path}
    follow(first.run, "The ledger is gone", "`several_tables`", **words)
    first.is_right_but("1.0.0", "orphan_folder")
    assert rows(path) == [ROW]


def damage(scene: Scene) -> None:
    """A disk error: the newest data file of the ledger is cut off."""
    files = sorted((Path(scene.env) / "_schemamig" / "ledger").glob("*.parquet"))
    files[-1].write_bytes(files[-1].read_bytes()[:40])


def test_a_damaged_ledger_is_looked_at(first: Scene) -> None:
    damage(first)
    found = first.refused("ledger_damaged", DAMAGED, "upgrade", "--env", first.env, "--release", first.releases.two)
    assert "move `_schemamig/ledger` away first" in found["next"]
    (shown,) = follow(first.run, "The ledger is damaged", "see what is wrong", ENV=first.env)
    assert shown.exit_code == 1


def test_a_damaged_ledger_is_brought_back(first: Scene, tmp_path: Path) -> None:
    folder = backed_up(first, tmp_path)
    damage(first)
    *_, found = follow(first.run, "The ledger is damaged", "files are damaged: move", ENV=first.env, FOLDER=folder)
    assert found.exit_code == 0
    first.is_right("1.0.0")
    first.upgrade(first.releases.two)
    first.is_right("1.1.0")


def test_a_damaged_ledger_is_made_anew(second: Scene) -> None:
    damage(second)
    words = {"ENV": second.env, "RELEASE": second.releases.two}
    *_, found = follow(second.run, "The ledger is damaged", "files are damaged and there is no backup", **words)
    assert found.exit_code == 0
    second.is_right("1.1.0")
    second.upgrade(second.releases.wider)
    second.is_right("1.2.0")


def test_a_row_that_cannot_be_read(first: Scene, tmp_path: Path) -> None:
    """A bug, or another program, wrote it."""
    version = LedgerReader(first.lake.env).state().version
    append_raw(first.lake.env, RawRow("pauses", '"t"', "{", version + 1, 1))
    first.refused("ledger_damaged", DAMAGED, "status", "--env", first.env)
    first.refused("ledger_damaged", DAMAGED, "upgrade", "--env", first.env, "--release", first.releases.two)
    words = {"ENV": first.env, "FOLDER": tmp_path / "kept", "KEY": '"t"'}
    kept, shown, _, found = follow(first.run, "The ledger is damaged", "rows are wrong", **words)
    assert "not sound" in " ".join((kept.stdout + kept.stderr).split())
    assert json.loads(shown.stdout.splitlines()[0])["damaged_value"] == "{"
    assert found.exit_code == 0
    first.upgrade(first.releases.two)
    first.is_right("1.1.0")


def test_a_repair_that_is_refused_because_somebody_seems_to_work(first: Scene) -> None:
    """It is a claim whose process is known to be dead."""
    first.claim(first.releases.two)
    assert first.run("pause", "--env", first.env, "--collection", "t").exit_code == 0
    delete = ("ledger", "delete", "--env", first.env, "--collection", "pauses", "--key", '"t"')
    first.refused("looks_alive", "A repair of the ledger is refused", *delete)
    follow(first.run, "A repair of the ledger is refused", "what it names is known to be dead", ENV=first.env, KEY='"t"')
    first.upgrade(first.releases.two)
    first.is_right("1.1.0")


def test_a_ledger_of_an_older_format(tmp_path: Path, run: Run) -> None:
    unpack(OLDER, tmp_path / "old", tmp_path / "made")
    lake, release = tmp_path / "old" / "lake", tmp_path / "old" / "product" / "1.2.0"
    with older_known():
        refused = run("upgrade", "--env", lake, "--release", release, "--json")
        assert (refused.exit_code, refused.document["error"]["code"]) == (1, "ledger_format_old")
        sees("ledger_format_old", AGE)
        follow(run, "The software and the ledger are not of one age", "`ledger_format_old`", ENV=lake, FOLDER=tmp_path / "backup")
        assert run("upgrade", "--env", lake, "--release", release, "--json").exit_code == 0


def test_a_ledger_of_newer_software(first: Scene) -> None:
    state, key = LedgerReader(first.lake.env).state(), '"environment"'
    stored = state.stored("config", key)
    assert stored is not None
    newer, ts = json.dumps(json.loads(stored) | {"format_version": 7}), state.version + 1
    append_raw(first.lake.env, RawRow("config", key, stored, ts, -1), RawRow("config", key, newer, ts, 1))
    first.refused("ledger_too_new", AGE, "upgrade", "--env", first.env, "--release", first.releases.two)
    (shown,) = follow(first.run, "The software and the ledger are not of one age", "`ledger_too_new`")
    assert shown.stdout.strip()


def test_a_seal_that_nobody_opens(first: Scene) -> None:
    state, name = first.lake.state, CollectionName("u")
    shard = state.objects[name].shard
    store = table_store(first.lake.env, state, shard)
    head = read_head(store)
    tag = Tag(Generation(1), Epoch(1), "seal")
    seal(store, head, ShardId("g7-0123456789ab"), fence_of(state, shard, Epoch(1)), tag, since=head.version)
    first.refused("sealed_by_lost_history", "A seal that nobody opens", "revert", "--env", first.env, "--collection", "u")
    (found,) = follow(first.run, "A seal that nobody opens", "`seal_unknown`", ENV=first.env)
    assert found.exit_code == 1
    assert "DROP CONSTRAINT" in " ".join(found.stdout.split())
    assert commands.status(first.lake.env).drifted == ()
