"""Why work on rows could not be done (the layer's branch of the error tree). ``translate`` makes these from Spark's exceptions."""

from __future__ import annotations

from airflow_provider_schemamig.core.schema.delta_rules.table_features import CHANGE_DATA_FEED
from airflow_provider_schemamig.exceptions import Conflict, Refusal

# --- Spark itself --------------------------------------------------------------------------------------------------------------------


class JavaMissing(Refusal):
    """Spark needs a Java it can start. ``found``: the version of the Java that is there but too old."""

    code = "java_missing"
    next_action = (
        "Debian, Ubuntu: `apt-get install openjdk-{required}-jre-headless`; elsewhere install any OpenJDK {required} and point JAVA_HOME "
        "to it."
    )
    required: int
    found: str | None = None

    @property
    def message(self) -> str:
        have = f"the Java found is version {self.found}" if self.found else "no Java was found on PATH or in JAVA_HOME"
        return f"work on rows needs Java {self.required} or newer, and {have}."


class PysparkMissing(Refusal):
    """Work on rows was asked for, and the package was installed without its extra."""

    code = "pyspark_missing"
    message = "work on rows needs pyspark, which is not installed."
    next_action = "Run `pip install 'airflow-provider-schemamig[spark]'`, then `schemamig jars --fetch`; only rows need it, schemas do not."


class SparkJarsMissing(Refusal):
    """The JARs are not where they are looked for."""

    code = "spark_jars_missing"
    message = "work on rows needs Delta's JARs and schemamig's, and {folder} lacks {names}."
    next_action = "Run `schemamig jars --fetch` once, with a network; where they lie already, name that folder in SCHEMAMIG_JARS."
    folder: str
    names: tuple[str, ...]


class SparkJarsDiffer(Refusal):
    """The fetched JARs are not the pinned ones."""

    code = "spark_jars_differ"
    message = "The downloaded {names} do not have the expected sha256 and were deleted."
    next_action = "Ask who keeps the mirror that Spark's Ivy reads (spark.jars.ivySettings), then run `schemamig jars --fetch` again."
    names: tuple[str, ...]


class SparkJarsNotStored(Refusal):
    """The folder of the JARs cannot be written."""

    code = "spark_jars_not_stored"
    message = "Delta's JARs could not be put into {folder}: {reason}."
    next_action = (
        "Name a folder that you may write in SCHEMAMIG_JARS, here and wherever schemamig runs, then run `schemamig jars --fetch` again."
    )
    folder: str
    reason: str


class SparkJarsNotFetched(Conflict):
    """The one download of the project failed."""

    code = "spark_jars_not_fetched"
    message = "Spark's Ivy could not fetch Delta's JARs: {reason}"
    next_action = (
        "Check the network and try again; behind a mirror set spark.jars.ivySettings in spark-defaults.conf, without a network copy the "
        "folder that `schemamig jars` names from another machine."
    )
    reason: str


class LogStoreNotBuilt(Refusal):
    """The package has no compiled LogStore: it is a clone, or was installed in place."""

    code = "log_store_not_built"
    message = "{name}, the LogStore for S3, is not in this installation, which is a clone of the source."
    next_action = "Run `make setup` in the clone, which compiles it; wheels and sdists bring it along."
    name: str


class S3ConnectorMissing(Refusal):
    """Spark has no S3A: its connector comes with no pyspark."""

    code = "s3_connector_missing"
    message = "Spark cannot read s3:// without Hadoop's connector, which it does not have ({missing})."
    next_action = (
        "Give it hadoop-aws of its Hadoop's version and the AWS SDK, for Spark 4.2 `--spark-conf spark.jars.packages="
        "org.apache.hadoop:hadoop-aws:3.5.0,software.amazon.awssdk:bundle:2.35.4` (690 MB), or the JARs by `--spark-jars`; "
        "docs/object-stores.md has the ways."
    )
    missing: str


class SparkSettingUnusable(Refusal):
    """A setting of the user's own that cannot go to Spark."""

    code = "spark_setting_unusable"
    message = "the Spark setting {setting} cannot be used: {reason}."
    next_action = (
        "Give settings as NAME=VALUE with Spark's names; credentials belong into the storage options, or into the cluster's own "
        "spark-defaults.conf."
    )
    setting: str
    reason: str


class SparkAddressUnusable(Refusal):
    """What should be the address of a Spark Connect server is none. ``reason`` holds nothing of it, for it may hold a token."""

    code = "spark_address_unusable"
    message = "the address of Spark Connect cannot be used: {reason}."
    next_action = "Write sc://HOST:PORT, and a token and other options behind a slash: sc://HOST:PORT/;NAME=VALUE;NAME=VALUE."
    reason: str


class SparkUnavailable(Conflict):
    """There is no usable Spark at ``where``; it may come back."""

    code = "spark_unavailable"
    message = "no Spark to work with at {where}: {reason}."
    next_action = "Start that Spark or correct the address, then run the same again: what was begun goes on."
    where: str
    reason: str


class SparkWithoutDelta(Refusal):
    """The Spark at ``where`` runs, and was started without Delta: it would take Delta's SQL for mistakes."""

    code = "spark_without_delta"
    message = "the Spark at {where} was started without Delta: it needs {needs}."
    next_action = "Restart it with Delta's JARs and these settings (docs/clusters.md has the command), then run the same again."
    where: str
    needs: str


class SparkDriverDied(Conflict):
    """A driver ended without leaving a result: killed, out of memory, or never able to start. ``tail``: its last lines."""

    code = "spark_driver_died"
    has_lines = True
    message = "the driver of the {job} job ended with exit code {exit_code} and left no result. Its last lines:\n{tail}\n"
    next_action = "Try again: what it may have committed is found by its txn version and adopted. If it dies again, read the driver's log."
    job: str
    exit_code: int
    tail: str


