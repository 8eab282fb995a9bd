"""The clauses of a column that put a value into rows without one.

Whatever reads, writes, compares, changes or explains columns goes through ``CLAUSES``, so a new clause is a field of ``model.Field``, its
change in ``changes`` and a row here: it is then read from CREATE TABLE and from Delta's metadata, written to both, part of the
fingerprint, compared, looked at for drift, applied and taken back, and followed by renames. Only that a DEFAULT fills older rows, and that
ALTER TABLE sets and drops it, stands elsewhere.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.changes import SetClause, SetDefault, SetGenerated
from airflow_provider_schemamig.core.schema.delta_rules.table_features import ALLOW_COLUMN_DEFAULTS, DEFAULT_KEY, GENERATED_COLUMNS
from airflow_provider_schemamig.core.schema.delta_rules.table_features import GENERATED as GENERATED_KEY
from airflow_provider_schemamig.core.schema.delta_rules.widening import varchar_length
from airflow_provider_schemamig.core.schema.expressions.calls import functions_called, not_constant
from airflow_provider_schemamig.core.schema.expressions.canonical import canonical_text
from airflow_provider_schemamig.core.schema.expressions.constant_fit import default_fault
from airflow_provider_schemamig.core.schema.expressions.kinds import column_type, kind_of
from airflow_provider_schemamig.core.schema.expressions.parse import (
    InvalidExpression,
    column_references,
    parse_expression,
    unknown_references,
)
from airflow_provider_schemamig.core.schema.expressions.renames import rename_columns
from airflow_provider_schemamig.core.schema.expressions.rules import expression_faults
from airflow_provider_schemamig.core.schema.expressions.spark.functions import spark_functions
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import spark_text
from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText
from airflow_provider_schemamig.core.schema.model import Check, Declaration, Field, Map, Primitive
from airflow_provider_schemamig.core.schema.sql import type_sql

if TYPE_CHECKING:
    from sqlglot import exp

Fields = tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """``attribute``: of ``Field``, which has the canonical expression, or None. ``key``: of a field's metadata in Delta.

    ``words`` begin it in SQL; ``name`` and ``noun`` are how plans and errors call it. ``stored`` gives the canonical text, None for one
    that says nothing. ``misuse`` and ``fault`` say why a column cannot have it: by what it refers to, and because no writer could
    evaluate it.
    """

    attribute: str
    name: str
    noun: str
    words: tuple[str, ...]
    in_parentheses: bool
    key: str
    feature: str
    change: type[SetClause]
    stored: Callable[[str], str | None]
    misuse: Callable[[str, Field, Fields], str | None]
    fault: Callable[[str, Field, Fields], str | None]
    reads_columns: bool = False

    def of(self, field: Field) -> str | None:
        text: str | None = getattr(field, self.attribute)
        return text

    def put(self, field: Field, text: str | None) -> Field:
        changed: dict[str, Any] = {self.attribute: text}
        return replace(field, **changed)

    def sql(self, text: str | None) -> str:
        return f"{self.name} ({text})" if self.in_parentheses and text is not None else f"{self.name} {text}"


def default_text(text: str) -> str | None:
    """Return a default's canonical text; ``NULL`` is what a column without default has."""
    canonical = expression_text(text)
    return None if canonical == "NULL" else canonical


def expression_text(text: str) -> str:
    """Return the expression in canonical form. What is no SQL stays as it is: a table's texts are compared, never interpreted."""
    try:
        return canonical_text(text)
    except BrokenText:
        return text.strip()


def _refers(text: str, field: Field, fields: Fields) -> str | None:
    found = column_references(text)
    return f"it refers to {found[0]}; a default is made of constants" if found else None


DEFAULT = Clause(
    attribute="default",
    name="DEFAULT",
    noun="default",
    words=("DEFAULT",),
    in_parentheses=False,
    key=DEFAULT_KEY,
    feature=ALLOW_COLUMN_DEFAULTS,
    change=SetDefault,
    stored=default_text,
    misuse=_refers,
    fault=lambda text, field, fields: default_fault(text, field.type),
)


# --- GENERATED ALWAYS AS (...) -------------------------------------------------------------------------------------------------------

