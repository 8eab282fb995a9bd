"""Generated columns: which there may be, what renames do to them, and the metadata that a table of ours gets."""

from __future__ import annotations

import json

import pytest

from airflow_provider_schemamig.core.delta.commit.create import checked
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.errors import ColumnInUse, NotInstant
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.sql.errors import InvalidUse
from airflow_provider_schemamig.core.release.sql.render import create_table_text
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, ChangeType, DropColumn, RenameColumn, SetGenerated
from airflow_provider_schemamig.core.schema.delta_json import declaration_from_delta
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Field, Primitive
from airflow_provider_schemamig.core.schema.unusable import unusable_in
from tests.unit.schema.tables import table

COLUMNS = "i INT, l BIGINT, d DATE, ts TIMESTAMP, s STRING, db DOUBLE, b BOOLEAN, ar ARRAY<INT>, m MAP<STRING, INT>, st STRUCT<a: INT>"
INT, BIGINT = Primitive("int"), Primitive("bigint")
G, A = ColumnPath("g"), ColumnPath("a")
ONE = table("a INT, g INT GENERATED ALWAYS AS (a + 1)")

#: Delta 4.4 was asked of each (``tests/integration/delta/test_generated.py`` asks it again).
TAKEN = [
    ("INT", "YEAR(ts)"),
    ("DATE", "CAST(ts AS DATE)"),
    ("TIMESTAMP", "DATE_TRUNC('DAY', ts)"),
    ("STRING", "DATE_FORMAT(ts, 'yyyy-MM')"),
    ("STRING", "CONCAT(s, 'x')"),
    ("INT", "i + 1"),
    ("BIGINT", "l % 10"),
    ("BIGINT", "i DIV 2"),
    ("INT", "CASE WHEN b THEN 1 ELSE 2 END"),
    ("INT", "st.a"),
    ("INT", "ar[0]"),
    ("BOOLEAN", "i > 1 AND s LIKE 'a%'"),
]
REFUSED = [
    ("BIGINT", "i + 1", "it gives INT, and the column is BIGINT"),
    ("INT", "i DIV 2", "it gives BIGINT"),
    ("STRING", "i", "it gives INT"),
    ("INT", "NULL", "it gives NULL"),
    ("VARCHAR(3)", "s", "declare a STRING"),
    ("INT", "m['a']", "out of a MAP"),
    ("BOOLEAN", "i BETWEEN 1 AND 2", "BETWEEN"),
    ("INT", "NULLIF(i, 0)", "NULLIF"),
    ("INT", "TRANSFORM(ar, x -> x + 1)[0]", "TRANSFORM"),
    ("DATE", "CURRENT_DATE()", "CURRENT_DATE"),
    ("BIGINT", "UNIX_TIMESTAMP()", "UNIX_TIMESTAMP"),
    ("DOUBLE", "RAND()", "RAND"),
    ("INT", "SUM(i)", "more than one row"),
    ("INT", "OWN(i)", "no function own"),
]


@pytest.mark.parametrize(("kind", "expression"), TAKEN)
def test_a_generated_column_that_delta_takes(kind: str, expression: str) -> None:
    declared = table(f"{COLUMNS}, g {kind} GENERATED ALWAYS AS ({expression})")
    assert list(unusable_in(declared)) == []
    (metadata,) = (action["metaData"] for action in checked(declared, "id", "t") if "metaData" in action)
    assert declaration_from_delta(declared.name, metadata) == declared
    assert table_of(create_table_text(declared)) == fingerprint(declared)


def table_of(text: str) -> str:
    return fingerprint(table(text.partition("(")[2].rpartition(")")[0]))


