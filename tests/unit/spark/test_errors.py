"""Spark's exceptions, by their condition, to typed errors; and those across the border of a process."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest

from airflow_provider_schemamig.core.names import InvalidName
from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.spark.translate import error_from_json, error_to_json, last_lines, translate, translated
from airflow_provider_schemamig.core.storage import (
    BucketMissing,
    ClockSkewed,
    CredentialsExpired,
    StorageForbidden,
    StorageThrottled,
    StorageUnreachable,
    WrongRegion,
)
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError

#: Texts as Spark 4.2 with Delta 4.4 wrote them.
TEXTS: list[tuple[str, type[SchemamigError], bool]] = [
    ("[DELTA_CONCURRENT_TRANSACTION] This error occurs when multiple streaming queries", errors.ConcurrentTransaction, True),
    ("[DELTA_METADATA_CHANGED] MetadataChangedException: The metadata of the Delta table", errors.TableMetadataChanged, True),
    ("[DELTA_PROTOCOL_CHANGED] ProtocolChangedException", errors.TableMetadataChanged, True),
    ("[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] ConcurrentAppendException: Files were added", errors.ConcurrentWrite, True),
    ("[DELTA_CONCURRENT_DELETE_DELETE] ConcurrentDeleteDeleteException", errors.ConcurrentWrite, True),
    ("[CAST_OVERFLOW_IN_TABLE_INSERT] Fail to assign a value", errors.BadValue, False),
    ("[NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field", errors.ConstraintViolated, False),
    ("[DELTA_CANNOT_MODIFY_APPEND_ONLY] This table is configured to only allow appends.", errors.ConstraintViolated, False),
    ("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file x. SQLSTATE: KD001", errors.SourceVacuumed, False),
    ("[DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION] Cannot time travel", errors.SourceVacuumed, False),
    ("[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [1 , 5]", errors.ChangeDataMissing, False),
    ("[DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA] Retrieving table changes", errors.ChangeDataMissing, False),
    ("[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 9.", errors.InputMissing, False),
    ("something without a condition", errors.SparkJobFailed, False),
    ("[A_CONDITION_OF_TOMORROW] nobody knows it", errors.SparkJobFailed, False),
    ("failed to connect: StatusCode.UNAVAILABLE", errors.SparkUnavailable, True),
    ("[NO_ACTIVE_SESSION] No active Spark session found. Please create a new Spark session", errors.SparkUnavailable, True),
    ("[INVALID_HANDLE.SESSION_CHANGED] The handle a0 is invalid. The existing Spark server", errors.SparkUnavailable, True),
    (
        "[TASK_WRITE_FAILED] Task failed. Caused by: java.nio.file.AccessDeniedException: s3a://b/t/x.parquet: "
        "S3Exception: The provided token has expired. (Service: S3, Status Code: 400):ExpiredToken",
        *(CredentialsExpired, True),
    ),
    ("org.apache.hadoop.fs.s3a.AWSServiceThrottledException: s3a://b/t: SlowDown (Status Code: 503)", StorageThrottled, True),
    ("java.nio.file.AccessDeniedException: s3a://b/t: getFileStatus: (Status Code: 403):RequestTimeTooSkewed", ClockSkewed, False),
    ("org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://nobucket/t': getFileStatus", BucketMissing, False),
    (
        "java.net.UnknownHostException: getFileStatus on s3a://b/t: b.s3.example: Name or service not known",
        StorageUnreachable,
        True,
    ),
    (
        "org.apache.hadoop.net.ConnectTimeoutException: s3a://b/t: software.amazon.awssdk.core.exception.SdkClientException: Unable to "
        "execute HTTP request: Connect to 10.0.0.1:9000 failed: Connection refused",
        *(StorageUnreachable, True),
    ),
    ("java.nio.file.AccessDeniedException: s3a://b/t: getFileStatus: S3Exception: Forbidden (Status Code: 403)", StorageForbidden, False),
    ("AccessDeniedException: s3a://b/t: S3Exception: (Status Code: 403):InvalidAccessKeyId", StorageForbidden, False),
    (
        "java.nio.file.AccessDeniedException: s3a://b/t: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials "
        "provided by SimpleAWSCredentialsProvider",
        *(errors.CredentialsMissing, False),
    ),
    ("org.apache.hadoop.fs.s3a.AWSRedirectException: Received permanent redirect response to region eu-west-1", WrongRegion, False),
    (
        'Operation failed: "This request is not authorized to perform this operation.", 403, HEAD, '
        "https://acc.dfs.core.windows.net/c/t?upn=false&action=getStatus",
        *(StorageForbidden, False),
    ),
    ("java.net.ConnectException: Connection refused to a shuffle service", errors.SparkJobFailed, False),
    ("java.nio.file.AccessDeniedException: /data/lake/t", errors.SparkJobFailed, False),
]


@pytest.mark.parametrize(
    "text, missing",
    [
        (
            "o1.sql.\n: java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found\n"
            "\tat org.apache.hadoop.conf.Configuration.getClass(Configuration.java:2742)",
            "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        ),
        ('org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3a"', 'No FileSystem for scheme "s3a"'),
        (
            "[SOME_CONDITION] java.lang.NoClassDefFoundError: software/amazon/awssdk/core/exception/SdkException",
            "NoClassDefFoundError: software/amazon/awssdk/core/exception/SdkException",
        ),
        (
            "java.lang.IllegalArgumentException: s3a://b/x: unknown mandatory key fs.option.create.conditional.overwrite",
            "one older than 3.4.2, without conditional writes",
        ),
    ],
)
def test_a_missing_connector_says_what_is_missing_and_what_to_give(text: str, missing: str) -> None:
    error = translate(RuntimeError(text), "fill", "flights")
    assert isinstance(error, errors.S3ConnectorMissing)
    assert missing in error.missing
    assert "hadoop-aws:3.5.0" in error.next_action


@pytest.mark.parametrize("text, kind, retryable", TEXTS)
def test_the_condition_decides(text: str, kind: type[SchemamigError], retryable: bool) -> None:
    error = translate(RuntimeError(text), "fill", "flights")
    assert type(error) is kind
    assert (error.collection, error.retryable) == ("flights", retryable)


def test_a_server_that_is_gone_is_told_in_its_client_s_words() -> None:
    text = """<_MultiThreadedRendezvous of RPC that terminated with:
