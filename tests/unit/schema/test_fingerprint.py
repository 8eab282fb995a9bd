"""The fingerprint: what counts, what does not, and that it is the same in every process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.names import CollectionName, Fingerprint
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint
from airflow_provider_schemamig.core.schema.model import Array, Check, DataType, Declaration, Field, ForeignKey, Key, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.ordering import sorted_properties
from tests.support.examples import examples
from tests.unit.schema.strategies import Evolved, declarations, evolutions, restated
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
    pytest.param(table(COLUMNS, "TBLPROPERTIES ('owned_by' = 'me')"), id="property"),
    pytest.param(replace(BASE, foreign_keys=(ForeignKey(("a",), BASE.name, ("a",)),)), id="foreign key"),
    pytest.param(replace(BASE, fields=(Field("a", Array(Primitive("int"), contains_null=False)),)), id="element"),
    pytest.param(replace(BASE, fields=(Field("a", Map(Primitive("int"), Primitive("int"), value_contains_null=False)),)), id="value"),
]


def test_fingerprint_known_value() -> None:
    assert fingerprint(BASE) == KNOWN


@pytest.mark.parametrize("other", DIFFERENT)
def test_fingerprint_what_counts(other: Declaration) -> None:
    assert fingerprint(other) != fingerprint(BASE)


def test_every_difference_counts_in_its_own_way() -> None:
    others = [case.values[0] for case in DIFFERENT]
    assert len({fingerprint(other) for other in others if isinstance(other, Declaration)}) == len(DIFFERENT)


@settings(max_examples=examples(20), deadline=None)
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
    assert _printed(program, seed) == [KNOWN, set_fingerprint({BASE.name: fingerprint(BASE)})]


#: Text that separates something somewhere: in JSON, in SQL, in a path, in whatever somebody might join names with.
AWKWARD = ",;:|/.\"'`[]{}()=\\ \t\n\x00\x1f\u2028é"
names = st.text(st.sampled_from("ab" + AWKWARD), min_size=1, max_size=4)
columns = st.lists(
    st.builds(Field, names, st.sampled_from([Primitive("int"), Primitive("string")])), max_size=4, unique_by=lambda f: f.name
)
pairs = st.dictionaries(names, names, max_size=3)


def test_no_process_depends_on_the_order_of_a_set() -> None:
    """Columns, defaults and nested fields as a set gives them, which is another order with every seed."""
    program = (
        "from airflow_provider_schemamig.core.names import CollectionName\n"
        "from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint\n"
        "from airflow_provider_schemamig.core.schema.model import Declaration, Field, Primitive, Struct\n"
        f"names = {{'n' + mark for mark in {AWKWARD!r}}}\n"
        "inner = Struct(tuple(Field(name, Primitive('int')) for name in set(names)))\n"
        "fields = tuple(Field(name, inner, default=name) for name in names)\n"
        "found = fingerprint(Declaration(CollectionName('t'), fields))\n"
        "print(found, set_fingerprint({CollectionName(name): found for name in names}))"
    )
    assert len({tuple(_printed(program, seed)) for seed in ("0", "1", "random")}) == 1


@settings(max_examples=200)
@given(columns, columns)
def test_columns_of_any_names_do_not_collide(one: list[Field], other: list[Field]) -> None:
    """Equal exactly if they are the same columns, in whatever order."""
    same = {(f.name, f.type) for f in one} == {(f.name, f.type) for f in other}
    for wrapped in (tuple, lambda fields: (Field("s", Struct(tuple(fields))),)):
        assert (_hash_of(wrapped(one)) == _hash_of(wrapped(other))) == same


@settings(max_examples=100)
@given(pairs, pairs)
def test_properties_of_any_text_do_not_collide(one: dict[str, str], other: dict[str, str]) -> None:
    hashes = [fingerprint(replace(BASE, properties=sorted_properties(found.items()))) for found in (one, other)]
    assert (hashes[0] == hashes[1]) == (one == other)


@settings(max_examples=100)
@given(pairs, pairs)
def test_sets_of_any_names_do_not_collide(one: dict[CollectionName, Fingerprint], other: dict[CollectionName, Fingerprint]) -> None:
    assert (set_fingerprint(one) == set_fingerprint(other)) == (one == other)


@settings(max_examples=50)
@given(evolutions())
def test_a_change_that_needs_a_step_is_another_fingerprint(evolved: Evolved) -> None:
    """And one that needs none, of order and comments, is not."""
    same = _bare(evolved.old) == _bare(evolved.new)
    assert (fingerprint(evolved.old) == fingerprint(evolved.new)) == same


def _hash_of(fields: tuple[Field, ...]) -> Fingerprint:
    return fingerprint(Declaration(BASE.name, fields))


def _bare(declaration: Declaration) -> Declaration:
    """Without what does not count; a second telling of it."""
    return replace(declaration, fields=_sorted(declaration.fields), comment=None)


def _sorted(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(sorted((replace(f, type=_sorted_type(f.type), comment=None) for f in fields), key=lambda f: f.name))


def _sorted_type(data_type: DataType) -> DataType:
    match data_type:
        case Struct(fields=inner):
            return Struct(_sorted(inner))
        case Array(element=element):
            return replace(data_type, element=_sorted_type(element))
        case Map(key=key, value=value):
            return replace(data_type, key=_sorted_type(key), value=_sorted_type(value))
        case Primitive():
            return data_type


def _printed(program: str, seed: str) -> list[str]:
    """The words that a process of its own prints."""
    command, root = [sys.executable, "-c", program], Path(__file__).parents[3]
    run = subprocess.run(command, cwd=root, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
    return run.stdout.split()
