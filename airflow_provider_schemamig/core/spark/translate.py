"""Spark's and Delta's exceptions to typed errors, and typed errors across the border of a process.

The error *condition* decides (``[DELTA_METADATA_CHANGED]``): it is the one thing that a classic session, a wrapped task failure and a
Connect client all carry in the exception's text, while the exception classes differ between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

from airflow_provider_schemamig.core.spark import errors as e
from airflow_provider_schemamig.core.storage import (
    BucketMissing,
    ClockSkewed,
    CredentialsExpired,
    StorageForbidden,
    StorageThrottled,
    StorageUnreachable,
    WrongRegion,
    blank,
)
from airflow_provider_schemamig.exceptions import SchemamigError

#: ``[CONDITION.SUB] text``, and below a broken constraint the row's values, one a line.
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*([^\n]*(?:\n - [^\n]*){0,20})")
#: What gRPC says of a call that got no answer, amid brackets and times.
_DETAILS = re.compile(r'details = "([^"\n]+)"')
_SQLSTATE = re.compile(r"\.? SQLSTATE: \w{5}")
_DETAIL_CHARACTERS = 500

#: Prefixes of conditions; the first class with a match anywhere in the text wins, so wrappers (TASK_WRITE_FAILED) do not hide the cause.
_CLASSES: tuple[tuple[type[SchemamigError], tuple[str, ...]], ...] = (
    (e.ConcurrentTransaction, ("DELTA_CONCURRENT_TRANSACTION",)),
    (
        e.TableMetadataChanged,
        ("DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED", "DELTA_SCHEMA_CHANGED", "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"),
    ),
    (e.ConcurrentWrite, ("DELTA_CONCURRENT_", "DELTA_MAX_COMMIT_RETRIES_EXCEEDED")),
    (
        e.ConstraintViolated,
        (
            "DELTA_VIOLATE_CONSTRAINT",
            "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
            "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
            "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            "EXCEED_LIMIT_LENGTH",
            "NOT_NULL_ASSERT_VIOLATION",
        ),
    ),
    (
        e.BadValue,
        (
            "CAST_INVALID_INPUT",
            "CAST_OVERFLOW",
            "NUMERIC_VALUE_OUT_OF_RANGE",
            "ARITHMETIC_OVERFLOW",
            "BINARY_ARITHMETIC_OVERFLOW",
            "INTERVAL_ARITHMETIC_OVERFLOW",
            "DIVIDE_BY_ZERO",
            "INVALID_ARRAY_INDEX",
            "CANNOT_PARSE_TIMESTAMP",
            "DATETIME_OVERFLOW",
            "USER_RAISED_EXCEPTION",
        ),
    ),
    (
        e.SourceVacuumed,
        ("FAILED_READ_FILE.FILE_NOT_EXIST", "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"),
    ),
    (e.ChangeDataMissing, ("DELTA_MISSING_CHANGE_DATA", "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE")),
    (
        e.InputMissing,
        (
            "DELTA_TABLE_NOT_FOUND",
            "DELTA_TABLE_ONLY_OPERATION",
            "DELTA_MISSING_DELTA_TABLE",
            "DELTA_PATH_DOES_NOT_EXIST",
            "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED",
            "DELTA_VERSION_NOT_FOUND",
            "DELTA_VERSIONS_NOT_CONTIGUOUS",
            "DELTA_NO_RECREATABLE_HISTORY_FOUND",
            "DELTA_LOG_FILE_NOT_FOUND",
            "DELTA_STATE_RECOVER_ERROR",
            "PATH_NOT_FOUND",
            "TABLE_OR_VIEW_NOT_FOUND",
        ),
    ),
)
_NO_S3A = re.compile(
    r"[^\n]{0,60}(?:Class org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem not found|No FileSystem for scheme \"s3[an]?\""
    r"|NoClassDefFoundError: (?:org/apache/hadoop/fs/s3a|software/amazon/awssdk)[\w/]*)"
)
_NO_CONDITION = re.compile(
    r"(?:unsupported|unknown|[Uu]nknown mandatory)[^\n]{0,80}fs\.option\.create\.conditional\.overwrite", re.IGNORECASE
)
#: The codes with which S3, GCS and Azure refuse, wherever in Java's exceptions they stand; the first kind with a match wins, so what says
#: why comes before what says only that it was refused.
_STORE_FAILURES: tuple[tuple[type[SchemamigError], tuple[str, ...]], ...] = (
    (CredentialsExpired, ("ExpiredToken", "TokenRefreshRequired", "The provided token has expired", "ExpiredAuthenticationToken")),
    (StorageThrottled, ("SlowDown", "AWSServiceThrottledException", "Please reduce your request rate", "ServerBusy")),
    (ClockSkewed, ("RequestTimeTooSkewed",)),
    (BucketMissing, ("UnknownStoreException", "NoSuchBucket", "FilesystemNotFound")),
    (e.CredentialsMissing, ("NoAuthWithAWSException", "Unable to load credentials", "No AWS Credentials", "No AWS accessKey")),
    (WrongRegion, ("AWSRedirectException", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")),
    (
        StorageForbidden,
        (
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "AuthenticationFailed",
            "AuthorizationFailure",
            "AuthorizationPermissionMismatch",
            "AccessDenied",
            "Status Code: 403",
            ", 403, ",
            "403 Forbidden",
        ),
    ),
    (
        StorageUnreachable,
        (
            "UnknownHostException",
            "Unable to execute HTTP request",
            "ConnectTimeoutException",
            "NoRouteToHostException",
            "ConnectException",
            "SocketTimeoutException",
        ),
    ),
)
#: What a store answers with a reason: how Spark's own text says which.
_WITH_REASON = (CredentialsExpired, StorageThrottled, StorageForbidden, StorageUnreachable, e.CredentialsMissing)
#: Kinds whose signs Java uses for other things as well: a store's only where one is named.
_NAMED = (StorageForbidden, StorageUnreachable, e.CredentialsMissing)
_STORE_URI = re.compile(r"(?:s3a|abfss?|gs)://[^\s,'\"`)]+")
_OF_A_STORE = re.compile(r"fs\.s3a|fs\.azurebfs|amazonaws|amazon\.awssdk|\.core\.windows\.net|fs\.gcs|googleapis")
#: What a Connect server, or its client, says of a session that it knows nothing of.
_SESSION_LOST = ("INVALID_HANDLE.", "NO_ACTIVE_SESSION")
#: What operating systems say when no more bytes fit.
_DISK_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_TAIL_LINES = 20
_FRAME = re.compile(r"\s+at \S|\s*\.\.\. \d+ more")

_Spark = TypeVar("_Spark", bound=BaseException)


@contextmanager
def translated(job: str, collection: str | None = None) -> Iterator[None]:
    """Turn what Spark raises inside into the layer's typed errors; one that is typed already only gets the collection it lacks.

    An error that is no Spark error is a defect of ours and keeps its traceback.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except SchemamigError as error:
        error.collection = error.collection or collection
        raise
    except (PySparkException, Py4JError) as error:
        raise translate(error, job, collection) from None  # it quotes whole requests