\tstatus = StatusCode.UNAVAILABLE
\tdetails = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:15002: Connection refused"
\tdebug_error_string = "UNKNOWN:Error received from peer"
>"""
    error = translate(RuntimeError(text), "fill")
    assert isinstance(error, errors.SparkUnavailable)
    assert error.reason == "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:15002: Connection refused"


def test_the_cause_counts_and_not_what_wraps_it() -> None:
    text = (
        "An error occurred while calling o1.sql.\n: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed. SQLSTATE: 58030\n"
        "\tat org.apache.spark.X\nCaused by: org.x.DeltaInvariantViolationException: [DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK "
        "constraint c (n < 5) violated by row with values:\n - n : 7\n - m : null\n\tat org.y"
    )
    error = translate(RuntimeError(text), "fill")
    assert isinstance(error, errors.ConstraintViolated)
    assert error.detail == "CHECK constraint c (n < 5) violated by row with values: n : 7 m : null"


def test_what_a_store_refused_spark_crosses_the_border_of_a_process() -> None:
    error = translate(RuntimeError("AccessDeniedException: s3a://b/t/x.parquet: S3Exception: ExpiredToken"), "fill", "flights")
    again = error_from_json(json.loads(json.dumps(error_to_json(error))), "fill")
    assert isinstance(again, CredentialsExpired)
    assert (again.uri, again.retryable, str(again)) == ("s3a://b/t/x.parquet", True, str(error))


def test_a_long_value_does_not_fill_the_screen() -> None:
    error = translate(RuntimeError(f"[CAST_INVALID_INPUT] The value '{'x' * 10_000}' of the type STRING"), "fill")
    assert isinstance(error, errors.BadValue)
    assert len(error.detail) == 500


def test_an_analysis_error_is_about_the_query() -> None:
    from pyspark.errors import AnalysisException

    error = translate(AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x`. SQLSTATE: 42703; line 1"), "fill")
    assert isinstance(error, errors.QueryRefused)
    assert (error.condition, error.detail) == ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "A column `x`; line 1")


def test_typed_errors_go_through_and_defects_stay_defects() -> None:
    refused = errors.QueryRefused(condition="C", detail="d")
    with pytest.raises(errors.QueryRefused) as caught, translated("fill", "flights"):
        raise refused
    assert caught.value is refused
    assert refused.collection == "flights"
    with pytest.raises(KeyError), translated("fill"):
        raise KeyError("defect")


def examples() -> list[SchemamigError]:
    values: dict[str, Any] = {"exit_code": 1, "txn_version": 2, "required": 17, "names": ("a", "b"), "columns": ("a", "b"), "rows": 3}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SchemamigError) and "code" in vars(kind)]
    made = []
    for kind in kinds:
        fields = {f.name: values.get(f.name, f.name) for f in dataclasses.fields(kind) if f.name != "collection"}
        made.append(kind(**fields, collection="flights"))
    return made


@pytest.mark.parametrize("error", examples(), ids=lambda error: error.code)
def test_every_error_crosses_processes_and_says_what_to_do(error: SchemamigError) -> None:
    for copy in (pickle.loads(pickle.dumps(error)), error_from_json(json.loads(json.dumps(error_to_json(error))), "fill")):
        assert type(copy) is type(error)
        assert str(copy) == str(error)
    assert error.code in str(error)
    assert "flights" in str(error)
    assert error.message.strip()
    assert error.next_action.endswith(".")


def test_codes_are_distinct() -> None:
    codes = [error.code for error in examples()]
    assert len(codes) == len(set(codes)) >= 14


ODD_FIELDS: tuple[dict[str, Any], ...] = ({}, {"fields": None}, {"fields": [1]}, {"fields": "where"}, {"fields": {}})


@pytest.mark.parametrize(
    "document",
    [
        error_to_json(InvalidName(kind="column", name="a b", rule="no spaces", collection="flights")),
        {"kind": "BadValue", "fields": {"detail": "of another version"}, "code": "bad_value", "message": "said", "collection": "flights"},
        {"code": "unheard_of", "message": "said", "collection": "flights"},
        *({"kind": "SparkUnavailable", "code": "spark_unavailable", "collection": "flights", **odd} for odd in ODD_FIELDS),
    ],
)
def test_an_error_of_another_layer_or_version_keeps_its_text(document: dict[str, Any]) -> None:
    error = error_from_json(document, "fill")
    assert isinstance(error, errors.SparkJobFailed)
    assert isinstance(error, Refusal)
    assert error.collection == "flights"
    assert document["code"] in str(error)


def test_spark_errors_last_lines() -> None:
    assert last_lines("a\n\n b  \nc\n\n", 2) == " b\nc"
