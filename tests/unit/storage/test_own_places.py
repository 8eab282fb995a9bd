"""Deleting folders: only those that we make, by the names that only we give them, and never through a symbolic link."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.storage import Location, NotOurPlace, StorageOptions, Store, open_store
from airflow_provider_schemamig.core.storage.own_places import exchange_folder, work_folder

SHARD = "g7-0123456789ab"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    uri = f"memory://{tmp_path.name}" if request.param == "memory" else str(tmp_path / "lake")
    return open_store(Location.parse(uri), StorageOptions())


def test_a_tree_is_deleted_whole(store: Store) -> None:
    tree = f"t/{SHARD}"
    for key in (f"{tree}/a", f"{tree}/b/c", f"{tree}0", "t/u"):
        store.put(key, b"x")
    store.delete_tree(tree)
    store.delete_tree(tree)
    assert (store.exists(f"{tree}/a"), store.exists(f"{tree}/b/c"), store.exists(f"{tree}0"), store.exists("t/u")) == (
        False,
        False,
        True,
        True,
    )


#: What we make, and a key that only looks so.
OURS = {
    f"flights/{SHARD}": (
        "flights",
        "flights/all",
        f"flights/{SHARD}0",
        "flights/g7-0123456789AB",
        f"Flights/{SHARD}",
        f"_schemamig/{SHARD}",
    ),
    "_schemamig/scratch/7": ("_schemamig/scratch", "_schemamig/scratchpad/7", "x/_schemamig/scratch/7"),
    "_schemamig/replicas/streams/e-1/flights/s-1-2": (
        "_schemamig/replicas",
        "_schemamig/replicas/schemas",
        "_schemamig/replicas/streams/e-1/flights",
        "_schemamig/ledger",
    ),
    work_folder("compact"): ("schemamig-compact", "schemamig-compact-1", "flights"),
    exchange_folder(): ("job", "job-1", "jobs"),
}
ASTRAY = ("", ".", "..", "/", f"../flights/{SHARD}", f"flights/{SHARD}/..", f"flights/./{SHARD}", f"/flights/{SHARD}", f"flights//{SHARD}")


@pytest.mark.parametrize(("ours", "not_ours"), OURS.items(), ids=[str(number) for number in range(len(OURS))])  # no random names
def test_own_places_only_a_folder_that_we_make_is_deleted(store: Store, ours: str, not_ours: tuple[str, ...]) -> None:
    for key in not_ours:
        store.put(f"{key}/precious", b"x")
    store.put(f"{ours}/x/y", b"x")
    for key in (*not_ours, *ASTRAY):
        with pytest.raises(NotOurPlace):
            store.delete_tree(key)
    assert store.exists(f"{ours}/x/y")
    store.delete_tree(f"{ours}/x")
    store.delete_tree(ours)
    assert not store.exists(f"{ours}/x/y")
    for key in not_ours:
        assert store.exists(f"{key}/precious"), key


def test_a_symbolic_link_is_not_followed_to_delete(tmp_path: Path) -> None:
    (tmp_path / "victim" / SHARD).mkdir(parents=True)
    (tmp_path / "victim" / SHARD / "precious").write_text("x")
    (tmp_path / "lake" / "planes").mkdir(parents=True)
    (tmp_path / "lake" / "flights").symlink_to(tmp_path / "victim")
    (tmp_path / "lake" / "planes" / SHARD).symlink_to(tmp_path / "victim")
    store = open_store(Location.parse(str(tmp_path / "lake")), StorageOptions())
    for collection in ("flights", "planes"):
        with pytest.raises(NotOurPlace, match="symbolic link"):
            store.delete_tree(f"{collection}/{SHARD}")
    assert (tmp_path / "victim" / SHARD / "precious").exists()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    (tmp_path / "lake" / "stats" / SHARD).mkdir(parents=True)
    open_store(Location.parse(str(tmp_path / "link")), StorageOptions()).delete_tree(f"stats/{SHARD}")
    assert not (tmp_path / "lake" / "stats" / SHARD).exists(), "where the root itself lies is its owner's business"
