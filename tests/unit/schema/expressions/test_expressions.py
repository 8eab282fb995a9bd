"""Canonical text of CHECK and DEFAULT expressions, and renames in them."""

from __future__ import annotations

import contextlib

import pytest
import sqlglot

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.expressions.foreign_syntax import tree_faults
from airflow_provider_schemamig.core.schema.expressions.parse import (
    InvalidExpression,
    NotFollowed,
    allows_null,
    canonical_expression,
    column_references,
    has_subquery,
    parse_expression,
    unknown_references,
    with_values,
)
from airflow_provider_schemamig.core.schema.expressions.renames import RenameInLambda, rename_columns
from airflow_provider_schemamig.core.schema.expressions.rules import check_fault
from airflow_provider_schemamig.core.schema.expressions.spark.functions import spark_functions
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import spark_text
from tests.unit.schema.tables import table

CANONICAL = [
    ("a>0", "a > 0"),
    ("((a > 0))", "a > 0"),
    ("`a`  >\n0 -- why\n", "a > 0"),
    ("/* why */ a <> 0", "a <> 0"),
    ("a != 0", "a <> 0"),
    ("a == 0", "a = 0"),
    ("a is not null and b in (1,2)", "a IS NOT NULL AND b IN (1, 2)"),
    ("`größe` > 0", "`größe` > 0"),
    ("`two words` > 0", "`two words` > 0"),
    ("`current_date` > 0", "`current_date` > 0"),
    ("current_date > a", "CURRENT_DATE > a"),
    ("`date` > 0", "date > 0"),
    ("date > 0", "date > 0"),
    ("s.a.b = 1", "s.a.b = 1"),
    ("a=10L", "a = 10L"),
    (r"a rlike '\\d+'", r"a RLIKE '\\d+'"),
    ("a = 'it\\'s'", "a = 'it\\'s'"),
    ('a = "x"', "a = 'x'"),
    ("exists(l, e -> e.x > s.q)", "EXISTS(l, e -> e.x > s.q)"),
    ("transform(l, e -> e + 1)[0] > 1", "TRANSFORM(l, e -> e + 1)[0] > 1"),
    ("case when a > 0 then true else false end", "CASE WHEN a > 0 THEN TRUE ELSE FALSE END"),
    ("timestamp_ntz'2020-01-01 00:00:00'", "TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
    ("map('k', 1)['k'] = 1", "MAP('k', 1)['k'] = 1"),
    ("-1", "-1"),
    ("a - 1", "a - 1"),
    ("a-1 > - b", "a - 1 > -b"),
    ("a - -1 > 0", "a - -1 > 0"),
    ("- - a > 0", "- -a > 0"),
    ("(a)-1 > (b[0]) -1", "(a) - 1 > (b[0]) - 1"),
    ("(a > 0) and (b > 0)", "(a > 0) AND (b > 0)"),
    ("not(a > 0)", "NOT (a > 0)"),
    ("cast(a as decimal( 10 , 2 ))>1.50", "CAST(a AS DECIMAL(10, 2)) > 1.50"),
    ("a::int > 0", "a::int > 0"),
    ("to_date(a,'yyyy-MM-dd') > date'2020-01-01'", "TO_DATE(a, 'yyyy-MM-dd') > DATE '2020-01-01'"),
    ("a <=> b", "a <=> b"),
    ("a rlike r'\\d+'", "a RLIKE r'\\d+'"),
    ("a = 'x' 'y'", "a = 'x' 'y'"),
    ("a = 'it''s'", "a = 'it''s'"),
    ("x'ff' = a", "x'ff' = a"),
    ("a.order > b.`order`", "a.order > b.`order`"),
    ("a > interval '1' day", "a > INTERVAL '1' day"),
    ("null", "NULL"),
    ("'{\"a\": 1}'", "'{\"a\": 1}'"),
    ("a IN ('a\",\"b')", "a IN ('a\",\"b')"),
    ("a like '%\"type\"%'", "a LIKE '%\"type\"%'"),
    ("a = 'say \"hi\"'", "a = 'say \"hi\"'"),
    ('a = "it\'s"', 'a = "it\'s"'),
    ('a = "x""y"', 'a = "x""y"'),
    ('a = r"x"', 'a = r"x"'),
    ("to_json(struct(a as key))", "TO_JSON(STRUCT(a AS key))"),
    ("to_json(struct(a as end))", "TO_JSON(STRUCT(a AS end))"),
    ("`range` < 5", "`range` < 5"),
    ("`map` < 5", "`map` < 5"),
    ("`set` > 0", "`set` > 0"),
    ("`show` > 0", "`show` > 0"),
    ("if(a > 0, b, c) > if", "IF(a > 0, b, c) > `if`"),
    ("größe > 0", "`größe` > 0"),
    ("cast(struct(a as b) as struct<b: int>)", "CAST(STRUCT(a AS b) AS STRUCT < b : int >)"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_expressions_canonical_text(text: str, canonical: str) -> None:
    assert canonical_expression(text) == canonical


@pytest.mark.parametrize(("text", "function"), [("a << 1 > 0", "SHIFTLEFT"), ("a >> 1 = 2", "SHIFTRIGHT"), ("a > > 1", "SHIFTRIGHT")])
def test_signs_that_delta_would_take_apart_are_refused(text: str, function: str) -> None:
    with pytest.raises(InvalidExpression, match=function):
        canonical_expression(text)


def test_types_inside_of_types_end_together() -> None:
    assert canonical_expression("CAST(x AS ARRAY<MAP<INT,ARRAY<INT>>>) IS NOT NULL AND a < b AND c > d").count(">") == 4


@pytest.mark.parametrize("text", [text for text, _ in CANONICAL])
def test_canonical_text_is_its_own(text: str) -> None:
    assert canonical_expression(canonical_expression(text)) == canonical_expression(text)


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_canonical_text_means_the_same(text: str, canonical: str) -> None:
    """By sqlglot's parser, which throws away what canonical text throws away."""

    def meaning(sql: str) -> str:
        return sqlglot.parse_one(sql, dialect="spark").unnest().sql(dialect="spark", comments=False).replace("`", "").lower()

    assert meaning(canonical) == meaning(text)


NO_EXPRESSIONS = [
    *("", "a >", "a > 0; b > 0", "a AS b", "'open", "(" * 200 + "a" + ")" * 200),
    *("SELECT 1", "DROP TABLE t", "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)", "SET a = 1", "USE x"),
]


@pytest.mark.parametrize("text", NO_EXPRESSIONS)
def test_what_is_not_one_expression(text: str) -> None:
    with pytest.raises(InvalidExpression):
        canonical_expression(text)


def test_what_an_expression_uses() -> None:
    assert column_references("a > s.x AND l[0].y = `c d` AND EXISTS(l, e -> e.x > q)") == ("a", "c d", "l", "q", "s")
    assert has_subquery("a IN (SELECT x FROM t)")
    assert not has_subquery("a IN (1)")


@pytest.mark.parametrize("text", ["a IS NULL", "a > 0 OR a IS NULL", "b > a OR (b IS NULL OR `A` IS NULL)"])
def test_an_expression_allows_null_where_that_is_one_of_its_alternatives(text: str) -> None:
    assert allows_null(text, "a")


@pytest.mark.parametrize("text", ["a > 0", "a IS NOT NULL", "NOT a IS NULL", "b IS NULL OR a > 0", "a.x IS NULL", "a IS NULL AND b > 0"])
def test_an_expression_does_not_allow_null_where_it_may_be_false_of_it(text: str) -> None:
    assert not allows_null(text, "a")


def test_references_that_name_nothing() -> None:
    fields = table("a INT, s STRUCT<x: INT>, l ARRAY<STRUCT<y: INT>>, m MAP<STRING, INT>").fields
    assert unknown_references("A > 0 AND s.X > 0 AND l.y[0] > 0 AND m.anything > 0", fields) == ()
    assert unknown_references("q > 0 AND s.y > 0 AND a.x > 0 AND s['n'] > 0", fields) == ("a.x", "q", "s.n", "s.y")


COLUMNS = (
    "a INT, b INT, x INT, y INT, date INT, s STRUCT<x: INT, t: STRUCT<u: STRUCT<v: STRUCT<w: STRUCT<x: INT>>>>>, "
    "l ARRAY<STRUCT<y: INT>>, m MAP<STRING, STRUCT<v: INT>>"
)


@pytest.mark.parametrize(
    ("text", "renames", "expected"),
    [
        ("a > 0 AND b > a", {"a": "z"}, "z > 0 AND b > z"),
        ("A > 0", {"a": "z"}, "z > 0"),
        ("a > 0", {"a": "two words"}, "`two words` > 0"),
        ("`date` > 0", {"date": "d"}, "d > 0"),
        ("s.x > x", {"s.x": "z"}, "s.z > x"),
        ("s.x > x", {"x": "z"}, "s.x > z"),
        ("s.x > x", {"s": "z"}, "z.x > x"),
        ("s.x > x", {"s": "t", "s.x": "y"}, "t.y > x"),
        ("s.t.u.v.w.x = 1", {"s.t.u.v.w.x": "z"}, "s.t.u.v.w.z = 1"),
        ("l[0].y = 1", {"l.element.y": "z"}, "l[0].z = 1"),
        ("l.y[0] = 1", {"l.element.y": "z"}, "l.z[0] = 1"),
        ("m['k'].v = 1", {"m.value.v": "z"}, "m['k'].z = 1"),
        ("l[0].y = y", {"l": "k"}, "k[0].y = y"),
        ("EXISTS(l, a -> a.y > 0) AND a > 0", {"a": "z"}, "EXISTS(l, a -> a.y > 0) AND z > 0"),
        ("a = 'a'", {"a": "z"}, "z = 'a'"),
        ("a > 0", {}, "a > 0"),
        ("s['x'] > 0", {"s.x": "z"}, "s['z'] > 0"),
        ("s[\"X\"] > 0 AND `s`['t']['u'].v.w.x = 1", {"s.x": "z", "s.t.u": "o"}, "s['z'] > 0 AND s['t']['o'].v.w.x = 1"),
        ("(s).x > 0", {"s.x": "z"}, "(s).z > 0"),
        ("m.any.v = 1 AND m['k']['v'] = 1", {"m.value.v": "z"}, "m.any.z = 1 AND m['k']['z'] = 1"),
        ("l.y[0] = 1 AND m['y'].v = 1", {"m.value.v": "y"}, "l.y[0] = 1 AND m['y'].y = 1"),
        ("s IS NOT NULL AND SIZE(l) > 0 AND CARDINALITY(m) > 0", {"s.x": "z", "l.element.y": "z", "m.value.v": "z"}, None),
        ("NAMED_STRUCT('a', a).a > 0", {"a": "z"}, "NAMED_STRUCT('a', z).a > 0"),
        ("STRUCT(a AS b).b > b", {"b": "z"}, "STRUCT(a AS b).b > z"),
        ("TO_JSON(s) <> ''", {"s": "t"}, "TO_JSON(t) <> ''"),
    ],
)
def test_expressions_renames(text: str, renames: dict[str, str], expected: str | None) -> None:
    """``expected`` None: the text stays."""
    renamed = rename_columns(text, {ColumnPath(path): name for path, name in renames.items()}, table(COLUMNS).fields)
    assert renamed == (text if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("STRUCT(a).a > 0", "a", "z"),
        ("STRUCT(s.x).x > 0", "s.x", "z"),
        ("TO_JSON(STRUCT(a)) LIKE '%\"a\"%'", "a", "z"),
        ("ARRAYS_ZIP(l, m)[0].l.y > 0", "l", "z"),
        ("STRUCT(*).a > 0", "a", "z"),
        ("TO_JSON(s) LIKE '%\"x\"%'", "s.x", "z"),
        ("s = NAMED_STRUCT('x', 1)", "s.x", "z"),
        ("IF(a > 0, s, NULL).x > 0", "s.x", "z"),
        ("FILTER(l, e -> e.y > 0)[0].y > 0", "l.element.y", "z"),
        ("EXISTS(l, e -> e['y'] > 0)", "l.element.y", "z"),
        ("EXISTS(l, e -> TO_JSON(e) = '')", "l.element.y", "z"),
        ("MAP_VALUES(m)[0].v > 0", "m.value.v", "z"),
        ("t.a > 0", "a", "z"),
        ("EXISTS(l, e -> e.y > a)", "a", "e"),
    ],
)
def test_a_rename_that_cannot_be_followed_is_refused(text: str, old: str, new: str) -> None:
    with pytest.raises(RenameInLambda):
        rename_columns(text, {ColumnPath(old): new}, table(COLUMNS).fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s > 0 AND S IS NOT NULL", "(v) > 0 AND (v) IS NOT NULL"),
        ("`s`.b.c = a.s", "(v).b.c = a.s"),
        ("s[0].x > 1 OR s['s'] = 's'", "(v)[0].x > 1 OR (v)['s'] = 's'"),
        ("EXISTS(a, x -> x > s)", "EXISTS(a, x -> x > (v))"),
        ("CAST(date AS DATE) > DATE'2020-01-01'", "CAST((d) AS DATE) > DATE'2020-01-01'"),
        ("t > 0", "t > 0"),
    ],
)
def test_other_values_in_the_place_of_a_column(text: str, expected: str) -> None:
    assert with_values(text, {"s": "v", "date": "d"}) == expected


@pytest.mark.parametrize(
    "text", ["EXISTS(a, s -> s > 0)", "TO_JSON(STRUCT(s)) <> ''", "ARRAYS_ZIP(s)[0].s > 0", "s ! s", "INTERVAL 1 s > t"]
)
def test_a_column_that_cannot_be_followed(text: str) -> None:
    with pytest.raises(NotFollowed):
        with_values(text, {"s": "v"})


# --- functions with the wrong number of arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["", "a", "a, b, c"])
def test_an_expression_is_parsed_or_refused_whatever_a_function_is_given(arguments: str) -> None:
    """sqlglot ends in an IndexError for ``map(a)``."""
    for name in spark_functions():
        if name.isidentifier():
            with contextlib.suppress(InvalidExpression):
                spark_text(parse_expression(f"{name}({arguments})"))


def test_an_expression_with_half_a_map_is_refused_in_words() -> None:
    with pytest.raises(InvalidExpression, match="wrong number of arguments"):
        canonical_expression("map(1) IS NULL")


def test_an_expression_that_sqlglot_cannot_write_goes_by_its_kind() -> None:
    assert spark_text(parse_expression("regexp_replace(a, 'x')")) == "RegexpReplace"


@pytest.mark.parametrize("name", ["set", "if", "range", "list", "alter", "similar"])
def test_an_expression_may_use_a_name_that_begins_a_statement_elsewhere(name: str) -> None:
    assert canonical_expression(f"{name} < 5") == canonical_expression(f"`{name}` < 5") == f"`{name}` < 5"
    assert column_references(f"`{name}` < 5") == (name,)


def test_an_expression_of_any_function_of_spark_has_no_foreign_syntax() -> None:
    """sqlglot makes AT TIME ZONE of ``from_utc_timestamp``."""
    told = []
    for name, function in spark_functions().items():
        if name.isidentifier() and function.kind == "row":
            call = f"{name}({', '.join('abcdefgh'[: function.least])})"
            with contextlib.suppress(InvalidExpression):
                told += [f"{call}: {fault}" for fault in tree_faults(parse_expression(call))]
    assert told == []


@pytest.mark.parametrize("expression", [" OR ".join(f"a = {number}" for number in range(400)), " + ".join(["a"] * 400) + " > 0"])
def test_an_expression_of_many_terms_is_judged(expression: str) -> None:
    fields = table("a INT").fields
    assert check_fault(expression, fields) in (None, "it is nested too deeply")


def test_an_expression_with_a_pattern_that_repeats_too_often_is_told() -> None:
    assert "repeats too often" in str(check_fault("a RLIKE 'a{5000000000}'", table("a STRING").fields))
