"""What a writer commits: by one Spark statement, or by delta-rs; tagged, and under Delta's own transaction id if it has one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.access.arrow.checks import unlike_part
from airflow_provider_schemamig.core.access.arrow.read import arrow_schema, check_honest, show
from airflow_provider_schemamig.core.access.errors import InvalidArgument, NeedsSpark
from airflow_provider_schemamig.core.access.key_checks.arrow import check_rows
from airflow_provider_schemamig.core.access.key_checks.guard import Check
from airflow_provider_schemamig.core.access.key_checks.sql import explained, guarded
from airflow_provider_schemamig.core.access.resolved_table import PinnedTable
from airflow_provider_schemamig.core.access.select import select, updates
from airflow_provider_schemamig.core.access.write_mapping import Mode, WriteFit
from airflow_provider_schemamig.core.delta.names import fields_in
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, Version
from airflow_provider_schemamig.core.schema.clauses import reads_others
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import KEPT_AS_NULL, not_by_delta_rs, text_partitions
from airflow_provider_schemamig.core.schema.delta_rules.table_features import DELTA_RS_APPENDS, INVARIANT
from airflow_provider_schemamig.core.schema.delta_rules.widening import varchar_length
from airflow_provider_schemamig.core.schema.model import Primitive, walk
from airflow_provider_schemamig.core.schema.sql import quote, without_texts_kept_as_null
from airflow_provider_schemamig.core.spark.errors import ConstraintViolated
from airflow_provider_schemamig.core.storage import UnsafeLogStore, needs_log_store, require_safe_log_store, spark_uri

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Txn:
    """Delta's transaction id: of one ``app_id`` only numbers above the highest one in the table's log are written."""

    app_id: str
    number: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the commit says of its writer, in ``commitInfo.userMetadata``. ``attempt`` finds the commit again.

    ``origin``: the environment (``config.env_id``) that the rows were first written to, by which streams between environments tell their
    own events from those that came from elsewhere. The ``source`` version of such a commit is its own, so it is null.
    """

    schema_hash: Fingerprint
    release: Version
    node: str | None
    origin: str
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def text(self) -> str:
        about = {"schema_hash": self.schema_hash, "release": str(self.release), "node": self.node, "attempt": self.attempt}
        return canonical({**about, "origin": self.origin, "source": None})


# --- Spark ---------------------------------------------------------------------------------------------------------------------------


def run_statement(
    data: DataFrame,
    place: PinnedTable,
    fit: WriteFit,
    mode: Mode,
    on: Sequence[str],
    stamp: Stamp,
    txn: Txn | None,
    checks: Sequence[Check] = (),
) -> None:
    """Commit ``data`` by one statement that names every column. ``on``: the table's names.

    Raises what Spark raises; KeyViolated if rows break one of ``checks``; UnsafeLogStore.
    """
    from airflow_provider_schemamig.core.spark.session import MEANING_SETTINGS, WRITING_SETTINGS
    from airflow_provider_schemamig.core.spark.storage_access import session_settings
    from airflow_provider_schemamig.core.spark.uncached import uncached_view

    spark = data.sparkSession
    _check_log_store(spark, place)
    view, present = f"schemamig_rows_{stamp.attempt}", f"schemamig_table_{stamp.attempt}"
    with session_settings(spark, {}):  # as it is, without what another thread has set for its own statement
        _planned_as_given(data).createOrReplaceTempView(view)
    table = f"delta.{quote(spark_uri(place.uri))}"
    rows = without_texts_kept_as_null(
        select(fit.into, f"({select(fit.given, quote(view))})"), fit.columns, text_partitions(place.live.declaration)
    )
    computed = [field.name for field in place.live.fields if reads_others(field)]
    try:
        with session_settings(spark, {**MEANING_SETTINGS, **WRITING_SETTINGS, **_settings(stamp, txn)}):
            known = uncached_view(spark, place.uri, present) if checks else table
            source = guarded(rows, known, checks, fit.columns) if checks else rows
            with explained(spark, rows, known, checks):
                spark.sql(statement(table, source, mode, updates(fit, "s", "t"), on, computed)).collect()
    finally:
        for name in (view, present):
            spark.sql(f"DROP VIEW IF EXISTS {quote(name)}")


