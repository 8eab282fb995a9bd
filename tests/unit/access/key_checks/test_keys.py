"""Keys that handles keep without a JVM: real tables of delta-rs, races between check and commit, and what is left to Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.access import statement
from airflow_provider_schemamig.core.access import writer as writers
from airflow_provider_schemamig.core.access.errors import KeyViolated, NeedsSpark
from airflow_provider_schemamig.core.access.key_checks.arrow import check_rows
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.online.keys import Keys, Reference, Unique, keys_in_force
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.spark.errors import ConcurrentWrite
from tests.support.lake import Lake, append
from tests.support.upgrades import two_releases
from tests.unit.access.key_checks.support import PLANES, T, element, lake_of


def ids(lake: Lake, column: str = "id", collection: str = "t") -> list[Any]:
    return sorted(lake.env.reader(collection).arrow([column])[column].to_pylist(), key=repr)


def batch(lake: Lake, *rows: Sequence[Any], collection: str = "t") -> pa.Table:
    """Rows in the columns of the collection, as many as are given."""
    schema = lake.env.reader(collection).arrow().schema
    names = schema.names[: len(rows[0])]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=pa.schema([schema.field(n) for n in names]))


def violation(write: Callable[[], Any]) -> tuple[str, int, tuple[str, ...]]:
    with pytest.raises(KeyViolated) as refused:
        write()
    assert not refused.value.retryable
    assert refused.value.collection is not None
    return refused.value.key, refused.value.count, refused.value.sample


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_of(tmp_path, "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b STRING, UNIQUE (a, b));")


# --- what is refused -----------------------------------------------------------------------------------------------------------------


def test_a_key_is_there_once(lake: Lake) -> None:
    writer = lake.env.writer("t")
    writer.append(batch(lake, (1, 1, "x"), (2, 1, "y")))
    assert violation(lambda: writer.append(batch(lake, (2, 3, "x"), (3, 3, "y")))) == ("PRIMARY KEY (id)", 1, ("(2)",))
    assert violation(lambda: writer.append(batch(lake, (4, 4, "x"), (4, 5, "x")))) == ("PRIMARY KEY (id)", 2, ("(4)",))
    assert violation(lambda: writer.append(batch(lake, (5, 1, "y"), (6, 2, "y")))) == ("UNIQUE (a, b)", 1, ("(1, y)",))
    assert ids(lake) == [1, 2]
    writer.append(batch(lake, (3, 1, "z")))
    assert ids(lake) == [1, 2, 3]


def test_a_number_that_is_written_again_is_skipped_and_not_taken_for_duplicates(lake: Lake) -> None:
    writer = lake.env.writer("t")
    assert [writer.append(batch(lake, (1,)), txn=("job", 1)).skipped for _ in range(2)] == [False, True]
    writer.append(batch(lake, (2,)).slice(0, 0))
    assert ids(lake) == [1]


def test_a_key_with_a_null_is_not_compared(lake: Lake) -> None:
    writer = lake.env.writer("t")
    for first in (0, 10):
        writer.append(batch(lake, (first, 1, None), (first + 1, 1, None), (first + 2, None, "x"), (first + 3, None, None)))
        writer.append(batch(lake, (first + 4,)))
    assert len(ids(lake)) == 10


def test_many_broken_keys_are_counted_and_a_few_shown(lake: Lake) -> None:
    writer = lake.env.writer("t")
    writer.append(batch(lake, *((number,) for number in range(100))))
    key, count, sample = violation(lambda: writer.append(batch(lake, *((number,) for number in range(50, 150)))))
    assert (key, count, len(sample)) == ("PRIMARY KEY (id)", 50, 5)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("STRING", ("a", 'it\'s "b"', "ä")),
        ("DATE", (date(2013, 1, 1), date(1900, 1, 1), date(9999, 12, 31))),
        ("TIMESTAMP", tuple(datetime(2013, 1, day, tzinfo=UTC) for day in (1, 2, 3))),
        ("TIMESTAMP_NTZ", tuple(datetime(2013, 1, day, tzinfo=UTC).replace(tzinfo=None) for day in (1, 2, 3))),
        ("DECIMAL(10,2)", (Decimal("1.10"), Decimal("-2.00"), Decimal("3.33"))),
        ("BINARY", (b"a", b"\x00", b"")),
        ("BOOLEAN", (True, False, None)),
        ("TINYINT", (-128, 0, 127)),
        ("BIGINT", (-(2**63), 0, 2**63 - 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_of_every_type_are_compared(tmp_path: Path, kind: str, values: tuple[Any, ...]) -> None:
    lake = lake_of(tmp_path, f'CREATE TABLE t (`my "key`` {kind} UNIQUE, n INT);'.replace(' "', "_").replace("``", "`"))
    writer = lake.env.writer("t")
    first, second, third = values
    writer.append(batch(lake, (first,), (second,)))
    writer.append(batch(lake, (third,)))
    assert violation(lambda: writer.append(batch(lake, (second,))))[1] == 1
    assert violation(lambda: writer.append(batch(lake, (first,), (first,))))[1] == 2


def test_keys_what_arrow_may_compare_wrongly_is_left_to_spark(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id DOUBLE UNIQUE, n INT);")
    with pytest.raises(NeedsSpark, match="id of UNIQUE"):
        lake.env.writer("t").append(batch(lake, (1.0,)))


def test_a_collection_without_keys_is_appended_to_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT, a INT);")
    monkeypatch.setattr(statement, "check_rows", lambda *given: pytest.fail("nothing to check") if given[2] else None)
    for _ in range(2):
        lake.env.writer("t").append(batch(lake, (1,)))
    assert ids(lake) == [1, 1]


# --- races ---------------------------------------------------------------------------------------------------------------------------


def between(monkeypatch: pytest.MonkeyPatch, *meddling: Callable[[], Any]) -> list[int]:
    """Somebody else is at work after each check and before its commit; returns the versions that were checked."""
    check, left, seen = check_rows, list(meddling), []

    def checked(rows: Any, table: Any, *given: Any) -> None:
        seen.append(table.version())
        check(rows, table, *given)
        if left:
            left.pop(0)()

    monkeypatch.setattr(statement, "check_rows", checked)
    return seen


def test_a_key_that_comes_between_check_and_commit_is_seen(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = between(monkeypatch, lambda: append(lake.path("t"), [{"id": 1, "a": 7, "b": "theirs"}]))
    assert violation(lambda: lake.env.writer("t").append(batch(lake, (1,), (2,)))) == ("PRIMARY KEY (id)", 1, ("(1)",))
    assert versions == [0, 1]
    assert ids(lake) == [1]


def test_who_is_beaten_by_other_keys_gets_through_on_the_next_version(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lake.path("t")
    versions = between(monkeypatch, *(lambda n=n: append(path, [{"id": n, "a": n, "b": "theirs"}]) for n in (10, 11, 12)))
    assert lake.env.writer("t").append(batch(lake, (1,))).version == 4
    assert versions == [0, 1, 2, 3]
    assert ids(lake) == [1, 10, 11, 12]


def test_keys_who_is_beaten_each_time_ends_with_a_conflict(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    path = lake.path("t")
    versions = between(monkeypatch, *(lambda n=n: append(path, [{"id": n, "a": n, "b": "theirs"}]) for n in range(10, 30)))
    with pytest.raises(ConcurrentWrite) as beaten:
        lake.env.writer("t").append(batch(lake, (1,)))
    assert beaten.value.retryable
    assert len(versions) == 8
    assert 1 not in ids(lake)


def test_a_key_whose_row_is_gone_is_free(lake: Lake) -> None:
    writer = lake.env.writer("t")
    writer.append(batch(lake, (1,)))
    DeltaTable(str(lake.path("t"))).delete("id = 1")
    writer.append(batch(lake, (1,)))
    assert ids(lake) == [1]


def test_two_handles_with_the_same_key(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = lake.env.writer("t"), lake.env.writer("t")
    between(monkeypatch, lambda: other.append(batch(lake, (1,), (3,))))
    assert violation(lambda: one.append(batch(lake, (1,), (2,))))[2] == ("(1)",)
    assert ids(lake) == [1, 3]


def test_an_answer_that_was_lost_is_no_duplicate(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that stand in the way are those of this very write."""

    def twice(*given: Any) -> None:
        statement.append_arrow(*given)
        raise KeyViolated(key="PRIMARY KEY (id)", count=1, sample=("(1)",))

    monkeypatch.setattr(writers, "append_arrow", twice)
    assert lake.env.writer("t").append(batch(lake, (1,))).version == 1


