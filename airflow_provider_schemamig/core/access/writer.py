"""A writer built for one release: its rows go into the table as it is, or it is fenced.

What a writer finds out is true for one version only, so everything is looked at again for every try: another commit of metadata aborts the
statement (Delta's own check), a seal refuses it, and the next try plans on what is there then. So it is with keys, which nothing on the
table enforces: each try looks which are in force, and checks them in what it commits (``guard``).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.access.arrow.rows import frame_of, plain_rows
from airflow_provider_schemamig.core.access.errors import (
    DuplicateRows,
    InvalidArgument,
    KeyViolated,
    NotForArrow,
    ShardMoving,
    UnknownColumn,
    UnusableColumns,
    WriterFenced,
    WroteOtherColumns,
)
from airflow_provider_schemamig.core.access.handle import Handle, check_names
from airflow_provider_schemamig.core.access.key_checks.guard import Check, checks_of
from airflow_provider_schemamig.core.access.read_mapping import RowsUnfit, Unfit
from airflow_provider_schemamig.core.access.resolved_table import PinnedTable, Resolution
from airflow_provider_schemamig.core.access.statement import Stamp, Txn, append_arrow, run_statement
from airflow_provider_schemamig.core.access.write_mapping import Mode, WriteFit, fit_writer
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.names import physical_path
from airflow_provider_schemamig.core.ledger.objects.nodes import NodeKind
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, CollectionName, InvalidName, Version, name_key
from airflow_provider_schemamig.core.schema.delta_json import UnknownDeltaType, fields_from_delta
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import has_map
from airflow_provider_schemamig.core.schema.paths import Fields, field_at
from airflow_provider_schemamig.core.spark.errors import BadValue, ConcurrentWrite, ConstraintViolated, QueryRefused
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: A cut-over seals for seconds, and its seal has a deadline of a minute.
SEAL_WAIT_SECONDS = 90.0
#: How delta-rs begins to say that a row breaks a CHECK or a NOT NULL.
_INVALID = "Invalid data found"
#: How often another writer may be first.
_TRIES = 8
_LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """``version``: of the table, with the rows in it; None if ``skipped``: its transaction number was in the log already."""

    shard: str
    version: int | None
    skipped: bool


class Writer(Handle):
    """Writes rows in the shape that ``release`` declares into ``collection``.

    Rows come as a Spark DataFrame (classic or Connect; its own session runs the statement) or as an Arrow table, which Spark appends if the
    writer was opened with a session, and delta-rs, without a JVM, if not. Columns go by the release's names, in any order; one that may be
    NULL or has a default may be left out. ``txn``: (application id, number), see ``Txn``.
    """

    def __init__(
        self, env: EnvironmentRoot, collection: str, release: Version | None, spark: SparkSession | None, node: str | None = None
    ) -> None:
        super().__init__(env, collection, release, spark, node, kind=NodeKind.WRITER)

    def append(self, rows: DataFrame | pa.Table, *, txn: tuple[str, int] | None = None) -> WrittenRows:
        """Add rows. Raises WriterFenced, NeedsSpark, ConstraintViolated, KeyViolated, BadValue, and conflicts that outlast all tries."""
        return self._write(rows, Mode.APPEND, (), txn)

    def merge(self, rows: DataFrame | pa.Table, on: Sequence[str], *, txn: tuple[str, int] | None = None) -> WrittenRows:
        """Update the given columns of each row that is equal in the columns ``on`` (NULL equals NULL); add all other rows.

        Raises what ``append`` does, and DuplicateRows, RowsReferredTo.
        """
        return self._write(rows, Mode.MERGE, on, txn)

    def overwrite(self, rows: DataFrame | pa.Table, *, txn: tuple[str, int] | None = None) -> WrittenRows:
        """Replace all rows."""
        return self._write(rows, Mode.OVERWRITE, (), txn)

    # -- one write --------------------------------------------------------------------------------------------------------------------

    def _write(self, rows: DataFrame | pa.Table, mode: Mode, on: Sequence[str], txn: tuple[str, int] | None) -> WrittenRows:
        import pyarrow as pa

        _check_rows(rows)
        if isinstance(rows, pa.Table) and self._spark is None and mode is not Mode.APPEND:
            raise NotForArrow(collection=self.collection, doing=mode.value)
        rows, given = self._given(rows, mode, on)
        number = None if txn is None else _checked(txn)
        for left in range(_TRIES - 1, -1, -1):
            seen = self._unsealed()
            place, fit = self._planned(seen, given)
            keys = self._keys(seen, place, fit, on)
            checks = self._checks(seen, place, fit, mode, keys)
            stamp = Stamp(fingerprint(seen.declared.shape.declaration), seen.declared.release, self.node, seen.state.config.env_id)
            try:
                self._commit(rows, place, fit, mode, keys, checks, stamp, number)
            except (ConcurrentWrite, ConstraintViolated, KeyViolated, DuplicateRows, QueryRefused) as error:
                version = _committed_version(place, fit, stamp, self.collection)  # an answer may be lost, and the error be another's
                if version is None and left and self._may_try_again(error, place):
                    time.sleep(random.uniform(0.0, _LONGEST_PAUSE_SECONDS / (left + 1)))
                    continue
                if version is None:
                    raise
            else:
                version = _committed_version(place, fit, stamp, self.collection)
            return WrittenRows(place.shard.shard, version, number is not None and version is None)
        raise AssertionError("the last try returned or raised")

    def _given(self, rows: DataFrame | pa.Table, mode: Mode, on: Sequence[str]) -> tuple[DataFrame | pa.Table, Fields]:
        """Return the rows in types that tables have, and their columns. Raises UnusableColumns, BadValue."""
        import pyarrow as pa

        names = list(rows.schema.names)
        twice = _twice(names)
        if isinstance(rows, pa.Table) and twice is None:
            rows = plain_rows(rows, self.collection, mode.value)
        try:
            given = () if twice is not None else _fields(rows)
        except UnknownDeltaType as unknown:
            nowhere = f"a column {unknown.path} of type {unknown.type_name}, which no table has"
            raise UnusableColumns(collection=self.collection, doing=mode.value, given=nowhere) from unknown
        unusable = f"two columns {twice}" if twice is not None else "rows that have no column of a type" if not given else None
        if unusable is None and mode is Mode.MERGE and not on:
            unusable = "no columns to merge on"
        if unusable is not None:
            raise UnusableColumns(collection=self.collection, doing=mode.value, given=unusable)
        return rows, given

    def _commit(
        self,
        rows: DataFrame | pa.Table,
        place: PinnedTable,
        fit: WriteFit,
        mode: Mode,
        keys: Sequence[str],
        checks: Sequence[Check],
        stamp: Stamp,
        txn: Txn | None,
    ) -> None:
        import pyarrow as pa

        spark = self._spark
        if isinstance(rows, pa.Table) and spark is None:
            with _delta_rs_errors(self._env, self.collection):
                append_arrow(rows, place, fit, self.collection, self._env.delta_options, stamp, txn, checks)
            return
        with _spark_errors(self.collection):
            if isinstance(rows, pa.Table) and spark is not None:
                rows, fit = frame_of(spark, rows, fit)
            run_statement(rows, place, fit, mode, keys, stamp, txn, checks)

    def _unsealed(self) -> Resolution:
        """Return the collection once no cut-over holds it. Raises ShardMoving if one does for too long."""
        until = time.monotonic() + SEAL_WAIT_SECONDS
        pause = 0.05
        while True:
            seen = self._look()
            if seen.place is None or seen.place.head.sealed_for is None:
                return seen
            if time.monotonic() > until:
                raise ShardMoving(collection=self.collection, seconds=SEAL_WAIT_SECONDS)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _planned(self, seen: Resolution, given: Fields) -> tuple[PinnedTable, WriteFit]:
        """Return how the rows go into the table as it is now. Raises WriterFenced."""
        declared = seen.declared
        with self._fences(seen):
            place = seen.table()
            return place, fit_writer(given, declared.shape, place.live, is_later=declared.is_later, gone=seen.gone)

    def _checks(self, seen: Resolution, place: PinnedTable, fit: WriteFit, mode: Mode, on: Sequence[str]) -> tuple[Check, ...]:
        """Return what the keys in force ask of the write. Raises WriterFenced."""
        with self._fences(seen):
            return checks_of(self._env, place, fit, mode, on)

    @contextmanager
    def _fences(self, seen: Resolution) -> Iterator[None]:
        try:
            yield
        except Unfit as unfit:
            raise WriterFenced(
                collection=self.collection,
                column=unfit.path or None,
                release=seen.declared.release,
                current=seen.declared.current,
                reason=unfit.reason,
                under_way=seen.under_way,
                left_behind=seen.is_left_behind,
                is_of_rows=isinstance(unfit, RowsUnfit),
                is_newer=isinstance(unfit, RowsUnfit) and self._is_newer(seen, unfit.path),
            ) from None

    def _is_newer(self, seen: Resolution, path: str) -> bool:
        """Return whether the environment's release declares the field, and the writer's does not."""
        if seen.place is None or field_at(seen.declared.shape.fields, path) is not None:
            return False
        return field_at(seen.place.state.entry(seen.place.shard.collection).declared.fields, path) is not None

    def _keys(self, seen: Resolution, place: PinnedTable, fit: WriteFit, on: Sequence[str]) -> list[str]:
        """Return the table's names of the columns that a merge is on. Raises UnknownColumn, WriterFenced, InvalidArgument."""
        found = []
        check_names("on", on)
        for column in on:
            name, declared = fit.column_of(column), field_at(seen.declared.shape.fields, column)
            if declared is not None and has_map(declared.type):
                raise InvalidArgument(
                    collection=self.collection, what="on", given=column, rule="columns without a MAP: Spark compares none"
                )
            if name is None and declared is not None:
                with self._fences(seen):
                    raise RowsUnfit(column, "is what the merge is on, and not among the columns of the rows")
            if name is None:
                raise UnknownColumn(collection=self.collection, release=seen.declared.release, column=column)
            with self._fences(seen):
                _check_comparable(fit, column, name)
            found.append(name)
        always = place.head.identities_always
        fixed = next((name for name in place.head.identities if on and name in fit.columns and (name not in found or name in always)), None)
        if fixed is not None:
            given = f"values of {fixed}, an identity column, which Delta {'gives itself' if fixed in always else 'updates in no row'}"
            rule = f"rows without {fixed}, whose numbers Delta makes" + ("" if fixed in always else ", or merge on it")
            raise InvalidArgument(collection=self.collection, what="rows to merge", given=given, rule=rule)
        return found

    def _may_try_again(self, error: Exception, place: PinnedTable) -> bool:
        """Return whether to try again: a conflict always; a refused row or statement only if the table changed since the try was
        planned."""
        if isinstance(error, ConcurrentWrite):
            return True
        now = self._look().place
        return (
            now is None or now.shard != place.shard or (now.head.metadata, now.head.protocol) != (place.head.metadata, place.head.protocol)
        )


