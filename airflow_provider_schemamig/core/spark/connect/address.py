"""The address of a Spark Connect server: taken apart in one place, and refused there, for what pyspark says of it may quote a token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from airflow_provider_schemamig.core.spark.errors import SparkAddressUnusable

_PORT = 15002
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]+(?:%[\w.-]+)?", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_.-]+")
_OPTION = re.compile(r"[^;=/?#\s]+=[^;=/?#\s]*")


def server_of(url: str) -> tuple[str, int]:
    """Return host and port of ``sc://host:port/;options``. Raises SparkAddressUnusable, whose text holds nothing of the address."""
    authority, _, rest = url.removeprefix("sc://").partition("/")
    if "@" in authority:
        raise SparkAddressUnusable(reason="it holds a user, and a Spark Connect server takes a token")
    if "?" in authority or "#" in authority:
        raise SparkAddressUnusable(reason="its options stand behind a slash and a semicolon, not behind ? or #")
    if ";" in authority:
        raise SparkAddressUnusable(reason="a slash is missing before its options")
    try:
        parts = urlsplit(f"sc://{authority}")
        host = parts.hostname
    except ValueError:
        host = None
    if host is None or _HOST.fullmatch(host) is None or not _is_name(host):
        raise SparkAddressUnusable(reason="its host is missing or is none")
    try:
        port = _PORT if parts.port is None else parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise SparkAddressUnusable(reason="its port is no number from 1 to 65535")
    path, _, options = rest.partition(";")
    if path:
        raise SparkAddressUnusable(reason="something stands between the slash and its options")
    if options and (fault := _fault(options.split(";"))) is not None:
        raise SparkAddressUnusable(reason=fault)
    return host, port


def _fault(options: Sequence[str]) -> str | None:
    """Return why the options cannot be used. Those that pyspark does not know go along with each call, as gRPC's metadata."""
    if not all(map(_OPTION.fullmatch, options)):
        return "an option of it is not NAME=VALUE (in a value, = is %3D, / is %2F, a blank is %20)"
    given = {name: unquote(value) for name, _, value in (option.partition("=") for option in options)}
    if not all(map(_NAME.fullmatch, given)):
        return "the name of an option has other characters than a-z, 0-9, _, . and -"
    if not all(value.isascii() and value.isprintable() for value in given.values()):
        return "the value of an option has other characters than those of ASCII"
    if given.get("use_ssl", "true").lower() not in ("true", "false"):
        return "use_ssl is neither true nor false"
    return "it names a session, and each job is given one of its own" if "session_id" in given else None


def _is_name(host: str) -> bool:
    """Return whether a host can be looked up: each of its labels has 1 to 63 characters."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def shown(url: str) -> str:
    """Return the address without its options, which may hold a token."""
    host, port = server_of(url)
    return f"sc://[{host}]:{port}" if ":" in host else f"sc://{host}:{port}"