#: Settings of the statement that readers of CSV, JSON and Parquet, and Python functions, look at only when they are planned.
_READ_WHEN_PLANNED = (
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.files.ignoreCorruptFiles",
)


def _planned_as_given(data: DataFrame) -> DataFrame:
    """Return the rows as the session would show them: planned before the statement's settings are put on it, where they differ. They are
    kept on the executors' disks then, until the write is over."""
    from airflow_provider_schemamig.core.spark.session import MEANING_SETTINGS

    conf = data.sparkSession.conf
    is_alike = all(str(conf.get(name)).lower() == MEANING_SETTINGS[name].lower() for name in _READ_WHEN_PLANNED)
    return data if is_alike else data.localCheckpoint(eager=False)


def _check_log_store(spark: SparkSession, place: PinnedTable) -> None:
    from airflow_provider_schemamig.core.spark.session import LOG_STORE_CLASS

    if needs_log_store(place.store.location, place.store.options):
        require_safe_log_store(place.store)
        if spark.conf.get("spark.delta.logStore.s3a.impl", "") != LOG_STORE_CLASS:
            raise UnsafeLogStore(uri=place.uri, who="this Spark session")


def statement(table: str, rows: str, mode: Mode, columns: Mapping[str, str], on: Sequence[str], computed: Sequence[str] = ()) -> str:
    """Return the statement of a write.

    ``columns`` maps each written column to the value that a merge gives it in a row that is there, in terms of the aliases ``s`` and ``t``.
    Of those that it is ``on`` it gives only the ``computed`` ones theirs: else Delta computes them anew, and nobody compares the two.
    """
    names = ", ".join(quote(column) for column in columns)
    match mode:
        case Mode.APPEND:
            return f"INSERT INTO {table} ({names}) {rows}"
        case Mode.OVERWRITE:
            return f"INSERT OVERWRITE {table} ({names}) {rows}"
        case Mode.MERGE:
            same = " AND ".join(f"t.{quote(column)} <=> s.{quote(column)}" for column in on)
            given = {column: value for column, value in columns.items() if column not in on or column in computed}
            changed = ", ".join(f"t.{quote(column)} = {value}" for column, value in given.items())
            values = ", ".join(f"s.{quote(column)}" for column in columns)
            update = f" WHEN MATCHED THEN UPDATE SET {changed}" if changed else ""
            insert = f" WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
            return f"MERGE INTO {table} AS t USING ({rows}) AS s ON {same}{update}{insert}"


def _settings(stamp: Stamp, txn: Txn | None) -> Mapping[str, str | None]:
    """Return what marks the statement. Without a number of ours the session's own, of the program's other statements, do not count."""
    return {
        "spark.databricks.delta.commitInfo.userMetadata": stamp.text,
        "spark.databricks.delta.write.txnAppId": None if txn is None else txn.app_id,
        "spark.databricks.delta.write.txnVersion": None if txn is None else str(txn.number),
    }


# --- delta-rs ------------------------------------------------------------------------------------------------------------------------


def append_arrow(
    data: pa.Table,
    place: PinnedTable,
    fit: WriteFit,
    collection: CollectionName,
    options: Mapping[str, str],
    stamp: Stamp,
    txn: Txn | None,
    checks: Sequence[Check],
) -> None:
    """Append ``data`` to the very version that it was fitted to, or to a later one of the same metadata; exactly once by ``txn``.

    With ``checks`` to exactly that version: what others add after it has not been compared. Raises KeyViolated, NeedsSpark,
    UnsafeLogStore, and what delta-rs raises.
    """
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake

    check_appendable(place, collection)
    require_safe_log_store(place.store)
    table = DeltaTable(place.uri, version=place.head.version, storage_options=dict(options))
    written = None if txn is None else table.transaction_version(txn.app_id)
    if txn is not None and written is not None and written >= txn.number:
        return
    transactions = [] if txn is None else [Transaction(txn.app_id, txn.number)]
    rows = _filled_up(show(show(data, fit.given), fit.into), place)
    _check_partitions(rows, place, collection)
    _check_not_null(rows, place, collection)
    check_rows(rows, table, checks, options, collection, place)
    write_deltalake(
        table,
        rows,
        mode="append",
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": stamp.text}, app_transactions=transactions, max_commit_retries=0 if checks else None
        ),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
    )


