"""Why work on rows could not be done (the layer's branch of the error tree). ``translate`` makes these from Spark's exceptions."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Conflict, Refusal

# --- Spark itself --------------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class JavaMissing(Refusal):
    """Spark needs a Java it can start. ``found``: the version of the Java that is there but too old."""

    code = "java_missing"
    required: int
    found: str | None = None

    @property
    def message(self) -> str:
        have = f"the Java found is version {self.found}" if self.found else "no Java was found on PATH or in JAVA_HOME"
        return f"work on rows needs Java {self.required} or newer, and {have}."

    @property
    def next_action(self) -> str:
        return (
            f"Debian, Ubuntu: `apt-get install openjdk-{self.required}-jre-headless`; elsewhere install any OpenJDK {self.required} "
            "and point JAVA_HOME to it."
        )


@dataclass(eq=False)
class SparkJarsMissing(Refusal):
    """Delta's JARs are not where they are looked for, or are not the pinned ones."""

    code = "spark_jars_missing"
    folder: str
    names: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"{self.folder} lacks {', '.join(self.names)}, or its sha256 is not the pinned one."

    @property
    def next_action(self) -> str:
        return "Run `make setup` once (or `python -m airflow_provider_schemamig.core.spark.jars`); SCHEMAMIG_JARS names another folder."


@dataclass(eq=False)
class SparkJarsNotFetched(Conflict):
    """The one download of the project failed."""

    code = "spark_jars_not_fetched"
    reason: str

    @property
    def message(self) -> str:
        return f"Spark's Ivy could not fetch Delta's JARs: {self.reason}"

    @property
    def next_action(self) -> str:
        return "Check the network and try again; behind a mirror set spark.jars.ivySettings in spark-defaults.conf."


@dataclass(eq=False)
class SparkUnavailable(Conflict):
    """There is no usable Spark at ``where``; it may come back."""

    code = "spark_unavailable"
    where: str
    reason: str

    @property
    def message(self) -> str:
        return f"no Spark to work with at {self.where}: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Start that Spark or correct the address, then try again."


@dataclass(eq=False)
class SparkDriverDied(Conflict):
    """A driver ended without leaving a result: killed, out of memory, or never able to start. ``tail``: its last lines."""

    code = "spark_driver_died"
    has_lines = True
    job: str
    exit_code: int
    tail: str

    @property
    def message(self) -> str:
        return f"the driver of the {self.job} job ended with exit code {self.exit_code} and left no result. Its last lines:\n{self.tail}\n"

    @property
    def next_action(self) -> str:
        return "Try again: what it may have committed is found by its txn version and adopted. If it dies again, read the driver's log."


@dataclass(eq=False)
class SparkJobFailed(Refusal):
    """A job failed in a way nobody has a name for yet. ``tail``: the last lines of what Spark said."""

    code = "spark_job_failed"
    has_lines = True
    job: str
    tail: str

    @property
    def message(self) -> str:
        return f"the {self.job} job failed:\n{self.tail}\n"

    @property
    def next_action(self) -> str:
        return "Read the Spark log of the job; nothing was committed by the failed statement."


@dataclass(eq=False)
class SparkDiskFull(Refusal):
    """No more bytes fit where Spark writes: the table's storage, or the disk of a worker."""

    code = "spark_disk_full"
    reason: str

    @property
    def message(self) -> str:
        return f"Spark could not write any more: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Make room in the table's storage and on Spark's local disks, then run again: what was committed stays, and is gone on from."


# --- conflicts: another writer was first ----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class ConcurrentWrite(Conflict):
    """Delta aborted the statement because another commit touched rows it had read or written."""

    code = "concurrent_write"
    condition: str
    detail: str

    @property
    def message(self) -> str:
        return f"another writer committed first ({self.condition}): {self.detail}"

    @property
    def next_action(self) -> str:
        return "Try again; the table is as the other writer left it."


@dataclass(eq=False)
class TableMetadataChanged(ConcurrentWrite):
    """Delta aborted the statement because the table's schema, properties or protocol changed meanwhile: plan again."""

    code = "table_metadata_changed"


