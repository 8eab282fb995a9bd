"""Bring the changes of one table, as a query shows them, into another table: one statement, exactly once.

Request: ``target_uri``, ``storage_options``, ``query`` (row-local, deterministic Spark SQL over ``source_view`` and the views in
``inputs``), ``source_view``, ``projection`` (select list that gives the source's changed rows the shape the query expects), ``inputs``
{view: {"uri", "version", "projection"}} (lookups), ``columns`` (of the target, filled by name from the query's), ``match`` (key columns of
the target; empty: whole rows), ``source`` (with ``match``: the source's ``uri``, and its ``version`` with all of the changes), ``updates``
(optional, with ``match``: {column: what a row that is there gets in it, of the aliases ``s`` for what comes and ``t`` for that row};
of other columns what comes), ``inserts`` (optional: the same for a row that is not there, of ``s``), ``filled`` (optional: the one column
of the target that the changes gave values, see below), ``txn_app_id``, ``txn_version``, ``user_metadata`` (a JSON object as text),
``collection`` (optional, for errors), ``text_partitions`` (optional: see ``kept_text``), ``identities`` (optional, with ``match``: the
target's identity columns, of which Delta updates none: a row whose value is another one then is BadValue), ``must_match`` (optional, with
``match``: a key that went is one of the target's, see below), ``forward`` (optional, with ``must_match``: what makes rows of the source of
rows of the target: ``query`` over ``source_view``, ``projection``, ``inputs`` and ``columns`` as above; ``made_at``, the version of the
target that they were made of, or null; ``there`` and ``back``: that ``query`` and the request's over a source that has
``schemamig__made_of`` as its first column, and the ``column`` in which they keep it), and ``changes``:

- {"kind": "cdf", "uri", "from", "to"}: the change data feed of these versions, both included;
- {"kind": "files", "added", "removed"}: URIs of tables (version 0, see ``core/delta/commit/scratch``) of the rows that came and went,
  or null.

Result: ``table_version`` (null: the net change is empty and there is no commit), ``inserted`` and ``deleted`` rows of the net change,
``delta`` (its digest: that of the inserted minus that of the deleted rows), ``skipped`` (this very statement was in the log already; the
rest is what it noted down), ``seconds``.

The *net change* counts whole rows in the target's shape: plus one for each that came, minus one for each that went. What happened in
between does not matter, so neither a key nor an order of commits is needed, and NULLs and duplicates count right. Without ``match`` the
target must be equal to the query over the source as it was; rows to be removed that are not there are
TargetDiverged. With it a key that only lost rows is deleted, another is updated or inserted; DuplicateKeys if it would stand for two rows:
of the changes, or of the source, when only one of them is new and the target has the other. With ``must_match`` it is TargetDiverged if
the target does not have a key that went, with ``forward`` also if its row is not the one that the source's was made of (``gone_keys``);
and DuplicateKeys if it has one that only came.

With ``filled`` no row comes or goes: the rows of the target that ``match`` finds, else the values of all other columns, get the one value,
where they have the value that the source's row had before; rows that are not there, or have another one, are left alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.schema.sql import kept_text
from airflow_provider_schemamig.core.spark.errors import BadValue, DuplicateKeys, TargetDiverged
from airflow_provider_schemamig.core.spark.storage_access import storage_access
from airflow_provider_schemamig.core.spark.translate import translated
from airflow_provider_schemamig.core.spark.uncached import uncached_view
from spark_jobs import gone_keys, keyed_change, net_change
from spark_jobs.delta_tables import PRESENT, newest_version, register_input, table_sql, temporary_views
from spark_jobs.keyed_change import IS_NEW, N_CAME, N_WENT, KeyedChange, RowsByKey, keyed_change_of
from spark_jobs.net_change import COUNT, NET, ChangedRows, NetChange, changed_rows, net_change_of
from spark_jobs.row_values import equal_by, same_by, same_key, same_row, select_as, type_sql
from spark_jobs.transactions import Written, write_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

_KEYED = "schemamig__keyed"
_DELETE, _HAVE = keyed_change.DELETE, "schemamig__have"
_LEFT, _ONE, _AFTER = "schemamig__left", "schemamig__one", "schemamig__after"
_IS_THERE = "schemamig: a key that came is there already"
_IS_FIXED = "the row has another value of an identity column now, and Delta updates none: set the old one, or add the row anew"
_IS_MISSING = "schemamig: a row that goes is not there"


def run(spark: SparkSession, request: Mapping[str, Any]) -> dict[str, Any]:
    """Apply one range of changes; see the module for request and result."""
    started = time.monotonic()
    views = [*request["inputs"], request["source_view"], *net_change.VIEWS, *keyed_change.VIEWS, _KEYED]
    views += [*gone_keys.views_of(request), PRESENT]
    with storage_access(spark, request.get("storage_options", {})), temporary_views(spark, views):
        for view, source in request["inputs"].items():
            register_input(spark, view, source)
        rows = changed_rows(spark, request)
        change = (None if request.get("filled") else keyed_change_of(spark, request, rows)) or net_change_of(spark, request, rows)
        outcome = {"inserted": change.inserted, "deleted": change.deleted, "delta": change.digest.to_json()}
        written = None
        if not change.empty:
            written = _write(spark, request, change, {"applied": outcome})
    return {
        "table_version": None if written is None else written.version,
        **(outcome if written is None else written.notes["applied"]),
        "skipped": written is not None and written.skipped,
        "seconds": round(time.monotonic() - started, 3),
    }


def _write(spark: SparkSession, request: Mapping[str, Any], change: KeyedChange | NetChange, notes: Mapping[str, Any]) -> Written:
    target = table_sql(request["target_uri"])
    if request.get("filled"):
        assert isinstance(change, NetChange)
        return write_once(spark, request["target_uri"], _fill(target, change, request["filled"]), request, notes)
    if request["match"]:
        return _write_by_key(spark, request, target, change, notes)
    assert isinstance(change, NetChange)
    if not change.deleted:
        rows = f"SELECT {change.rows.columns} FROM {_copies(NET, COUNT)}"
        statement = f"INSERT INTO {target} ({change.rows.columns}) SELECT {', '.join(_inserted(request, change))} FROM ({rows}) s"
        return write_once(spark, request["target_uri"], statement, request, notes)
    return _write_by_row(spark, request, target, change, notes)


def _copies(view: str, number: str, where: str = "true") -> str:
    """Repeat each row ``number`` times. It is left out if that is not positive."""
    return f"{view} LATERAL VIEW explode(array_repeat(0, CAST({number} AS INT))) schemamig__copies AS schemamig__copy WHERE {where}"


def _fill(target: str, change: NetChange, column: str) -> str:
    """Return the MERGE that gives rows their value of ``column``. Rows that were alike in all the rest got one value."""
    key, others = ([field for field in fields if field.name != column] for fields in (change.rows.key, change.rows.fields))
    filled = [field for field in change.rows.fields if field.name == column]
    name, same, others = quote(column), same_key if key else same_row, key or others
    grouped = ", ".join(value for f in [*others, *filled] for value in same_by(f"w.{quote(f.name)}", f.dataType))
    taken = ", ".join(f"first(w.{quote(f.name)}) AS {quote(f.name)}" for f in [*others, *filled])
    source = (
        f"SELECT {taken}, first(c.{name}) AS {_AFTER} FROM {NET} w JOIN {NET} c ON w.{COUNT} < 0 AND c.{COUNT} > 0 "
        f"AND {same(others, 'w', 'c')} GROUP BY {grouped}"
    )
    on = " AND ".join([same(others, "t", "s"), same_row(filled, "t", "s"), *change.bounds("t")])
    return f"MERGE INTO {target} t USING ({source}) s ON {on} WHEN MATCHED THEN UPDATE SET t.{name} = s.{_AFTER}"


# --- whole rows ----------------------------------------------------------------------------------------------------------------------


def _beyond(spark: SparkSession, target: str, rows: ChangedRows) -> Sequence[str]:
    """Return the target's columns of which the changes know nothing."""
    known = {field.name for field in rows.fields}
    return [quote(name) for name in spark.sql(f"SELECT * FROM {target}").columns if name not in known]


