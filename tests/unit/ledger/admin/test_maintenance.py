"""Checkpoints, consolidation, size and dump."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.ledger.admin import maintenance
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact, dump, maintain
from airflow_provider_schemamig.core.ledger.admin.size import size
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.errors import LedgerCompacted, LedgerConflict, LedgerVersionUnknown
from airflow_provider_schemamig.core.ledger.leadership import Leadership
from airflow_provider_schemamig.core.ledger.rows import Object
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation
from airflow_provider_schemamig.core.storage.objects import ObjectStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.bytes import tree
from tests.unit.ledger.samples import LOG, append_raw, counter, elsewhere, leader, sound_environment

COUNTER = CollectionName("counter")


def count_to(writer: LedgerWriter, last: int, first: int = 1) -> None:
    for value in range(first, last + 1):
        writer.transact(lambda state, value=value: [Put(counter(value))])  # type: ignore[misc]


def test_consolidation_keeps_the_state_and_as_of_from_since(writer: LedgerWriter) -> None:
    count_to(writer, 6)
    state = compact(writer, since=4)
    assert (state.version, state.since) == (7, 4)
    for reader in (writer, LedgerReader(writer.env)):
        assert [reader.state(at).objects[COUNTER].schema_id for at in (4, 5, 6, 7)] == [4, 5, 6, 6]
        with pytest.raises(LedgerCompacted) as caught:
            reader.state(3)
        assert (caught.value.version, caught.value.since) == (3, 4)
    with pytest.raises(LedgerCompacted):
        compact(writer, since=3)
    with pytest.raises(LedgerVersionUnknown):
        compact(writer, since=8)
    assert compact(writer).since == 7
    assert [row.diff for row in writer.rows() if row.collection == "objects"] == [1]


def test_appends_go_on_after_a_consolidation_by_somebody_else(writer: LedgerWriter) -> None:
    other = LedgerWriter(writer.env)
    count_to(writer, 3)
    other.state()
    compact(writer)
    count_to(other, 5, first=4)
    assert LedgerReader(writer.env).state().objects[COUNTER].schema_id == 5


def test_maintenance_what_was_dropped_before_a_consolidation_stays_dropped_for_a_reader_that_knew_it(writer: LedgerWriter) -> None:
    count_to(writer, 2)
    reader, other = LedgerReader(writer.env), LedgerWriter(writer.env)
    assert COUNTER in reader.state().objects
    other.transact(lambda state: [Drop(Object, "counter"), Put(leader())])
    compact(other)
    assert COUNTER not in reader.state().objects
    assert reader.state().leader == leader()
    assert COUNTER not in writer.state().objects


def test_a_rewrite_races_like_any_append(writer: LedgerWriter) -> None:
    count_to(writer, 2)
    state, rows = writer.state(), writer.rows()
    count_to(LedgerWriter(writer.env), 3, first=3)
    with pytest.raises(LedgerConflict):
        writer.rewrite(state, rows)
    assert LedgerReader(writer.env).state().objects[COUNTER].schema_id == 3


@pytest.mark.parametrize("upkeep", [compact, maintain])
def test_maintenance_what_came_before_the_rows_were_read_is_a_conflict(
    writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch, upkeep: Callable[[LedgerWriter], object]
) -> None:
    real = LedgerWriter.rows

    def rows_after_another(self: LedgerWriter) -> tuple[RawRow, ...]:
        count_to(LedgerWriter(elsewhere(writer.env)), 3, first=3)
        return real(self)

    count_to(writer, 2)
    monkeypatch.setattr(LedgerWriter, "rows", rows_after_another)
    monkeypatch.setattr(maintenance, "CHECKPOINT_EVERY", 2)
    with pytest.raises(LedgerConflict):
        upkeep(writer)
    assert LedgerReader(elsewhere(writer.env)).state().objects[COUNTER].schema_id == 3


def test_a_rewrite_may_not_change_what_the_ledger_says(writer: LedgerWriter) -> None:
    count_to(writer, 2)
    with pytest.raises(ValueError, match="may not change"):
        writer.rewrite(writer.state(), writer.rows()[:-1])
    assert writer.state().version == 2


def test_maintenance_acts_under_an_epoch(writer: LedgerWriter) -> None:
    writer.transact(lambda state: [Put(leader(2, 2))])
    with pytest.raises(Fenced):
        compact(writer, authority=Leadership(Generation(1), Epoch(1)))
    assert compact(writer, authority=Leadership(Generation(2), Epoch(2))).since == 1


def test_maintain_does_what_is_due_and_nothing_else(writer: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "CHECKPOINT_EVERY", 5)
    monkeypatch.setattr(maintenance, "CONSOLIDATE_EVERY", 12)
    log = writer.env.store()
    count_to(writer, 3)
    assert maintain(writer) == ()
    count_to(writer, 6, first=4)
    done = maintain(writer)
    assert [text.split()[0] for text in done] == ["wrote", "checkpointed"]
    assert f"{writer.state().version:020}.checkpoint.parquet" in log.names(LOG)
    assert size(writer).data_files == 1
    assert writer.state(2).objects[COUNTER].schema_id == 2, "one file, with all history"
    assert maintain(writer) == ()
    count_to(writer, 14, first=7)
    done = maintain(writer)
    assert done[0].startswith("consolidated the ledger")
    assert LedgerReader(writer.env).state().objects[COUNTER].schema_id == 14
    assert LedgerReader(writer.env).state().since >= 12
    assert maintain(writer) == ()


def test_the_numbers_of_the_design() -> None:
    assert (maintenance.CHECKPOINT_EVERY, maintenance.CONSOLIDATE_EVERY) == (100, 1_000)


def test_a_ledger_in_an_object_store_opens_with_four_requests_after_maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LedgerWriter(EnvironmentRoot.open("memory://ledger-of-four/lake"))
    writer.create("env-1")
    count_to(writer, 12)
    assert len(maintain(writer)) == 2
    asked: list[str] = []

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def ask(store: ObjectStore, key: str, *rest: object, **more: object) -> object:
            asked.append(key)
            return real(store, key, *rest, **more)

        return ask

    for name in ("get", "listing"):
        monkeypatch.setattr(ObjectStore, name, counted(getattr(ObjectStore, name)))
    assert LedgerReader(elsewhere(writer.env)).state().objects[COUNTER].schema_id == 12
    assert len(asked) == 4, asked


def test_compact_deletes_no_file_a_slow_reader_may_still_need(writer: LedgerWriter) -> None:
    count_to(writer, 3)
    slow = LedgerReader(elsewhere(writer.env)).table
    slow.head()
    compact(writer)
    assert len(slow.scan()) == 6, "five rows of the counter and the config, at version 3"


def test_size_and_dump_write_nothing(tmp_path: Path) -> None:
    writer = sound_environment(tmp_path, "flights")
    before = tree(tmp_path)
    found = size(LedgerReader(writer.env))
    dump(LedgerReader(writer.env))
    assert verify(LedgerReader(writer.env)) == ()
    assert tree(tmp_path) == before
    assert (found.version, found.rows, found.data_files) == (1, 7, 2)


def test_dump_is_the_stored_text(writer: LedgerWriter) -> None:
    count_to(writer, 2)
    append_raw(writer.env, RawRow("unheard_of", "any", "thing", 3, 1))
    document = dump(LedgerReader(writer.env))
    assert document["version"] == 3
    assert {"collection": "unheard_of", "key": "any", "value": "thing", "ts": 3, "diff": 1} in document["rows"]
    assert [(row["ts"], row["diff"]) for row in document["rows"] if row["collection"] == "objects"] == [(1, 1), (2, -1), (2, 1)]
    standing = dump(LedgerReader(writer.env), current=True)["rows"]
    assert [(row["ts"], row["diff"]) for row in standing if row["collection"] == "objects"] == [(2, 1)]
    assert dump(LedgerReader(writer.env), at=1)["version"] == 1
    assert [row["diff"] for row in dump(LedgerReader(writer.env), at=1)["rows"] if row["collection"] == "objects"] == [1]


def test_opening_a_thousand_collections_is_fast(tmp_path: Path) -> None:
    """Not a bench: ten times what it takes. That nothing pulls in pyarrow is exact."""
    import subprocess
    import sys
    import textwrap

    sound_environment(tmp_path, *(f"c{number:04}" for number in range(1_000)))
    script = textwrap.dedent(f"""
        import sys, time
        from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
        from airflow_provider_schemamig.core.ledger.store import LedgerReader
        import deltalake, pendulum
        start = time.process_time()
        state = LedgerReader(EnvironmentRoot.open({str(tmp_path)!r})).state()
        assert len(list(state.objects.values())) == len(list(state.schemas.values())) == 1_000
        assert time.process_time() - start < 1.5, time.process_time() - start
        assert not {{"pyarrow", "pandas", "numpy", "pyspark"}} & set(sys.modules)
    """)
    subprocess.run([sys.executable, "-c", script], check=True)


def age_commits(folder: Path, days: int) -> None:
    """Let all commits of a log say that they were made so many days ago."""
    for path in folder.glob("_delta_log/*.json"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] -= days * 86_400_000
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_log_is_forgotten_after_a_month_below_a_checkpoint(writer: LedgerWriter) -> None:
    count_to(writer, 2)
    root = writer.env.location.local_path
    assert root is not None
    folder = root / "_schemamig" / "ledger"
    compact(writer)  # checkpoint at 3
    count_to(writer, 4, first=3)
    age_commits(folder, days=31)
    compact(writer)
    left = sorted(int(path.name[:20]) for path in folder.glob("_delta_log/*.json"))
    assert left == list(range(3, writer.state().version + 1))
    pointer = folder / "_delta_log/_last_checkpoint"
    assert LedgerReader(elsewhere(writer.env)).state().raw == writer.state().raw
    assert DeltaTable(str(folder)).version() == writer.state().version
    for text in ('{"version": 99}', '{"version": 1e999}', '{"version": 3, "tags": "x"}', '{"version": 3, "tags": ["x"]}', "3"):
        pointer.write_text(text)  # it is a hint, and may say anything
        assert LedgerReader(elsewhere(writer.env)).state().raw == writer.state().raw, text
    pointer.unlink()  # a ledger that was brought back has none
    assert LedgerReader(elsewhere(writer.env)).state().raw == writer.state().raw
    assert DeltaTable(str(folder)).version() == writer.state().version


def test_compact_deletes_what_nobody_can_need_any_more_and_nothing_younger(writer: LedgerWriter) -> None:
    count_to(writer, 2)
    root = writer.env.location.local_path
    assert root is not None
    folder = root / "_schemamig" / "ledger"
    old, young = folder / f"{1:020}-killed.parquet", folder / f"{3:020}-flying.parquet"
    for path in (old, young):
        path.write_bytes(b"written by a process that was killed before its commit")
    age_commits(folder, days=8)
    data = set(folder.glob("*.parquet"))
    compact(writer)
    assert data - set(folder.glob("*.parquet")) == {old}
    assert len(list(folder.glob("_delta_log/*.json"))) == writer.state().version + 1, "log files are kept for 30 days"
    assert LedgerReader(writer.env).state().objects[COUNTER].schema_id == 2