def translate(error: Exception, job: str, collection: str | None = None) -> SchemamigError:
    """Return the typed error for an exception of Spark, by the conditions in its text; ``SparkJobFailed`` if none is known."""
    text = blank(str(error))
    if (missing := _missing_connector(text)) is not None:
        return e.S3ConnectorMissing(missing=missing, collection=collection)
    found = [(match[1], _detail(match[2])) for match in _CONDITION.finditer(text)]
    for kind, prefixes in _CLASSES:
        for condition, detail in found:
            if condition.startswith(prefixes):
                return kind(condition=condition, detail=detail, collection=collection)  # type: ignore[call-arg]
    if (failure := _store_failure(text, collection)) is not None:
        return failure
    if full := next((sign for sign in _DISK_FULL if sign in text), None):
        return e.SparkDiskFull(reason=full, collection=collection)
    if "StatusCode.UNAVAILABLE" in text or "RETRIES_EXCEEDED" in text:
        details = _DETAILS.search(text)
        return e.SparkUnavailable(where="the Connect server", reason=details[1] if details else last_lines(text, 1), collection=collection)
    if any(condition.startswith(_SESSION_LOST) for condition, _ in found):
        return e.SparkUnavailable(where="the Connect server", reason="it was started anew, or has ended the session", collection=collection)
    if found and _is_analysis(error):
        condition, detail = found[0]
        return e.QueryRefused(condition=condition, detail=detail, collection=collection)
    return e.SparkJobFailed(job=job, tail=last_lines(text), collection=collection)


