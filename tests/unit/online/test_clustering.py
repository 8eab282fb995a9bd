"""Which files of before a table was clustered are left, whatever others do meanwhile; and how large a batch of them is."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster
from airflow_provider_schemamig.core.online.clustering import CUBE_BYTES, check_clustered, next_batch, older_files
from airflow_provider_schemamig.core.storage import Store
from tests.unit.delta.tables import NAME, add_file, make_table, remove_file, table_store, write
from tests.unit.online.filling import VECTOR, Step, checkpoint, play, step

#: Version 0 is the table, 1 brings files ``a`` and ``b``, 2 clusters it.
SINCE = 2


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = table_store(tmp_path)
    make_table(found)
    write(found, 1, add_file("a"), add_file("b"))
    write(found, SINCE, operation="SCHEMAMIG CHANGE")
    return found


def moved(name: str) -> dict[str, object]:
    """As OPTIMIZE and our batches write it."""
    return add_file(name, dataChange=False)


CASES: dict[str, tuple[list[Step], str]] = {
    "nothing happened": ([], "ab"),
    "a file came": ([step(add_file("c"))], "ab"),
    "a batch of ours": ([step(remove_file("a", dataChange=False), moved("x"))], "b"),
    "both of ours": ([step(remove_file("a"), moved("x")), step(remove_file("b"), moved("y"))], ""),
    "an UPDATE copied rows": ([step(remove_file("a"), add_file("c"))], "b"),
    "a DELETE by a deletion vector": ([step(remove_file("a"), add_file("a", deletionVector=VECTOR))], "ab"),
    "a deletion vector of a new file": ([step(add_file("c")), step(remove_file("c"), add_file("c", deletionVector=VECTOR))], "ab"),
    "statistics were computed": ([step(moved("a"))], "ab"),
    "RESTORE brings an old file back": ([step(remove_file("a")), step(add_file("a"), operation="RESTORE")], "ab"),
    "RESTORE brings a new file back": (
        [step(add_file("c")), step(remove_file("c")), step(add_file("c"), operation="RESTORE")],
        "ab",
    ),
}


@pytest.mark.parametrize(("steps", "left"), CASES.values(), ids=CASES)
def test_clustering_what_is_left(store: Store, steps: list[Step], left: str) -> None:
    head = play(store, steps)
    assert "".join(sorted(file["path"] for file in older_files(store, head, SINCE))) == left
    checkpoint(store)
    assert "".join(sorted(file["path"] for file in older_files(store, head, SINCE))) == left


def test_the_oldest_first(store: Store) -> None:
    head = play(store, [])
    write(store, 3, remove_file("b"), {"add": {**add_file("b")["add"], "modificationTime": 0}})
    assert [file["path"] for file in older_files(store, read_head(store), SINCE)] == ["b", "a"]
    assert [file["path"] for file in older_files(store, head, SINCE)] == ["a", "b"]


def test_a_log_that_does_not_tell(store: Store, tmp_path: Path) -> None:
    """Then those are old that nobody has clustered: ours are not, so that none is laid out over and over again."""
    clustered = {"add": {**add_file("d")["add"], "clusteringProvider": "liquid"}}
    play(store, [step(add_file("c")), step(clustered)])
    checkpoint(store)
    (tmp_path / "_delta_log" / f"{3:020}.json").unlink()
    assert [file["path"] for file in older_files(store, read_head(store), SINCE)] == ["a", "b", "c"]


def test_clustering_batches() -> None:
    files = tuple(add_file(f"{number}", size=CUBE_BYTES // 4)["add"] for number in range(8))
    assert [len(next_batch(files, None, lost)) for lost in range(8)] == [4, 2, 1, 1, 1, 1, 1, 1]
    assert (len(next_batch(files, 3, 0)), len(next_batch(files, 3, 1))) == (3, 1)


def test_somebody_else_changed_it(store: Store) -> None:
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering", "domainMetadata"]}
    head = play(store, [step({"protocol": protocol}, {"domainMetadata": domain}), step(add_file("c"))])
    check_clustered(store, head, NAME, 3)
    none = {**domain, "configuration": '{"clusteringColumns":[]}'}
    head = play(store, [step({"domainMetadata": none})])
    with pytest.raises(CannotCluster, match="somebody changed the clustering"):
        check_clustered(store, head, NAME, 3)
