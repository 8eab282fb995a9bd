"""The proxy that the shell's variables name, by the rules of our own HTTP client (reqwest): Spark is told of the same one."""

from __future__ import annotations

import os
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit


def proxy_parts(url: str) -> SplitResult | None:
    """Return a proxy's address taken apart; None where it is none."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        is_host = parts.hostname is not None and parts.hostname != "" and not any(map(str.isspace, parts.hostname))
        return parts if is_host and parts.port != 0 and "@" not in parts.path else None
    except ValueError:
        return None


def shell_proxy(endpoint: str) -> tuple[str, str] | None:
    """Return the proxy on the way to an endpoint, and its variable: HTTPS_PROXY for https, else ALL_PROXY; not for hosts of NO_PROXY.

    One that is no URL at all is passed over; one that the client would take for another address is returned as it is.
    """
    scheme = endpoint.partition("://")[0].upper()
    named = ((name, _variable(name)) for name in (f"{scheme}_PROXY", "ALL_PROXY"))
    found = next(((name, url) for name, url in named if url.strip() and not _is_ignored(url)), None)
    return None if found is None or _is_excluded(endpoint) else found


def fault_of(url: str) -> str | None:
    """Return why the client would take a proxy for another address, without its value; None if it takes it, or ignores it."""
    begins = "://" not in url or url.lower().startswith(("http://", "https://"))
    return "is no URL like http://host:port" if begins and proxy_parts(url) is None and not _is_ignored(url) else None


def _is_ignored(url: str) -> bool:
    """Return whether the client passes over a proxy's address: there are blanks in it, or half a bracket."""
    return any(map(str.isspace, url)) or ("[" in url and proxy_parts(url) is None)


def _variable(name: str) -> str:
    """Return a variable in capitals, else in small letters. One that is empty counts as well."""
    return os.environ.get(name, os.environ.get(name.lower(), ""))


def _is_excluded(endpoint: str) -> bool:
    """Return whether NO_PROXY has an endpoint's host: a name with all below it, ``*`` for all names, an address, or a network. No ports."""
    host = (urlsplit(endpoint).hostname or "").lower()
    entries = [entry.strip().lower() for entry in _variable("NO_PROXY").split(",")]
    try:
        address = ip_address(host)
    except ValueError:
        names = [entry.removeprefix(".") for entry in entries if entry]
        return any(name == "*" or host == name or host.endswith(f".{name}") for name in names)
    return any(address in network for network in map(_network, entries) if network is not None)


def _network(entry: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        return None