#: Functions that Delta 4.4 takes in a generated column, by Spark (`tests/integration/delta/test_generated.py` asks it of some again).
_TAKEN = """
    abs acos acosh add_months and array array_append array_compact array_contains array_distinct array_except array_insert
    array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_union
    arrays_overlap arrays_zip ascii asin asinh atan atan2 atanh base64 bigint bin binary bit_count bit_length boolean bround
    cardinality cast cbrt ceil char char_length character_length chr coalesce concat concat_ws conv cos cosh cot crc32 date date_add
    date_diff date_format date_sub date_trunc dateadd datediff day dayofmonth dayofweek dayofyear decimal degrees div double e
    element_at elt encode exp expm1 extract factorial find_in_set flatten float floor format_number format_string from_csv from_json
    from_unixtime from_utc_timestamp get_json_object greatest hash hex hour hypot if ifnull ilike in initcap instr int isnan isnotnull
    isnull json_tuple last_day lcase least left len length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim make_date
    make_interval map md5 minute mod month months_between named_struct nanvl negative next_day not nvl nvl2 octet_length or overlay
    parse_url pi pmod position positive pow power printf quarter radians regexp regexp_extract regexp_like regexp_replace repeat
    replace reverse right rint rlike round rpad rtrim second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign
    signum sin sinh size slice smallint sort_array soundex space split sqrt str_to_map string struct substr substring substring_index
    tan tanh time timestamp tinyint to_csv to_date to_json to_number to_timestamp to_unix_timestamp to_utc_timestamp translate trim
    trunc try_add try_cast try_divide try_multiply try_subtract ucase unbase64 unhex unix_timestamp upper weekday weekofyear when
    xxhash64 year
"""
_GENERATING = frozenset(_TAKEN.split())
_INTEGER = ("tinyint", "smallint", "int", "bigint")
#: What ``kind_of`` says that is a type by itself.
_EXACT = ("boolean", "string", "binary", "date", "timestamp", "timestamp_ntz")


def _reads(text: str, field: Field, fields: Fields) -> str | None:
    if field.default is not None:
        return "the column has a DEFAULT, and Delta computes a column or fills it in"
    roots = _roots(text)
    other = next((f.name for f in fields if f.generated is not None and f.name.lower() in roots), None)
    if other is not None:
        return f"it refers to {other}, which is generated"
    unknown = unknown_references(text, fields)
    return f"there is no column {unknown[0]}" if unknown else None


@functools.lru_cache(maxsize=4096)
def _generated_fault(text: str, field: Field, fields: Fields) -> str | None:
    """Return why Delta has no such generated column, or its writers could not compute it; None if they can."""
    fault = next(expression_faults(text, fields, None), None) or next(_not_generating(text, fields), None)
    if fault is not None:
        return fault
    if isinstance(field.type, Primitive) and varchar_length(field.type.name) is not None:
        return f"Delta computes no {type_sql(field.type)}; declare a STRING"
    wanted, given = type_sql(field.type).lower(), _type_of(parse_expression(text), fields)
    return None if given in (None, wanted) else f"it gives {str(given).upper()}, and the column is {type_sql(field.type)}"


def _not_generating(text: str, fields: Fields) -> Iterator[str]:
    from sqlglot import exp

    for name in functions_called(text):
        if name not in _GENERATING or name in not_constant(text):
            yield f"Delta generates no column with {name.upper()}"
    parsed = parse_expression(text)
    for kind, called in ((exp.Between, "BETWEEN: write a >= b AND a <= c"), (exp.Lambda, "a lambda")):
        if parsed.find(kind) is not None:
            yield f"Delta generates no column with {called}"
    for item in parsed.find_all(exp.Bracket):
        column = item.this.name.lower() if isinstance(item.this, exp.Column) else ""
        if any(field.name.lower() == column and isinstance(field.type, Map) for field in fields):
            yield "Delta generates no column with a value taken out of a MAP"