# --- foreign keys --------------------------------------------------------------------------------------------------------------------


def test_keys_what_rows_refer_to_is_there(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, f"{PLANES}CREATE TABLE t (id BIGINT, plane STRING REFERENCES planes);")
    writer, planes = lake.env.writer("t"), lake.env.writer("planes")
    rule = "FOREIGN KEY (plane) REFERENCES planes (tail)"
    assert violation(lambda: writer.append(batch(lake, (1, "N1"), (2, "N2"), (3, None)))) == (rule, 2, ("(N1)", "(N2)"))
    planes.append(batch(lake, ("N1",), ("N3",), collection="planes"))
    assert violation(lambda: writer.append(batch(lake, (1, "N1"), (2, "N2"), (3, None)))) == (rule, 1, ("(N2)",))
    append(lake.path("planes"), [{"tail": "N2", "n": None}] * 2)  # twice there is there
    writer.append(batch(lake, (1, "N1"), (2, "N2"), (3, None)))
    writer.append(batch(lake, (4,)))
    assert ids(lake) == [1, 2, 3, 4]


def test_a_table_may_refer_to_itself(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT PRIMARY KEY, boss BIGINT, FOREIGN KEY (boss) REFERENCES t (id));")
    writer = lake.env.writer("t")
    writer.append(batch(lake, (1, None), (2, 1), (3, 3)))
    assert violation(lambda: writer.append(batch(lake, (4, 1), (5, 4), (6, 9))))[1:] == (1, ("(9)",))
    writer.append(batch(lake, (4, 1), (5, 4)))
    assert ids(lake) == [1, 2, 3, 4, 5]