def _write_by_row(spark: SparkSession, request: Mapping[str, Any], target: str, change: NetChange, notes: Mapping[str, Any]) -> Written:
    """Write changes in which rows go, by whole rows. Raises TargetDiverged.

    Equal rows cannot be told apart, so all of them go and what is left over comes back. The statement itself counts them, because Delta
    answers for what a statement reads, and for nothing that was read before it.
    """
    beyond, present = _beyond(spark, target, change.rows), uncached_view(spark, request["target_uri"], PRESENT)
    try:
        with translated("apply"):
            return write_once(spark, request["target_uri"], _by_row(request, target, present, change, beyond), request, notes)
    except BadValue as error:
        if _IS_MISSING not in error.detail:
            raise
    version = newest_version(spark, target)
    (row,) = spark.sql(f"SELECT count_if({_HAVE} < 0) AS missing FROM ({_equal_rows(present, change)})").collect()
    raise TargetDiverged(uri=request["target_uri"], version=version, rows=max(1, int(row["missing"])))


def _equal_rows(present: str, change: NetChange, beyond: Sequence[str] = (), *, fails: bool = False) -> str:
    """Return a query of the kinds of rows that go, with how many of each the target has left then (``_HAVE``; negative: it has too few).

    ``_LEFT``: the values that those have in the columns ``beyond`` those of the changes. ``fails``: it says ``_IS_MISSING`` of too few.
    """
    fields = change.rows.fields
    on = " AND ".join([f"n.{COUNT} < 0", same_row(fields, "t", "n"), *change.bounds("t")])
    columns, more = ", ".join(f"n.{quote(f.name)}" for f in fields), ", ".join(f"t.{name}" for name in beyond)
    nothing, those = (f", NULL AS {_LEFT}", f", struct({more})") if beyond else ("", "")
    gone = f"SELECT {columns}, n.{COUNT}{nothing} FROM {NET} n WHERE n.{COUNT} < 0"
    there = f"SELECT {columns}, 1L{those} FROM {present} t JOIN {NET} n ON {on}"  # an outer join would not send the few to the many
    have = f"IF(sum({COUNT}) < 0, CAST(raise_error('{_IS_MISSING}') AS BIGINT), sum({COUNT}))" if fails else f"sum({COUNT})"
    left = f", slice(collect_list({_LEFT}), 1, CAST({have} AS INT)) AS {_LEFT}" if beyond else ""
    rows = ", ".join(f"first({quote(f.name)}) AS {quote(f.name)}" for f in fields)
    values = ", ".join(value for f in fields for value in same_by(quote(f.name), f.dataType))
    return f"SELECT {rows}, {have} AS {_HAVE}{left} FROM ({gone} UNION ALL {there}) GROUP BY {values}"