def _check_comparable(fit: WriteFit, column: str, name: str) -> None:
    """Raise Unfit if the column has fields that the release lacks: the rows' values have none of them, and would never equal the
    table's."""
    stranger = next((path for path in fit.left_out if path.startswith(f"{name}.")), None)
    if stranger is not None:
        raise Unfit(column, f"cannot be merged on: the table has {stranger} in it, which the release does not")


def _check_rows(rows: object) -> None:
    import pyarrow as pa

    if not isinstance(rows, pa.Table) and not hasattr(getattr(rows, "schema", None), "json"):
        rule = "a Spark DataFrame or an Arrow table (pyarrow.Table.from_pandas, from_pylist or from_batches make one)"
        raise InvalidArgument(what="rows", given=f"a {type(rows).__name__}", rule=rule)


def _checked(txn: Any) -> Txn:
    is_pair = isinstance(txn, tuple | list) and len(txn) == 2
    if not is_pair or not isinstance(txn[0], str) or not hasattr(txn[1], "__index__"):
        raise InvalidArgument(what="txn", given=f"{txn!r}", rule="an application's name and a number: (name, number)")
    app_id, number = txn
    is_text = app_id == app_id.encode(errors="ignore").decode()
    if not app_id or not is_text or app_id.startswith(f"{RESERVED_PREFIX}:"):
        rule = f"text that can be written down, not empty, and not beginning with {RESERVED_PREFIX}:"
        raise InvalidName(kind="transaction application", name=app_id, rule=rule)
    if isinstance(number, bool) or not 0 <= number < 2**63:
        raise InvalidName(kind="transaction number", name=str(number), rule="a whole number from 0 up that fits a BIGINT")
    return Txn(app_id, number)


