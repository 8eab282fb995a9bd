"""A table of an earlier shape as a later one. tests/integration runs such lists on Spark."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.queries.projection import NotProjectable, project, with_columns
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct
from tests.unit.release.support import f, struct, table, typed

INT, BIGINT, STRING = Primitive("int"), Primitive("bigint"), Primitive("string")


def record(*fields: str) -> Struct:
    return Struct(tuple(map(f, fields)))


def one(data_type: DataType, name: str = "c") -> Declaration:
    return table("a", typed(name, data_type))


SHOWN: dict[str, tuple[Declaration, Declaration, dict[str, str], str]] = {
    "same": (table("a", "x int", "y string"), table("a", "y string", "x int"), {}, "`y`, `x`"),
    "renamed": (table("a", "x int"), table("a", "z int"), {"x": "z"}, "`x` AS `z`"),
    "swapped": (table("a", "x int", "y int"), table("a", "x int", "y int"), {"x": "y", "y": "x"}, "`y` AS `x`, `x` AS `y`"),
    "widened": (table("a", "x int"), table("a", "x bigint"), {}, "CAST(`x` AS BIGINT) AS `x`"),
    "added and dropped": (table("a", "x int"), table("a", "y decimal(10,2)"), {}, "CAST(NULL AS DECIMAL(10,2)) AS `y`"),
    "relaxed": (table("a", "x int!"), table("a", "x int"), {}, "`x`"),
    "longer varchar": (table("a", "x varchar(5)"), table("a", "x varchar(9)", "y varchar(9)"), {}, "`x`, CAST(NULL AS STRING) AS `y`"),
    "default set": (table("a", "x int"), table("a", "x int=5"), {}, "`x`"),
    "same struct": (one(record("x int")), one(record("x int")), {}, "`c`"),
    "struct renamed": (one(record("x int")), one(record("x int"), "d"), {"c": "d"}, "`c` AS `d`"),
    "struct": (
        table("a", struct("s", "x int", "y int", "z int")),
        table("a", struct("s", "z int", "w bigint", "n string")),
        {"s.x": "w"},
        "IF(`s` IS NULL, NULL, NAMED_STRUCT('z', `s`.`z`, 'w', CAST(`s`.`x` AS BIGINT), 'n', CAST(NULL AS STRING))) AS `s`",
    ),
    "struct in struct": (
        table("a", struct("s", struct("t", "x int"))),
        table("a", struct("s", struct("t", "y int"))),
        {"s.t.x": "y"},
        "IF(`s` IS NULL, NULL, NAMED_STRUCT('t', IF(`s`.`t` IS NULL, NULL, NAMED_STRUCT('y', `s`.`t`.`x`)))) AS `s`",
    ),
    "array": (one(Array(INT)), one(Array(BIGINT)), {}, "TRANSFORM(`c`, x1 -> CAST(x1 AS BIGINT)) AS `c`"),
    "array of structs": (
        one(Array(record("x int", "y int"))),
        one(Array(record("z int"))),
        {"c.element.x": "z"},
        "TRANSFORM(`c`, x1 -> IF(x1 IS NULL, NULL, NAMED_STRUCT('z', x1.`x`))) AS `c`",
    ),
    "array of arrays": (
        one(Array(Array(INT))),
        one(Array(Array(BIGINT))),
        {},
        "TRANSFORM(`c`, x1 -> TRANSFORM(x1, x2 -> CAST(x2 AS BIGINT))) AS `c`",
    ),
    "map": (
        one(Map(INT, INT)),
        one(Map(BIGINT, BIGINT)),
        {},
        "TRANSFORM_VALUES(TRANSFORM_KEYS(`c`, (x1, x2) -> CAST(x1 AS BIGINT)), (x1, x2) -> CAST(x2 AS BIGINT)) AS `c`",
    ),
    "map values": (
        one(Map(STRING, record("x int"))),
        one(Map(STRING, record("y int"))),
        {"c.value.x": "y"},
        "TRANSFORM_VALUES(`c`, (x1, x2) -> IF(x2 IS NULL, NULL, NAMED_STRUCT('y', x2.`x`))) AS `c`",
    ),
}


def renames_of(renames: dict[str, str]) -> dict[ColumnPath, str]:
    return {ColumnPath(path): name for path, name in renames.items()}


@pytest.mark.parametrize("source, target, renames, expected", SHOWN.values(), ids=SHOWN)
def test_projection_shown(source: Declaration, target: Declaration, renames: dict[str, str], expected: str) -> None:
    assert project(source, target, renames_of(renames)) == expected


@pytest.mark.parametrize(
    "source, target, path",
    [
        (table("a", "x int"), table("a", "x string"), "x"),
        (table("a", "x bigint"), table("a", "x int"), "x"),
        (table("a", "x int"), table("a", "x int!"), "x"),
        (table("a", "x int"), table("a", "x int", "y int!"), "y"),
        (table("a", "x int"), table("a", "x int", "y int=5"), "y"),
        (table("a", struct("s", "x int")), table("a", struct("s", "x int", "y int!")), "s.y"),
        (table("a", struct("s", "x int")), table("a", struct("s", "x string")), "s.x"),
        (table("a", struct("s", "x int")), table("a", "s string"), "s"),
        (one(Array(INT)), one(Array(BIGINT, contains_null=False)), "c.element"),
        (one(Map(INT, INT)), one(Map(INT, INT, value_contains_null=False)), "c.value"),
        (one(Map(record("x int", "y int"), INT)), one(Map(record("x int"), INT)), "c.key"),
    ],
)
def test_projection_not_shown(source: Declaration, target: Declaration, path: str) -> None:
    with pytest.raises(NotProjectable) as refused:
        project(source, target, {})
    assert refused.value.path == path
    assert refused.value.collection == "a"


def test_struct_nullability_of_a_relaxed_field_is_no_matter() -> None:
    source, target = table("a", struct("s", "x int!")), table("a", Field("s", record("x int")))
    assert project(source, target, {}) == "`s`"


@pytest.mark.parametrize(
    ("projection", "shown"),
    [
        ("`id`, `n`", "`id`, (NEW) AS `n`"),
        ("`n` AS `m`, CAST(`n` AS BIGINT) AS `n`", "(NEW) AS `m`, CAST((NEW) AS BIGINT) AS `n`"),
        ("`a, b AS c` AS `x AS y`, `n`", "`a, b AS c` AS `x AS y`, (NEW) AS `n`"),
        (
            "IF(`s` IS NULL, NULL, NAMED_STRUCT('n', `s`.`n`)) AS `s`, CAST(NULL AS STRUCT<n: INT, m: INT>) AS `t`",
            "IF(`s` IS NULL, NULL, NAMED_STRUCT('n', `s`.`n`)) AS `s`, CAST(NULL AS STRUCT<n: INT, m: INT>) AS `t`",
        ),
        ("TRANSFORM(`n`, x1 -> CAST(x1 AS BIGINT)) AS `n`", "TRANSFORM((NEW), x1 -> CAST(x1 AS BIGINT)) AS `n`"),
        ("n, N", "(NEW) AS n, (NEW) AS N"),
        (
            "IF(`n` IS NULL, NULL, NAMED_STRUCT('n', `n`.`n`, 'm', TRANSFORM(`n`.`l`, x1 -> x1.`n`))) AS `n`",
            "IF((NEW) IS NULL, NULL, NAMED_STRUCT('n', (NEW).`n`, 'm', TRANSFORM((NEW).`l`, x1 -> x1.`n`))) AS `n`",
        ),
    ],
)
def test_a_select_list_takes_other_sql_for_a_column_and_for_nothing_else(projection: str, shown: str) -> None:
    assert with_columns(projection, {"n": "NEW"}) == shown
    assert with_columns(projection, {}) == projection


def test_a_select_list_keeps_a_variable_that_is_called_like_the_column() -> None:
    shown = "TRANSFORM(`l`, x1 -> CAST(x1 AS BIGINT)) AS `l`"
    assert with_columns(f"{shown}, x1", {"x1": "NEW"}) == f"{shown}, (NEW) AS x1"
