"""Delta's widening pairs, exactly (its protocol's "Type Widening")."""

from __future__ import annotations

import itertools

import pytest

from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.model import Array, Primitive

ATOMS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"),
    *("decimal(9,0)", "decimal(10,0)", "decimal(12,2)", "decimal(13,4)", "decimal(19,0)", "decimal(20,0)", "decimal(22,2)"),
    *("varchar(10)", "varchar(20)"),
)
TO_DECIMAL_10 = {"decimal(10,0)", "decimal(12,2)", "decimal(19,0)", "decimal(20,0)", "decimal(22,2)"}
TO_DECIMAL_20 = {"decimal(20,0)", "decimal(22,2)"}
WIDER = {
    "tinyint": {"smallint", "int", "bigint", "double"} | TO_DECIMAL_10,
    "smallint": {"int", "bigint", "double"} | TO_DECIMAL_10,
    "int": {"bigint", "double"} | TO_DECIMAL_10,
    "bigint": TO_DECIMAL_20,
    "float": {"double"},
    "date": {"timestamp_ntz"},
    "decimal(9,0)": TO_DECIMAL_10 | {"decimal(13,4)"},
    "decimal(10,0)": TO_DECIMAL_10 - {"decimal(10,0)"},
    "decimal(12,2)": {"decimal(22,2)"},
    "decimal(19,0)": TO_DECIMAL_20,
    "decimal(20,0)": {"decimal(22,2)"},
    "varchar(10)": {"varchar(20)", "string"},
    "varchar(20)": {"string"},
}


@pytest.mark.parametrize("old", ATOMS)
def test_exactly_these_pairs_widen(old: str) -> None:
    assert {new for new in ATOMS if is_widening(Primitive(old), Primitive(new))} == WIDER.get(old, set())


def test_widening_is_transitive() -> None:
    """Else merging two releases would change what is instant."""
    for first, second, third in itertools.product(map(Primitive, ATOMS), repeat=3):
        if is_widening(first, second) and is_widening(second, third):
            assert is_widening(first, third), (first, second, third)


def test_widening_only_atoms_widen() -> None:
    assert not is_widening(Array(Primitive("int")), Array(Primitive("bigint")))