class SparkExchangeUnseen(Refusal):
    """A driver came up, and found nothing in the folder through which it is asked."""

    code = "spark_exchange_unseen"
    message = "the driver of the {job} job does not see {uri}, the folder that it takes its work from."
    next_action = (
        "Let the driver reach that place: the same file system or mount, or the same store with the same credentials and endpoint; it does "
        "not end otherwise, however often it is tried."
    )
    job: str
    uri: str


class CredentialsMissing(Refusal):
    """Spark asked a store without credentials: none came with its settings, and its machine has none."""

    code = "credentials_missing"
    message = "Spark has no credentials for {uri}: {reason}."
    next_action = (
        "Give them in the storage options, or to the cluster itself (its spark-defaults.conf, a role of its machines); then run it again."
    )
    uri: str
    reason: str


class SparkJobFailed(Refusal):
    """A job failed in a way nobody has a name for yet. ``tail``: the last lines of what Spark said."""

    code = "spark_job_failed"
    has_lines = True
    message = "the {job} job failed:\n{tail}\n"
    next_action = "Read the Spark log of the job; nothing was committed by the failed statement."
    job: str
    tail: str


class SparkDiskFull(Refusal):
    """No more bytes fit where Spark writes: the table's storage, or the disk of a worker."""

    code = "spark_disk_full"
    message = "Spark could not write any more: {reason}."
    next_action = "Make room in the table's storage and on Spark's local disks, then run again: it goes on from what was committed."
    reason: str


# --- conflicts: another writer was first ----------------------------------------------------------------------------------------------


class ConcurrentWrite(Conflict):
    """Delta aborted the statement because another commit touched rows it had read or written."""

    code = "concurrent_write"
    message = "another writer committed first ({condition}): {detail}"
    next_action = "Try again; the table is as the other writer left it."
    condition: str
    detail: str


class TableMetadataChanged(ConcurrentWrite):
    """Delta aborted the statement because the table's schema, properties or protocol changed meanwhile: plan again."""

    code = "table_metadata_changed"


class ConcurrentTransaction(ConcurrentWrite):
    """Delta aborted the statement because its txn application id went on: a twin was first, or a fence landed."""

    code = "concurrent_transaction"


# --- refusals: the request, the query or the rows ------------------------------------------------------------------------------------


class FillSuperseded(Refusal):
    """Delta skipped the statement, because its txn version or a higher one of its application id is in the log, and not by this very
    statement: a successor's fence, a later fill, or a twin that went on from the same version of the source."""

    code = "fill_superseded"
    message = "Delta skipped the write to {shard_uri}: its log has txn version {txn_version} or a higher one already."
    next_action = "Nothing was written: a newer generation or epoch, or another process of this one, did. `schemamig status` says which."
    shard_uri: str
    txn_version: int


class _SparkRefused(Refusal):
    message = "{detail} ({condition})"
    condition: str
    detail: str


class ConstraintViolated(_SparkRefused):
    """Rows break a NOT NULL, a CHECK, a length limit or the append-only rule of the table they go to."""

    code = "constraint_violated"
    next_action = "Change the query or the rows so that they keep the table's constraints; nothing was written."


class BadValue(_SparkRefused):
    """A value cannot be cast to the type it should have, or arithmetic on it overflows (ANSI mode)."""

    code = "bad_value"
    next_action = (
        "Repair the rows; or, in a release that is not deployed yet, say in the query what such values become (try_cast, nullif, a wider "
        "type). This statement wrote nothing."
    )


class InputMissing(_SparkRefused):
    """A table, or the version of it that was asked for, is not there."""

    code = "input_missing"
    next_action = "Check the table's URI; if VACUUM took the version, run preflight again, which reads a current one."


class SourceVacuumed(InputMissing):
    """Files of an older version, or that version itself, are gone by VACUUM or retention."""

    code = "source_vacuumed"
    next_action = (
        "VACUUM deleted rows that were still to be read: run preflight again, which starts a new copy. Where that happens often, "
        "`schemamig pin --collection NAME --hours N` keeps the table's files for longer."
    )


class ChangeDataMissing(_SparkRefused):
    """The change data feed does not reach over the versions that were asked for: it was off for some, or the schema changed."""

    code = "change_data_missing"
    next_action = f"Run preflight again, which starts a new copy. Leave {CHANGE_DATA_FEED} as it is until the upgrade is done."


class TargetDiverged(Refusal):
    """Rows to be removed from a copy are not in it, so it is not what it was thought to be. ``rows``: how many kinds of rows."""

    code = "target_diverged"
    message = "{uri} (version {version}) lacks {rows} row(s) that the changes of its source remove; nothing was written."
    next_action = (
        "Somebody else wrote there, or a query is not deterministic. Of an upgrade: run preflight again, which starts a new copy. "
        "Of a stream: restore the collection (`replicate --restore`)."
    )
    uri: str
    version: int
    rows: int


class DuplicateKeys(Refusal):
    """Changed rows, or those and the rows they come to, have a key more than once, so it cannot tell which row is meant."""

    code = "duplicate_keys"
    message = "{rows:,} rows share their key ({columns}) with another row; nothing was written."
    next_action = "Make the key unique or fix the query that produces it. If a stream stopped, restore it afterwards."
    columns: tuple[str, ...]
    rows: int


class QueryRefused(_SparkRefused):
    """Spark cannot parse or analyse the statement: unknown column, type mismatch, syntax."""

    code = "query_refused"
    next_action = "Fix the query or the expression in the release and run `schemamig check`."
