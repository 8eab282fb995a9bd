"""What only the rows know, asked before anything is written: violations with samples, and estimates.

Request: ``checks`` and ``estimates``, lists of objects with ``collection`` and ``uri``; ``storage_options``. A check also has ``kind``
and what that needs, and optionally ``rule`` (its name in the report), ``version`` (of the table; default newest) and ``projection`` (a
select list that gives the rows the shape the check speaks of; default ``*``):

- ``not_null``: ``column``, a dotted path, also through ``element``, ``key`` and ``value``. A field of a missing struct is not missing.
- ``check``: ``expression``. NULL is a violation, as it is to Delta.
- ``cast``: ``column``, ``type``: the value is there and TRY_CAST of it is NULL.
- ``duplicate_key``: ``columns``. Every row of a key that occurs more than once counts; keys with a NULL do not, as in SQL.
- ``orphans``: ``columns``, ``referenced_uri``, ``referenced_columns``, and optionally ``referenced_version`` (default newest). A row
  counts if no key column is NULL and no row of the other table has the key.
- ``missing_values``: ``files`` (URIs of Parquet files of the table), ``schema`` (a Spark StructType of columns as the files have them),
  ``column`` (a dotted path through structs): rows without a value in a column that the table itself says is NOT NULL. Delta takes that for
  granted, and leaves ``IS NULL`` out of a query over such a column. Rows that deletion vectors hide are counted, too.

``duplicate_key`` and ``orphans`` may have ``new_files`` (names without folders): only rows in these files count, as keys that came with
them, while the rows of all files are compared.

``expressions`` (optional): CHECKs and DEFAULTs to be judged, each with ``collection``, ``used_by``, ``expression``, and ``columns`` (of the
table, as SQL declares them) for a CHECK or ``type`` (SQL's name) for a DEFAULT. If Spark cannot evaluate one, no check is made. A query
has ``views`` {view: its columns}, and as ``columns`` those that it has to give.
``timed`` (optional): whether the smallest statement is to be timed.

``log_store`` (optional): the URI of a table to make, of one commit.

Result: ``unusable`` [{collection, used_by, expression, reason}]; ``violations`` [{collection, kind, rule, count (rows), version,
sample (up to 5 rows, {column: text}), files (up to 5 URIs)}], only those with a count, and where ``new_files`` were named with ``by_file``
[{file (URI), rows, sample (one key)}], all of them; ``estimates`` [{collection, rows, bytes, files}], from the log alone where its
statistics are complete; ``statement_seconds``, null if it was not ``timed``.

All checks of one table, version and projection but keys share one scan; samples are looked for only where there are some.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.driver.telling import tell
from airflow_provider_schemamig.core.spark.errors import QueryRefused
from airflow_provider_schemamig.core.spark.storage_access import storage_access
from airflow_provider_schemamig.core.spark.translate import translated
from airflow_provider_schemamig.core.storage import spark_uri
from spark_jobs.delta_tables import newest_version, table_sql, temporary_views
from spark_jobs.predicates import cast_violation, check_violation, not_null_violation
from spark_jobs.row_values import select_as

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWN = "_schemamig_"
_FILE = f"{_OWN}file"
_COUNT = f"{_OWN}count"
_KEYS = ("duplicate_key", "orphans")
_FILES = "missing_values"
_SAMPLES = 5
_CHARACTERS = 200


@dataclass(frozen=True)
class _Scan:
    """The rows that a group of checks looks at."""

    table: str
    version: int
    projection: str

    @property
    def rows(self) -> str:
        """Return a subquery of the projected columns and the file each row lies in."""
        return f"(SELECT {self.projection}, _metadata.file_path AS {_FILE} FROM {self.table} VERSION AS OF {self.version})"


def run(spark: SparkSession, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer all checks and estimates; see the module for request and result."""
    unusable = [found for wanted in request.get("expressions", ()) if (found := _unusable(spark, wanted)) is not None]
    with storage_access(spark, request.get("storage_options", {})):
        if "log_store" in request:
            # By its commit the caller sees whether this Spark's LogStore is a safe one.
            spark.sql(f"CREATE TABLE delta.{quote(spark_uri(request['log_store']))} (id INT) USING delta")
        checks = [] if unusable else request["checks"]  # a check of the rows would fail on the same expression
        groups, wanted = list(_groups(checks)), request["estimates"]
        violations: list[dict[str, Any]] = []
        estimates: list[dict[str, Any]] = []
        total = len(groups) + len(wanted)
        for number, group in enumerate(groups, start=1):
            tell(f"{group[0]['collection']}, table {number} of {total}")
            violations += _check(spark, group)
        for number, table in enumerate(wanted, start=len(groups) + 1):
            tell(f"size of {table['collection']}, table {number} of {total}")
            estimates.append(_estimate(spark, table))
        seconds = _statement_seconds(spark) if request.get("timed") else None
    return {"unusable": unusable, "violations": violations, "estimates": estimates, "statement_seconds": seconds}