def _type_of(node: exp.Expr, fields: Fields) -> str | None:
    """Return the type of a part's value, as ``type_sql`` writes it but in small letters; None if it cannot be told."""
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Cast):
        return spark_text(node.to).lower().replace(", ", ",")
    if isinstance(node, exp.Column | exp.Dot | exp.Bracket):
        found = column_type(node, fields)
        is_text = isinstance(found, Primitive) and varchar_length(found.name) is not None
        return None if found is None else "string" if is_text else type_sql(found).lower()
    if isinstance(node, exp.Literal) and node.name.isdigit() and not node.is_string:
        return "int" if int(node.name) < 2**31 else None
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        sides = [_type_of(side, fields) for side in (node.this, node.expression)]
        return max(sides, key=_INTEGER.index) if all(side in _INTEGER for side in sides) else None
    if isinstance(node, exp.IntDiv | exp.Sign):
        return "bigint" if isinstance(node, exp.IntDiv) else "double"
    kind = kind_of(node, fields)
    if kind in (*_EXACT, "null"):
        return kind
    text = spark_text(node).lower() if isinstance(node, exp.Func) else ""
    known = spark_functions().get(text.partition("(")[0]) if text.endswith(")") else None
    return known.gives if known is not None and known.gives in (*_EXACT, *_INTEGER, "double") else None


GENERATED = Clause(
    attribute="generated",
    name="GENERATED ALWAYS AS",
    noun="generation expression",
    words=("GENERATED", "ALWAYS", "AS"),
    in_parentheses=True,
    key=GENERATED_KEY,
    feature=GENERATED_COLUMNS,
    change=SetGenerated,
    stored=expression_text,
    misuse=_reads,
    fault=_generated_fault,
    reads_columns=True,
)

CLAUSES = (DEFAULT, GENERATED)


def clause_of(change: SetClause) -> Clause:
    """Return the clause that a change sets."""
    return next(clause for clause in CLAUSES if isinstance(change, clause.change))


_texts_of = attrgetter(*(clause.attribute for clause in CLAUSES))
_NO_TEXTS = (None,) * len(CLAUSES)


def clauses_of(field: Field) -> tuple[tuple[Clause, str], ...]:
    """Return each clause that the column has, with its expression."""
    texts = _texts_of(field)
    if texts == _NO_TEXTS:  # nearly every column; an upgrade asks each of them two hundred times
        return ()
    return tuple((clause, text) for clause, text in zip(CLAUSES, texts, strict=True) if text is not None)


def fills_itself(field: Field) -> bool:
    """Return whether rows that leave the column out have another value than NULL there."""
    return bool(clauses_of(field))


def reads_others(field: Field) -> bool:
    """Return whether the column has a clause that reads other columns."""
    return any(clause.reads_columns for clause, _ in clauses_of(field))


def readers_of(fields: Sequence[Field], path: str) -> Iterator[tuple[Clause, Field]]:
    """Yield the other columns whose clause reads the column at or around ``path``, with the clause."""
    root = path.partition(".")[0].lower()
    for field in fields:
        for clause, text in clauses_of(field):
            if clause.reads_columns and field.name.lower() != root and root in _roots(text):
                yield clause, field


def read_by_others(fields: Sequence[Field]) -> frozenset[str]:
    """Return the columns, in lower case, that the clause of another column reads."""
    found = ((field.name.lower(), _roots(text)) for field in fields for clause, text in clauses_of(field) if clause.reads_columns)
    return frozenset(root for name, roots in found for root in roots if root != name)


def computed_columns(fields: Sequence[Field]) -> frozenset[str]:
    """Return the columns that a clause computes from others, and the columns read by it."""
    read = read_by_others(fields)
    return frozenset(field.name for field in fields if reads_others(field) or field.name.lower() in read)


def _roots(text: str) -> set[str]:
    """Return the columns that a clause may read, in lower case; all words of one that nobody can parse, as somebody's table may have."""
    try:
        return {reference.partition(".")[0].lower() for reference in column_references(text)}
    except InvalidExpression:
        return {word.lower() for word in re.findall(r"\w+", text)}


def renamed(fields: Fields, renames: Mapping[ColumnPath, str]) -> Fields:
    """Return the columns with the renamed ones' new names in their clauses; their own names stay. Raises RenameInLambda."""

    def followed(field: Field) -> Field:
        for clause, text in clauses_of(field):
            if clause.reads_columns:
                return clause.put(field, rename_columns(text, renames, fields))
        return field

    return tuple(map(followed, fields)) if renames else fields


def rules(declaration: Declaration) -> tuple[Check, ...]:
    """Return what every row has to hold: the CHECKs, and that a column which reads others has the value that they give."""
    computed = [
        Check(field.name, f"{field.name} <=> ({text})")
        for field in declaration.fields
        for clause, text in clauses_of(field)
        if clause.reads_columns
    ]
    return (*declaration.checks, *computed)