def _by_row(request: Mapping[str, Any], target: str, present: str, change: NetChange, beyond: Sequence[str]) -> str:
    """Return the MERGE by whole rows. It fails, and says ``_IS_MISSING``, if the target has too few of a kind that goes."""
    columns = change.rows.columns
    nothing = f", NULL AS {_LEFT}" if beyond else ""
    parts = [f"SELECT {columns}, true AS {_DELETE}{nothing} FROM {NET} WHERE {COUNT} < 0"]
    if change.inserted:
        came = f"SELECT {columns} FROM {_copies(NET, COUNT, f'{COUNT} > 0')}"
        parts.append(f"SELECT {', '.join(_inserted(request, change))}, false{nothing} FROM ({came}) s")
    kinds = f"({_equal_rows(present, change, beyond, fails=True)})"
    if beyond:
        parts.append(f"SELECT {columns}, false, {_ONE} FROM {kinds} LATERAL VIEW explode({_LEFT}) schemamig__rows AS {_ONE}")
    else:
        parts.append(f"SELECT {columns}, false FROM {_copies(kinds, _HAVE)}")
    values, both = ", ".join(f"s.{quote(f.name)}" for f in change.rows.fields), ", ".join([columns, *beyond])
    more = ", ".join(f"s.{_LEFT}.{name}" for name in beyond)
    again = f"WHEN NOT MATCHED AND s.{_LEFT} IS NOT NULL THEN INSERT ({both}) VALUES ({values}, {more}) " if beyond else ""
    on = " AND ".join([f"s.{_DELETE}", same_row(change.rows.fields, "t", "s"), *change.bounds("t")])
    return (
        f"MERGE INTO {target} t USING ({' UNION ALL '.join(parts)}) s ON {on} "
        f"WHEN MATCHED THEN DELETE {again}WHEN NOT MATCHED AND NOT s.{_DELETE} THEN INSERT ({columns}) VALUES ({values})"
    )


