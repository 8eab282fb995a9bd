"""SM3xx: what a declaration had better not say, whatever changes. Found in schema.sql."""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.model import Severity, rule
from airflow_provider_schemamig.core.release.lint.subject import Subject
from airflow_provider_schemamig.core.schema.delta_rules.properties import INDEXED_COLUMNS
from airflow_provider_schemamig.core.schema.expressions.calls import functions_called, not_constant
from airflow_provider_schemamig.core.schema.expressions.canonical import may_stand_bare
from airflow_provider_schemamig.core.schema.expressions.spark.row_functions import BUILT_IN, GENERATORS, NON_DETERMINISTIC, OVER_ROWS
from airflow_provider_schemamig.core.schema.model import Check, Declaration, Field, Primitive, Struct, walk
from airflow_provider_schemamig.core.schema.ordering import key_columns

#: PostgreSQL's limit, the shortest among the systems that read such tables; a column stays unique in what is left of its name.
LONGEST_NAME = 63
#: Readers of changes and of Spark's hidden columns find these names taken.
_DELTAS_OWN = frozenset(["_change_type", "_commit_version", "_commit_timestamp", "_metadata"])
_UNFIT_FOR_PARTITIONS = ("float", "double", "timestamp", "timestamp_ntz", "binary", "decimal")
_RETENTION = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
_INTERVAL = re.compile(r"(?:interval\s+)?(\d{1,9})\s+(second|minute|hour|day|week)s?", re.IGNORECASE)
_HOURS = {"second": 1 / 3600, "minute": 1 / 60, "hour": 1, "day": 24, "week": 168}
_WALL_HOURS = 168


@rule("SM301", "check-not-deterministic", Severity.ERROR, "a CHECK gives another answer another time")
def check_not_deterministic(subject: Subject) -> Iterator[Hit]:
    for declaration, check in _checks(subject):
        found = not_constant(check.expression)
        if found:
            text = f"CHECK {check.name} calls {found[0]}: a row that passed may fail the next UPDATE or OPTIMIZE"
            yield subject.in_schema(declaration.name, text)


@rule("SM302", "check-calls-a-udf", Severity.ERROR, "a CHECK calls a function that Spark does not know by itself")
def check_calls_a_udf(subject: Subject) -> Iterator[Hit]:
    known = BUILT_IN | OVER_ROWS | NON_DETERMINISTIC | GENERATORS
    for declaration, check in _checks(subject):
        for name in functions_called(check.expression):
            if name not in known:
                text = f"CHECK {check.name} calls {name}: a writer without this function cannot write at all"
                yield subject.in_schema(declaration.name, text)


@rule("SM303", "check-over-rows", Severity.ERROR, "a CHECK needs more than one row")
def check_over_rows(subject: Subject) -> Iterator[Hit]:
    for declaration, check in _checks(subject):
        found = [name for name in functions_called(check.expression) if name in OVER_ROWS | GENERATORS]
        if found:
            yield subject.in_schema(declaration.name, f"CHECK {check.name} calls {found[0]}, and a CHECK sees one row at a time")


