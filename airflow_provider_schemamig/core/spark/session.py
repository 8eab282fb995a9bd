"""Spark sessions and their settings, in one place."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.spark.conf import LISTS, joined, spark_defaults, without_chosen_log_stores
from airflow_provider_schemamig.core.spark.errors import SparkUnavailable, SparkWithoutDelta
from airflow_provider_schemamig.core.spark.jars import require_jars
from airflow_provider_schemamig.core.spark.java_output import Hears, passed_on, to_stderr
from airflow_provider_schemamig.core.spark.launch import find_java, require_pyspark

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

_CATALOG = "spark.sql.catalog.spark_catalog"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

#: Makes Spark know Delta. Fixed when a context starts.
DELTA_SETTINGS: Mapping[str, str] = MappingProxyType(
    {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension", _CATALOG: _DELTA_CATALOG}
)
#: The same in words, for whoever started a Spark without.
DELTA_NEEDS = " and ".join(f"{name}={value}" for name, value in DELTA_SETTINGS.items())
#: Delta's commits on S3 by put-if-absent, where Delta's own LogStores replace what they did not see. Fixed when a context starts.
LOG_STORE_CLASS = "schemamig.ConditionalLogStore"
LOG_STORE_SETTINGS: Mapping[str, str] = MappingProxyType(
    {f"spark.delta.logStore.{scheme}.impl": LOG_STORE_CLASS for scheme in ("s3a", "s3", "s3n")}
)
#: Whether ``${env:NAME}`` in any text of a statement is what the process's environment holds.
SUBSTITUTES = "spark.sql.variable.substitute"
#: What a query means may not depend on where it runs: set on every session, also on one that somebody else's server made.
MEANING_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.storeAssignmentPolicy": "ANSI",
        "spark.sql.caseSensitive": "false",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.legacy.charVarcharAsString": "false",
        "spark.sql.sources.partitionOverwriteMode": "STATIC",
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96TimestampConversion": "false",
        "spark.sql.decimalOperations.allowPrecisionLoss": "true",
        "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
        "spark.sql.ansi.doubleQuotedIdentifiers": "false",
        "spark.sql.parser.quotedRegexColumnNames": "false",
        # What VACUUM or a lost disk took would be no rows, and nobody be told.
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        SUBSTITUTES: "false",
    }
)
#: How rows lie in the files that it writes: times as all readers read them (Spark's own choice, INT96, some take for other times), and no
#: column that the statement does not name.
WRITING_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.databricks.delta.schema.autoMerge.enabled": "false",
    }
)
#: For a Spark on this machine alone: the defaults are made for clusters, and cost seconds a statement on small tables.
LOCAL_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # What fails comes back as a typed error; its twenty stack traces would bury it.
        "spark.log.level": "FATAL",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        # A table that was looked at costs some 3 MB, and Delta keeps 10,000 of them for an hour: a heap of 1 GiB is full after 200.
        "spark.databricks.delta.delta.log.cacheSize": "64",
    }
)

_SHELL_SETTINGS = ("SPARK_HOME", "SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_SUBMIT_ARGS")
_starting = threading.Lock()


def is_local(master: str) -> bool:
    return master.split("[", 1)[0] == "local"


def settings_for(master: str, conf: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return all settings of a session on ``master``, shared by the embedded session and spark-submit.

    ``conf`` wins except over meaning and how times are written. JARs and extensions are everybody's, also those of spark-defaults.conf,
    which would not count beside ours. A LogStore that somebody chose stays. Raises SparkJarsMissing.
    """
    jars = {"spark.jars": ",".join(str(path) for path in require_jars())}
    local = LOCAL_SETTINGS if is_local(master) else {}
    defaults = spark_defaults(is_local(master))
    lists = {name: defaults[name] for name in LISTS if name in defaults}
    stores = without_chosen_log_stores(LOG_STORE_SETTINGS, conf, defaults)
    # Spark makes its warehouse folder with the first statement, in the current directory unless told otherwise; nothing is put there.
    warehouse = {"spark.sql.warehouse.dir": Path(tempfile.gettempdir(), f"schemamig-warehouse-{os.getuid()}").as_uri()}
    return joined({**DELTA_SETTINGS, **warehouse, **local, **stores, **jars}, lists, conf, {**MEANING_SETTINGS, **WRITING_SETTINGS})


def embedded_session(master: str = "local[*]", conf: Mapping[str, str] = MappingProxyType({}), hears: Hears = to_stderr) -> SparkSession:
    """Return the one in-process session with Delta; made on the first call (4 to 6 s), the same one afterwards, whatever ``conf`` says.
    ``hears``: what Java prints, as long as it lives.

    Raises PysparkMissing, JavaMissing, SparkJarsMissing; SparkWithoutDelta if this process already runs a Spark session without it.
    """
    with _starting:
        require_pyspark()
        session = _running_session()
        if session is None:
            find_java()
            session = _start(master, conf, hears)
        return session


def _running_session() -> SparkSession | None:
    """Return the classic session of this process, if there is one; never a Connect session, whose builder would hand it out here."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if java_exit_code() is not None:
        _forget_java()
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return None
    if context.getConf().get(_CATALOG) != _DELTA_CATALOG:
        raise SparkWithoutDelta(where="this process", needs=DELTA_NEEDS)
    return SparkSession(context)


def java_exit_code(seconds: float = 0.0) -> int | None:
    """Return the exit code of the Java process that pyspark started in this one.

    ``seconds``: how long its end is waited for at most. None: it runs, or somebody else started it.
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return None if process is None else process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _forget_java() -> None:
    """Let the next session start Java anew: pyspark asks the one that it knows, for ever, and its own ``stop`` does so too."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if (context := SparkContext._active_spark_context) is not None:
        context._jsc = None
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _start(master: str, conf: Mapping[str, str], hears: Hears) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    settings = {"spark.master": master, "spark.app.name": "schemamig", **settings_for(master, conf)}
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _bundled_spark(), quiet_pyspark(), _own_interrupts():
        try:
            _start_java(SparkConf(loadDefaults=False).setAll(list(settings.items())), hears)
            return builder.getOrCreate()
        except PySparkException as error:
            raise SparkUnavailable(where=master, reason=f"its session did not start: {error}") from error


def _start_java(conf: SparkConf, hears: Hears) -> None:
    """Start the process that Spark runs in, unless this one has it: pyspark's own start gives it our standard error for all its life."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        with passed_on(hears) as output:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def quiet_pyspark() -> Iterator[None]:
    """Start a session inside: no warning of pandas 3 (which is not used here), and from then on no exception printed when it is raised."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_of_py4j)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a log record is none of py4j's. py4j logs errors past its own loggers, and raises them as well."""
    return os.path.basename(os.path.dirname(record.pathname)) != "py4j"


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Start a session inside and keep what Ctrl-C does. pyspark's own handler asks the JVM to stop the jobs, over the very connection that
    the interrupted call is reading; the runner does that from another thread."""
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if is_main else None
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _bundled_spark() -> Iterator[None]:
    """Start pyspark's own Spark in classic mode, whatever the shell's settings say: another version would not go with the pinned Delta."""
    hidden = {name: os.environ.pop(name) for name in _SHELL_SETTINGS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def with_meaning(session: SparkSession) -> SparkSession:
    """Put the settings that decide the meaning of a query, and how rows are written, on a session configured by others."""
    for name, value in {**MEANING_SETTINGS, **WRITING_SETTINGS}.items():
        session.conf.set(name, value)
    return session
