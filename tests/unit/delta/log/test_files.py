"""Which files a table has at a version, and what two versions differ in, over random histories."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.delta.actions import RawAction, file_id
from airflow_provider_schemamig.core.delta.errors import LogDamaged
from airflow_provider_schemamig.core.delta.log.files import active_files, batches, file_difference, has_cdf
from airflow_provider_schemamig.core.storage import Store
from tests.support.examples import examples
from tests.unit.delta.tables import add_file, make_table, remove_file, table_store, write

CDF = "delta.enableChangeDataFeed"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return table_store(tmp_path / "t")


# --- a model: files, and the rows in each ----------------------------------------------------------------------------------------------


@dataclass
class World:
    """A table whose files are known to the row. ``history``: the rows and files of each version."""

    store: Store
    extended: bool
    active: dict[str, Counter[int]] = field(default_factory=dict)
    all_rows: dict[str, Counter[int]] = field(default_factory=dict)
    history: list[dict[str, Counter[int]]] = field(default_factory=lambda: [{}])

    def commit(self, adds: Mapping[str, Counter[int]], removes: Sequence[str], data_change: bool) -> None:
        more: dict[str, Any] = {"partitionValues": {}, "size": 1} if self.extended else {}
        actions = [remove_file(name, dataChange=data_change, **more) for name in removes]
        actions += [add_file(name, dataChange=data_change) for name in adds]
        write(self.store, len(self.history), *actions)
        for name in removes:
            del self.active[name]
        self.active |= adds
        self.all_rows |= adds
        self.history.append(dict(self.active))

    def rows(self, files: Mapping[str, Counter[int]]) -> Counter[int]:
        return sum(files.values(), Counter())

    def file(self, rows: Counter[int]) -> dict[str, Counter[int]]:
        return {f"part-{len(self.all_rows)}.parquet": rows} if rows else {}

    def pick(self, draw: st.DataObject) -> list[str]:
        return draw.draw(st.lists(st.sampled_from(sorted(self.active)), unique=True, min_size=1)) if self.active else []


def step(world: World, data: st.DataObject) -> None:
    """One commit as Delta's writers make them."""
    numbers = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(Counter)
    match data.draw(st.sampled_from(["append", "update", "optimize", "restore", "touch"])):
        case "append":
            world.commit(world.file(data.draw(numbers)), [], True)
        case "update":
            world.commit(world.file(data.draw(numbers | st.just(Counter()))), world.pick(data), True)
        case "optimize":
            removes = world.pick(data)
            world.commit(world.file(world.rows({name: world.active[name] for name in removes})), removes, False)
        case "restore":
            past = data.draw(st.sampled_from(world.history))
            gone = {name: rows for name, rows in past.items() if name not in world.active}
            world.commit(gone, [name for name in world.active if name not in past], True)
        case "touch":  # row tracking's backfill, new statistics: the files that are there, once more
            world.commit({name: world.active[name] for name in world.pick(data)}, [], False)


@given(data=st.data(), extended=st.booleans())
@settings(max_examples=examples(50))
def test_the_difference_of_files_is_the_difference_of_rows(data: st.DataObject, extended: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(table_store(Path(folder)), extended)
        make_table(world.store)
        world.commit({f"old-{row}": Counter([row]) for row in range(3)}, [], True)
        for _ in range(data.draw(st.integers(1, 6))):
            step(world, data)
        # Most histories from when there were files already: only then do the commits between not tell everything.
        hi = len(world.history) - 1
        lo = data.draw(st.sampled_from([1, 1, 1, *range(hi + 1)]))

        assert {path for path, _ in active_files(world.store, hi)} == set(world.history[hi])
        found = file_difference(world.store, lo, hi)
        rows = Counter(world.rows(world.history[lo]))
        for sign, files in ((1, found.added), (-1, found.removed)):
            assert len({file_id(file) for file in files}) == len(files)
            for file in files:
                assert file["partitionValues"] == {} and file["size"] == 1
                rows.update({row: sign * n for row, n in world.all_rows[file["path"]].items()})
        assert +rows == world.rows(world.history[hi])
        assert -rows == Counter()
        if not found.changed:
            assert (found.added, found.removed) == ((), ())


def test_a_compaction_of_old_files_is_not_read_and_one_of_new_files_is_read_instead_of_them(store: Store) -> None:
    make_table(store)
    write(store, 1, add_file("a"), add_file("b"))
    write(store, 2, remove_file("a", dataChange=False), remove_file("b", dataChange=False), add_file("ab", dataChange=False))
    assert file_difference(store, 1, 2).changed is False
    assert paths(file_difference(store, 1, 2).added) == []
    write(store, 3, add_file("c"))
    write(store, 4, add_file("d"))
    write(store, 5, remove_file("c", dataChange=False), remove_file("d", dataChange=False), add_file("cd", dataChange=False))
    found = file_difference(store, 2, 5)
    assert (paths(found.added), paths(found.removed), found.changed) == (["cd"], [], True)


def test_a_file_that_comes_back_beside_its_compaction_counts_as_often_as_it_should(store: Store) -> None:
    """RESTORE to before an OPTIMIZE: the commits alone would count ``a`` twice, and the table cannot list a file twice."""
    make_table(store)
    write(store, 1, add_file("x"))
    write(store, 2, add_file("a"))
    write(store, 3, remove_file("a", dataChange=False), remove_file("x", dataChange=False), add_file("ax", dataChange=False))
    write(store, 4, remove_file("ax"), add_file("a"), add_file("x"))
    found = file_difference(store, 1, 4)
    assert (paths(found.added), paths(found.removed)) == (["a"], [])


def test_a_file_with_another_deletion_vector_is_another_file(store: Store) -> None:
    make_table(store)
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 6}
    write(store, 1, add_file("a%20b"))
    write(store, 2, remove_file("a b"), add_file("a%20b", deletionVector=vector))
    found = file_difference(store, 1, 2)
    assert [file.get("deletionVector") for file in (*found.added, *found.removed)] == [vector, None]
    write(store, 3, remove_file("a%20b", deletionVector=vector, partitionValues={}, size=7))
    found = file_difference(store, 2, 3)
    assert found.added == ()
    assert [(file["deletionVector"], file["size"]) for file in found.removed] == [(vector, 7)]
    assert active_files(store, 3) == {}


