"""Online changes without a JVM: Spark's jobs on rows that evaluate what a check asks and what a backfill computes."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from sqlglot import exp, parse_one

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.schema.diff.renames import is_outdated
from airflow_provider_schemamig.core.spark.errors import BadValue
from airflow_provider_schemamig.core.testing.rows.check_sql import parse, value_of
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from tests.support.lake import Crash
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import Row, folder_of, snapshot

_CASTS: Mapping[str, Callable[[Any], Any]] = {"INT": int, "BIGINT": int, "DOUBLE": float, "TEXT": str, "STRING": str}


@dataclass
class OnlineJobs(RowJobs):
    """``queries`` are not needed: expressions of literals, columns, casts, CASE, IF, =, COALESCE, structs and TRANSFORM are evaluated."""

    queries: Mapping[str, Any] = field(default_factory=dict)

    def _query(self, text: str, rows: Sequence[Row]) -> list[Row]:
        return _selected(text, rows)

    def _preflight(self, request: Mapping[str, Any]) -> dict[str, Any]:
        found = [(check, _broken(check)) for check in request["checks"]]
        violations = [
            {
                "collection": check["collection"],
                "rule": check.get("rule", check["kind"]),
                "count": len(rows),
                "sample": rows[:5],
                "files": [],
            }
            for check, rows in found
            if rows
        ]
        return {"unusable": [], "violations": violations, "estimates": super()._preflight({**request, "checks": []})["estimates"]}


def _selected(text: str, rows: Sequence[Row]) -> list[Row]:
    select = parse_one(text, read="spark")
    assert isinstance(select, exp.Select)
    if select.is_star:
        return list(rows)
    return [{item.alias_or_name: _value(item.unalias(), row) for item in select.selects} for row in rows]


def die_after_the_swap(env: Environment, table: Path, generation: Generation, jobs: Jobs) -> None:
    """A cut-over whose process dies when columns of ``table`` have changed places, and not a byte of the ledger tells."""

    def has_changed_places() -> bool:
        return any(is_outdated(field["name"]) for field in snapshot(table).fields)

    def dies(moment: str, what: str, key: str) -> None:
        if has_changed_places():
            raise Crash

    with pytest.raises(Crash):
        commands.cutover(replace(env, on_write=dies), generation, jobs=jobs)
    assert has_changed_places()


def _broken(check: Mapping[str, Any]) -> list[Row]:
    rows = _selected(f"SELECT {check.get('projection', '*')} FROM t", snapshot(folder_of(check["uri"]), check.get("version")).rows)
    match check["kind"]:
        case "not_null":
            return [row for row in rows if row[check["column"]] is None]
        case "check":
            return [row for row in rows if _value(parse(check["expression"]), row) is not True]
        case "cast":
            type_ = exp.DataType.build(check["type"], dialect="spark")
            found = ((row, _at(row, tuple(check["column"].split(".")))) for row in rows)
            return [row for row, values in found if any(_cast(value, type_, attempt=True) is None for value in values)]
        case "duplicate_key":
            keys = [tuple(row[column] for column in check["columns"]) for row in rows]
            counts = Counter(key for key in keys if None not in key)
            return [row for row, key in zip(rows, keys, strict=True) if counts[key] > 1]
        case "orphans":
            others = snapshot(folder_of(check["referenced_uri"])).rows
            known = {tuple(row[column] for column in check["referenced_columns"]) for row in others}
            keys = [tuple(row[column] for column in check["columns"]) for row in rows]
            return [row for row, key in zip(rows, keys, strict=True) if None not in key and key not in known]
        case "missing_values":
            stored = [row for file in check["files"] for row in parquet.read_table(folder_of(file)).to_pylist()]
            path = check["column"].split(".")
            return [row for row in stored if functools.reduce(lambda value, name: value and value[name], path, row) is None]
    raise AssertionError(check["kind"])


def _value(node: exp.Expr, row: Row) -> Any:
    """What ``check_sql`` does not know; the rest of an expression is its business, over the values that are found here."""
    match node:
        case exp.Paren():
            return _value(node.this, row)
        case exp.Cast():
            return _cast(_value(node.this, row), node.to, attempt=bool(node.args.get("safe")))
        case exp.Case():
            true = (branch.args["true"] for branch in node.args["ifs"] if _value(branch.this, row))
            return _value(next(true, node.args["default"]), row)
        case exp.Coalesce():
            values = (_value(part, row) for part in (node.this, *node.expressions))
            return next((value for value in values if value is not None), None)
        case exp.LT():  # Spark takes text that is compared with a number for one
            left, right = _value(node.this, row), _value(node.expression, row)
            left = int(left) if isinstance(left, str) and isinstance(right, int) else left
            return None if left is None or right is None else left < right
        case exp.Literal():
            return str(node.this) if node.is_string else int(node.this)
        case exp.Column() | exp.Identifier():  # or the variable of a lambda
            first, *inside = (part.name for part in (node.parts if isinstance(node, exp.Column) else [node]))
            found = next(value for name, value in row.items() if name.lower() == first.lower())
            return functools.reduce(lambda value, name: value and value[name], inside, found)
    return _built(node, row)


def _built(node: exp.Expr, row: Row) -> Any:
    """Values that are put together of others."""
    match node:
        case exp.If():
            return _value(node.args["true"] if _value(node.this, row) else node.args["false"], row)
        case exp.Is() if isinstance(node.this, exp.Identifier):
            return _value(node.this, row) is None
        case exp.Struct():
            return {item.name: _value(item.expression, row) for item in node.expressions}
        case exp.Transform():
            value, (item,) = _value(node.this, row), (name.name for name in node.expression.expressions)
            return None if value is None else [_value(node.expression.this, {**row, item: inner}) for inner in value]
        case exp.Anonymous() if node.name.lower() == "transform_values":
            value, act = _value(node.expressions[0], row), node.expressions[1]
            names = [name.name for name in act.expressions]
            return (
                None
                if value is None
                else {key: _value(act.this, {**row, **dict(zip(names, (key, inner), strict=True))}) for key, inner in value.items()}
            )
    return _nested(node, row)


def _nested(node: exp.Expr, row: Row) -> Any:
    match node:
        case exp.Dot():
            value = _value(node.this, row)
            return None if value is None else value[node.expression.name]
        case exp.EQ():
            left, right = _value(node.this, row), _value(node.expression, row)
            if isinstance(left, dict | list) or isinstance(right, dict | list):
                return None if left is None or right is None else left == right
            return value_of(exp.EQ(this=exp.column("left"), expression=exp.column("right")), {"left": left, "right": right})
        case exp.Func() if node.sql(dialect="spark").upper().startswith("MAP_ENTRIES("):
            value = _value(node.expressions[0] if isinstance(node, exp.Anonymous) else node.this, row)
            return None if value is None else list(value.items())
        case exp.Concat():
            return "".join(str(_value(part, row)) for part in node.expressions)
        case exp.Anonymous() if node.name.lower() == "raise_error":
            raise BadValue(condition="USER_RAISED_EXCEPTION", detail=str(_value(node.expressions[0], row)))
    return value_of(_bound(node, row, bound := dict(row)), bound)


_OWN = (exp.Cast, exp.Case, exp.Coalesce, exp.Dot, exp.LT, exp.Paren, exp.If, exp.Struct, exp.Transform)


def _bound(node: exp.Expr, row: Row, bound: Row) -> exp.Expr:
    """The expression with columns in the place of what is evaluated here; their values are put into ``bound``."""

    def value(inner: exp.Expr) -> exp.Expr:
        if inner is node or not isinstance(inner, _OWN):
            return inner
        name = f"bound{len(bound)}"
        bound[name] = _value(inner, row)
        return exp.column(name)

    return node.transform(value)


def _at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path that are not NULL."""
    if value is None:
        return
    match path:
        case ():
            yield value
        case ("element" | "value" as part, *rest) if isinstance(value, list) or (part == "value" and "value" not in value):
            for item in value if isinstance(value, list) else value.values():
                yield from _at(item, tuple(rest))
        case (name, *rest):
            yield from _at(value[name], tuple(rest))


def _cast(value: Any, to: exp.DataType, *, attempt: bool) -> Any:
    """Of a struct by position, as Spark does it."""
    if value is None:
        return None
    if to.is_type("struct"):
        pairs = zip(to.expressions, value.values(), strict=True)
        return {field.name: _cast(inner, field.kind, attempt=attempt) for field, inner in pairs}
    if to.is_type("array"):
        return [_cast(inner, to.expressions[0], attempt=attempt) for inner in value]
    if to.is_type("map"):
        return {key: _cast(inner, to.expressions[1], attempt=attempt) for key, inner in value.items()}
    try:
        return _CASTS[to.sql().upper()](value)
    except ValueError as bad:
        if attempt:
            return None
        raise BadValue(condition="CAST_INVALID_INPUT", detail=str(bad)) from None
