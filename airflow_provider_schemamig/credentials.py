"""What a credential is, known in one place: which options hold one, where text may hold one, and how it is blanked.

An option is a credential unless it is known not to be: stores have dozens of names for theirs; and the value of one that is known not to be
is a credential, too, where it has not the form of what belongs there. In text a credential is what stands in the options, in any encoding,
and what has the form of one: a user with a password in a URL, a signature, a key of a connection string.
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
_SWITCH = re.compile("true|false|yes|no|on|off|[01]|requester", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,9}")
_DURATION = re.compile(r"\d{1,9}|(?:\d{1,9}(?:\.\d{1,9})?\s*(?:ns|us|ms|s|m|h|d|secs?|mins?|seconds?|minutes?|hours?|days?)\s*)+")
_BUCKET = re.compile(r"[a-z0-9$][a-z0-9._$-]*")
_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|[a-z0-9-]+(?:\.[a-z0-9-]+)+|\d+|common|organizations", re.IGNORECASE)
_HOST = r"\*|localhost|[\w*-]*(?:\.[\w-]*)+(?:/\d+)?|[0-9a-f]*(?::[0-9a-f]*)+(?:/\d+)?"
_HOSTS = re.compile(rf"(?:{_HOST})(?:\s*,\s*(?:{_HOST}))*", re.IGNORECASE)
_URL = re.compile(r"(?:https?://)?[a-z0-9.-]+(?::\d+)?/?", re.IGNORECASE)
#: What says where and how, with the form of what belongs there: what has another form stands there by mistake.
_FORMS = {
    "account_name": re.compile(r"[a-z0-9]+"),
    "authority_host": _URL,
    "authority_id": _ID,
    "bucket": _BUCKET,
    "bucket_name": _BUCKET,
    "checksum_algorithm": re.compile(r"[a-z]+-?\d+c?", re.IGNORECASE),
    "client_id": _ID,
    "conditional_put": re.compile(r"etag|disabled|etag-put-if-not-exists|dynamo:.*"),
    "connect_timeout": _DURATION,
    "container_name": _BUCKET,
    "copy_if_not_exists": re.compile(r"multipart|header:.*|header-with-status:.*|dynamo:.*"),
    "default_region": re.compile("[a-z0-9-]+"),
    "fabric_cluster_identifier": _ID,
    "pool_idle_timeout": _DURATION,
    "pool_max_idle_per_host": _NUMBER,
    "proxy_excludes": _HOSTS,
    "region": re.compile("[a-z0-9-]+"),
    "tenant_id": _ID,
    "timeout": _DURATION,
    "user_agent": re.compile(r"[A-Za-z][\w.-]*/\d[\w.+-]*(?: .*)?"),
}
_HARMLESS = _ADDRESSES | _SWITCHES | frozenset(_FORMS)
#: The same of Hadoop's options, which end so.
_HARMLESS_ENDS: dict[str, re.Pattern[str]] = {
    ".endpoint": _URL,
    ".endpoint.region": _FORMS["region"],
    ".path.style.access": _SWITCH,
    ".ssl.enabled": _SWITCH,
    ".impl": re.compile(r"[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)+"),
    ".connection.maximum": _NUMBER,
    ".threads.max": _NUMBER,
}
_ENVIRONMENT = {"s3": "AWS_", "s3a": "AWS_", "gs": "GOOGLE_", "az": "AZURE_", "abfs": "AZURE_", "abfss": "AZURE_"}

#: In running text, which quotes and blanks end. A password may hold slashes (S3's do); what begins with a port and a slash has none.
_USERINFO = re.compile(r"(?<=://)[^/\s@'\"]*:(?:[^/\s'\"]*|(?!\d{1,5}/)[^\s'\"]*)@")
#: In a text that is one URI, or was meant to be one.
_USER_OF_URI = re.compile(r"(?<=:/)(/?)[^/@]*:.*@", re.DOTALL)
_SECRET_NAME = (
    r"(?:(?<![A-Za-z0-9])(?:sig|signature|pwd|pass|sas|cookies?)(?![A-Za-z])"
    r"|x-(?:amz|goog)-(?:signature|credential)|passw(?:or)?d|passphrase|secret|token|authorization|credentials?"
    r"|(?:access|account|shared|private|api|customer|encryption|sas)[._-]?(?:access[._-]?)?key|sharedaccesssignature)[\w.-]{0,120}"
)
_PREFIX = r"[\w.-]{0,80}?"
#: How a token is given, before it.
_SCHEME = "bearer|basic|digest|negotiate|token|api-?key|aws4-hmac-sha256|sharedkey"
#: A quote, also one within quotes of a text that was written into another one.
_MARK = r"\\*['\"]"
#: What may stand before a quote: that, or a letter of Python's; the name of what it is given to (``SecretStr(``).
_BEFORE = r"(?:[\w.]{1,40}\((?=[bruf]{0,2}['\"\\]))?(?:\\+(?=['\"])|[bruf]{1,2}(?=['\"]))?"
#: Name, what stands between, value: of queries, headers, JSON, Python, Hadoop's configuration (``fs.azure.account.key.<account>=...``).
_BETWEEN = rf"%3D|{_MARK}?\s*(?:=>|->|[:=])\s*(?:\[|Some\()?{_BEFORE}"
#: A quote within quotes is escaped or doubled, if there is one after it; a token may follow the word for how it is given.
_QUOTED = "|".join(
    rf"{mark * 3}[\s\S]*?{mark * 3}|{mark}(?:[^{mark}\\]|\\[\s\S]|{mark * 2})*{mark}|{mark}[^{mark}\n]*{mark}?" for mark in "\"'"
)
_VALUE = rf"{_QUOTED}|<[^\s<>]+>?|(?:(?:{_SCHEME})[ \t]+)?[^\s&;'\"<>]+"
_QUERY = re.compile(rf"({_SECRET_NAME})({_BETWEEN})({_VALUE})", re.IGNORECASE)
_PAIR = re.compile(rf"((?:spark|fs)\.{_PREFIX}{_SECRET_NAME}(?:,|[ \t])[ \t]*)(?!->|=>)[^\s,)]+", re.IGNORECASE)
#: In a text of our own, or one that somebody typed.
_TYPED_BETWEEN = rf"%3D|{_MARK}?=(?!=){_BEFORE}|{_MARK}?\s*=\s*{_BEFORE}(?=['\"])|{_MARK}\s*:\s*{_BEFORE}(?=['\"])"
_TYPED = re.compile(rf"({_SECRET_NAME})({_TYPED_BETWEEN})({_VALUE})", re.IGNORECASE)
_TYPED_HEADER = re.compile(rf"\b(authorization\"?\s*[:=]\s*\"?)({_SCHEME})\s+[^\s'\"<>]{{8,}}[^'\"\n<>]*", re.IGNORECASE)
_MAYBE = re.compile(r"[=@]|%3D|['\"]\s*:|-----BEGIN|authorization", re.IGNORECASE)
_URI_BEGINS = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:/")
_KEY_OF_STRING = re.compile(r"(?:accountkey|sharedaccesskey|sharedaccesssignature)\s*=", re.IGNORECASE)
_HADOOP_XML = re.compile(rf"(<name>{_PREFIX}{_SECRET_NAME}</name>\s*<value>)[^<]*", re.IGNORECASE)
_XML = re.compile(r"(<(\w*(?:secret|access|private)\w*key\w*|\w*token|\w*password)>)[^<]*", re.IGNORECASE)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_TOKEN_OF_URL = re.compile(r"(?:(?<=https://)|(?<=http://))[^/\s@'\"]+@", re.IGNORECASE)
_HEADER = re.compile(
    r"\b(authorization\"?\s*[:=]\s*\"?)?(bearer|basic|aws4-hmac-sha256|sharedkey)\s+[^\s'\"<>]{8,}[^'\"\n<>]*", re.IGNORECASE
)
#: Of a reason: all of the line after ``Authorization:``; of another name with a colon, the word after the scheme, too.
_AUTHORIZATION = re.compile(r"(authorization['\"]?\s*[:=]\s*)[^\n]+", re.IGNORECASE)
_SCHEMED = re.compile(
    rf"({_SECRET_NAME}['\"]?\s*[:=]\s*['\"]?)(?:{_SCHEME})[\s:]+[^\s'\"]+",
    re.IGNORECASE,
)
_PERCENT = re.compile("%[0-9A-F]{2}")
_SHORTEST = 4
#: A line of a key over several lines that is long enough to be nothing else.
_LINE = 12


def is_credential(name: str) -> bool:
    """Return whether a storage option holds a secret, by its name."""
    lower = name.lower()
    if lower.startswith("schemamig."):
        return False
    if lower.startswith("fs."):
        return not lower.endswith(tuple(_HARMLESS_ENDS))
    return _bare(lower) not in _HARMLESS


def secrets_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return every text in the options that is a secret, and as other programs may write it; the longest first."""
    found: set[str] = set()
    for name, value in options.items():
        found.update(_userinfo(value) if is_harmless(name, value) else _parts(value))
    plain = found | {unquote(secret) for secret in found}
    spelled = {text for secret in plain for text in _spellings(secret)}
    return tuple(sorted((text for text in spelled if _counts(text)), key=lambda text: (-len(text), text)))


