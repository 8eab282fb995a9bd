"""Random histories of a table: filling what is due fills all that is to be filled, and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.online.backfill import BackfillBatch, DueFiles, due_files
from airflow_provider_schemamig.core.online.operation import Files
from airflow_provider_schemamig.core.online.unfilled import Fill
from airflow_provider_schemamig.core.schema.model import Field
from airflow_provider_schemamig.core.storage import Store
from tests.unit.delta.tables import INT, add_file, flights, make_table, remove_file, table_store, write
from tests.unit.online.filling import DEFAULT, OUTDATED, SHADOW, Action, names, ours


@dataclass
class Row:
    """``c``: None is NULL. ``owed``: of before the column came, or a copy of such a row that nobody filled. ``alone``: it lies in a file
    that no row of before was copied into."""

    id: int
    c: int | None
    owed: bool
    alone: bool = True


@dataclass
class World:
    """A table whose rows are known, and the statements of several writers."""

    store: Store
    rows: dict[str, list[Row]] = field(default_factory=dict)
    files: dict[str, RawAction] = field(default_factory=dict)
    ids: int = 0
    statistics: bool = True
    versions: list[dict[str, RawAction]] = field(default_factory=list)
    vectors: dict[tuple[str, str], list[Row]] = field(default_factory=dict)

    def commit(self, actions: Sequence[Action], **info: Any) -> None:
        write(self.store, len(self.versions), *actions, **info)
        for action in actions:
            if "remove" in action:
                del self.files[action["remove"]["path"]]
            if "add" in action:
                self.files[action["add"]["path"]] = action["add"]
        self.versions.append(dict(self.files))

    def new(self, rows: Sequence[Row], **more: Any) -> Action:
        name = f"f{len(self.rows)}"
        self.rows[name] = list(rows)
        nulls = {"nullCount": {"c": sum(row.c is None for row in rows)}} if self.statistics else {}
        return add_file(name, stats={"numRecords": len(rows), **nulls}, **more)

    def live(self, path: str) -> list[Row]:
        cut_off = int((self.files[path].get("deletionVector") or {}).get("cardinality", 0))
        return self.rows[path][cut_off:]

    def gone(self, path: str, **more: Any) -> Action:
        vector = self.files[path].get("deletionVector")
        return remove_file(path, **({} if vector is None else {"deletionVector": vector}), **more)

    def append(self, values: Sequence[int | None], *, owed: bool = False) -> None:
        self.ids += len(values)
        self.commit([self.new([Row(self.ids - n, value, owed, alone=not owed) for n, value in enumerate(values)])])

    def rewrite(self, chosen: Sequence[str], value: int | None, *, data_change: bool) -> None:
        """UPDATE of the first row (where rows change) or OPTIMIZE."""
        rows = [replace(row) for path in chosen for row in self.live(path)]
        alone = all(row.alone for row in rows)
        rows = [replace(row, alone=alone) for row in rows]
        if data_change and rows:
            rows[0] = replace(rows[0], c=value, owed=rows[0].owed and value is None)
        self.commit([*(self.gone(path, dataChange=data_change) for path in chosen), self.new(rows, dataChange=data_change)])

    def delete_one(self, path: str) -> None:
        """By deletion vector; a file without any row left is removed, as Spark and delta-rs do it."""
        found = int((self.files[path].get("deletionVector") or {}).get("cardinality", 0))
        if found + 1 == len(self.rows[path]):
            self.commit([self.gone(path)])
            return
        vector = {"storageType": "i", "pathOrInlineDv": f"v{found + 1}", "sizeInBytes": 1, "cardinality": found + 1}
        self.commit([self.gone(path), {"add": {**self.files[path], "deletionVector": vector}}])

    def restore(self, version: int) -> None:
        wanted, now = self.versions[version], dict(self.files)
        removes = [self.gone(path) for path in now if wanted.get(path) != now[path]]
        adds = [{"add": add} for path, add in wanted.items() if now.get(path) != add]
        self.commit([*removes, *adds], operation="RESTORE")

    def fill(self, batch: BackfillBatch, fill: Fill) -> None:
        chosen = [str(file["path"]) for file in batch.files]
        rows = [replace(row) for path in chosen for row in self.live(path)]
        for row in rows:
            if row.c is None or not batch.nulls_only:
                row.c, row.owed = (-1 if fill.files is Files.OLDER else row.id), False
            row.alone = True
        actions, info = ours(*(self.gone(path) for path in chosen), self.new(rows))
        self.commit(actions, **info)

    @property
    def everything(self) -> list[Row]:
        return [row for path in self.files for row in self.live(path)]


VALUES = st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=3)


@st.composite
def histories(draw: st.DrawFn, folder: Path, fill: Fill) -> tuple[World, Fill, list[DueFiles]]:
    """Somebody else's statements and batches of ours in any order; ``due_files`` as a loop would have asked for it."""
    world = World(table_store(Path(tempfile.mkdtemp(dir=folder))), statistics=draw(st.booleans()))
    make_table(world.store, flights(Field("id", INT), Field("c", INT)))
    world.versions.append({})
    for _ in range(draw(st.integers(1, 3))):
        world.append([None] * draw(st.integers(1, 3)), owed=True)
    asked: list[DueFiles] = []
    since = replace(fill, since=len(world.versions) - 1)
    for _ in range(draw(st.integers(0, 8))):
        chosen = draw(st.lists(st.sampled_from(sorted(world.files)), min_size=1, unique=True)) if world.files else []
        kind = draw(st.sampled_from(["append", "update", "optimize", "delete", "restore", "fill", "look"]))
        if kind == "append":
            world.append(draw(VALUES))
        elif kind in ("update", "optimize") and chosen:
            world.rewrite(chosen, draw(st.none() | st.integers(0, 9)), data_change=kind == "update")
        elif kind == "delete" and chosen:
            world.delete_one(chosen[0])
        elif kind == "restore":
            world.restore(draw(st.integers(since.since, len(world.versions) - 1)))
        else:
            asked.append(due_files(world.store, read_head(world.store), since, asked[-1] if asked else None))
            if kind == "fill" and asked[-1]:
                world.fill(draw(st.sampled_from(asked[-1].batches(2, 10**9))), since)
    return world, since, asked


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("fill", [DEFAULT, SHADOW, OUTDATED], ids=["default", "shadow", "outdated"])
@given(data=st.data())
def test_backfill_histories_any_history(tmp_path_factory: pytest.TempPathFactory, fill: Fill, data: st.DataObject) -> None:
    world, since, asked = data.draw(histories(tmp_path_factory.getbasetemp(), fill))
    kept = {row.id: row.c for row in world.everything if row.alone and not row.owed}
    due = due_files(world.store, read_head(world.store), since)
    if asked:
        assert names(due_files(world.store, read_head(world.store), since, asked[-1])) == names(due), "as if nobody had asked before"
    for batch in due.batches(2, 10**9):
        world.fill(batch, since)
    assert not due_files(world.store, read_head(world.store), since), "filled once is filled"
    if fill.files is Files.OLDER:
        assert not any(row.owed and row.c is None for row in world.everything)
        assert {row.id: row.c for row in world.everything if row.id in kept} == kept, "what new writers wrote is theirs"
        return
    old = set(world.versions[since.since]) if fill.files is Files.NEWER else set()
    assert all(row.c == row.id for path in world.files if path not in old for row in world.live(path))
    assert all(row.c is None for path in world.files if path in old for row in world.live(path)), "they have all their values"
