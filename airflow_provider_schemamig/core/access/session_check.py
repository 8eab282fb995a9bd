"""Whether a program's own Spark session shows a table's rows as they are: its settings are read when it reads, which may be later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.exceptions import Refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: By these a session takes what VACUUM took for no rows, times in files of other writers for other ones, and names for patterns.
_READ_BY = (
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.parquet.int96TimestampConversion",
    "spark.sql.parser.quotedRegexColumnNames",
)


class OtherMeaning(Refusal):
    """The reader's session would show other rows than the table has, or than the rewrite of a preview makes of them."""

    code = "other_meaning"
    message = "the session has {setting} = {found}; with anything but {wanted} it may show other rows."
    next_action = "SET {setting} = {wanted} on the session (`spark.newSession()` has settings of its own), or leave out `spark=`."
    setting: str
    found: str
    wanted: str


def check_reads(spark: SparkSession, collection: CollectionName) -> None:
    """Raise OtherMeaning for a session that may show other rows than a table has."""
    _check(spark, collection, _READ_BY)


def check_meaning(spark: SparkSession, collection: CollectionName, query: str) -> None:
    """Raise OtherMeaning if ``query`` may mean something else on this session than in a rewrite."""
    from airflow_provider_schemamig.core.spark.session import MEANING_SETTINGS, SUBSTITUTES

    # Of substitution Spark's default is another one, and nothing depends on it.
    _check(spark, collection, (setting for setting in MEANING_SETTINGS if setting != SUBSTITUTES or "${" in query))


def _check(spark: SparkSession, collection: CollectionName, settings: Iterable[str]) -> None:
    from airflow_provider_schemamig.core.spark.session import MEANING_SETTINGS

    for setting in settings:
        found, wanted = spark.conf.get(setting, None) or "", MEANING_SETTINGS[setting]
        if found.lower() != wanted.lower():
            raise OtherMeaning(collection=collection, setting=setting, found=found, wanted=wanted)