def test_a_table_that_delta_rs_would_read_wrongly_is_not_referred_to_without_spark(tmp_path: Path) -> None:
    first = "CREATE TABLE planes (tail INT, PRIMARY KEY (tail));\nCREATE TABLE t (id BIGINT, plane INT REFERENCES planes);"
    second = "CREATE TABLE planes (tail BIGINT, PRIMARY KEY (tail));\nCREATE TABLE t (id BIGINT, plane BIGINT REFERENCES planes);"
    lake = two_releases(tmp_path, first, second, 'evolution("planes"), evolution("t")')
    lake.upgrade(lake.second)
    with pytest.raises(NeedsSpark, match="typeWidening"):
        lake.env.writer("t").append(pa.table({"id": [1], "plane": [1]}))


# --- which keys are in force ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(ElementState))
def test_an_element_is_in_force_from_check_on(tmp_path: Path, state: ElementState) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT, n INT);")
    LedgerWriter(lake.env).transact(lambda _: [Put(element(lake, state))])
    writer = lake.env.writer("t")
    writer.append(batch(lake, (1, 1)))
    if state in (ElementState.CHECK, ElementState.VALIDATE, ElementState.PUBLIC):
        assert violation(lambda: writer.append(batch(lake, (2, 1)))) == ("UNIQUE (n)", 1, ("(1)",))
    elif state in (ElementState.ABSENT, ElementState.CREATED):
        writer.append(batch(lake, (2, 1)))


def test_declared_and_added_keys_together(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, f"{PLANES}CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, plane STRING);")
    foreign_key = {"refers": CollectionName("planes"), "refers_columns": (ColumnPath("tail"),), "op": "add_foreign_key"}
    more = [
        element(lake, ElementState.CHECK, name="unique:id", columns=(ColumnPath("id"),)),
        element(lake, ElementState.CHECK, name="foreign_key:plane", columns=(ColumnPath("plane"),), **foreign_key),
        element(lake, ElementState.CHECK, name="check:c", op="add_check"),
    ]
    LedgerWriter(lake.env).transact(lambda _: [Put(item) for item in more])
    expected = Keys((Unique(("id",), True), Unique(("id",), False)), (Reference(("plane",), CollectionName("planes"), ("tail",)),))
    assert keys_in_force(lake.state, T) == expected
    assert not keys_in_force(lake_of(tmp_path / "other", "CREATE TABLE t (id BIGINT);").state, T)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=["STRING", "BINARY"])
def test_keys_beside_a_null_in_the_same_file_are_compared(tmp_path: Path, kind: pa.DataType) -> None:
    """As what delta-rs scans texts and bytes, Arrow cannot leave a row out."""
    name = "STRING" if kind == pa.string() else "BINARY"
    lake = lake_of(tmp_path, f"CREATE TABLE t (a {name}, UNIQUE (a)); CREATE TABLE u (a {name}, FOREIGN KEY (a) REFERENCES t (a));")

    def rows(*values: str | None) -> pa.Table:
        return pa.table({"a": pa.array([value if value is None else value.encode() for value in values], pa.binary()).cast(kind)})

    writer, other = lake.env.writer("t"), lake.env.writer("u")
    writer.append(rows("x", None))
    writer.append(rows("y", None))
    other.append(rows("x", None))
    assert violation(lambda: writer.append(rows("z", "x")))[1] == 1
    assert violation(lambda: other.append(rows("z")))[1] == 1
