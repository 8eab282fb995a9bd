"""An environment's storage options as Spark's Hadoop file systems take them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: object_store's names (lower case, without ``aws_``) to Hadoop's S3A.
_S3A: Mapping[str, str] = MappingProxyType(
    {
        "access_key_id": "fs.s3a.access.key",
        "secret_access_key": "fs.s3a.secret.key",
        "session_token": "fs.s3a.session.token",
        "endpoint_url": "fs.s3a.endpoint",
        "endpoint": "fs.s3a.endpoint",
        "region": "fs.s3a.endpoint.region",
    }
)


def hadoop_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop settings for S3 credentials; options that begin with ``fs.`` pass as they are. Other stores use the cluster's own
    settings."""
    settings = {}
    for name, value in options.items():
        short = name.lower().removeprefix("aws_")
        if name.startswith("fs."):
            settings[name] = value
        elif short in _S3A:
            settings[_S3A[short]] = value
    if "fs.s3a.endpoint" in settings:
        # A server with an address of its own has no host name per bucket.
        settings.setdefault("fs.s3a.path.style.access", "true")
    return settings


@contextmanager
def storage_access(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Put the options on the session for a while; they never outlive the job that brought them."""
    settings = hadoop_settings(options)
    with session_settings(spark, settings):
        yield


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set session settings, and always put back what was there before: the session may be somebody's own."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, found in before.items():
            if found is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, found)