def _twice(names: Sequence[str]) -> str | None:
    """Return the first names that are one to Spark, or to delta-rs: also those that differ by case alone."""
    for key_of in (name_key, str.lower):
        keys = [key_of(name) for name in names]
        first = next((key for key in keys if keys.count(key) > 1), None)
        if first is not None:
            return " and ".join(dict.fromkeys(name for name, key in zip(names, keys, strict=True) if key == first))
    return None


def _fields(rows: DataFrame | pa.Table) -> Fields:
    """Return the columns of the rows, except those of type NULL: they say no more than a column that is not there. Raises
    UnknownDeltaType."""
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        from deltalake import Schema

        typed = rows.select([field.name for field in rows.schema if not pa.types.is_null(field.type)])
        return fields_from_delta(Schema.from_arrow(typed.schema).to_json())
    document = json.loads(rows.schema.json())
    document["fields"] = [field for field in document["fields"] if field["type"] != "void"]
    return fields_from_delta(json.dumps(document))


def _committed_version(place: PinnedTable, fit: WriteFit, stamp: Stamp, collection: CollectionName) -> int | None:
    """Return the version of the commit with this stamp; None if there is none: Delta skipped it. Raises WroteOtherColumns."""
    renamed = False
    for commit in commits(place.store, place.head.version):
        if commit.user_metadata == stamp.text:
            if renamed:
                _check_columns(place, fit, commit.version, collection)
            return commit.version
        renamed |= commit.metadata is not None
    return None


def _check_columns(place: PinnedTable, fit: WriteFit, version: int, collection: CollectionName) -> None:
    """Raise WroteOtherColumns if a column's name changed its column.

    A statement finds columns by name, and a change of metadata just before Spark planned it does not abort it.
    """
    before, after = place.head.schema, read_head(place.store, version).schema
    for column in fit.columns:
        if physical_path(before, column) != physical_path(after, column):
            raise WroteOtherColumns(collection=collection, column=column, version=version, uri=place.uri)


@contextmanager
def _spark_errors(collection: CollectionName) -> Iterator[None]:
    from airflow_provider_schemamig.core.spark.translate import translated

    with translated("write", collection):
        yield


@contextmanager
def _delta_rs_errors(env: EnvironmentRoot, collection: CollectionName) -> Iterator[None]:
    """Raise the errors of delta-rs as those of a write with Spark."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except BadValue as error:
        error.collection = collection
        raise
    except CommitFailedError as error:
        raise ConcurrentWrite(collection=collection, condition="delta-rs", detail=env.first_line(error)) from None
    except DeltaError as error:
        if _INVALID not in str(error):
            raise
        raise ConstraintViolated(collection=collection, condition="delta-rs", detail=env.first_line(error)) from None
