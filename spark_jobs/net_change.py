"""The net change of an ``apply`` request: whole rows in the target's shape, how often each came or went, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from airflow_provider_schemamig.core.storage import spark_uri
from spark_jobs.delta_tables import table_fields, table_sql
from spark_jobs.row_values import is_compared_as_one, literal, row_hash, same_by, select_as

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructField

#: The view of the net change, cached, and its column with how often a row came (more often than it went), negative: went.
NET, COUNT = "schemamig__net", "schemamig__count"
#: The views of the rows that came, and of those that went, in the target's shape.
CAME, WENT = "schemamig__came", "schemamig__went"
_CHANGES = "schemamig__changes"
_HASH = "schemamig__hash"
VIEWS = (NET, _CHANGES, CAME, WENT)

_CHANGE_TYPES = {CAME: "'insert', 'update_postimage'", WENT: "'delete', 'update_preimage'"}
_BOUNDED_TYPES = frozenset({"integer", "long", "string", "date"})
_BOUNDED_COLUMNS = 8


@dataclass(frozen=True)
class ChangedRows:
    """The rows that came and went, as it happened. ``views``: those of ``CAME`` and ``WENT`` that there are.

    ``fields``: the target's columns that are filled. ``key``: those of them that rows are matched by, or none.
    """

    fields: Sequence[StructField]
    key: Sequence[StructField]
    views: Sequence[str]

    @property
    def columns(self) -> str:
        return ", ".join(quote(field.name) for field in self.fields)


@dataclass(frozen=True)
class NetChange:
    """Whole rows, how often each came or went in the end (``NET``)."""

    rows: ChangedRows
    inserted: int
    deleted: int
    kinds_deleted: int
    digest: RowsDigest
    summary: Row

    @property
    def empty(self) -> bool:
        return not self.inserted and not self.deleted

    def bounds(self, alias: str) -> Iterator[str]:
        return bounds_of(self.rows, self.summary, alias)


def changed_rows(spark: SparkSession, request: Mapping[str, Any]) -> ChangedRows:
    """Make the views ``CAME`` and ``WENT`` for a request whose inputs are registered."""
    fields = table_fields(spark, request["target_uri"], request["columns"])
    key = [field for field in fields if field.name.lower() in {column.lower() for column in request["match"]}]
    views = []
    for view, rows in _sides(spark, request):
        spark.sql(rows).createOrReplaceTempView(request["source_view"])
        # This view holds the analysed query, so that source_view may become another one.
        spark.sql(select_as(spark, request["query"], fields)).createOrReplaceTempView(view)
        views.append(view)
    return ChangedRows(fields, key, views)


def net_change_of(spark: SparkSession, request: Mapping[str, Any], rows: ChangedRows) -> NetChange:
    """Make the view ``NET``, and look at it once."""
    fields = rows.fields
    columns = ", ".join(quote(f.name) for f in fields)
    parts = [f"SELECT {columns}, 0L AS {COUNT} FROM {table_sql(request['target_uri'])} WHERE false"]
    parts += [f"SELECT *, {'1L' if view == CAME else '-1L'} AS {COUNT} FROM {view}" for view in rows.views]
    # What stands for a value in GROUP BY may be less than the value: of -0.0 a group makes 0.0.
    names = ((f, quote(f.name)) for f in fields)
    selected = ", ".join(name if is_compared_as_one(f.dataType) else f"first({name}) AS {name}" for f, name in names)
    values = ", ".join(value for f in fields for value in same_by(quote(f.name), f.dataType))
    spark.sql(
        f"CACHE LAZY TABLE {NET} AS SELECT {selected}, sum({COUNT}) AS {COUNT} FROM ({' UNION ALL '.join(parts)}) "
        f"GROUP BY {values} HAVING sum({COUNT}) <> 0"
    )
    return _look_at(spark, rows)


def _sides(spark: SparkSession, request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (view of the result, query of the source's changed rows), for each of ``CAME`` and ``WENT`` that there is."""
    changes, projection = request["changes"], request["projection"]
    if changes["kind"] == "cdf":
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        feed = feed.option("startingVersion", str(changes["from"])).option("endingVersion", str(changes["to"]))
        feed.load(spark_uri(changes["uri"])).createOrReplaceTempView(_CHANGES)
        sources = {view: f"{_CHANGES} WHERE _change_type IN ({types})" for view, types in _CHANGE_TYPES.items()}
    else:
        uris = {CAME: changes["added"], WENT: changes["removed"]}
        sources = {view: f"{table_sql(uri)} VERSION AS OF 0" for view, uri in uris.items() if uri is not None}
    for view, source in sources.items():
        yield view, f"SELECT {projection} FROM {source}"