def _statement_seconds(spark: SparkSession) -> float:
    """Return how long the smallest statement of two stages takes, warm."""
    for _ in range(2):
        started = time.monotonic()
        spark.sql("SELECT count(DISTINCT id) FROM range(1)").collect()
    return round(time.monotonic() - started, 3)


def _unusable(spark: SparkSession, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is wrong with an expression: a CHECK or a query is analyzed over no rows, a DEFAULT is computed once."""
    from pyspark.errors import PySparkException

    expression = wanted["expression"]
    try:
        if "views" in wanted:
            reason = _refused(spark, wanted)
        elif "columns" in wanted:
            empty = spark.createDataFrame([], wanted["columns"])
            found = empty.selectExpr(f"({expression})").schema.fields[0].dataType.simpleString()
            reason = None if found == "boolean" else f"it gives {found.upper()}"
            empty.where(expression).schema  # noqa: B018 - aggregates and generators may be selected
        else:
            spark.sql(f"SELECT CAST(({expression}) AS {wanted['type']})").collect()
            reason = None
    except PySparkException as error:
        reason = str(error).splitlines()[0].rstrip(".")
    if reason is None:
        return None
    return {"collection": wanted["collection"], "used_by": wanted["used_by"], "expression": expression, "reason": reason}


def _refused(spark: SparkSession, wanted: Mapping[str, Any]) -> str | None:
    """Return why a query over ``views`` does not give ``columns``. Raises what Spark raises of it."""
    with temporary_views(spark, wanted["views"]):
        for view, columns in wanted["views"].items():
            spark.createDataFrame([], columns).createOrReplaceTempView(view)
        fields = spark.createDataFrame([], wanted["columns"]).schema.fields
        try:
            spark.sql(select_as(spark, wanted["expression"], fields)).schema  # noqa: B018 - it is analyzed
        except QueryRefused as error:
            return error.detail
    return None


def _groups(checks: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Group checks that can share a scan."""

    def scan(check: Mapping[str, Any]) -> tuple[str, str, str, str]:
        return check["collection"], check["uri"], str(check.get("version")), check.get("projection", "*")

    for _, group in groupby(sorted(checks, key=scan), key=scan):
        yield list(group)


def _check(spark: SparkSession, checks: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    first = checks[0]
    with translated("preflight", first["collection"]):
        table = table_sql(first["uri"])
        version = first.get("version")
        scan = _Scan(table, newest_version(spark, table) if version is None else int(version), first.get("projection", "*"))
        yield from _check_rows(spark, scan, [check for check in checks if check["kind"] not in (*_KEYS, _FILES)])
        for check in checks:
            if check["kind"] == _FILES:
                yield from _check_files(spark, scan, check)
            elif check["kind"] == "orphans" or "new_files" in check:
                yield from _check_matches(spark, scan, check)
            elif check["kind"] == "duplicate_key":
                yield from _check_keys(spark, scan, check)


# --- checks of single rows -----------------------------------------------------------------------------------------------------------


def _check_rows(spark: SparkSession, scan: _Scan, checks: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    if not checks:
        return
    rows = spark.sql(f"SELECT * FROM {scan.rows}")
    violated = [_predicate(rows, check) for check in checks]
    (counts,) = rows.selectExpr(*(f"count_if({predicate}) AS c{number}" for number, predicate in enumerate(violated))).collect()
    for check, predicate, count in zip(checks, violated, counts, strict=True):
        if count:
            yield _found(check, scan, rows.where(predicate), count)


def _found(check: Mapping[str, Any], scan: _Scan, broken: DataFrame, count: int) -> dict[str, Any]:
    sample = broken.selectExpr(*_as_text(broken)).limit(_SAMPLES).collect()
    files = broken.select(_FILE).distinct().limit(_SAMPLES).collect()
    return _violation(check, scan, count, [row.asDict() for row in sample], [row[0] for row in files])


def _predicate(rows: DataFrame, check: Mapping[str, Any]) -> str:
    """Return SQL that finds the rows against the check: true for them, false (never NULL) for others."""
    kind = check["kind"]
    if kind == "not_null":
        return not_null_violation(rows.schema, check["column"])
    if kind == "cast":
        return cast_violation(rows.schema, check["column"], check["type"])
    if kind == "check":
        return check_violation(check["expression"])
    raise ValueError(f"unknown kind of check: {kind!r}")


def _as_text(rows: DataFrame) -> list[str]:
    """Return every column as text of bounded length, cut in Spark so that no large value travels."""
    return [
        f"substring({_text(field.dataType.typeName(), quote(field.name))}, 1, {_CHARACTERS}) AS {quote(field.name)}"
        for field in _columns(rows)
    ]


def _text(type_name: str, column: str) -> str:
    if type_name == "binary":
        return f"hex({column})"
    if type_name in ("struct", "array", "map", "variant"):
        return f"to_json({column})"
    return f"CAST({column} AS STRING)"


def _columns(rows: DataFrame) -> list[Any]:
    return [field for field in rows.schema.fields if field.name != _FILE]


# --- values in files -----------------------------------------------------------------------------------------------------------------


def _check_files(spark: SparkSession, scan: _Scan, check: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Check files for NULL: Parquet by itself promises nothing about it."""
    from pyspark.sql.types import StructType

    files = spark.read.schema(StructType.fromJson(check["schema"])).parquet(*map(spark_uri, check["files"]))
    rows = files.selectExpr("*", f"_metadata.file_path AS {_FILE}")
    broken = rows.where(f"{'.'.join(map(quote, check['column'].split('.')))} IS NULL")
    if count := broken.count():
        yield _found(check, scan, broken, count)


# --- keys ----------------------------------------------------------------------------------------------------------------------------


def _check_keys(spark: SparkSession, scan: _Scan, check: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    columns = [quote(column) for column in check["columns"]]
    listed = ", ".join(columns)
    present = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    rows = spark.sql(f"SELECT * FROM {scan.rows}")
    keys = f"SELECT {listed}, count(*) AS {_COUNT} FROM {scan.rows} WHERE {present} GROUP BY {listed} HAVING count(*) > 1"
    (total,) = spark.sql(f"SELECT coalesce(sum({_COUNT}), 0) AS n FROM ({keys})").collect()
    if not total["n"]:
        return
    wanted = {column.lower() for column in check["columns"]}
    texts = [text for text, field in zip(_as_text(rows), _columns(rows), strict=True) if field.name.lower() in wanted]
    sample = spark.sql(f"SELECT * FROM ({keys}) ORDER BY {_COUNT} DESC, {listed} LIMIT {_SAMPLES}").selectExpr(*texts, f"{_COUNT} AS rows")
    same = " AND ".join(f"r.{column} = k.{column}" for column in columns)
    files = spark.sql(f"SELECT DISTINCT r.{_FILE} FROM {scan.rows} r JOIN ({keys}) k ON {same} LIMIT {_SAMPLES}")
    yield _violation(check, scan, total["n"], [row.asDict() for row in sample.collect()], [row[0] for row in files.collect()])


def _check_matches(spark: SparkSession, scan: _Scan, check: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the violation by duplicate keys or orphans, if there are such rows. With ``new_files`` only rows of these files count."""
    columns = [quote(column) for column in check["columns"]]
    numbered = [f"k{number}" for number in range(len(columns))]
    keys = [f"{column} AS {_OWN}{name}" for column, name in zip(columns, numbered, strict=True)]
    names = [f"{_OWN}{name}" for name in numbered]
    rows = spark.sql(f"SELECT *, {', '.join(keys)} FROM {scan.rows}").dropna(subset=names)
    if check["kind"] == "orphans":
        others, how = _referenced(spark, scan, check, names), "left_anti"
    else:
        others, how = rows.groupBy(*names).count().where("count > 1").select(*names), "left_semi"
    broken = _new(rows, check).join(others, names, how).drop(*names)
    if count := broken.count():
        by_file = {"by_file": _by_file(broken, columns)} if "new_files" in check else {}
        yield {**_found(check, scan, broken, count), **by_file}


def _new(rows: DataFrame, check: Mapping[str, Any]) -> DataFrame:
    """Return the rows of new files, without ``pyspark.sql.functions``, whose functions are either Connect's or those of a session of its
    own."""
    if "new_files" not in check:
        return rows
    name = f"{_OWN}file_name"
    named = rows.selectExpr("*", f"element_at(split({_FILE}, '/'), -1) AS {name}")
    return named.where(named[name].isin(list(check["new_files"]))).drop(name)


def _referenced(spark: SparkSession, scan: _Scan, check: Mapping[str, Any], names: Sequence[str]) -> DataFrame:
    """Return the keys of the table that is referred to; if it is the same one, at the same version."""
    table = table_sql(check["referenced_uri"])
    version = scan.version if table == scan.table else check.get("referenced_version")
    pinned = newest_version(spark, table) if version is None else int(version)
    keys = ", ".join(f"{quote(column)} AS {name}" for column, name in zip(check["referenced_columns"], names, strict=True))
    return spark.sql(f"SELECT {keys} FROM {table} VERSION AS OF {pinned}")


def _by_file(broken: DataFrame, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Count broken rows by file, with the least key among them as text."""
    texts = _as_text(broken.selectExpr(*columns))
    found = broken.selectExpr(_FILE, f"struct({', '.join(texts)}) AS least").groupBy(_FILE).agg({"*": "count", "least": "min"})
    return [{"file": row[_FILE], "rows": int(row["count(1)"]), "sample": row["min(least)"].asDict()} for row in found.collect()]


# --- results -------------------------------------------------------------------------------------------------------------------------


def _violation(check: Mapping[str, Any], scan: _Scan, count: int, sample: list[dict[str, Any]], files: list[str]) -> dict[str, Any]:
    return {
        "collection": check["collection"],
        "kind": check["kind"],
        "rule": check.get("rule") or _rule(check),
        "count": int(count),
        "version": scan.version,
        "sample": sample,
        "files": files,
    }


def _rule(check: Mapping[str, Any]) -> str:
    """Return the rule in SQL's words, for checks that have no name."""
    match check["kind"]:
        case "not_null":
            return f"{check['column']} NOT NULL"
        case "cast":
            return f"CAST({check['column']} AS {check['type']})"
        case "duplicate_key":
            return f"UNIQUE ({', '.join(check['columns'])})"
        case "orphans":
            return f"FOREIGN KEY ({', '.join(check['columns'])})"
        case _:
            return str(check["expression"])


def _estimate(spark: SparkSession, wanted: Mapping[str, Any]) -> dict[str, Any]:
    with translated("preflight", wanted["collection"]):
        table = table_sql(wanted["uri"])
        (detail,) = spark.sql(f"DESCRIBE DETAIL {table}").select("numFiles", "sizeInBytes").collect()
        # Delta answers a plain count from the log's statistics; only files without any are opened.
        (rows,) = spark.sql(f"SELECT count(*) AS n FROM {table}").collect()
    return {
        "collection": wanted["collection"],
        "rows": int(rows["n"]),
        "bytes": int(detail["sizeInBytes"]),
        "files": int(detail["numFiles"]),
    }
