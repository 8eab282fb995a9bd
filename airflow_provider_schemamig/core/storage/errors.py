"""Why a file or an object cannot be read or written (the layer's branch of the error tree)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class InvalidLocation(Refusal):
    code = "invalid_location"
    uri: str
    rule: str

    @property
    def message(self) -> str:
        return f"{self.uri!r} is not a usable location: {self.rule}."

    @property
    def next_action(self) -> str:
        return "Give a path, or a URI like file:///data/lake, s3://bucket/lake, gs://bucket/lake, abfss://container@account.dfs.core.windows.net/lake."


@dataclass(eq=False)
class InvalidStorageOption(Refusal):
    """An option the store does not know or cannot use. ``reason`` never holds an option's value."""

    code = "invalid_storage_option"
    uri: str
    reason: str

    @property
    def message(self) -> str:
        return f"the storage options do not fit {self.uri}: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Options have object_store's names, such as aws_region or azure_storage_account_name; mend them in the connection."


@dataclass(eq=False)
class NotOurPlace(Refusal):
    """What was to be deleted is not below the root, or is none of the folders that we make."""

    code = "not_our_place"
    uri: str
    rule: str
    is_link: bool = False

    @property
    def message(self) -> str:
        return f"{self.uri} is not deleted: {self.rule}."

    @property
    def next_action(self) -> str:
        if self.is_link:
            return "Put the folder itself where the link is, then try again: what a link leads to is never deleted."
        return "Look who wrote that: `schemamig ledger verify` lists rows whose place is wrong, `schemamig ledger edit` mends one."


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust gave up: pyo3's PanicException is no Exception, and each library has a class of its own for it."""
    return type(error).__name__ == "PanicException"


@contextmanager
def no_panics() -> Iterator[None]:
    """Raise RuntimeError for a panic: one over a file that is damaged concerns that file, and not the process."""
    try:
        yield
    except BaseException as error:
        if is_panic(error):
            raise RuntimeError(str(error)) from None
        raise


@dataclass(eq=False)
class ObjectMissing(Refusal):
    code = "object_missing"
    uri: str

    @property
    def message(self) -> str:
        return f"there is nothing at {self.uri}."

    @property
    def next_action(self) -> str:
        return "Check the URI."


@dataclass(eq=False)
class ObjectExists(Conflict):
    """Put-if-absent came second."""

    code = "object_exists"
    uri: str

    @property
    def message(self) -> str:
        return f"{self.uri} was written by somebody else first."

    @property
    def next_action(self) -> str:
        return "Read what is there and try again."


@dataclass(eq=False)
class StorageUnreachable(Conflict):
    """The store gave no clear answer. After a write its outcome is unknown; every write of ours can be repeated."""

    code = "storage_unreachable"
    uri: str
    reason: str

    @property
    def message(self) -> str:
        return f"the store of {self.uri} cannot be reached: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Check the network, the endpoint and the bucket's name, then try again."


@dataclass(eq=False)
class StorageForbidden(Refusal):
    code = "storage_forbidden"
    uri: str
    reason: str

    @property
    def message(self) -> str:
        return f"access to {self.uri} is denied: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Give the user of this process, or the credentials in the storage options, the right to read and write there."


@dataclass(eq=False)
class StorageReadOnly(Refusal):
    code = "storage_read_only"
    uri: str

    @property
    def message(self) -> str:
        return f"{self.uri} is on a read-only file system; nothing was written."

    @property
    def next_action(self) -> str:
        return "Mount it for writing, or use another location."


@dataclass(eq=False)
class StorageFull(Refusal):
    code = "storage_full"
    uri: str

    @property
    def message(self) -> str:
        return f"no space is left to write {self.uri}; nothing was changed."

    @property
    def next_action(self) -> str:
        return "Make room on the device or raise the quota, then run again."


@dataclass(eq=False)
class PutIfAbsentIgnored(Refusal):
    """A store that lets a second writer replace the first's object: no log can be kept there."""

    code = "put_if_absent_ignored"
    uri: str
    reason: str = "a second conditional write replaced the first one's object"

    @property
    def message(self) -> str:
        return f"the store of {self.uri} does not honour put-if-absent: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Use a store that honours If-None-Match (S3, GCS, Azure, MinIO), or a file system with hard links."


@dataclass(eq=False)
class UnsafeLogStore(Refusal):
    """Spark's own LogStores overwrite on S3, so a metadata commit could be lost without a trace."""

    code = "unsafe_log_store"
    uri: str

    @property
    def message(self) -> str:
        return f"{self.uri} is on S3, where Spark's stock LogStores can silently replace a metadata commit of ours."

    @property
    def next_action(self) -> str:
        return (
            "Give every Spark writer a LogStore with conditional create, or stop them while schemamig works, "
            "then declare it with the storage option schemamig.conditional_log_store=true."
        )
