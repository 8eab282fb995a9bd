"""What the process's environment says of object stores: the variables of their usual clients (``AWS_*``, ``AZURE_*``, ``GOOGLE_*``).

object_store reads most of them by itself. Not those of its HTTP client, where it is given one option of that; and Spark reads hardly any.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from airflow_provider_schemamig.core.storage.shell_proxy import fault_of, proxy_parts, shell_proxy

#: Options of the HTTP client: obstore takes them apart from the store's own.
CLIENT = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
_PREFIXES: Mapping[str, str] = MappingProxyType(
    {"s3": "aws_", "s3a": "aws_", "gs": "google_", "az": "azure_", "abfs": "azure_", "abfss": "azure_"}
)
#: The HTTP client's options with a store's prefix: that store's alone.
_OF_A_STORE: Mapping[str, str] = MappingProxyType({f"{of}{name}": of for of in set(_PREFIXES.values()) for name in CLIENT})
#: One name for each option that programs besides object_store have to know, and the others that object_store takes for it; of several in
#: the environment the first one counts.
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "aws_access_key_id": ("access_key_id",),
        "aws_secret_access_key": ("secret_access_key",),
        "aws_session_token": ("aws_token", "session_token", "token"),
        "aws_endpoint_url": ("aws_endpoint", "endpoint_url", "endpoint", "aws_endpoint_url_s3"),
        "aws_region": ("region", "aws_default_region", "default_region"),
        "aws_skip_signature": ("skip_signature",),
        "aws_virtual_hosted_style_request": ("virtual_hosted_style_request",),
        "azure_storage_account_name": ("account_name",),
        "azure_storage_account_key": (
            *("azure_storage_access_key", "azure_storage_master_key", "account_key", "access_key", "master_key"),
        ),
        "azure_storage_sas_key": ("azure_storage_sas_token", "sas_key", "sas_token"),
        "azure_storage_client_id": ("azure_client_id", "client_id"),
        "azure_storage_client_secret": ("azure_client_secret", "client_secret"),
        "azure_storage_tenant_id": (*("azure_tenant_id", "azure_storage_authority_id", "azure_authority_id", "tenant_id", "authority_id"),),
        "azure_federated_token_file": ("federated_token_file",),
        "azure_storage_authority_host": ("azure_authority_host", "authority_host"),
        "azure_storage_endpoint": ("azure_endpoint",),
        "azure_storage_use_emulator": ("use_emulator",),
        "azure_use_fabric_endpoint": ("azure_storage_use_fabric_endpoint", "use_fabric_endpoint"),
        "google_service_account": ("google_service_account_path", "service_account", "service_account_path"),
        "google_application_credentials": ("application_credentials",),
        "google_skip_signature": (),
        "google_base_url": ("base_url",),
    }
)
_NAMES: Mapping[str, str] = MappingProxyType({name: known for known, others in ALIASES.items() for name in (known, *others)})
#: Who somebody is, is said as a whole: a token of the environment does not go with the keys of the options.
_CREDENTIALS = (
    frozenset({"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_skip_signature"}),
    frozenset({name for name in ALIASES if name.startswith("azure_") and name.endswith(("_key", "_id", "_secret", "_file"))}),
    frozenset({"google_service_account", "google_application_credentials", "google_skip_signature"}),
)
_HADOOP_CREDENTIALS = (
    ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token", "fs.s3a.aws.credentials.provider"),
    ("fs.azure.account.", "fs.azure.sas."),
    ("fs.gs.auth.",),
)
_HADOOP: Mapping[str, str] = MappingProxyType({"aws_": "fs.s3a.", "azure_": "fs.azure.", "google_": "fs.gs."})


def known_name(option: str) -> str | None:
    """Return the one name of an option that others than object_store have to know; None for others.

    An option of the HTTP client keeps the prefix of a store, which makes it that store's.
    """
    lower = option.lower()
    return lower if lower in CLIENT or lower in _OF_A_STORE else _NAMES.get(lower)


def stores_named(options: Mapping[str, str]) -> frozenset[str]:
    """Return the prefixes (``aws_`` and the like) of the stores that something is said of; S3's where it is none, as its machines have
    roles."""
    names = [known_name(name) or name.lower() for name, value in options.items() if value]
    return frozenset(of for of, hadoop in _HADOOP.items() if any(name.startswith((of, hadoop)) for name in names)) or frozenset({"aws_"})


def variables(scheme: str) -> Mapping[str, str]:
    """Return the variables of the environment that a client of this scheme reads."""
    prefix = _PREFIXES.get(scheme, "").upper()
    return {name: value for name, value in os.environ.items() if name.startswith(prefix)} if prefix else {}


def split(options: Mapping[str, str], scheme: str) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into (the store's, its HTTP client's) in lower case; schemamig's own and Hadoop's are neither.

    The client's variables of the environment are among the client's: object_store forgets them when it is given a client's option.
    What has the prefix of another store is neither, too, and what has this one's goes before what has none.
    """
    prefix = _PREFIXES.get(scheme, "")
    around = {name.lower().removeprefix(prefix): value for name, value in variables(scheme).items()}
    store: dict[str, str] = {}
    client = {name: value for name, value in around.items() if name in CLIENT}
    own: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower.startswith(("schemamig.", "fs.")):
            continue
        if lower in CLIENT:
            client[lower] = value
        elif lower not in _OF_A_STORE:
            store[lower] = value
        elif _OF_A_STORE[lower] == prefix:
            own[lower.removeprefix(prefix)] = value
    return store, client | own