@rule("SM304", "float-in-key", Severity.WARNING, "a FLOAT or DOUBLE is part of a key")
def float_in_key(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        for column in sorted(key_columns(declaration)):
            if _type(declaration, column) in ("float", "double"):
                text = f"{column} is {_type(declaration, column).upper()} and part of a key: equal numbers are not equal bits"
                yield subject.in_schema(declaration.name, text, column)


@rule("SM305", "nullable-key", Severity.WARNING, "a UNIQUE column may be NULL, and any number of NULLs is unique")
def nullable_key(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        for column in dict.fromkeys(column for key in declaration.uniques for column in key.columns):
            field = declaration.field(column)
            if field is not None and field.nullable:
                yield subject.in_schema(declaration.name, f"{column} is UNIQUE and may be NULL, as often as anybody likes", column)


@rule("SM306", "reserved-word", Severity.WARNING, "a name is a reserved word of SQL or needs backticks for another reason")
def reserved_word(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        names = [(declaration.name, None), *((field.name, path) for path, field in walk(declaration.fields))]
        for name, path in names:
            if not may_stand_bare(name):
                yield subject.in_schema(declaration.name, f"{path or name} needs backticks wherever it is used", path)


@rule("SM307", "name-of-deltas-own", Severity.ERROR, "a column has a name that Delta's change feed or Spark's metadata uses")
def name_of_deltas_own(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        for field in declaration.fields:
            if field.name.lower() in _DELTAS_OWN:
                text = f"{field.name} is a column of the change data feed or of Spark's metadata, and the two cannot be told apart"
                yield subject.in_schema(declaration.name, text, field.name)


@rule("SM308", "name-too-long", Severity.WARNING, "a name is longer than other systems keep")
def name_too_long(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        named: list[tuple[str | None, str]] = [(path, field.name) for path, field in walk(declaration.fields)]
        named += [(None, check.name) for check in declaration.checks]
        for path, name in named:
            if len(name) > LONGEST_NAME:
                yield subject.in_schema(declaration.name, f"{name} has {len(name)} characters, others keep {LONGEST_NAME}", path)


@rule("SM309", "clustering-without-statistics", Severity.ERROR, "CLUSTER BY a column beyond those that Delta keeps statistics of")
def clustering_without_statistics(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        properties = dict(declaration.properties)
        limit = properties.get("delta.dataSkippingNumIndexedCols", str(INDEXED_COLUMNS))
        leaves = list(_leaves(declaration.fields))
        for path in declaration.clustered_by:
            if limit.isdecimal() and path in leaves[int(limit[:9]) :]:
                text = f"{path} is column {leaves.index(path) + 1}, Delta keeps statistics of {limit} and refuses to cluster by it"
                yield subject.in_schema(declaration.name, text, path)


@rule("SM310", "duplicate-constraint", Severity.WARNING, "two constraints say the same")
def duplicate_constraint(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        seen: dict[str, str] = {}
        for check in declaration.checks:
            if seen.setdefault(check.expression, check.name) != check.name:
                yield subject.in_schema(declaration.name, f"CHECK {check.name} says what {seen[check.expression]} says")
        primary = declaration.primary_key
        for key in declaration.uniques:
            if primary is not None and set(primary.columns) <= set(key.columns):
                yield subject.in_schema(declaration.name, f"UNIQUE ({', '.join(key.columns)}) follows from the PRIMARY KEY")


@rule("SM311", "unfit-partition-type", Severity.WARNING, "PARTITIONED BY a column of a type with too many values")
def unfit_partition_type(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        for column in declaration.partitioned_by:
            name = _type(declaration, column)
            if name.startswith(_UNFIT_FOR_PARTITIONS):
                text = f"partitions by {column} of type {name.upper()}: a folder for each value, and a small file in each"
                yield subject.in_schema(declaration.name, text, column)


@rule("SM312", "foreign-key-to-no-key", Severity.WARNING, "a FOREIGN KEY refers to columns that are no key")
def foreign_key_to_no_key(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        for foreign in declaration.foreign_keys:
            target = subject.new[foreign.references]
            keys = [set(key.columns) for key in (*target.uniques, *filter(None, [target.primary_key]))]
            if set(foreign.referenced_columns) not in keys:
                columns = f"{target.name} ({', '.join(foreign.referenced_columns)})"
                yield subject.in_schema(declaration.name, f"a FOREIGN KEY refers to {columns}, which is neither PRIMARY KEY nor UNIQUE")


@rule("SM313", "short-retention", Severity.WARNING, "history is kept for less than a week: copies and rollbacks need it")
def short_retention(subject: Subject) -> Iterator[Hit]:
    for declaration in _declared(subject):
        for key, value in declaration.properties:
            found = _INTERVAL.fullmatch(value.strip()) if key in _RETENTION else None
            if found is not None and int(found[1]) * _HOURS[found[2].lower()] < _WALL_HOURS:
                yield subject.in_schema(declaration.name, f"{key} = {value}: a rewrite that takes longer loses the history it follows")


@rule("SM314", "no-primary-key", Severity.NOTICE, "a new collection has no PRIMARY KEY")
def no_primary_key(subject: Subject) -> Iterator[Hit]:
    for declaration in subject.created:
        if declaration.primary_key is None:
            yield subject.in_schema(declaration.name, "the new collection has no PRIMARY KEY: rows are told apart by all of their values")


@rule("SM315", "no-comment", Severity.NOTICE, "a new collection, or one of its columns, has no COMMENT")
def no_comment(subject: Subject) -> Iterator[Hit]:
    for declaration in subject.created:
        missing = [field.name for field in declaration.fields if field.comment is None]
        if declaration.comment is None or missing:
            what = ["the collection"] if declaration.comment is None else []
            yield subject.in_schema(declaration.name, f"no COMMENT on {', '.join([*what, *missing])}")


def _declared(subject: Subject) -> Iterator[Declaration]:
    return (declaration for _, declaration in sorted(subject.new.items()))


def _checks(subject: Subject) -> Iterator[tuple[Declaration, Check]]:
    return ((declaration, check) for declaration in _declared(subject) for check in declaration.checks)


def _type(declaration: Declaration, column: str) -> str:
    field = declaration.field(column)
    return field.type.name if field is not None and isinstance(field.type, Primitive) else ""


def _leaves(fields: tuple[Field, ...], prefix: str = "") -> Iterator[str]:
    """Yield the paths of what Delta counts for statistics: structs by their fields, everything else as one."""
    for field in fields:
        if isinstance(field.type, Struct):
            yield from _leaves(field.type.fields, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


RULES = (
    check_not_deterministic,
    check_calls_a_udf,
    check_over_rows,
    float_in_key,
    nullable_key,
    reserved_word,
    name_of_deltas_own,
    name_too_long,
    clustering_without_statistics,
    duplicate_constraint,
    unfit_partition_type,
    foreign_key_to_no_key,
    short_retention,
    no_primary_key,
    no_comment,
)
