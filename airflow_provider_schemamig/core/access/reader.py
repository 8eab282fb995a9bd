"""A reader built for one release, which goes on through upgrades or is fenced, and never returns wrong rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.access.arrow.read import check_honest, check_readable, show
from airflow_provider_schemamig.core.access.arrow.times import check_times
from airflow_provider_schemamig.core.access.errors import NeedsSpark, ReaderFenced, UnknownColumn
from airflow_provider_schemamig.core.access.field_ids import Shape
from airflow_provider_schemamig.core.access.handle import Handle, check_names
from airflow_provider_schemamig.core.access.preview import preview
from airflow_provider_schemamig.core.access.read_mapping import Fit, Unfit, fit_reader, only
from airflow_provider_schemamig.core.access.releases import Declared
from airflow_provider_schemamig.core.access.resolved_table import PinnedTable, Resolution
from airflow_provider_schemamig.core.access.select import apart, select, version_sql
from airflow_provider_schemamig.core.access.session_check import check_reads
from airflow_provider_schemamig.core.ledger.objects.nodes import NodeKind
from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.schema.clauses import readers_of
from airflow_provider_schemamig.core.schema.delta_rules.table_features import DELTA_RS_READS
from airflow_provider_schemamig.core.schema.model import Field
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: What Spark calls the zone in which handles write.
_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
#: How delta-rs ends its words on a file that has a struct of the table with other fields only.
_NOTHING_IN_COMMON = "no field name overlap"


@dataclass(frozen=True, slots=True)
class PinnedRead:
    """What one call reads: version ``version`` of ``shard``, in Spark by ``query``. ``fit`` is None for a preview: only Spark runs it."""

    shard: str
    version: int
    query: str
    fit: Fit | None
    place: PinnedTable

    def query_in(self, zone: str) -> str:
        """Return the query for a session in this time zone.

        Delta makes of a filter on a TIMESTAMP one on a partition that is generated from it, in the session's zone; our writers have
        computed that in UTC.
        """
        zoned = {field.name for field in self.place.live.fields if self._makes_partitions(field)} if zone not in _UTC else set()
        if self.fit is None or zoned.isdisjoint(field.name for field in self.fit.source.fields):
            return self.query
        return select(self.fit, apart(version_sql(self.place.uri, self.version), self.fit.source.fields, zoned))

    def _makes_partitions(self, field: Field) -> bool:
        """Return whether a partition column is generated from the column, by what a TIMESTAMP in it is in the session's zone."""
        partitions = self.place.head.metadata.get("partitionColumns") or ()
        return "TIMESTAMP" in type_sql(field.type).replace("TIMESTAMP_NTZ", "") and any(
            reader.name in partitions for _, reader in readers_of(self.place.live.fields, field.name)
        )


