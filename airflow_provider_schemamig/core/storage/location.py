"""Where something lies, and the options it takes to get there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_schemamig.core.storage.errors import InvalidLocation, InvalidStorageOption
from airflow_provider_schemamig.core.storage.surroundings import option_of, proxy_fault, with_surroundings
from airflow_provider_schemamig.credentials import BLANK, address_faults, blank, blank_uri, holds_key, holds_userinfo, secrets_of

SCHEMES = frozenset({"file", "s3", "s3a", "gs", "abfs", "abfss", "az", "memory"})
#: The option by which a connection declares that every Spark writer on S3 uses a conditional-create LogStore.
CONDITIONAL_LOG_STORE = "schemamig.conditional_log_store"
#: The option of an environment that is made to be thrown away: nothing is synced to the disk, nothing is looked at again, nothing audited.
THROWAWAY = "schemamig.throwaway"
#: The option of how many requests may be under way at once.
REQUESTS_AT_ONCE = "schemamig.requests_at_once"

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(.*)", re.DOTALL)
# ? and # would begin a URI's query or fragment, a backtick would end Spark's delta.`path`.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f`?#]")
# What lies at a location is opened by our stores, by delta-rs and by Spark, each from the same text. delta-rs decodes a %, even of a URI
# that was encoded for it, takes a \ for a /, gives up over [ ] ^ | and over what is not Unicode, and leaves a blank at the end away.
# Spark takes * { } [ ] \ for a pattern where it is given files. All else is one folder for all (tests/unit/storage/test_one_folder.py).
_MISREAD = re.compile(r"[%\\*{}\[\]^|\ud800-\udfff]|\s\Z")
#: ``container@account``.
_WITH_CONTAINER = ("abfs:", "abfss:", "az:")
_AFTER_QUERY = re.compile(r"\?.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute URI with its scheme and no slash at the end. Paths are not percent-encoded, as in Hadoop and Spark.

    Of one that was parsed, every text made from it is the same folder to our stores, to delta-rs and to Spark.
    """

    uri: str

    @classmethod
    def parse(cls, text: str) -> Location:
        """Parse a plain path (made absolute) or a file, s3, s3a, gs, abfs, abfss, az or memory URI. Raises InvalidLocation."""
        location = cls._read(text)
        if (found := _MISREAD.search(location.uri)) is not None:
            raise _invalid(location.uri, _misread(found[0]))
        return location

    @classmethod
    def of_files(cls, path: Path) -> Location:
        """Parse a folder on this machine that holds no tables, as a release's: only we open it, so people and CI may name it as they
        like."""
        return cls._read(str(path))

    @classmethod
    def _read(cls, text: str) -> Location:
        if not text.strip():
            raise _invalid(text, "it is empty")
        if _FORBIDDEN.search(text):
            raise _invalid(text, "control characters, backticks, ? and # are not allowed")
        if text != text.strip():
            raise _invalid(text.strip(), "it begins or ends with a blank")
        if holds_key(text):
            raise _invalid(text, "it is a connection string with a key, which belongs into the storage options")
        match = _URI.fullmatch(text)
        if match is None and "://" in text:
            raise _invalid(text, "it is neither a path nor a URI")
        if match is None:
            return cls(f"file://{_absolute(text)}")
        scheme, rest = match[1].lower(), match[2]
        if scheme not in SCHEMES:
            raise _invalid(text, f"the scheme {scheme} is not one of {', '.join(sorted(SCHEMES))}")
        if scheme == "file":
            return cls(f"file://{_file_path(text, rest)}")
        return cls(f"{scheme}://{_bucket_and_key(text, rest)}")

    @property
    def scheme(self) -> str:
        return self.uri.partition("://")[0]

    @property
    def local_path(self) -> Path | None:
        """Return the path on this machine's file system; None for object stores."""
        return Path(self.uri.removeprefix("file://")) if self.scheme == "file" else None

    @property
    def parent(self) -> Location | None:
        """Return the folder that this one lies in; None at the root of a disk or of a bucket."""
        scheme, _, path = self.uri.partition("://")
        above, slash, name = path.rpartition("/")
        return Location(f"{scheme}://{above or '/'}") if slash and name and (above or scheme == "file") else None

    def child(self, *parts: str) -> Location:
        """Return a location below this one; each part is one name. Raises InvalidLocation for names that would lead elsewhere."""
        for part in parts:
            if not part or part in (".", "..") or "/" in part or _FORBIDDEN.search(part) or _MISREAD.search(part):
                raise InvalidLocation(uri=f"{self.uri}/{part}", rule=f"{part!r} is not a plain name")
        return Location("/".join((self.uri.rstrip("/"), *parts)))

    def __str__(self) -> str:
        return self.uri


