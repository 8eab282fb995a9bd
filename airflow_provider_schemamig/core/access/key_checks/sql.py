"""The checks of a write inside its own Spark statement: a row that breaks one raises, so that the statement commits nothing.

The rows are computed once. A second query over them could see others, if they are random or their source is moving.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import UnionType
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.access.errors import DuplicateRows, KeyViolated
from airflow_provider_schemamig.core.access.key_checks.guard import Check, ReferencedRows, SingleMatchCheck, UniqueCheck
from airflow_provider_schemamig.core.access.select import version_sql
from airflow_provider_schemamig.core.names import RESERVED_PREFIX
from airflow_provider_schemamig.core.schema.sql import quote
from airflow_provider_schemamig.core.spark.errors import ConcurrentWrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = f"_{RESERVED_PREFIX}"
_RAISED = f"{RESERVED_PREFIX}_key_violated:"
_FOUND = re.compile(re.escape(_RAISED) + r"(\d+)")
_SAMPLES = 5
_CHARACTERS = 200


def guarded(rows: str, table: str, checks: Sequence[Check], columns: Sequence[str]) -> str:
    """Return the query ``rows`` of ``columns``, which raises if a row breaks one of ``checks``."""
    first, *others = columns
    raises = " ".join(f"WHEN {_OWN}_broken{n} THEN raise_error('{_RAISED}{n}')" for n in range(len(checks)))
    names = ", ".join([f"CASE {raises} ELSE {quote(first)} END AS {quote(first)}", *map(quote, others)])
    return f"SELECT {names} FROM ({_judged(rows, table, checks)})"


@contextmanager
def explained(spark: SparkSession, rows: str, table: str, checks: Sequence[Check]) -> Iterator[None]:
    """Turn what ``guarded`` raises in this block into KeyViolated, DuplicateRows, or ConcurrentWrite if the conflicting row is gone."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        found = _FOUND.search(str(error))
        if found is None:
            raise
        number = int(found[1])
        raise _explain(spark, _judged(rows, table, checks), number, checks[number]) from error


def _explain(spark: SparkSession, judged: str, number: int, check: Check) -> KeyViolated | DuplicateRows | ConcurrentWrite:
    key = ", ".join(f"substring(CAST({quote(column)} AS STRING), 1, {_CHARACTERS})" for column in check.columns)
    broken = f"(SELECT concat_ws(', ', {key}) AS k FROM ({judged}) WHERE {_OWN}_broken{number})"
    (answer,) = spark.sql(f"SELECT count(*) AS n FROM {broken}").collect()
    if not answer["n"]:
        what = "two rows of the merge" if isinstance(check, SingleMatchCheck) else f"what stood against {check.rule}"
        return ConcurrentWrite(condition="key", detail=f"{what} is gone again")
    found = spark.sql(f"SELECT DISTINCT k FROM {broken} ORDER BY k LIMIT {_SAMPLES}").collect()
    count, sample = int(answer["n"]), tuple(f"({row['k']})" for row in found)
    if isinstance(check, SingleMatchCheck):
        return DuplicateRows(on=check.columns, count=count, sample=sample)
    return KeyViolated(key=check.rule, count=count, sample=sample)


def _judged(rows: str, table: str, checks: Sequence[Check]) -> str:
    """Return the query of ``rows`` with a column for each check that is true if the row breaks it."""
    counts = [
        f"count(*) OVER (PARTITION BY {_list(check.columns)}) AS {_OWN}_n{n}"
        for n, check in _numbered(checks, UniqueCheck | SingleMatchCheck)
    ]
    joins, verdicts = [], []
    for number, check in enumerate(checks):
        present = " AND ".join(f"s.{quote(column)} IS NOT NULL" for column in check.columns)
        if isinstance(check, UniqueCheck):
            joins += [_taken(check, table, number)] if check.in_table else []
            verdict = f"s.{_OWN}_n{number} > 1"
            if check.in_table:
                verdict += f" OR (t{number}.{_OWN}_hit IS NOT NULL{_another(check, number)})"
            if check.changes:
                joins.append(_matched(check, table, number))
                verdict += f" OR coalesce(m{number}.{_OWN}_rows, 0) > 1"
        elif isinstance(check, ReferencedRows):
            joins.append(_there(check, rows, table, number))
            verdict = f"t{number}.{_OWN}_hit IS NULL"
        else:
            present, verdict = "true", f"s.{_OWN}_n{number} > 1"
        verdicts.append(f"({present} AND ({verdict})) AS {_OWN}_broken{number}")
    return f"SELECT s.*, {', '.join(verdicts)} FROM (SELECT {', '.join(['*', *counts])} FROM ({rows})) AS s {' '.join(joins)}"


def _numbered(checks: Sequence[Check], kind: type[Check] | UnionType) -> Iterator[tuple[int, Check]]:
    return ((number, check) for number, check in enumerate(checks) if isinstance(check, kind))


def _taken(check: UniqueCheck, table: str, number: int) -> str:
    columns = _list(dict.fromkeys([*check.columns, *check.same]))
    same = " AND ".join(f"s.{quote(column)} = t{number}.{quote(column)}" for column in check.columns)
    return f"LEFT JOIN (SELECT {columns}, true AS {_OWN}_hit FROM {table}) AS t{number} ON {same}"


def _matched(check: UniqueCheck, table: str, number: int) -> str:
    """Return how many rows of the table the merge updates by a row."""
    named = ", ".join(f"{quote(column)} AS c{n}" for n, column in enumerate(check.same))
    keys = ", ".join(f"c{n}" for n in range(len(check.same)))
    same = " AND ".join(f"s.{quote(column)} <=> m{number}.c{n}" for n, column in enumerate(check.same))
    counted = f"SELECT {keys}, count(*) AS {_OWN}_rows FROM (SELECT {named} FROM {table}) GROUP BY {keys}"
    return f"LEFT JOIN ({counted}) AS m{number} ON {same}"


def _another(check: UniqueCheck, number: int) -> str:
    """Return a condition that excludes the row updated by the merge."""
    if not check.same:
        return ""
    same = " AND ".join(f"s.{quote(column)} <=> t{number}.{quote(column)}" for column in check.same)
    return f" AND NOT ({same})"


def _there(check: ReferencedRows, rows: str, table: str, number: int) -> str:
    named = ", ".join(f"{quote(column)} AS c{n}" for n, column in enumerate(check.to))
    if check.head is not None:
        sources = [version_sql(check.head.location.uri, check.head.version)]
    else:
        sources = [table] * check.in_table + [f"({rows})"] * check.in_rows
    known = " UNION ALL ".join(f"SELECT {named} FROM {source}" for source in sources or [f"(SELECT * FROM {table} WHERE false)"])
    keys = ", ".join(f"c{n}" for n in range(len(check.to)))
    same = " AND ".join(f"s.{quote(column)} = t{number}.c{n}" for n, column in enumerate(check.columns))
    # Once each: a key that is there twice would bring the row twice.
    return f"LEFT JOIN (SELECT DISTINCT {keys}, true AS {_OWN}_hit FROM ({known})) AS t{number} ON {same}"


def _list(columns: Sequence[str] | dict[str, None]) -> str:
    return ", ".join(map(quote, columns))