class Reader(Handle):
    """Reads ``collection`` in the shape that ``release`` declares.

    Each call looks anew, pins a version, and is checked against that as a whole before a row is returned.
    """

    def __init__(
        self, env: EnvironmentRoot, collection: str, release: Version | None, spark: SparkSession | None, node: str | None = None
    ) -> None:
        self._version: int | None = None
        super().__init__(env, collection, release, spark, node, kind=NodeKind.READER)

    @property
    def version(self) -> int | None:
        """Return the table version that the last call read; None before the first."""
        return self._version

    def df(self, columns: Sequence[str] | None = None) -> DataFrame:
        """Return the rows as a Spark DataFrame (classic or Connect, as the session is), lazily read at the pinned version.

        ``columns``: names that the release declares, top level, in this order; default: all, in the release's order. What is left out
        cannot fence. Raises ReaderFenced, UnknownColumn, UnknownRelease, NotInRelease, OtherMeaning, and the errors of
        ``core.spark.errors``.
        """
        from airflow_provider_schemamig.core.spark.translate import translated

        pinned = self.pin(columns)
        with translated("read", self.collection):
            session = self._session()
            check_reads(session, self.collection)
            return session.sql(pinned.query_in(str(session.conf.get("spark.sql.session.timeZone"))))

    def arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows as an Arrow table, read by delta-rs without a JVM: the same columns, types and rows as ``df``.

        Raises what ``df`` raises, and NeedsSpark for a table that delta-rs would not read rightly: type widening, say, a TIMESTAMP that may
        lie outside 1900 to 2261 in a file that Spark wrote as it does by default, or a DATE that may be of Spark 2's calendar.
        """
        import pyarrow as pa
        from deltalake import DeltaTable

        seen = self._look()
        if seen.is_preview:
            raise NeedsSpark(collection=self.collection, doing="reading", because="the preview of a rewrite is a query")
        pinned = self._pinned(seen, columns)
        fit, place = pinned.fit, pinned.place
        assert fit is not None, "a preview was refused above"
        check_honest(place.head, self.collection, DELTA_RS_READS, "reading")
        check_readable(fit, self.collection)
        check_times(place.store, place.head, fit.source.fields, self.collection, "reading")
        table = DeltaTable(place.uri, version=pinned.version, storage_options=self._env.delta_options)
        names = [field.name for field in fit.source.fields]
        try:
            # A table's first column stands in where none is needed: rows have to be counted all the same.
            rows = pa.table(table.scan(columns=names or [place.live.fields[0].name]))
        except pa.ArrowInvalid as error:
            if _NOTHING_IN_COMMON not in str(error):
                raise
            because = "a file has none of the fields that a struct of the table has now, which delta-rs cannot show as NULL"
            raise NeedsSpark(collection=self.collection, doing="reading", because=because) from None
        return show(rows, fit)

    def pin(self, columns: Sequence[str] | None = None) -> PinnedRead:
        """Look at ledger and table, and say how the pinned version is to be shown. Raises as ``df``; reads no row.

        Only the preview of a rewrite starts a JVM: its query is judged by the session that will run it.
        """
        return self._pinned(self._look(), columns)

    def _pinned(self, seen: Resolution, columns: Sequence[str] | None) -> PinnedRead:
        wanted = self._only(seen.declared, columns)
        try:
            pinned = self._preview(seen, wanted) if seen.is_preview else self._shown(seen, wanted)
        except Unfit as unfit:
            raise ReaderFenced(
                collection=self.collection,
                column=unfit.path or None,
                release=seen.declared.release,
                current=seen.declared.current,
                reason=unfit.reason,
                under_way=seen.under_way,
                left_behind=seen.is_left_behind,
            ) from None
        self._version = pinned.version
        return pinned

    def _only(self, declared: Declared, columns: Sequence[str] | None) -> Shape:
        if columns is not None:
            check_names("columns", columns)
        try:
            return only(declared.shape, columns)
        except KeyError as missing:
            raise UnknownColumn(collection=self.collection, release=declared.release, column=missing.args[0]) from None

    def _shown(self, seen: Resolution, wanted: Shape) -> PinnedRead:
        place = seen.table()
        declared = seen.declared
        is_later, lacking = declared.is_later, declared.lacking
        fit = fit_reader(place.live, wanted, place.evidence(), is_later=is_later, lacking=lacking, gone=seen.gone)
        query = select(fit, version_sql(place.uri, place.head.version))
        return PinnedRead(place.shard.shard, place.head.version, query, fit, place)

    def _preview(self, seen: Resolution, wanted: Shape) -> PinnedRead:
        place, planned = seen.place, seen.declared.planned
        if place is None or planned is None:
            raise Unfit("", "has no table to be previewed from")
        query = preview(self._env, seen.state, planned, place, wanted, self._session())
        return PinnedRead(place.shard.shard, place.head.version, query, None, place)

    def _session(self) -> SparkSession:
        if self._spark is None:
            self._spark = own_session(self._env)
        return self._spark


def own_session(env: EnvironmentRoot) -> SparkSession:
    """Return a session of this process' embedded Spark that reaches the environment's storage as long as it lives: reads are lazy.

    Raises JavaMissing, SparkJarsMissing, SparkUnavailable.
    """
    from airflow_provider_schemamig.core.spark.session import embedded_session, with_meaning
    from airflow_provider_schemamig.core.spark.storage_access import hadoop_settings

    session = with_meaning(embedded_session().newSession())
    for name, value in hadoop_settings(env.options).items():
        session.conf.set(name, value)
    return session