def check_addresses(location: Location, options: Mapping[str, str]) -> None:
    """Refuse endpoints that are no URL (clients of stores panic over them) or hold a password, and proxies of no address.

    Raises InvalidStorageOption.
    """
    if location.scheme not in ("file", "memory"):
        fault = next(address_faults(options, location.scheme, os.environ), None) or proxy_fault(options, location.scheme)
        if fault is not None:
            raise InvalidStorageOption(uri=location.uri, reason=fault)


def with_account(location: Location, options: Mapping[str, str]) -> Location:
    """Return ``az://container/path`` with the account's name in it, which Spark has to find there: ``abfss://container@account...``.

    As it is where no account is known, and where the account has an endpoint of its own, which object_store knows for ``az`` only.
    """
    scheme, _, rest = location.uri.partition("://")
    container, slash, path = rest.partition("/")
    if scheme not in ("az", "abfs", "abfss") or "@" in container:
        return location
    around = with_surroundings(options)
    account = option_of(around, "azure_storage_account_name")
    elsewhere = any(option_of(around, f"azure_{name}") for name in ("storage_endpoint", "storage_use_emulator", "use_fabric_endpoint"))
    if account is None or elsewhere:
        return location
    return Location(f"abfss://{container}@{account}.dfs.core.windows.net{slash}{path}")


def spark_uri(uri: str) -> str:
    """Return the URI as Hadoop and so Spark spell it: ``s3://`` is ``s3a://`` there."""
    return f"s3a://{uri.removeprefix('s3://')}" if uri.startswith("s3://") else uri


def place_of(location: Location) -> str:
    """Return the same for two spellings of one place: links on a local disk, s3 and s3a."""
    path = location.local_path
    return os.path.realpath(path) if path is not None else spark_uri(location.uri)


def _absolute(text: str) -> str:
    try:
        return os.path.abspath(os.path.expanduser(text))
    except FileNotFoundError:
        raise _invalid(text, "it is relative, and the working directory is gone") from None


def _file_path(text: str, rest: str) -> str:
    """Return the path of ``file:/a``, ``file:///a`` and ``file://localhost/a``, which is the same."""
    host, slash, path = rest[1:].partition("/") if rest.startswith("/") else ("", "/", rest)
    if host not in ("", "localhost") or not slash:
        raise _invalid(text, "a file URI has the form file:///absolute/path")
    return os.path.abspath("/" + path)


def _bucket_and_key(text: str, rest: str) -> str:
    if not rest.startswith("/"):
        raise _invalid(text, "two slashes follow the scheme")
    if holds_userinfo(text):
        raise _invalid(text, "it holds a user and a password, which belong into the storage options")
    bucket, *parts = rest[1:].rstrip("/").split("/")
    if "@" in bucket and not text.lower().startswith(_WITH_CONTAINER):
        shown = text.replace(bucket, f"{BLANK}@{bucket.rpartition('@')[2]}")
        raise _invalid(shown, "it holds a user, who belongs into the storage options")
    if not bucket:
        raise _invalid(text, "the bucket or container is missing")
    if any(part in ("", ".", "..") for part in parts):
        raise _invalid(text, "empty, . and .. parts are not allowed")
    return "/".join((bucket, *parts))


def _misread(found: str) -> str:
    if found == "%":
        return "a % is not allowed, for Delta's libraries would decode it; a path is given as it is, never with %20 and the like"
    if found.isspace():
        return "it ends with a blank"
    return f"{found!r} is not allowed: the libraries that read and write Delta tables would look elsewhere, or for a pattern"


def _invalid(text: str, rule: str) -> InvalidLocation:
    """Make the error with as much of the text as may be shown: what follows a ? or stands before a @ is a credential more often than
    not."""
    return InvalidLocation(uri=blank_uri(_AFTER_QUERY.sub("?***", text)), rule=rule)


class StorageOptions(Mapping[str, str]):
    """Storage options by object_store's names. They may hold credentials: values show up in no repr, log or error."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self._values))})"

    @property
    def conditional_log_store(self) -> bool:
        return self._values.get(CONDITIONAL_LOG_STORE, "").lower() == "true"

    @property
    def throwaway(self) -> bool:
        return self._values.get(THROWAWAY, "").lower() == "true"

    @property
    def requests_at_once(self) -> int | None:
        """Return how many requests may be under way at once; None: nobody said it. Raises ValueError where it is no number above 0."""
        text = self._values.get(REQUESTS_AT_ONCE)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1024:
            raise ValueError(f"{REQUESTS_AT_ONCE} is a number from 1 to 1024")
        return int(text)

    def redact(self, text: str) -> str:
        """Return ``text`` without any credential, of these options or of anybody: libraries quote requests in their errors."""
        return blank(text, secrets_of(self._values))