@pytest.mark.parametrize(("kind", "expression", "reason"), REFUSED)
def test_a_generated_column_that_delta_refuses(kind: str, expression: str, reason: str) -> None:
    (found,) = unusable_in(table(f"{COLUMNS}, g {kind} GENERATED ALWAYS AS ({expression})"))
    assert found.used_by == "the GENERATED ALWAYS AS of g"
    assert reason in found.reason


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("a INT, g INT GENERATED ALWAYS AS (b)", "there is no column b"),
        ("a INT, g INT GENERATED ALWAYS AS (g + 1)", "it refers to g, which is generated"),
        ("a INT, g INT GENERATED ALWAYS AS (a), h INT GENERATED ALWAYS AS (G + 1)", "it refers to g, which is generated"),
        ("a INT, g INT GENERATED ALWAYS AS (a) DEFAULT 1", "the column has a DEFAULT"),
    ],
)
def test_a_generated_column_that_cannot_be_declared(columns: str, reason: str) -> None:
    with pytest.raises(InvalidUse, match=reason):
        table(columns)


def test_a_new_table_says_it_as_delta_does() -> None:
    protocol, metadata = (next(iter(action.values())) for action in checked(ONE, "id", "t"))
    generated = json.loads(metadata["schemaString"])["fields"][1]
    assert generated == {"name": "g", "type": "integer", "nullable": True, "metadata": {"delta.generationExpression": "a + 1"}}
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "generatedColumns", "invariants"]}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (AddColumn(ColumnPath("h"), Field("h", INT, generated="a")), NotInstant),
        (SetGenerated(G, "a + 1", "a + 2"), NotInstant),
        (SetGenerated(G, "a + 1", None), NotInstant),
        (RenameColumn(A, "b"), ColumnInUse),
        (DropColumn(A), ColumnInUse),
        (ChangeType(A, INT, BIGINT, widening=True, shadowable=False), ColumnInUse),
        (ChangeType(G, INT, BIGINT, widening=True, shadowable=False), ColumnInUse),
    ],
    ids=lambda value: value.op if not isinstance(value, type) else None,
)
def test_what_a_commit_cannot_do_to_a_generated_column(change: Change, kind: type[Exception]) -> None:
    protocol, metadata = (next(iter(action.values())) for action in checked(ONE, "id", "t"))
    with pytest.raises(kind):
        edit(protocol, metadata, [change])


def test_a_generated_column_goes_with_what_it_reads() -> None:
    protocol, metadata = (
        next(iter(action.values())) for action in checked(table("a INT, g INT GENERATED ALWAYS AS (a), b INT"), "id", "t")
    )
    changes = diff(table("a INT, g INT GENERATED ALWAYS AS (a), b INT"), table("b INT")).changes
    assert [change.path for change in changes if isinstance(change, DropColumn)] == ["g", "a"]
    edit(protocol, metadata, changes)


def test_an_expression_follows_a_rename_in_the_declaration() -> None:
    new = table("b INT, g INT GENERATED ALWAYS AS (b + 1)")
    changes = diff(ONE, new, {A: "b"}).changes
    assert changes == (RenameColumn(A, "b"),)
    assert apply(ONE, changes) == new


def test_drift_of_a_generation_in_words() -> None:
    found = live_differences(ONE, table("a INT, g INT"))
    assert [str(difference) for difference in found] == ["g: expected GENERATED ALWAYS AS (a + 1), found GENERATED ALWAYS AS None"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (AddColumn(G, Field("g", INT, generated="a")), "add g INT GENERATED ALWAYS AS (a)"),
        (SetGenerated(G, "a", "a + 1"), "set generation expression of g to a + 1"),
        (SetGenerated(G, "a", None), "drop generation expression of g"),
    ],
)
def test_a_change_of_a_generated_column_in_words(change: Change, words: str) -> None:
    assert describe(change) == words


def test_a_column_without_generation_hashes_as_it_did() -> None:
    assert fingerprint(table("a INT DEFAULT 1")) == "sf1:6a5fc7aef647039cdc8c5a8d4f5e9eb30578b2ea03bedcbb9f566974c2a991fe"
    assert fingerprint(ONE) != fingerprint(table("a INT, g INT")) != fingerprint(table("a INT, g INT DEFAULT 1"))