# --- rows by their key ---------------------------------------------------------------------------------------------------------------


def _write_by_key(
    spark: SparkSession, request: Mapping[str, Any], target: str, change: KeyedChange | NetChange, notes: Mapping[str, Any]
) -> Written:
    """Write the changes by key. Raises DuplicateKeys, TargetDiverged."""
    by_key = change.rows_by_key if isinstance(change, KeyedChange) else _one_a_key(spark, request, change)
    if request.get("forward") and change.deleted:
        gone_keys.check_gone(spark, request, change, by_key.gone_keys)
    for guarded in (True, False) if by_key.has_new else (False,):
        try:
            with translated("apply"):
                statement = _merge_by_key(request, target, change, by_key, guarded=guarded)
                return write_once(spark, request["target_uri"], statement, request, notes)
        except BadValue as error:
            if _IS_MISSING in error.detail:
                break
            if not guarded or _IS_THERE not in error.detail:
                raise
        _check_source(spark, request, change.rows, by_key.new_keys)
        if request.get("must_match"):
            raise DuplicateKeys(columns=tuple(request["match"]), rows=_count_there(spark, request, change.rows, by_key.new_keys))
    version, on = newest_version(spark, target), same_key(change.rows.key, "t", "s")
    present = uncached_view(spark, request["target_uri"], PRESENT)
    (row,) = spark.sql(f"SELECT count(*) AS n FROM ({by_key.source}) s LEFT ANTI JOIN {present} t ON {on} WHERE NOT s.{IS_NEW}").collect()
    raise TargetDiverged(uri=request["target_uri"], version=version, rows=max(1, int(row["n"])))


def _one_a_key(spark: SparkSession, request: Mapping[str, Any], change: NetChange) -> RowsByKey:
    """Return the changes with one row a key. Raises DuplicateKeys."""
    keys = ", ".join(equal_by(quote(f.name), f.dataType) for f in change.rows.key)
    spark.sql(
        f"CACHE LAZY TABLE {_KEYED} AS SELECT max_by(struct({change.rows.columns}), {COUNT}) AS r, max({COUNT}) < 0 AS {_DELETE}, "
        f"min({COUNT}) > 0 AS {IS_NEW}, sum(greatest({COUNT}, 0)) AS {N_CAME}, sum(greatest(-{COUNT}, 0)) AS {N_WENT} FROM {NET} "
        f"GROUP BY {keys}"
    )
    counted = f"coalesce(sum({N_CAME}) FILTER (WHERE {N_CAME} > 1), 0) AS ambiguous, count_if({IS_NEW}) AS new"
    (row,) = spark.sql(f"SELECT {counted} FROM {_KEYED}").collect()
    if row["ambiguous"]:
        raise DuplicateKeys(columns=tuple(request["match"]), rows=int(row["ambiguous"]))
    names = ", ".join(f"r.{quote(f.name)}" for f in change.rows.key)
    return RowsByKey(
        source=f"SELECT r.*, {_DELETE}, {IS_NEW} FROM {_KEYED}",
        has_deletes=True,
        has_new=bool(row["new"]),
        new_keys=f"SELECT {names} FROM {_KEYED} WHERE {IS_NEW}",
        gone_keys=f"SELECT {names}, {N_CAME}, {N_WENT} FROM {_KEYED} WHERE NOT {IS_NEW}",
    )


