"""Whether every engine can evaluate a CHECK or a DEFAULT, told without one: an expression that cannot be evaluated stops all writers.

What Spark refuses is refused here, by its own list of functions and by the types of columns and constants; what cannot be told is refused
for a DEFAULT (it can be written as its value) and let pass for a CHECK, of which Spark is asked wherever it runs anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.expressions.calls import Call, calls
from airflow_provider_schemamig.core.schema.expressions.constant_faults import constant_faults, text_fault
from airflow_provider_schemamig.core.schema.expressions.foreign_syntax import tree_faults, word_faults
from airflow_provider_schemamig.core.schema.expressions.kinds import cast_faults, column_type, kind_of
from airflow_provider_schemamig.core.schema.expressions.operands import article, operand_faults
from airflow_provider_schemamig.core.schema.expressions.parse import InvalidExpression, has_subquery, parse_expression, unknown_references
from airflow_provider_schemamig.core.schema.expressions.patterns import pattern_faults
from airflow_provider_schemamig.core.schema.expressions.spark.functions import spark_functions
from airflow_provider_schemamig.core.schema.expressions.spark.operators import takes
from airflow_provider_schemamig.core.schema.expressions.spark.row_functions import GENERATORS
from airflow_provider_schemamig.core.schema.model import Array, DataType, Field, Struct, has_map

if TYPE_CHECKING:
    from sqlglot import exp

#: Functions that Spark's grammar knows; they take words between their arguments, or types.
_OF_THE_GRAMMAR = frozenset(
    (
        *("cast", "try_cast", "extract", "trim", "overlay", "position", "substr", "substring", "timestampadd", "timestampdiff", "dateadd"),
        *("varchar", "character"),  # types, which take a length
        *("datediff", "date_add", "date_diff", "ceil", "floor", "struct", "named_struct"),
    )
)
_KINDS = {
    "random": "it gives another value each time",
    "aggregate": "it needs more than one row",
    "window": "it needs more than one row",
    "rows": "it gives several rows",
    "table": "it gives a table",
}
#: They look at the process of the writer, or run its code; and what only a query's grouping gives a meaning.
_REFUSED = {"grouping": "it needs GROUP BY", "grouping_id": "it needs GROUP BY", "session_window": "it needs GROUP BY"}
_REFUSED |= {"window": "it needs GROUP BY", "window_time": "it needs GROUP BY", "raise_error": "it fails in every row"}


@functools.lru_cache(maxsize=4096)
def check_fault(expression: str, fields: tuple[Field, ...]) -> str | None:
    """Return why no writer could evaluate a CHECK over ``fields``, without a full stop; None: as far as can be told, all can."""
    try:
        return next(expression_faults(expression, fields, "boolean"), None)
    except RecursionError:
        return "it is nested too deeply"


def expression_faults(expression: str, fields: tuple[Field, ...], wanted: str | None) -> Iterator[str]:
    """Yield all of why no writer could evaluate an expression over ``fields``. ``wanted``: the kind of its value, None for any."""
    from sqlglot import exp

    try:
        parsed = parse_expression(expression)
        if has_subquery(expression):
            yield "it reads a table"
            return
        unknown = unknown_references(expression, fields)
        if unknown:
            yield f"there is no column {unknown[0]}"
            return
    except InvalidExpression as broken:
        yield f"it is no valid expression ({broken.reason.rstrip('.')})"
        return
    if parsed.find(exp.Window) is not None:
        yield "OVER needs more than one row"
    yield from word_faults(expression)
    yield from tree_faults(parsed)
    yield from _call_faults(expression)
    yield from _type_faults(parsed, expression, fields, wanted)


def _call_faults(expression: str) -> Iterator[str]:
    return (fault for call in calls(expression) if (fault := _call_fault(call)) is not None)


def _call_fault(call: Call) -> str | None:
    if call.name in _REFUSED:
        return f"{call.name.upper()} cannot be used, {_REFUSED[call.name]}"
    known = spark_functions().get(call.name)
    if call.name in GENERATORS:
        return f"{call.name.upper()} cannot be used, {_KINDS['rows']}"
    if known is None:
        return None if call.name in _OF_THE_GRAMMAR else f"Spark has no function {call.name}"
    if known.kind in _KINDS:
        return f"{call.name.upper()} cannot be used, {_KINDS[known.kind]}"
    if call.name not in _OF_THE_GRAMMAR and not known.least <= call.arguments <= known.most:
        wanted = str(known.least) if known.least == known.most else f"{known.least} to {known.most}"
        return f"{call.name.upper()} takes {wanted} arguments, not {call.arguments}"
    return None


def _type_faults(parsed: exp.Expr, expression: str, fields: tuple[Field, ...], wanted: str | None) -> Iterator[str]:

    kind = kind_of(parsed, fields)
    if kind is None:
        kind = _given(expression)
    if wanted is not None and kind not in (None, wanted):
        yield f"it gives {article(kind)}, and a CHECK gives BOOLEAN"
    yield from constant_faults(parsed)
    yield from cast_faults(parsed, fields)
    yield from pattern_faults(parsed)
    yield from operand_faults(parsed, lambda node: kind_of(node, fields), fields)
    for operator, left, right in _compared(parsed):
        fault = _comparison_fault(operator, left, right, fields)
        if fault is not None:
            yield fault


def _compared(parsed: exp.Expr) -> Iterator[tuple[str, exp.Expr, exp.Expr]]:
    """Yield operator and operands, also where no operator is written."""
    from sqlglot import exp

    for two in parsed.find_all(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ):
        yield "=" if isinstance(two, exp.EQ | exp.NEQ) else "<=>" if isinstance(two, exp.NullSafeEQ) else "<", two.this, two.expression
    for test in parsed.find_all(exp.Is):
        if not isinstance(test.expression, exp.Null):
            yield "=", test.this, test.expression
    for between in parsed.find_all(exp.Between):
        yield from (("<", between.this, between.args["low"]), ("<", between.this, between.args["high"]))
    for case in parsed.find_all(exp.Case):
        if case.this is not None:
            yield from (("=", case.this, when.this) for when in case.args["ifs"])
    for nullif in parsed.find_all(exp.Nullif):
        yield "=", nullif.this, nullif.expression
    for among in parsed.find_all(exp.In):
        yield from (("=", among.this, value) for value in among.expressions)


def _comparison_fault(operator: str, left: exp.Expr, right: exp.Expr, fields: tuple[Field, ...]) -> str | None:
    """Return why a comparison fails in every row: Spark cannot compare two kinds of values, or a text is no value of the other side's
    type."""
    if any(has_map(column_type(side, fields)) for side in (left, right)):
        return "a MAP is compared"
    if not _are_alike(_parts_of(left, fields), _parts_of(right, fields)):
        return "two STRUCTs of another number of fields are compared"
    one, other = kind_of(left, fields), kind_of(right, fields)
    if one is None or other is None or one == other:
        return None
    if not takes(operator, one, other):
        first, second = sorted((one, other))
        return f"{article(first)} is compared with {article(second)}"
    if "string" in (one, other):
        value, text = (left, right) if other == "string" else (right, left)
        return text_fault(text, column_type(value, fields))
    return None


#: What is inside a value: of a STRUCT its fields, in their order; None of anything else, and of what cannot be told. Spark compares STRUCTs
#: by position, whatever their fields are called, and refuses those with another number of fields.
_Parts = tuple["_Parts", ...] | None


def _parts_of(node: exp.Expr, fields: tuple[Field, ...]) -> _Parts:
    from sqlglot import exp

    if isinstance(node, exp.Struct):
        return tuple(_parts_of(item.expression if isinstance(item, exp.PropertyEQ) else item, fields) for item in node.expressions)
    found = column_type(node, fields)
    return None if found is None else _parts_in(found)


def _parts_in(data_type: DataType) -> _Parts:
    match data_type:
        case Struct(fields=fields):
            return tuple(_parts_in(field.type) for field in fields)
        case Array(element=element):
            return (_parts_in(element),)
        case _:
            return None


def _are_alike(one: _Parts, other: _Parts) -> bool:
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(map(_are_alike, one, other))


def _given(expression: str) -> str | None:
    """Return what the function gives, if an expression is one call and nothing else."""
    found = list(calls(expression))
    first = found[0] if found else None
    if first is None or first.start != 0 or first.end != len(expression):
        return None
    known = spark_functions().get(first.name)
    if first.name == "decode":  # which gives what stands in it, or a text
        return None
    return None if known is None or known.gives == "any" else known.gives
