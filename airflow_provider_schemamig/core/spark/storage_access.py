"""An environment's storage options as Spark's Hadoop file systems take them: S3A, ABFS, and the connectors for GCS."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote

from airflow_provider_schemamig.core.storage.shell_proxy import proxy_parts
from airflow_provider_schemamig.core.storage.surroundings import known_name, stores_named, with_surroundings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What is only another name.
_S3A: Mapping[str, str] = MappingProxyType(
    {
        "aws_access_key_id": "fs.s3a.access.key",
        "aws_secret_access_key": "fs.s3a.secret.key",
        "aws_session_token": "fs.s3a.session.token",
        "aws_endpoint_url": "fs.s3a.endpoint",
        "aws_region": "fs.s3a.endpoint.region",
    }
)
_TRUE = ("true", "1", "yes", "on")
_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"
_LOGIN = "https://login.microsoftonline.com"
_UNITS = r"ns|us|ms|millis|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|s(?:ec(?:ond)?s?)?|d(?:ays?)?|w(?:eeks?)?"
_DURATION = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,15}})?)\s*({_UNITS})?\s*")
_FRACTIONS = {"ns": Fraction(1, 1_000_000), "us": Fraction(1, 1000), "ms": Fraction(1)}
_MILLIS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
#: What Hadoop keeps a time limit in; 24 days.
_LONGEST = 2**31 - 1


def hadoop_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop settings for the options and what the process's environment says (``AWS_*`` and the like): what is handed to a Spark
    that is started from here."""
    return settings_of(with_surroundings(options))