def _check_source(spark: SparkSession, request: Mapping[str, Any], rows: ChangedRows, new_keys: str) -> None:
    """Raise DuplicateKeys if the source has several rows of a key that only came.

    Else the row that is there is not of the source, but another writer's, and makes way; with ``must_match`` nothing does.
    """
    keys = ", ".join(equal_by(f"q.{quote(f.name)}", f.dataType) for f in rows.key)
    register_input(spark, request["source_view"], {**request["source"], "projection": request["projection"]})
    query, same = select_as(spark, request["query"], rows.key), same_key(rows.key, "q", "k")
    (row,) = spark.sql(
        f"SELECT coalesce(sum(n), 0) AS n FROM (SELECT count(*) AS n FROM ({query}) q LEFT SEMI JOIN ({new_keys}) k ON {same} "
        f"GROUP BY {keys} HAVING count(*) > 1)"
    ).collect()
    if row["n"]:
        raise DuplicateKeys(columns=tuple(request["match"]), rows=int(row["n"]))


def _count_there(spark: SparkSession, request: Mapping[str, Any], rows: ChangedRows, keys: str) -> int:
    """Return how many rows of the target have one of the keys."""
    present = uncached_view(spark, request["target_uri"], PRESENT)
    (row,) = spark.sql(f"SELECT count(*) AS n FROM {present} t LEFT SEMI JOIN ({keys}) k ON {same_key(rows.key, 't', 'k')}").collect()
    return int(row["n"])


def _merge_by_key(
    request: Mapping[str, Any], target: str, change: KeyedChange | NetChange, by_key: RowsByKey, *, guarded: bool = False
) -> str:
    """Return the MERGE by key.

    With ``must_match`` it fails, and says ``_IS_MISSING``, if the target lacks a key that is not new. ``guarded``: it fails, and says
    ``_IS_THERE``, if the target has one that is. So nobody has to look at the target before.
    """
    rows, updates, must_match = change.rows, request.get("updates", {}), bool(request.get("must_match"))
    on = " AND ".join([same_key(rows.key, "t", "s"), *change.bounds("t")])
    fixed = [f for f in rows.fields if f.name in request.get("identities", ())]
    updated = [f for f in rows.fields if f not in fixed]
    assignments = ""
    if updated:
        fails = {_IS_THERE: f"s.{IS_NEW}"} if guarded else {}
        if fixed:
            fails[_IS_FIXED] = " OR ".join(f"NOT t.{quote(f.name)} <=> {updates.get(f.name, f's.{quote(f.name)}')}" for f in fixed)
        values = _failing(updated, [_kept(request, f.name, updates.get(f.name, f"s.{quote(f.name)}")) for f in updated], fails)
        assignments = ", ".join(f"t.{quote(f.name)} = {value}" for f, value in zip(updated, values, strict=True))
    inserted = _failing(rows.fields, _inserted(request, change), {_IS_MISSING: f"NOT s.{IS_NEW}"} if must_match else {})
    return (
        f"MERGE INTO {target} t USING ({by_key.source}) s ON {on} "
        f"{f'WHEN MATCHED AND s.{_DELETE} THEN DELETE ' if by_key.has_deletes else ''}"
        f"{f'WHEN MATCHED THEN UPDATE SET {assignments} ' if assignments else ''}"
        f"WHEN NOT MATCHED{f' AND NOT s.{_DELETE}' if by_key.has_deletes and not must_match else ''} "
        f"THEN INSERT ({rows.columns}) VALUES ({', '.join(inserted)})"
    )


def _failing(fields: Sequence[StructField], values: Sequence[str], fails: Mapping[str, str]) -> Sequence[str]:
    """Return a clause's values for the fields. The first of them raises each text where its condition is true.

    That is no condition of the clause: of those some are evaluated for rows that match nothing, too.
    """
    first, others = values[0], values[1:]
    for text, when in fails.items():
        first = f"IF({when}, CAST(raise_error('{text}') AS {type_sql(fields[0].dataType)}), {first})"
    return [first, *others]


def _inserted(request: Mapping[str, Any], change: KeyedChange | NetChange) -> Sequence[str]:
    inserts = request.get("inserts", {})
    return [_kept(request, f.name, inserts.get(f.name, f"s.{quote(f.name)}")) for f in change.rows.fields]


def _kept(request: Mapping[str, Any], column: str, value: str) -> str:
    """Return the value, failing for a text that Spark would write NULL for: of rows that are written, not of those that came and went."""
    return kept_text(column, value) if column in request.get("text_partitions", ()) else value