def test_a_removed_file_that_never_was_is_a_damaged_log(store: Store) -> None:
    make_table(store)
    write(store, 1, remove_file("a"))
    with pytest.raises(LogDamaged, match="a is removed"):
        file_difference(store, 0, 1)


# --- batches -----------------------------------------------------------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(0, 10), max_size=12), max_files=st.integers(1, 4), max_bytes=st.integers(1, 15), order=st.randoms())
def test_batches_keep_every_file_once_and_both_limits(sizes: list[int], max_files: int, max_bytes: int, order: Any) -> None:
    files = [{"path": f"{number:02}", "size": size} for number, size in enumerate(sizes)]
    found = batches(order.sample(files, len(files)), max_files, max_bytes)
    assert [file for batch in found for file in batch] == files
    for batch in found:
        assert 1 <= len(batch) <= max_files
        assert len(batch) == 1 or sum(file["size"] for file in batch) <= max_bytes
    for batch, following in itertools.pairwise(found):
        assert len(batch) == max_files or sum(file["size"] for file in (*batch, following[0])) > max_bytes


# --- the change data feed --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lo, hi, on",
    [
        (0, 1, False),
        (0, 2, False),
        (1, 2, True),  # the commit that switches it on may be the first
        (2, 4, True),
        (1, 5, False),
        (4, 5, False),
        (5, 6, False),
        (6, 7, True),
        (4, 7, False),
        (3, 3, True),
    ],
)
def test_the_feed_must_be_on_for_the_whole_range(store: Store, lo: int, hi: int, on: bool) -> None:
    metadata = make_table(store)
    switched = {state: {"metaData": {**metadata, "configuration": {CDF: state}}} for state in ("true", "True", "false")}
    write(store, 1, add_file("1"))
    write(store, 2, switched["true"])
    write(store, 3, add_file("3"))
    write(store, 4, switched["True"])
    write(store, 5, switched["false"])
    write(store, 6, add_file("6"))
    write(store, 7, switched["true"])
    assert has_cdf(store, lo, hi) is on


def update(table: DeltaTable, value: str) -> None:
    table.update({"line": f"'{value}'"}, predicate="line = 'a'")


def merge(table: DeltaTable) -> None:
    source = pa.table({"line": ["a"], "to": ["b"]})
    merger = table.merge(source, "t.line = s.line", source_alias="s", target_alias="t")
    merger.when_matched_update({"line": "s.to"}).execute()


@pytest.mark.parametrize(
    "act, lacks",
    [
        (partial(update, value="b"), {"b": 1}),  # as another row is
        (partial(update, value="z"), {}),
        (merge, {}),
        (partial(DeltaTable.delete, predicate="line = 'b'"), {}),
    ],
    ids=["update to an equal row", "update to a new row", "merge", "delete"],
)
def test_what_the_feed_of_delta_rs_lacks(tmp_path: Path, act: Callable[[DeltaTable], object], lacks: dict[str, int]) -> None:
    def rows() -> Counter[str]:
        return Counter(DeltaTable(tmp_path).to_pyarrow_table()["line"].to_pylist())

    write_deltalake(tmp_path, pa.table({"line": ["a", "b", "b", "c"]}), configuration={CDF: "true"})
    before = rows()
    act(DeltaTable(tmp_path))
    changed = Counter(rows())
    changed.subtract(before)
    feed = pa.table(DeltaTable(tmp_path).load_cdf(starting_version=1))
    for line, kind in zip(feed["line"].to_pylist(), feed["_change_type"].to_pylist(), strict=True):
        changed[line] -= 1 if kind in ("insert", "update_postimage") else -1
    assert {line: count for line, count in changed.items() if count} == lacks
    difference = file_difference(table_store(tmp_path), 0, 1)
    assert not difference.change_data_is_reliable


def paths(files: Sequence[RawAction]) -> list[str]:
    return [file["path"] for file in files]
