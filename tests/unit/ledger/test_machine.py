"""Any sequence of put, drop, rewrite and consolidation, against a plain dictionary for every version."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_provider_schemamig.core.ledger.admin.maintenance import compact, dump
from airflow_provider_schemamig.core.ledger.errors import LedgerCompacted
from airflow_provider_schemamig.core.ledger.rows import Object
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.examples import examples
from tests.unit.ledger.samples import counter

NAMES = st.sampled_from(["a", "b", "c", "d"])
UPDATES = st.dictionaries(NAMES, st.none() | st.integers(0, 5), max_size=4)

Model = dict[str, int]


class LedgerMachine(RuleBasedStateMachine):
    """``versions[v]``: what the objects are at version v. Two writers take turns, so each keeps meeting the other's commits."""

    @initialize()
    def create(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ledger"))
        self.env = EnvironmentRoot.open(str(self.folder / "lake"))
        self.writers = [LedgerWriter(self.env), LedgerWriter(self.env)]
        self.writers[0].create("env-1")
        self.watcher = LedgerReader(self.env)
        self.versions: list[Model] = [{}]
        self.since = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule(who=st.integers(0, 1), updates=UPDATES)
    def append(self, who: int, updates: dict[str, int | None]) -> None:
        rows: list[Update] = [Drop(Object, name) if value is None else Put(counter(value, name)) for name, value in updates.items()]
        state = self.writers[who].transact(lambda _: rows)
        merged = {**self.versions[-1], **updates}
        following = {name: value for name, value in merged.items() if value is not None}
        if following != self.versions[-1]:
            self.versions.append(following)
        assert state.version == len(self.versions) - 1
        assert objects(state) == following

    @precondition(lambda self: len(self.versions) > 1)
    @rule(who=st.integers(0, 1), data=st.data())
    def consolidate(self, who: int, data: Any) -> None:
        self.since = data.draw(st.integers(self.since, len(self.versions) - 1))
        state = compact(self.writers[who], self.since)
        self.versions.append(self.versions[-1])
        assert (state.version, state.since) == (len(self.versions) - 1, self.since)

    @rule(who=st.integers(0, 1))
    def write_as_one_file(self, who: int) -> None:
        writer = self.writers[who]
        writer.rewrite(writer.state(), writer.rows())
        self.versions.append(self.versions[-1])

    @rule(who=st.integers(0, 1))
    def restart(self, who: int) -> None:
        self.writers[who] = LedgerWriter(self.env)

    @rule()
    def read_on(self) -> None:
        """A reader that was opened long ago has seen some of the versions, and gets to the same state."""
        assert objects(self.watcher.state()) == self.versions[-1]
        assert self.watcher.state().raw == LedgerReader(self.env).state().raw

    @rule(data=st.data())
    def read_as_of(self, data: Any) -> None:
        at = data.draw(st.integers(0, len(self.versions) - 1))
        reader = LedgerReader(self.env)
        if at < self.since:
            with pytest.raises(LedgerCompacted):
                reader.state(at)
        else:
            assert objects(reader.state(at)) == self.versions[at]

    @invariant()
    def the_head_is_the_model(self) -> None:
        if not hasattr(self, "env"):
            return
        reader = LedgerReader(self.env)
        assert objects(reader.state()) == self.versions[-1]
        standing = [row for row in dump(reader, current=True)["rows"] if row["collection"] == "objects"]
        assert [row["diff"] for row in standing] == [1] * len(self.versions[-1])


def objects(state: State) -> Model:
    return {name: row.schema_id for name, row in state.objects.items()}


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=examples(5), stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
