"""The net change of an ``apply`` request: whole rows in the target's shape, how often each came or went, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from airflow_provider_schemamig.core.storage import spark_uri
from spark_jobs.delta_tables import table_sql
from spark_jobs.row_values import cast_to, comparable, fields_of, has_map, literal, row_hash

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructField

#: The view of the net change, cached, and its column with how often a row came (more often than it went), negative: went.
NET, COUNT = "schemamig__net", "schemamig__count"
_CHANGES, _CAME, _WENT = "schemamig__changes", "schemamig__came", "schemamig__went"
VIEWS = (NET, _CHANGES, _CAME, _WENT)

_CHANGE_TYPES = {_CAME: "'insert', 'update_postimage'", _WENT: "'delete', 'update_preimage'"}
_BOUNDED_TYPES = frozenset({"integer", "long", "string", "date"})
_BOUNDED_COLUMNS = 8


@dataclass(frozen=True)
class NetChange:
    """``fields``: the target's columns that are filled. ``key``: those of them that rows are matched by, or none."""

    fields: Sequence[StructField]
    key: Sequence[StructField]
    inserted: int
    deleted: int
    kinds_deleted: int
    digest: RowsDigest
    summary: Row

    @property
    def empty(self) -> bool:
        return not self.inserted and not self.deleted

    @property
    def columns(self) -> str:
        return ", ".join(quote(field.name) for field in self.fields)

    def bounds(self, alias: str) -> Iterator[str]:
        """What is true of every row that can match, in terms of ``alias`` alone, so that Delta leaves out files by their statistics."""
        for number, field in enumerate(_bounded(self.fields, self.key)):
            column = f"{alias}.{quote(field.name)}"
            low, high = (literal(self.summary[f"{end}{number}"], field.dataType) for end in ("low", "high"))
            nulls = self.summary[f"nulls{number}"]
            if low is not None and high is not None:
                between = f"{column} BETWEEN {low} AND {high}"
                yield f"({between} OR {column} IS NULL)" if nulls else between


def net_change(spark: SparkSession, request: Mapping[str, Any]) -> NetChange:
    """Make the view ``NET`` for a request whose inputs are registered, and look at it once."""
    target = table_sql(request["target_uri"])
    fields = fields_of(spark.sql(f"SELECT * FROM {target}").schema, request["columns"])
    key = [field for field in fields if field.name.lower() in {column.lower() for column in request["match"]}]
    parts = [f"SELECT {cast_to(fields)}, 0L AS {COUNT} FROM {target} WHERE false"]
    for view, sign, rows in _sides(spark, request):
        spark.sql(rows).createOrReplaceTempView(request["source_view"])
        # This view holds the analysed query, so that source_view may become another one.
        spark.sql(f"SELECT {cast_to(fields)} FROM (\n{request['query']}\n)").createOrReplaceTempView(view)
        parts.append(f"SELECT *, {sign} AS {COUNT} FROM {view}")
    selected = ", ".join(f"first({quote(f.name)}) AS {quote(f.name)}" if has_map(f.dataType) else quote(f.name) for f in fields)
    values = ", ".join(comparable(quote(f.name), f.dataType) for f in fields)
    spark.sql(
        f"CACHE LAZY TABLE {NET} AS SELECT {selected}, sum({COUNT}) AS {COUNT} FROM ({' UNION ALL '.join(parts)}) "
        f"GROUP BY {values} HAVING sum({COUNT}) <> 0"
    )
    return _look_at(spark, fields, key)


def _sides(spark: SparkSession, request: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(view of the result, sign, query of the source's changed rows) for what came and what went."""
    changes, projection = request["changes"], request["projection"]
    if changes["kind"] == "cdf":
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        feed = feed.option("startingVersion", str(changes["from"])).option("endingVersion", str(changes["to"]))
        feed.load(spark_uri(changes["uri"])).createOrReplaceTempView(_CHANGES)
        sources = {view: f"{_CHANGES} WHERE _change_type IN ({types})" for view, types in _CHANGE_TYPES.items()}
    else:
        uris = {_CAME: changes["added"], _WENT: changes["removed"]}
        sources = {view: f"{table_sql(uri)} VERSION AS OF 0" for view, uri in uris.items() if uri is not None}
    for view, source in sources.items():
        yield view, "1L" if view == _CAME else "-1L", f"SELECT {projection} FROM {source}"


def _look_at(spark: SparkSession, fields: Sequence[StructField], key: Sequence[StructField]) -> NetChange:
    wanted = [
        f"coalesce(sum(greatest({COUNT}, 0L)), 0L) AS inserted",
        f"coalesce(sum(greatest(-{COUNT}, 0L)), 0L) AS deleted",
        f"count_if({COUNT} < 0) AS kinds_deleted",
        f"coalesce(sum(CAST(h AS DECIMAL(38, 0)) * {COUNT}), 0) AS total",
        f"coalesce(bit_xor(IF({COUNT} % 2 = 0, 0L, h)), 0L) AS parity",
    ]
    # By the whole row only those that go are looked for; by the key all are.
    looked_for = "true" if key else f"{COUNT} < 0"
    for number, field in enumerate(_bounded(fields, key)):
        column = quote(field.name)
        of = f"({column}) FILTER (WHERE {looked_for})"
        wanted += [f"min{of} AS low{number}", f"max{of} AS high{number}", f"count_if({looked_for} AND {column} IS NULL) AS nulls{number}"]
    (row,) = spark.sql(f"SELECT {', '.join(wanted)} FROM (SELECT *, {row_hash(fields)} AS h FROM {NET})").collect()
    inserted, deleted = int(row["inserted"]), int(row["deleted"])
    digest = RowsDigest(inserted - deleted, int(row["parity"]), int(row["total"]))
    return NetChange(fields, key, inserted, deleted, int(row["kinds_deleted"]), digest, row)


def _bounded(fields: Sequence[StructField], key: Sequence[StructField]) -> Sequence[StructField]:
    """Columns that are cheap to bound; which of them the files are sorted by, nobody knows."""
    return [field for field in key or fields if field.dataType.typeName() in _BOUNDED_TYPES][:_BOUNDED_COLUMNS]