def _store_failure(text: str, collection: str | None) -> SchemamigError | None:
    """Return a store's refusal of Spark as the error that our own client raises for it.

    So renewed credentials let work go on. None: the text tells of no refusal.
    """
    found = _STORE_URI.search(text)
    for kind, signs in _STORE_FAILURES:
        sign = next((sign for sign in signs if sign in text), None)
        if sign is None or (kind in _NAMED and found is None and not _OF_A_STORE.search(text)):
            continue
        uri = found[0].rstrip(".:`") if found else "the tables that Spark works on"
        reason = {"reason": sign.strip(" ,")} if kind in _WITH_REASON else {}
        return kind(uri=uri, collection=collection, **reason)  # type: ignore[call-arg]
    return None


def _missing_connector(text: str) -> str | None:
    """Return what of S3A is not there, as Java says it: the connector, the SDK below it, or its option for put-if-absent."""
    if (found := _NO_S3A.search(text)) is not None:
        return found[0].strip()
    return "one older than 3.4.2, without conditional writes" if _NO_CONDITION.search(text) else None


def _detail(text: str) -> str:
    """Return what people read of a condition's text: the SQLSTATE says nothing to them, and values may be of any length."""
    return _SQLSTATE.sub("", text).replace("\n - ", " ").strip()[:_DETAIL_CHARACTERS]


def _is_analysis(error: Exception) -> bool:
    """Return whether an error is about the statement, not about the run: analysis and parser errors of classic sessions and of Connect."""
    from pyspark.errors import AnalysisException

    return isinstance(error, AnalysisException)


def last_lines(text: str, count: int = _TAIL_LINES) -> str:
    """Return the last ``count`` lines that say something: no blank ones, no frames of a stack."""
    return "\n".join([line.rstrip() for line in blank(text).splitlines() if line.strip() and not _FRAME.match(line)][-count:])


# --- across processes ----------------------------------------------------------------------------------------------------------------

_KINDS: Mapping[str, type[SchemamigError]] = {
    kind.__name__: kind
    for kind in (*vars(e).values(), *(kind for kind, _ in _STORE_FAILURES))
    if isinstance(kind, type) and issubclass(kind, SchemamigError)
}


def error_to_json(error: SchemamigError) -> dict[str, Any]:
    """Return ``{"kind", "fields", ...}`` and the document of ``SchemamigError.to_json`` for people and other programs."""
    return {"kind": type(error).__name__, "fields": {f.name: getattr(error, f.name) for f in fields(error)}, **error.to_json()}


def error_from_json(data: Mapping[str, Any], job: str) -> SchemamigError:
    """Rebuild the error a driver wrote. One of another layer, or of another version of this package, keeps its text as
    ``SparkJobFailed``."""
    kind = _KINDS.get(str(data.get("kind")))
    given = data.get("fields")
    if kind is not None and isinstance(given, Mapping):
        known = {f.name for f in fields(kind)}
        values = {name: value for name, value in given.items() if name in known}
        try:
            return kind(**values)
        except TypeError:  # a field that the driver's version does not have
            pass
    return e.SparkJobFailed(job=job, tail=f"[{data.get('code')}] {data.get('message')}", collection=data.get("collection"))