@dataclass(eq=False)
class ConcurrentTransaction(ConcurrentWrite):
    """Delta aborted the statement because its txn application id went on: a twin was first, or a fence landed."""

    code = "concurrent_transaction"


# --- refusals: the request, the query or the rows ------------------------------------------------------------------------------------


@dataclass(eq=False)
class FillSuperseded(Refusal):
    """Delta skipped the statement, because its txn version or a higher one of its application id is in the log, and not by this very
    statement: a successor's fence, a later fill, or a twin that went on from the same version of the source."""

    code = "fill_superseded"
    shard_uri: str
    txn_version: int

    @property
    def message(self) -> str:
        return f"Delta skipped the write to {self.shard_uri}: its log has txn version {self.txn_version} or a higher one already."

    @property
    def next_action(self) -> str:
        return "Nothing was written. A newer generation, epoch or twin wrote to this shard; `schemamig status` says which."


@dataclass(eq=False)
class _SparkRefused(Refusal):
    condition: str
    detail: str

    @property
    def message(self) -> str:
        return f"{self.detail} ({self.condition})"


@dataclass(eq=False)
class ConstraintViolated(_SparkRefused):
    """Rows break a NOT NULL, a CHECK, a length limit or the append-only rule of the table they go to."""

    code = "constraint_violated"

    @property
    def next_action(self) -> str:
        return "Change the query or the rows so that they keep the table's constraints; nothing was written."


@dataclass(eq=False)
class BadValue(_SparkRefused):
    """A value cannot be cast to the type it should have, or arithmetic on it overflows (ANSI mode)."""

    code = "bad_value"

    @property
    def next_action(self) -> str:
        return "Say in the query what such values become (try_cast, nullif, a wider type), or repair the rows; nothing was written."


@dataclass(eq=False)
class InputMissing(_SparkRefused):
    """A table, or the version of it that was asked for, is not there."""

    code = "input_missing"

    @property
    def next_action(self) -> str:
        return "Check the table's URI; if VACUUM took the version, run preflight again, which reads a current one."


@dataclass(eq=False)
class SourceVacuumed(InputMissing):
    """Files of an older version, or that version itself, are gone by VACUUM or retention."""

    code = "source_vacuumed"

    @property
    def next_action(self) -> str:
        return (
            "VACUUM took rows that were still to be read: the copy must start anew, so run preflight again. "
            "Where that happens often, `schemamig pin` keeps the table's files for longer."
        )


@dataclass(eq=False)
class ChangeDataMissing(_SparkRefused):
    """The change data feed does not reach over the versions that were asked for: it was off for some, or the schema changed."""

    code = "change_data_missing"

    @property
    def next_action(self) -> str:
        return "The copy must start anew: run preflight again. Leave delta.enableChangeDataFeed as it is until the upgrade is done."


@dataclass(eq=False)
class TargetDiverged(Refusal):
    """Rows to be removed from a copy are not in it, so it is not what it was thought to be. ``rows``: how many kinds of rows."""

    code = "target_diverged"
    uri: str
    version: int
    rows: int

    @property
    def message(self) -> str:
        return f"{self.uri} (version {self.version}) lacks {self.rows} row(s) that the changes of its source remove; nothing was written."

    @property
    def next_action(self) -> str:
        return "Somebody else wrote to the new shard, or its query is not deterministic: the copy must start anew, so run preflight again."


@dataclass(eq=False)
class DuplicateKeys(Refusal):
    """Changed rows, or those and the rows they come to, have a key more than once, so it cannot tell which row is meant."""

    code = "duplicate_keys"
    columns: tuple[str, ...]
    rows: int

    @property
    def message(self) -> str:
        return f"{self.rows:,} rows have a key ({', '.join(self.columns)}) that another one has, too; nothing was written."

    @property
    def next_action(self) -> str:
        return "Make the key unique again, or mend the query that yields it; a stream that stopped is then restored."


@dataclass(eq=False)
class QueryRefused(_SparkRefused):
    """Spark cannot parse or analyse the statement: unknown column, type mismatch, syntax."""

    code = "query_refused"

    @property
    def next_action(self) -> str:
        return "Mend the query or the expression in the release and run `schemamig check`; nothing was written."