def with_surroundings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options and, by object_store's names, what the environment says and they do not."""
    given = {known_name(name) for name in options}
    for group, prefixes in zip(_CREDENTIALS, _HADOOP_CREDENTIALS, strict=True):
        if not given.isdisjoint(group) or any(name.startswith(prefixes) for name in options):
            given |= group
    around = {name: value for name, value in _around() if name not in given and _bare(name) not in given}
    found = {**around, **options}
    if "proxy_url" not in given:
        for prefix in sorted(stores_named(found) - {"azure_"}):  # Spark has no setting for Azure's
            proxy = shell_proxy(_endpoint(prefix, found))
            if option_of(found, f"{prefix}proxy_url") is None and proxy is not None and proxy_parts(proxy[1]) is not None:
                found[f"{prefix}proxy_url"] = proxy[1]
    return found


def proxy_fault(options: Mapping[str, str], scheme: str) -> str | None:
    """Return the fault of the shell's proxy for a store of this scheme, without its value.

    Judged is what the store's client would take for another address; what is no URL at all it ignores.
    """
    prefix = _PREFIXES.get(scheme)
    given = {known_name(name) for name in (*options, *variables(scheme))}
    if prefix is None or not given.isdisjoint({"proxy_url", f"{prefix}proxy_url"}):
        return None
    name, url = shell_proxy(_endpoint(prefix, with_surroundings(options))) or ("", "")
    fault = fault_of(url) if url else None
    return None if fault is None else f"{name} {fault}"


def option_of(options: Mapping[str, str], name: str) -> str | None:
    """Return an option by its one name, whatever name it was given by."""
    return next((value for given, value in options.items() if known_name(given) == name), None)


def _around() -> Iterator[tuple[str, str]]:
    """Yield what the environment says by the options' known names; of two names for one the later one counts."""
    for known, others in ALIASES.items():
        for name in reversed((known, *others)):
            if name.startswith(tuple(_PREFIXES.values())) and (value := os.environ.get(name.upper())):
                yield known, value
    for name in sorted(_OF_A_STORE):
        if value := os.environ.get(name.upper()):
            yield name, value


def _bare(name: str) -> str:
    return name.removeprefix(_OF_A_STORE.get(name, ""))


def _endpoint(prefix: str, options: Mapping[str, str]) -> str:
    if prefix == "aws_":
        region = option_of(options, "aws_region")
        own = f"https://s3.{region}.amazonaws.com" if region else "https://s3.amazonaws.com"
        return option_of(options, "aws_endpoint_url") or own
    if prefix == "google_":
        return option_of(options, "google_base_url") or options.get("fs.gs.storage.root.url") or "https://storage.googleapis.com"
    account = option_of(options, "azure_storage_account_name") or "*"
    return option_of(options, "azure_storage_endpoint") or f"https://{account}.blob.core.windows.net"
