"""The fingerprint: what counts, what does not, and that it is the same in every process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from airflow_provider_schemamig.core.names import CollectionName, Fingerprint
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint
from airflow_provider_schemamig.core.schema.model import Array, Check, Declaration, Field, ForeignKey, Key, Map, Primitive
from tests.unit.schema.strategies import declarations, restated
from tests.unit.schema.tables import table

COLUMNS = "a INT, b STRUCT<x: INT, y: ARRAY<STRUCT<p: INT, q: INT>>>, c VARCHAR(3) DEFAULT 'x'"
BASE = table(COLUMNS)
#: This value is stored in ledgers. If it changes, ALGORITHM has to change with it.
KNOWN = "sf1:8f60249748013b630439f16d8739639971e4e1e465a96bae1ca29d687772b4c0"

DIFFERENT = [
    pytest.param(replace(BASE, name=CollectionName("other")), id="name"),
    pytest.param(table(COLUMNS.replace("a INT", "A INT")), id="case"),
    pytest.param(table(COLUMNS.replace("a INT", "a BIGINT")), id="type"),
    pytest.param(table(COLUMNS.replace("a INT", "a INT NOT NULL")), id="NOT NULL"),
    pytest.param(table(COLUMNS.replace("p: INT", "p: BIGINT")), id="nested type"),
    pytest.param(table(COLUMNS.replace("x: INT", "x: INT NOT NULL")), id="nested NOT NULL"),
    pytest.param(table(COLUMNS.replace("'x'", "'y'")), id="default"),
    pytest.param(table(COLUMNS.replace("VARCHAR(3)", "VARCHAR(4)")), id="limit"),
    pytest.param(table(COLUMNS + ", CHECK (a > 0)"), id="check"),
    pytest.param(table(COLUMNS + ", CONSTRAINT k UNIQUE (a)"), id="named key"),
    pytest.param(table(COLUMNS + ", UNIQUE (a)"), id="key"),
    pytest.param(table(COLUMNS, "PARTITIONED BY (a)"), id="partitioning"),
    pytest.param(table(COLUMNS, "CLUSTER BY (a)"), id="clustering"),
    pytest.param(table(COLUMNS, "TBLPROPERTIES ('owner' = 'me')"), id="property"),
    pytest.param(replace(BASE, foreign_keys=(ForeignKey(("a",), BASE.name, ("a",)),)), id="foreign key"),
    pytest.param(replace(BASE, fields=(Field("a", Array(Primitive("int"), contains_null=False)),)), id="element"),
    pytest.param(replace(BASE, fields=(Field("a", Map(Primitive("int"), Primitive("int"), value_contains_null=False)),)), id="value"),
]


def test_known_value() -> None:
    assert fingerprint(BASE) == KNOWN


@pytest.mark.parametrize("other", DIFFERENT)
def test_what_counts(other: Declaration) -> None:
    assert fingerprint(other) != fingerprint(BASE)


def test_every_difference_counts_in_its_own_way() -> None:
    others = [case.values[0] for case in DIFFERENT]
    assert len({fingerprint(other) for other in others if isinstance(other, Declaration)}) == len(DIFFERENT)


@settings(max_examples=50, deadline=None)
@given(declarations())
def test_order_and_comments_do_not_count(declaration: Declaration) -> None:
    assert fingerprint(restated(declaration)) == fingerprint(declaration)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (replace(BASE, checks=(Check("a", 'b","c'),)), replace(BASE, checks=(Check('a","b', "c"),))),
        (replace(BASE, uniques=(Key(("a",)), Key(("c",)))), replace(BASE, uniques=(Key(("a", "c")),))),
        (replace(BASE, uniques=(Key(("a",), "None"),)), replace(BASE, uniques=(Key(("a",), None),))),
        (replace(BASE, properties=(("a", "b,c"),)), replace(BASE, properties=(("a,b", "c"),))),
        (replace(BASE, primary_key=Key(("a",))), replace(BASE, uniques=(Key(("a",)),))),
    ],
)
def test_no_text_can_look_like_another_structure(one: Declaration, other: Declaration) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_the_set_is_its_pairs() -> None:
    a, b = CollectionName("a"), CollectionName("b")
    x, y = Fingerprint("sf1:x"), Fingerprint("sf1:y")
    assert set_fingerprint({a: x, b: y}) == set_fingerprint({b: y, a: x})
    assert len({set_fingerprint({a: x, b: y}), set_fingerprint({a: y, b: x}), set_fingerprint({a: x}), set_fingerprint({})}) == 4


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_every_process_gives_the_same(seed: str) -> None:
    program = (
        "from tests.unit.schema.tables import table\n"
        "from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint\n"
        f"base = table({COLUMNS!r})\n"
        "print(fingerprint(base), set_fingerprint({base.name: fingerprint(base)}))"
    )
    command, root = [sys.executable, "-c", program], Path(__file__).parents[3]
    run = subprocess.run(command, cwd=root, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [KNOWN, set_fingerprint({BASE.name: fingerprint(BASE)})]
