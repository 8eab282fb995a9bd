"""What a credential is, known in one place: which options hold one, where text may hold one, and how it is blanked.

An option is a credential unless it is known not to be: stores have dozens of names for theirs. In text a credential is what stands in the
options, in any encoding, and what has the form of one: a user with a password in a URL, a signature, a key of a connection string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

BLANK = "***"
_PREFIXES = ("aws_", "google_", "azure_storage_", "azure_")
#: Options that say where and how, and never who: without the prefix of their store.
_ADDRESSES = frozenset(("endpoint", "endpoint_url", "endpoint_url_s3", "metadata_endpoint", "msi_endpoint", "proxy_url"))
_SWITCHES = frozenset(
    (
        *("allow_http", "allow_invalid_certificates", "disable_tagging", "http1_only", "http2_only", "imdsv1_fallback", "request_payer"),
        *("s3_express", "skip_signature", "unsigned_payload", "use_azure_cli", "use_emulator", "use_fabric_endpoint"),
        "virtual_hosted_style_request",
    )
)
_NAMES = frozenset(
    (
        *("account_name", "authority_host", "authority_id", "bucket", "bucket_name", "checksum_algorithm", "client_id", "conditional_put"),
        *("connect_timeout", "container_name", "copy_if_not_exists", "default_region", "fabric_cluster_identifier", "pool_idle_timeout"),
        *("pool_max_idle_per_host", "proxy_excludes", "region", "tenant_id", "timeout", "user_agent"),
    )
)
_HARMLESS = _ADDRESSES | _SWITCHES | _NAMES
#: The same of Hadoop's options, which end so.
_HARMLESS_ENDS = (".endpoint", ".endpoint.region", ".path.style.access", ".ssl.enabled", ".impl", ".connection.maximum", ".threads.max")
_ENVIRONMENT = {"s3": "AWS_", "s3a": "AWS_", "gs": "GOOGLE_", "az": "AZURE_", "abfs": "AZURE_", "abfss": "AZURE_"}

#: In running text, which quotes and blanks end. A password may hold slashes (S3's do); what begins with a port and a slash has none.
_USERINFO = re.compile(r"(?<=://)[^/\s@'\"]*:(?:[^/\s'\"]*|(?!\d{1,5}/)[^\s'\"]*)@")
#: In a text that is one URI, or was meant to be one.
_USER_OF_URI = re.compile(r"(?<=:/)(/?)[^/@]*:.*@", re.DOTALL)
_SECRET_NAME = (
    r"(?:(?<![A-Za-z0-9])(?:sig|signature|pwd|pass|sas|cookie)|x-(?:amz|goog)-(?:signature|credential)|passw(?:or)?d|passphrase|secret|token|authorization|credentials?"
    r"|(?:access|account|shared|private|api|customer|encryption|sas)[._-]?(?:access[._-]?)?key|sharedaccesssignature)[\w.-]{0,120}"
)
_PREFIX = r"[\w.-]{0,80}?"
#: Name, what stands between, value: of queries, headers, JSON, Python, Hadoop's configuration (``fs.azure.account.key.<account>=...``).
_BETWEEN = r"%3D|['\"]?\s*(?:=>|->|[:=])\s*(?:\[|Some\()?"
_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s&;'\"<>]+"
_QUERY = re.compile(rf"({_SECRET_NAME})({_BETWEEN})({_VALUE})", re.IGNORECASE)
_PAIR = re.compile(rf"((?:spark|fs)\.{_PREFIX}{_SECRET_NAME}(?:,|[ \t])[ \t]*)(?!->|=>)[^\s,)]+", re.IGNORECASE)
_HADOOP_XML = re.compile(rf"(<name>{_PREFIX}{_SECRET_NAME}</name>\s*<value>)[^<]*", re.IGNORECASE)
_XML = re.compile(r"(<(\w*(?:secret|access|private)\w*key\w*|\w*token|\w*password)>)[^<]*", re.IGNORECASE)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_TOKEN_OF_URL = re.compile(r"(?:(?<=https://)|(?<=http://))[^/\s@'\"]+@", re.IGNORECASE)
_HEADER = re.compile(
    r"\b(authorization\"?\s*[:=]\s*\"?)?(bearer|basic|aws4-hmac-sha256|sharedkey)\s+[^\s'\"<>]{8,}[^'\"\n<>]*", re.IGNORECASE
)
_PERCENT = re.compile("%[0-9A-F]{2}")
_SHORTEST = 4
#: A line of a key over several lines that is long enough to be nothing else.
_LINE = 12


def is_credential(name: str) -> bool:
    """Whether a storage option holds a secret, by its name."""
    lower = name.lower()
    if lower.startswith("schemamig."):
        return False
    if lower.startswith("fs."):
        return not lower.endswith(_HARMLESS_ENDS)
    return _bare(lower) not in _HARMLESS


def secrets_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """Every text in the options that is a secret, and as other programs may write it; the longest first."""
    found: set[str] = set()
    for name, value in options.items():
        switch = _bare(name.lower()) in _SWITCHES  # whatever else than true and false stands there by mistake
        found.update(_parts(value) if switch or is_credential(name) else _userinfo(value))
    plain = found | {unquote(secret) for secret in found}
    spelled = {text for secret in plain for text in _spellings(secret)}
    return tuple(sorted((text for text in spelled if _counts(text)), key=lambda text: (-len(text), text)))


def _spellings(secret: str) -> Iterator[str]:
    """As URLs and JSON may write it."""
    for text in (secret, quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield from (text, _PERCENT.sub(lambda match: match[0].lower(), text))
    for text in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield from (text, text.replace("/", "\\/"))


def blank(text: str, secrets: tuple[str, ...] = ()) -> str:
    """``text`` without these secrets, and without whatever looks like one."""
    for secret in secrets:
        text = text.replace(secret, BLANK)
    text = _PEM.sub(BLANK, text)
    text = _TOKEN_OF_URL.sub(f"{BLANK}@", _USERINFO.sub(f"{BLANK}@", text))
    text = _HEADER.sub(lambda match: f"{match[1] or ''}{match[2]} {BLANK}", text)
    text = _QUERY.sub(lambda match: f"{match[1]}{match[2]}{_in_its_quotes(match[3])}", text)
    for pattern in (_HADOOP_XML, _XML, _PAIR):
        text = pattern.sub(rf"\1{BLANK}", text)
    return text


def _in_its_quotes(value: str) -> str:
    quotes = value[0] if value[0] in "'\"" else ""
    return f"{quotes}{BLANK}{quotes}"


def holds_userinfo(uri: str) -> bool:
    """Whether a URI names a user with a password before its host (``s3://key:secret@bucket``)."""
    return _USER_OF_URI.search(uri) is not None


def blank_uri(uri: str) -> str:
    """A text that was meant to be one URI, without its user and whatever else looks like a credential."""
    return blank(_USER_OF_URI.sub(rf"\1{BLANK}@", uri))


def address_faults(options: Mapping[str, str], scheme: str, environment: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the addresses that a client of this scheme gets, from the options or the process's environment; without values."""
    prefix = _ENVIRONMENT.get(scheme, "-")
    around = {name: value for name, value in environment.items() if name.startswith(prefix)}
    for name, value in (*around.items(), *options.items()):
        short = _bare(name.lower())
        if short not in _ADDRESSES or not value:
            continue
        if not _is_address(value):
            yield f"{name} is no URL like https://host:port"
        elif short != "proxy_url" and "@" in urlsplit(value).netloc:
            yield f"{name} holds a user or password, which belong into options of their own"


def _bare(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)


def _is_address(value: str) -> bool:
    if any(character.isspace() or not character.isprintable() for character in value):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme.lower() in ("http", "https", "socks5", "socks5h") and bool(parts.hostname) and (parts.port is None or True)
    except ValueError:
        return False


def _parts(value: str) -> Iterator[str]:
    """A secret, and the secrets inside of it: a SAS token's signature, a connection string's key, a JSON key file's texts."""
    yield value
    yield value.lstrip("?")
    for pair in re.split("[&;]", value.lstrip("?")):
        name, _, text = pair.partition("=")
        if name.strip().lower() in ("sig", "accountkey", "sharedaccesssignature", "sharedaccesskey"):
            yield text
    if value.lstrip().startswith("{"):
        try:
            yield from _texts(json.loads(value))
        except ValueError:
            return
    yield from _userinfo(value)


def _texts(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for name, value in document.items():
            if "key" in str(name).lower() or "secret" in str(name).lower() or "token" in str(name).lower():
                yield from _texts(value)
    elif isinstance(document, str):
        yield document
        yield from (line for line in document.splitlines() if len(line) >= _LINE)


def _userinfo(value: str) -> Iterator[str]:
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = None
    if parts is not None and parts.password:
        yield parts.password
        yield f"{parts.username}:{parts.password}"
    yield from (match.group().removesuffix("@") for match in _USERINFO.finditer(value))
    yield from (match.group().removesuffix("@").partition(":")[2] for match in _USERINFO.finditer(value))


def _counts(text: str) -> bool:
    """Short texts, numbers and switches stand everywhere: they are nobody's secret."""
    return len(text) >= _SHORTEST and text.lower() not in ("true", "false", "none", "null") and not (text.isdigit() and len(text) < 8)
