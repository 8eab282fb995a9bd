"""A commit after which a name stands for another column turns streams away, and only such a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.commit.fence import read_txns
from airflow_provider_schemamig.core.delta.commit.txn_terms import TxnPosition, txn_position
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.schema.changes import Change, DropColumn, RenameColumn
from airflow_provider_schemamig.core.schema.model import Array, Field, Struct
from airflow_provider_schemamig.core.storage import Store
from tests.unit.delta.tables import BIGINT, INT, STRING, TAG, add_file, add_int, fence, flights, make_table, path, table_store, txn, write

STREAM = "schemamig:replica:origin:g1-0a81bffe3bd2"
PAIR = Struct((Field("a", STRING), Field("b", STRING)))
COLUMNS = (Field("id", BIGINT), Field("x", INT), Field("y", INT), Field("s", PAIR), Field("list", Array(PAIR)))


def renames(*names: str) -> tuple[Change, ...]:
    """``a.b.c>d``: the column at ``a.b.c`` is called ``d``."""
    return tuple(RenameColumn(path(old), new) for old, _, new in (name.partition(">") for name in names))


CHANGES = [
    pytest.param(renames("x>z", "y>x", "z>y"), True, id="names are exchanged"),
    pytest.param(renames("x>z", "y>x"), True, id="a name is taken over"),
    pytest.param(renames("s.a>z", "s.b>a", "s.z>b"), True, id="names in a struct are exchanged"),
    pytest.param(renames("list.element.a>z", "list.element.b>a"), True, id="a name in an array is taken over"),
    pytest.param((DropColumn(path("x")), add_int("x")), True, id="a column is dropped and added"),
    pytest.param(renames("x>z"), False, id="a new name"),
    pytest.param((add_int("z"),), False, id="a new column"),
    pytest.param((add_int("s.z"),), False, id="a new field"),
    pytest.param((DropColumn(path("x")),), False, id="a column is dropped"),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = table_store(tmp_path)
    make_table(store, flights(*COLUMNS))
    return store


def exchange(store: Store, changes: tuple[Change, ...], meanwhile: int = 0) -> TxnPosition:
    """Commit ``changes``, with so many batches of the stream between the look and the commit; where the stream stands then."""
    base = read_head(store)
    for version in range(base.version + 1, base.version + 1 + meanwhile):
        write(store, version, txn(STREAM, 10 * version), add_file(f"{version}.parquet"))
    commit_changes(store, base, changes, fence(), TAG, since=base.version)
    return txn_position(read_txns(store, STREAM), STREAM)


@pytest.mark.parametrize(("changes", "turns_away"), CHANGES)
def test_streams_are_turned_away_where_a_name_stands_for_another_column(
    store: Store, changes: tuple[Change, ...], turns_away: bool
) -> None:
    write(store, 1, txn(STREAM, 10))
    assert exchange(store, changes) == TxnPosition(1 if turns_away else 0, 10)


@pytest.mark.parametrize("meanwhile", [1, 3])
def test_a_batch_that_a_stream_brings_meanwhile_is_not_forgotten(store: Store, meanwhile: int) -> None:
    assert exchange(store, renames("x>z", "y>x"), meanwhile) == TxnPosition(1, 10 * meanwhile)


@pytest.mark.parametrize(
    ("then", "turns_away"),
    [
        ((add_int("x"),), True),
        ((add_int("y2"),), False),
        ((*renames("y>x"),), True),
        ((*renames("z>x"),), False),
        ((*renames("s.z>a"),), False),
        ((*renames("s.b>a"),), True),
        ((add_int("s.a"),), True),
    ],
)
def test_a_name_that_was_given_up_before_and_goes_to_another_column_turns_streams_away(
    store: Store, then: tuple[Change, ...], turns_away: bool
) -> None:
    write(store, 1, txn(STREAM, 10))
    assert exchange(store, renames("x>z", "s.a>z")) == TxnPosition(0, 10)
    assert exchange(store, then) == TxnPosition(1 if turns_away else 0, 10)