def _check_partitions(rows: pa.Table, place: PinnedTable, collection: CollectionName) -> None:
    """Raise InvalidArgument for a text that no partition column keeps."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in text_partitions(place.live.declaration):
        if pc.any(pc.is_in(rows[name], pa.array(KEPT_AS_NULL))).as_py():
            raise InvalidArgument(
                collection=collection,
                what=f"a value of {name}, by which the table is partitioned,",
                given=" or ".join(map(repr, KEPT_AS_NULL)),
                rule="NULL, which Delta keeps for it, or another value",
            )


def _check_not_null(rows: pa.Table, place: PinnedTable, collection: CollectionName) -> None:
    """Raise ConstraintViolated for a NULL in a NOT NULL column: delta-rs, which refuses it too, does not say in which."""
    required = [field.name for field in place.live.fields if not field.nullable]
    for name in required:
        if nulls := rows[name].null_count:
            raise ConstraintViolated(collection=collection, condition="NOT NULL", detail=f"{nulls} row(s) have NULL in {name}")


def check_appendable(place: PinnedTable, collection: CollectionName) -> None:
    """Raise NeedsSpark for a table with a rule that delta-rs would not keep."""
    check_honest(place.head, collection, DELTA_RS_APPENDS, "appending")
    _check_expressions(place, collection)
    if (partition := not_by_delta_rs(place.live.declaration)) is not None:
        because = f"delta-rs may write other values into {partition}, by which the table is partitioned"
        raise NeedsSpark(collection=collection, doing="appending", because=because)
    for path, column in walk(place.live.fields):
        if isinstance(column.type, Primitive) and varchar_length(column.type.name) is not None:
            raise NeedsSpark(collection=collection, doing="appending", because=f"nothing would check the length of {path}")
        if "." in path and not column.nullable:
            raise NeedsSpark(collection=collection, doing="appending", because=f"nothing would check the NOT NULL of {path}")


def _check_expressions(place: PinnedTable, collection: CollectionName) -> None:
    """Raise NeedsSpark unless delta-rs reads every expression that rows are checked by as Spark does."""
    properties = place.head.properties.items()
    checks = tuple((key[len(CONSTRAINT) :], expression) for key, expression in properties if key.lower().startswith(CONSTRAINT))
    if (unlike := unlike_part(checks, place.live.fields)) is not None:
        name, part = unlike
        because = f"its engine may take {part} in the CHECK {name} for something else than Spark does"
        raise NeedsSpark(collection=collection, doing="appending", because=because)
    for path, column in fields_in(place.head.schema):
        if INVARIANT in (column.get("metadata") or {}):
            raise NeedsSpark(collection=collection, doing="appending", because=f"{path} has an invariant of its own")


def _filled_up(rows: pa.Table, place: PinnedTable) -> pa.Table:
    """Add NULL for the table's other columns: delta-rs would make their absence a change of schema."""
    import pyarrow as pa

    schema = arrow_schema(place.live.fields)
    known = set(rows.column_names)
    columns: list[Any] = [rows[f.name].cast(f.type) if f.name in known else pa.nulls(rows.num_rows, f.type) for f in schema]
    # Nullable to Arrow: a NULL where none may be is found below, or by delta-rs inside of structs.
    return pa.table(columns, schema=pa.schema([f.with_nullable(True) for f in schema]))
