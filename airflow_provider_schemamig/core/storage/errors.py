"""Why a file or an object cannot be read or written (the layer's branch of the error tree)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_schemamig.exceptions import Conflict, Refusal

#: The rule of a path (``InvalidLocation``) below which nothing can ever be put.
A_FILE_ON_THE_WAY = "a part of its path is a file, not a folder"


class InvalidLocation(Refusal):
    code = "invalid_location"
    message = "{uri!r} is not a usable location: {rule}."
    next_action = (
        "Give a path, or a URI like file:///data/lake, s3://bucket/lake, gs://bucket/lake, "
        "abfss://container@account.dfs.core.windows.net/lake."
    )
    uri: str
    rule: str


class InvalidStorageOption(Refusal):
    """An option the store does not know or cannot use. ``reason`` never holds an option's value."""

    code = "invalid_storage_option"
    message = "the storage options do not fit {uri}: {reason}."
    next_action = (
        "Options have object_store's names, such as aws_region or azure_storage_account_name, in capitals where they are variables of a "
        "shell; correct them there or in the connection."
    )
    uri: str
    reason: str


class NotOurPlace(Refusal):
    """A folder to be deleted is not below the root, or is none of those that we make."""

    code = "not_our_place"
    message = "{uri} is not deleted: {rule}."
    uri: str
    rule: str
    is_link: bool = False

    @property
    def next_action(self) -> str:
        if self.is_link:
            return "Put the folder itself where the link is, then try again: what a link leads to is never deleted."
        return "Look who wrote that: `schemamig ledger verify` lists rows whose place is wrong, `schemamig ledger edit` corrects one."


def is_panic(error: BaseException) -> bool:
    """Return whether a library written in Rust panicked: pyo3's PanicException is no Exception, and each library has its own class for
    it."""
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


class ObjectMissing(Refusal):
    code = "object_missing"
    message = "there is nothing at {uri}."
    next_action = "Check the URI."
    uri: str


class ObjectExists(Conflict):
    """Put-if-absent came second."""

    code = "object_exists"
    message = "{uri} was written by somebody else first."
    next_action = "Read what is there and try again."
    uri: str


class StorageUnreachable(Conflict):
    """The store gave no clear answer. After a write its outcome is unknown; every write of ours can be repeated."""

    code = "storage_unreachable"
    message = "the store of {uri} cannot be reached: {reason}."
    next_action = "Check the network, the endpoint and the bucket's name, then try again."
    uri: str
    reason: str


class StorageThrottled(Conflict):
    """The store asked for fewer requests (503, 429), and went on asking while we waited longer and longer."""

    code = "storage_throttled"
    message = "the store of {uri} takes no more requests for now: {reason}."
    next_action = "Try again later: it goes on from where it is. Ask the store's operator for a higher request rate, or do less at once."
    uri: str
    reason: str


class CredentialsExpired(Conflict):
    """The store knew who asked, and takes the credentials no longer; after they are renewed the work goes on."""

    code = "credentials_expired"
    message = "the credentials for {uri} have expired: {reason}."
    next_action = "Renew them where they come from (the connection, the environment's variables), then run it again: it goes on."
    uri: str
    reason: str


class WrongRegion(Refusal):
    """The bucket is in another region than the one that requests are signed for. ``region``: the right one, if the store named it."""

    code = "wrong_region"
    uri: str
    region: str | None = None

    @property
    def message(self) -> str:
        there = f"in the region {self.region}" if self.region else "not in the region"
        return f"the bucket of {self.uri} is {there}{', and requests go to another one' if self.region else ' that requests go to'}."

    @property
    def next_action(self) -> str:
        region = self.region or "its region"
        return (
            f"Set the storage option aws_region, or AWS_REGION in the environment, to {region}; an endpoint, if one is set, goes with it."
        )


class ClockSkewed(Refusal):
    """The store refuses requests that were signed at another time. ``seconds``: how far this machine's clock is ahead."""

    code = "clock_skewed"
    next_action = "Set this machine's clock (NTP), then run it again."
    uri: str
    seconds: int | None = None

    @property
    def message(self) -> str:
        off = "" if self.seconds is None else f" ({abs(self.seconds)} s {'ahead' if self.seconds > 0 else 'behind'})"
        return f"the store of {self.uri} refuses requests because this machine's clock is wrong{off}."


class BucketMissing(Refusal):
    code = "bucket_missing"
    message = "there is no bucket or container for {uri}."
    next_action = "Check its name and the endpoint, or create it: schemamig makes none."
    uri: str


class StoreUnfit(Refusal):
    """A store that forgets an acknowledged write, or does not list it. No log can be kept there."""

    code = "store_unfit"
    message = "the store of {uri} cannot keep a log: {reason}."
    next_action = "Use a store that is consistent (S3, GCS, Azure, versitygw), directly and not through a cache."
    uri: str
    reason: str


class StorageForbidden(Refusal):
    code = "storage_forbidden"
    message = "access to {uri} is denied: {reason}."
    next_action = (
        "Give the user of this process, or the owner of the credentials, the right to read and write there; are these wrong or missing, "
        "correct them (AWS_ACCESS_KEY_ID and the like, or the storage options)."
    )
    uri: str
    reason: str


class StorageReadOnly(Refusal):
    code = "storage_read_only"
    message = "{uri} is on a read-only file system; nothing was written."
    next_action = "Mount it for writing, or use another location."
    uri: str


class StorageFull(Refusal):
    code = "storage_full"
    message = "no space is left to write {uri}; this write left nothing behind."
    next_action = "Make room on the device or raise the quota, then run again."
    uri: str


class PutIfAbsentIgnored(Refusal):
    """A store that lets a second writer replace the first's object: no log can be kept there."""

    code = "put_if_absent_ignored"
    message = "the store of {uri} does not honour put-if-absent: {reason}."
    next_action = "Use a store that honours If-None-Match (docs/object-stores.md says which were tested), or a file system with hard links."
    uri: str
    reason: str = "a second conditional write replaced the first one's object"


class UnsafeLogStore(Refusal):
    """A Spark commits with one of Delta's own LogStores, which overwrite on S3, so a metadata commit could be lost without a trace."""

    code = "unsafe_log_store"
    message = "{uri} is on S3, and {who} commits there without put-if-absent: it can silently replace a metadata commit of ours."
    next_action = (
        "Give that Spark schemamig's LogStore, which takes two lines of its settings (docs/object-stores.md), and let it commit once; or "
        "stop it, or give it another LogStore with conditional create, and declare that with the storage option "
        "schemamig.conditional_log_store=true."
    )
    uri: str
    who: str
