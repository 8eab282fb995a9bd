"""Whatever was committed: read one by one, the batches of a stream are its events, in order, none twice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.ledger.rows import Object
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.schema.delta_json import field_to_delta
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Field, Primitive
from tests.support.examples import examples
from tests.support.rows import tables
from tests.unit.replication.origin import Origin, T, hash_of, make_origin


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return make_origin(tmp_path_factory.mktemp("origin"))


@dataclass
class History:
    """What was done, and what a stream has to make of it. ``events``: version and hash; ``ends``: commits that a batch may not go over."""

    origin: Origin
    events: list[tuple[int, str]] = field(default_factory=list)
    ends: set[int] = field(default_factory=set)
    #: What a backfill gives values, by version.
    fills: dict[int, str] = field(default_factory=dict)

    @property
    def hashes(self) -> list[str]:
        state = self.origin.lake.state
        return [hash_of(state.schemas[key]) for key in sorted(state.schemas) if key[0] == T]

    def foreign(self, _: int) -> None:
        self.events.append((self.origin.insert(1), self.hashes[-1]))

    def stamped(self, number: int) -> None:
        said = self.hashes[number % len(self.hashes)]
        version = self.origin.write({"schema_hash": said, "origin": self.origin.lake.state.config.env_id})
        self.events.append((version, said))

    def unknown(self, _: int) -> None:
        self.events.append((self.origin.write({"schema_hash": "sf1:0"}), self.hashes[-1]))

    def elsewhere(self, _: int) -> None:
        self.ends.add(self.origin.write({"schemamig": {"action": "replica", "origin": "another"}}))

    def housekeeping(self, _: int) -> None:
        self.ends.add(self.origin.write({"schemamig": {"action": "tail"}}))

    def backfill(self, number: int) -> None:
        column = f"f{number % 2}"
        version = self.origin.write({"schemamig": {"action": f"backfill:{column}"}})
        self.events.append((version, self.hashes[-1]))
        self.fills[version] = column

    def no_rows(self, _: int) -> None:
        self.origin.commit({"txn": {"appId": "a", "version": 1}})

    def rearranged(self, _: int) -> None:
        self.origin.rearrange()

    def property(self, number: int) -> None:
        self.ends.add(tables.set_property(self.origin.path, "owned_by", str(number)))

    def with_rows(self, _: int) -> None:
        """A foreign OVERWRITE: rows and metaData at once."""
        now = tables.snapshot(self.origin.path)
        version = self.origin.commit({"metaData": now.metadata}, {"add": tables.data_file(self.origin.path, now.fields, [])})
        self.events.append((version, self.hashes[-1]))

    def release(self, _: int) -> None:
        """A column more, as an upgrade adds it: by a tagged commit, and then in the ledger."""
        state, now = self.origin.lake.state, tables.snapshot(self.origin.path)
        entry = state.entry(T)
        declared = replace(entry.declared, fields=(*entry.declared.fields, Field(f"c{now.version}", Primitive("string"))))
        schema = {"type": "struct", "fields": [field_to_delta(f) for f in declared.fields]}
        version = self.origin.write_metadata(schema, {"schemamig": {"action": "expand", "epoch": 1, "generation": 2}})
        self.ends.add(version)
        schema_id = state.next_schema_id(T)
        made = replace(entry, schema_id=schema_id, declared=declared, physical=declared, since_table_version=version)
        row = Object(T, entry.shard, schema_id, fingerprint(declared))
        LedgerWriter(self.origin.lake.env).transact(lambda _: [Put(made), Put(row)])


ACTS: list[Callable[[History, int], None]] = [
    *(History.foreign, History.foreign, History.stamped, History.stamped, History.unknown),
    *(History.backfill, History.backfill, History.elsewhere, History.housekeeping),
    *(History.no_rows, History.rearranged, History.property, History.with_rows, History.release),
]


@settings(max_examples=examples(10))
@given(st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 3)), min_size=8, max_size=16), st.sampled_from([1, 3, 100]), st.data())
def test_batches_are_the_events(template: Origin, acts: list[tuple[Any, int]], limit: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(template.copy(Path(folder)))
        for act, number in acts:
            act(history, number)
        after, found = 0, []
        while after < history.origin.newest:
            look = history.origin.found(after, limit=limit)
            assert look.drift is None
            assert not look.waits
            batch = look.batch
            if batch is None:
                assert look.seen == history.origin.newest
                break
            inside = [event for event in history.events if batch.lo < event[0] <= batch.hi]
            assert after <= look.seen == batch.lo == inside[0][0] - 1
            assert inside[-1][0] == batch.hi
            assert {said for _, said in inside} == {batch.fingerprint} == {hash_of(batch.entry)}
            assert {history.fills.get(version) for version, _ in inside} == {batch.fills}
            assert (batch.commits, batch.hi - batch.lo <= limit) == (len(inside), True)
            assert not history.ends & set(range(batch.lo + 1, batch.hi + 1))
            found += inside
            # The stream may stand anywhere before the next event when it looks again.
            following = min((event[0] for event in history.events if event[0] > batch.hi), default=batch.hi + 1)
            after = data.draw(st.integers(batch.hi, following - 1))
        assert found == history.events
