"""Tables that the environment made are not adopted: neither one that is kept for a rollback, nor a clone whose rows are in such files."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.adopt.errors import TableNotLive, WrongPlace
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree
from tests.support.lake import Lake, append, no_spark
from tests.support.upgrades import two_releases

ONE, TWO = "CREATE TABLE t (id BIGINT);", "CREATE TABLE t (id BIGINT, n INT);"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = two_releases(tmp_path, ONE, TWO, 'replacement("t")')
    append(lake.path("t"), [{"id": 1}])
    return lake


def adopted(lake: Lake, name: str, path: Path, release: Path) -> SchemamigError:
    """Adopt a table and return why that was refused, with nothing written."""
    root = Path(str(lake.env.location.local_path))
    before = tree(root), tree(release)
    with pytest.raises(SchemamigError) as found:
        commands.adopt(lake.env, release, [(name, str(path))])
    assert (tree(root), tree(release)) == before
    return found.value


def clone(source: Path, to: Path, absolute: str, *, checkpoint: bool = False) -> Path:
    """Make what Delta's SHALLOW CLONE makes. ``absolute``: of a path, with the source's folder as {folder}."""
    log = to / "_delta_log"
    log.mkdir(parents=True)
    actions = [json.loads(line) for file in sorted((source / "_delta_log").glob("*.json")) for line in file.read_text().splitlines()]
    (protocol,) = [action for action in actions if "protocol" in action][-1:]
    (metadata,) = [action for action in actions if "metaData" in action][-1:]
    metadata["metaData"]["id"] = str(uuid.uuid4())
    adds = [action for action in actions if "add" in action]
    for action in adds:
        action["add"]["path"] = absolute.format(folder=source) + action["add"]["path"]
    written = [{"commitInfo": {"timestamp": 1, "operation": "CLONE"}}, protocol, metadata, *adds]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, written)) + "\n")
    if checkpoint:
        DeltaTable(str(to)).create_checkpoint()
        (log / f"{0:020}.json").write_text('{"commitInfo": {}}\n')
    return to


def test_a_table_that_is_kept_for_a_rollback_is_not_told_to_be_let_go(lake: Lake, tmp_path: Path) -> None:
    old = lake.path("t")
    lake.upgrade(lake.second)
    refused = adopted(lake, "old_t", old, lake.second)
    assert isinstance(refused, TableNotLive)
    assert refused.owner == "t" and refused.why == "generation 2 retired it"
    assert "unmanage" not in refused.next_action and "CREATE TABLE ... AS SELECT" in refused.next_action


def test_a_table_that_a_rollback_left_is_not_told_to_be_let_go(lake: Lake) -> None:
    lake.upgrade(lake.second)
    new = lake.path("t")
    append(new, [{"id": 2, "n": 2}])
    commands.rollback(lake.env, jobs=no_spark, allow_lossy=True)
    assert isinstance(adopted(lake, "new_t", new, lake.first), TableNotLive)


@pytest.mark.parametrize("absolute", ["file://{folder}/", "file:{folder}/", "{folder}/"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_shallow_clone_of_a_table_that_we_made_is_not_adopted(lake: Lake, tmp_path: Path, absolute: str, checkpoint: bool) -> None:
    found = clone(lake.path("t"), tmp_path / "raw" / "bak", absolute, checkpoint=checkpoint)
    refused = adopted(lake, "bak", found, lake.first)
    assert isinstance(refused, WrongPlace)
    assert "SHALLOW CLONE" in refused.reason and "AS SELECT" in refused.next_action


def test_a_shallow_clone_of_somebody_elses_table_is_adopted(lake: Lake, tmp_path: Path) -> None:
    theirs = shutil.copytree(lake.path("t"), tmp_path / "raw" / "theirs")
    found = clone(theirs, tmp_path / "raw" / "bak", "file://{folder}/")
    commands.adopt(lake.env, lake.first, [("bak", str(found))])
    assert lake.path("bak") == found


def test_a_shallow_clone_whose_files_are_its_own_by_now_is_adopted(lake: Lake, tmp_path: Path) -> None:
    found = clone(lake.path("t"), tmp_path / "raw" / "bak", "file://{folder}/")
    actions = [json.loads(line) for line in (found / "_delta_log" / f"{0:020}.json").read_text().splitlines()]
    removes = [{"remove": {"path": item["add"]["path"], "dataChange": True}} for item in actions if "add" in item]
    (found / "_delta_log" / f"{1:020}.json").write_text("\n".join(map(json.dumps, [{"commitInfo": {}}, *removes])) + "\n")
    commands.adopt(lake.env, lake.first, [("bak", str(found))])
    assert lake.path("bak") == found