def _look_at(spark: SparkSession, rows: ChangedRows) -> NetChange:
    wanted = [
        f"coalesce(sum(greatest({COUNT}, 0L)), 0L) AS inserted",
        f"coalesce(sum(greatest(-{COUNT}, 0L)), 0L) AS deleted",
        f"count_if({COUNT} < 0) AS kinds_deleted",
        f"coalesce(sum(CAST({_HASH} AS DECIMAL(38, 0)) * {COUNT}), 0) AS total",
        f"coalesce(bit_xor(IF({COUNT} % 2 = 0, 0L, {_HASH})), 0L) AS parity",
    ]
    # By the whole row only those that go are looked for; by the key all are.
    wanted += looked_at(bounded(rows), "true" if rows.key else f"{COUNT} < 0")
    (row,) = spark.sql(f"SELECT {', '.join(wanted)} FROM (SELECT *, {row_hash(rows.fields)} AS {_HASH} FROM {NET})").collect()
    inserted, deleted = int(row["inserted"]), int(row["deleted"])
    digest = RowsDigest(inserted - deleted, int(row["parity"]), int(row["total"]))
    return NetChange(rows, inserted, deleted, int(row["kinds_deleted"]), digest, row)


# --- where rows can match --------------------------------------------------------------------------------------------------------------


def bounded(rows: ChangedRows) -> Sequence[StructField]:
    """Return columns that are cheap to bound; which of them the files are sorted by, nobody knows."""
    return [field for field in rows.key or rows.fields if field.dataType.typeName() in _BOUNDED_TYPES][:_BOUNDED_COLUMNS]


def looked_at(fields: Sequence[StructField], looked_for: str = "true") -> Iterator[str]:
    """Yield a summary's least and greatest value of each field, and how often it is NULL, in rows where ``looked_for`` is true."""
    for number, field in enumerate(fields):
        column = quote(field.name)
        of = f"({column}) FILTER (WHERE {looked_for})"
        low, high = f"min{of}", f"max{of}"
        if field.dataType.typeName() == "date":  # Python has no others: then there is no bound
            is_certain = f"{low} >= DATE'0001-01-01' AND {high} <= DATE'9999-12-31'"
            low, high = f"IF({is_certain}, {low}, NULL)", f"IF({is_certain}, {high}, NULL)"
        yield from (f"{low} AS low{number}", f"{high} AS high{number}", f"count_if({looked_for} AND {column} IS NULL) AS nulls{number}")


def bounds_of(rows: ChangedRows, summary: Row, alias: str) -> Iterator[str]:
    """Yield conditions that every row to be matched meets, in terms of ``alias`` alone. So Delta leaves out files by their statistics."""
    for number, field in enumerate(bounded(rows)):
        column = f"{alias}.{quote(field.name)}"
        low, high = (literal(summary[f"{end}{number}"], field.dataType) for end in ("low", "high"))
        nulls = summary[f"nulls{number}"]
        if low is not None and high is not None:
            between = f"{column} BETWEEN {low} AND {high}"
            yield f"({between} OR {column} IS NULL)" if nulls else between