def settings_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop settings for the options alone; those that begin with ``fs.`` pass as they are."""
    known = {name: value for given, value in options.items() if value and (name := known_name(given)) is not None}
    plain = {name: value for name, value in options.items() if name.startswith("fs.")}
    named = stores_named(options)
    return {**_s3a(known, "aws_" in named), **_abfs(known, "azure_" in named), **_gcs(known, "google_" in named), **plain}


def _client(known: Mapping[str, str], prefix: str, option: str) -> str:
    """Return an option of the HTTP client for one store: what has its prefix goes before what has none."""
    return known.get(f"{prefix}{option}") or known.get(option, "")


def _s3a(known: Mapping[str, str], is_named: bool) -> dict[str, str]:
    settings = {_S3A[name]: value for name, value in known.items() if name in _S3A}
    if "aws_endpoint_url" in known:
        # A server with an address of its own has no host name per bucket, unless it is said.
        own_hosts = known.get("aws_virtual_hosted_style_request", "").lower() in _TRUE
        settings["fs.s3a.path.style.access"] = str(not own_hosts).lower()
        if known["aws_endpoint_url"].lower().startswith("http://"):
            settings["fs.s3a.connection.ssl.enabled"] = "false"
    if known.get("aws_skip_signature", "").lower() in _TRUE:
        settings["fs.s3a.aws.credentials.provider"] = _ANONYMOUS
    if not is_named:
        return {}
    for option, setting in (("timeout", "connection.request.timeout"), ("connect_timeout", "connection.establish.timeout")):
        if (millis := _millis(_client(known, "aws_", option))) is not None:
            settings[f"fs.s3a.{setting}"] = f"{millis}ms"
    proxy = _proxy(_client(known, "aws_", "proxy_url"))
    return settings | {f"fs.s3a.proxy.{name}": value for name, value in proxy.items()}


def _proxy(url: str) -> dict[str, str]:
    """Return host and port of a proxy, and user and password if it wants them; nothing of one that Hadoop has no setting for (SOCKS).

    What is no address is left out: our own client goes first, and ``check_addresses`` refuses it there.
    """
    parts = proxy_parts(url)
    if parts is None or parts.hostname is None or parts.scheme.lower() not in ("http", "https"):
        return {}
    found = {"host": parts.hostname, "port": str(parts.port or (443 if parts.scheme.lower() == "https" else 80))}
    if parts.username:
        found |= {"username": unquote(parts.username), "password": unquote(parts.password or "")}
    return found


def _times(known: Mapping[str, str], prefix: str, connect: str, read: str) -> dict[str, str]:
    """Return the time limits under these settings, in milliseconds, which older connectors for Azure and GCS take as a bare number."""
    given = {connect: _millis(_client(known, prefix, "connect_timeout")), read: _millis(_client(known, prefix, "timeout"))}
    return {name: str(millis) for name, millis in given.items() if millis is not None}


def _abfs(known: Mapping[str, str], is_named: bool) -> dict[str, str]:
    """Return how an account is opened, by its key, by a signature (SAS), or in the name of an application."""
    account = known.get("azure_storage_account_name")
    of = f".{account}.dfs.core.windows.net" if account else ""
    tenant, client = known.get("azure_storage_tenant_id"), known.get("azure_storage_client_id")
    found: dict[str, str] = {}
    if "azure_storage_account_key" in known:
        found = {"account.auth.type": "SharedKey", "account.key": known["azure_storage_account_key"]}
    elif "azure_storage_sas_key" in known:
        found = {"account.auth.type": "SAS", "sas.fixed.token": known["azure_storage_sas_key"].lstrip("?")}
    elif client and tenant and "azure_storage_client_secret" in known:
        found = {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": f"{_OAUTH}.ClientCredsTokenProvider",
            "account.oauth2.client.id": client,
            "account.oauth2.client.secret": known["azure_storage_client_secret"],
            "account.oauth2.client.endpoint": f"{known.get('azure_storage_authority_host', _LOGIN).rstrip('/')}/{tenant}/oauth2/token",
        }
    elif client and tenant and "azure_federated_token_file" in known:
        found = {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": f"{_OAUTH}.WorkloadIdentityTokenProvider",
            "account.oauth2.client.id": client,
            "account.oauth2.msi.tenant": tenant,
            "account.oauth2.token.file": known["azure_federated_token_file"],
        }
    settings = {f"fs.azure.{name}{of}": value for name, value in found.items()}
    if not is_named:
        return {}
    return settings | _times(known, "azure_", "fs.azure.http.connection.timeout", "fs.azure.http.read.timeout")


def _gcs(known: Mapping[str, str], is_named: bool) -> dict[str, str]:
    """Return the settings that Google's connector and Hadoop's own share. A key file has to lie on every machine of the cluster."""
    file = known.get("google_service_account") or known.get("google_application_credentials")
    settings: dict[str, str] = {}
    if known.get("google_skip_signature", "").lower() in _TRUE:
        settings = {"fs.gs.auth.type": "UNAUTHENTICATED"}
    elif file:
        settings = {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs.gs.auth.service.account.json.keyfile": file}
    if not is_named:
        return {}
    proxy = _proxy(_client(known, "google_", "proxy_url"))
    if proxy:
        host = f"[{proxy['host']}]" if ":" in proxy["host"] else proxy["host"]
        settings["fs.gs.proxy.address"] = f"{host}:{proxy['port']}"
        settings |= {f"fs.gs.proxy.{name}": proxy[name] for name in ("username", "password") if name in proxy}
    return settings | _times(known, "google_", "fs.gs.http.connect-timeout", "fs.gs.http.read-timeout")


def _millis(text: str) -> int | None:
    """Return a duration as object_store takes it (``30s``, ``1m 30s``, ``1.5h``) in milliseconds; None for anything else.

    A part of one counts as one: 0 is no limit to Hadoop.
    """
    text = text.strip().lower()
    if not text or _DURATION.sub("", text):
        return None
    parts = (Fraction(number) * _factor(unit or "s") for number, unit in _DURATION.findall(text))
    return min(math.ceil(sum(parts)), _LONGEST)


def _factor(unit: str) -> Fraction:
    """Return how many milliseconds a unit has."""
    return Fraction(1) if unit == "millis" else _FRACTIONS.get(unit) or Fraction(_MILLIS[unit[0]])


@contextmanager
def storage_access(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Put the options on the session for a while; they never outlive the job that brought them."""
    with session_settings(spark, settings_of(options)):
        yield


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Set session settings (None: take one away), and always put back what was there before: the session may be somebody's own.

    One thread at a time, of all that set some on the session: one would run its statement with the other's, and put them back for good.
    """
    with _lock_of(spark):
        before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
        try:
            _set(spark, settings)
            yield
        finally:
            _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


_locks: dict[str, threading.RLock] = {}
_adding = threading.Lock()


def _lock_of(spark: SparkSession) -> threading.RLock:
    """Return the session's lock. A session has many Python objects, and one of the JVM or of the Connect server."""
    own = spark.session_id if hasattr(spark, "session_id") else spark._jsparkSession.hashCode()
    with _adding:
        return _locks.setdefault(str(own), threading.RLock())