def is_harmless(name: str, value: str) -> bool:
    """Return whether an option is no credential, and its value what belongs there: parsers and servers quote what they cannot use."""
    if is_credential(name):
        return False
    bare = _bare(name.lower())
    if bare in _ADDRESSES:
        return True  # ``address_faults`` refuses what is none
    if bare in _SWITCHES or bare.startswith("schemamig."):
        form = _SWITCH
    else:
        form = _FORMS.get(bare) or next(found for end, found in _HARMLESS_ENDS.items() if bare.endswith(end))
    return form.fullmatch(value.strip()) is not None


def _spellings(secret: str) -> Iterator[str]:
    """Yield a secret as URLs and JSON may write it."""
    for text in (secret, quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield from (text, _PERCENT.sub(lambda match: match[0].lower(), text))
    for text in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield from (text, text.replace("/", "\\/"))


def blank(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Blank these secrets in ``text``, and whatever looks like one."""
    for secret in secrets:
        text = text.replace(secret, BLANK)
    text = _PEM.sub(BLANK, text)
    text = _TOKEN_OF_URL.sub(f"{BLANK}@", _USERINFO.sub(f"{BLANK}@", text))
    text = _HEADER.sub(lambda match: f"{match[1] or ''}{match[2]} {BLANK}", text)
    text = _SCHEMED.sub(rf"\1{BLANK}", text)
    text = _blank_values(_QUERY, text)
    for pattern in (_HADOOP_XML, _XML, _PAIR):
        text = pattern.sub(rf"\1{BLANK}", text)
    return text


def blank_own(text: str) -> str:
    """Blank what looks like a credential in our own texts and those of people.

    A colon alone assigns nothing here: columns have names like ``token``, and sentences have colons.
    """
    if not _MAYBE.search(text):
        return text
    text = _PEM.sub(BLANK, text)
    text = _TOKEN_OF_URL.sub(f"{BLANK}@", _USERINFO.sub(f"{BLANK}@", text))
    text = _TYPED_HEADER.sub(lambda match: f"{match[1]}{match[2]} {BLANK}", text)
    return _blank_values(_TYPED, text)


def blank_typed(text: str) -> str:
    """Return the same of one text that somebody typed: where it begins as a URI, whatever may be its user goes as a whole."""
    return blank_own(_USER_OF_URI.sub(rf"\1{BLANK}@", text) if _URI_BEGINS.match(text) else text)


def blank_reason(text: str) -> str:
    """Return the same of a sentence for others to read; here a colon assigns, too: ``password: hunter2``.

    What follows a word for how a token is given is one, whatever the word: ``token: Bearer hunter2``.
    """
    text = _SCHEMED.sub(rf"\1{BLANK}", _AUTHORIZATION.sub(rf"\1{BLANK}", text))
    return _blank_values(_QUERY, blank_typed(text))


def holds_key(text: str) -> bool:
    """Return whether a text that should be a place is a store's connection string, or a part of one."""
    return _KEY_OF_STRING.search(text) is not None


def _blank_values(pattern: re.Pattern[str], text: str) -> str:
    """Blank the value of each name in the text, within its quotes."""

    def blanked(match: re.Match[str]) -> str:
        quotes = match[3][0] if match[3][0] in "'\"" else ""
        return f"{match[1]}{match[2]}{quotes}{BLANK}{quotes}"

    return pattern.sub(blanked, text)


def holds_userinfo(uri: str) -> bool:
    """Return whether a URI names a user with a password before its host (``s3://key:secret@bucket``)."""
    return _USER_OF_URI.search(uri) is not None


def blank_uri(uri: str) -> str:
    """Blank the user, and all that looks like a credential, in a text meant as one URI."""
    return blank(_USER_OF_URI.sub(rf"\1{BLANK}@", uri))


def address_faults(options: Mapping[str, str], scheme: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the faults of the addresses in the options, and in those variables of the environment that a client of this scheme reads;
    without values."""
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
    """Yield a secret, and the secrets inside of it: a SAS token's signature, a connection string's key, a JSON key file's texts."""
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
    """Return whether a text may be a secret: short texts, numbers and switches stand everywhere."""
    return len(text) >= _SHORTEST and text.lower() not in ("true", "false", "none", "null") and not (text.isdigit() and len(text) < 8)
