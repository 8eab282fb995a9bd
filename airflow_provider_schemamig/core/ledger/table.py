"""The Delta table under the ledger: open, scan, append at exactly the next version.

A handle that is kept gets slower with every commit it has seen, so it is opened anew every 100 versions.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from airflow_provider_schemamig.core.ledger import delta_io
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, LedgerElsewhere, LedgerOutcomeUnknown
from airflow_provider_schemamig.core.ledger.existence import no_environment
from airflow_provider_schemamig.core.storage import ObjectMissing, StorageForbidden, StorageUnreachable, probe_put_if_absent
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

if TYPE_CHECKING:
    from deltalake import DeltaTable

FOLDER = f"{EnvironmentRoot.SYSTEM_FOLDER}/ledger"
LOG = f"{FOLDER}/_delta_log"
COLUMNS = (
    delta_io.Column("collection", "string"),
    delta_io.Column("key", "string"),
    delta_io.Column("value", "string"),
    delta_io.Column("ts", "bigint"),
    delta_io.Column("diff", "bigint"),
)

Mode = Literal["append", "overwrite"]

_REOPEN_AFTER = 100
#: How long a version that did not change is taken for the same commit without a look: one small read a second, not one a look.
LOOK_AGAIN_SECONDS = 1.0
#: Statistics of ts let a writer read what is new without opening every file; of JSON text they would be most of the log.
_PROPERTIES = {"delta.dataSkippingStatsColumns": "ts"}
#: object_store's words for a request that failed as a whole; a local file has no such thing.
_DENIED = re.compile(r"Permission denied|PermissionDenied|\b403 Forbidden\b|AccessDenied")
_NO_ANSWER = re.compile(r"Generic (?!Local)\w+ error")


class LedgerTable:
    """Reads raise NoEnvironment, LedgerDamaged or a storage error; a commit raises whatever delta-rs says, the caller resolves it."""

    def __init__(self, env: EnvironmentRoot) -> None:
        self.env = env
        self._handle: DeltaTable | None = None
        self._opened_at = 0
        #: The version that ``head`` saw last, and whose commit it was.
        self._seen: tuple[int, str | None] | None = None
        self._looked_at = 0.0
        #: Whether its rows were read well before: what is unreadable since may be of another ledger in its place.
        self.was_read = False

    def exists(self) -> bool:
        """Return whether there is any commit or checkpoint; reads no file."""
        return bool(self.env.store().names(LOG))

    def head(self) -> int:
        """Return the newest version; the handle is at it afterwards."""
        try:
            if self._handle is not None and self._handle.version() - self._opened_at < _REOPEN_AFTER:
                delta_io.update(self._handle)
            else:
                self._handle = delta_io.open_table(self.env.ledger_uri, self.env.delta_options)
                self._opened_at = self._handle.version()
            version = self._handle.version()
            now = time.monotonic()
            # A handle that finds nothing after its version stays at it, also where the log is another one that is not as far.
            if self._seen is None or self._seen[0] != version or now - self._looked_at >= LOOK_AGAIN_SECONDS:
                if self._seen is not None and self.is_another(*self._seen):
                    raise LedgerDamaged(where=f"the ledger at {self.env.location.uri}", reason="another one was put in its place")
                if self._seen is None or self._seen[0] != version:
                    self._seen = (version, self.commit_id(version))
                self._looked_at = now
            return version
        except Exception as error:  # noqa: BLE001 - delta-rs raises plain Exception, too
            raise self._unreadable(error) from None

    @property
    def seen_commit_id(self) -> str | None:
        """Return the id of the commit that made the version which ``head`` saw last."""
        return None if self._seen is None else self._seen[1]

    def is_another(self, version: int, commit_id: str | None) -> bool:
        """Return whether ``version`` is not the commit of this id.

        A ledger that was brought back or rebuilt has the same versions with other rows, or does not have this one yet. False where the id
        is not known, and where a checkpoint may have outlived the commit.
        """
        if commit_id is None:
            return False
        found = self.commit_id(version)
        return found != commit_id if found is not None else self.last_checkpoint() < version

    def scan(self, after: int = -1) -> list[RawRow]:
        """Return the raw rows at the handle's version with a ``ts`` later than ``after``; only files that can hold such rows are read."""
        where = "true" if after < 0 else f"ts > {after}"
        try:
            wrong = delta_io.wrong_columns(self._open_handle(), COLUMNS)
            if wrong is not None:
                raise LedgerDamaged(where=f"the ledger at {self.env.location.uri}", reason=wrong)
            collections, keys, values, times, diffs = delta_io.read(self._open_handle(), COLUMNS, where)
        except Exception as error:  # noqa: BLE001 - delta-rs raises plain Exception, too
            raise self._unreadable(error) from None
        return list(map(RawRow, collections, keys, values, times, diffs))

    def files(self) -> list[str]:
        """Return the active data files at the handle's version, relative to the ledger's folder."""
        return [os.path.basename(uri) for uri in self._open_handle().file_uris()]

    def create(self, rows: Iterable[RawRow], commit_id: str) -> None:
        """Write version 0, with rows, in one commit."""
        table = delta_io.arrow(COLUMNS, list(rows))
        delta_io.write(
            self.env.ledger_uri, table, mode="error", commit_id=commit_id, options=self.env.delta_options, configuration=_PROPERTIES
        )
        if self.commit_id(0) is None:
            raise LedgerElsewhere(uri=self.env.location.uri, version=0)
        self.make_durable(0)

    def commit(self, rows: Sequence[RawRow], expected: int, commit_id: str, mode: Mode) -> None:
        """Make one commit at exactly ``expected`` + 1. After any exception the outcome is open: ask ``commit_id``."""
        handle = self._open_handle()
        if handle.version() != expected:
            raise RuntimeError(f"the handle is at version {handle.version()}, not at {expected}")
        delta_io.write(handle, delta_io.arrow(COLUMNS, rows), mode=mode, commit_id=commit_id, options=self.env.delta_options)

    def commit_id(self, version: int) -> str | None:
        """Return the id of the commit that made ``version``; None if there is no such version, "" if it is not one of ours."""
        try:
            text = self.env.store().get(f"{LOG}/{version:020}.json")
        except ObjectMissing:
            return None
        for action in _actions(text, f"ledger commit {version}"):
            if "commitInfo" in action:
                return str(action["commitInfo"].get("userMetadata", ""))
        return ""

    def make_durable(self, version: int) -> None:
        """Force a commit to the disk, because what was acknowledged has to survive a power failure.

        delta-rs does not do it; object stores need not.
        """
        root = self.env.location.local_path
        if root is None or self.env.options.throwaway:
            return
        commit = root / LOG / f"{version:020}.json"
        added = [action["add"]["path"] for action in _actions(commit.read_bytes(), str(commit)) if "add" in action]
        for path in (*(root / FOLDER / name for name in added), commit, root / FOLDER, root / LOG):
            _fsync(path)

    def checkpoint(self) -> None:
        """Write a Delta checkpoint of the newest version."""
        self.head()
        self._open_handle().create_checkpoint()

    def last_checkpoint(self) -> int:
        """Return the version of the newest checkpoint, 0 if there is none."""
        try:
            return int(json.loads(self.env.store().get(f"{LOG}/_last_checkpoint"))["version"])
        except ObjectMissing:
            return 0
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise LedgerDamaged(where=f"{LOG}/_last_checkpoint", reason=str(error)) from error

    def data_size(self) -> tuple[int, int]:
        """Return the number and the bytes of the active data files."""
        sizes = self._open_handle().get_add_actions(flatten=True).column("size_bytes").to_pylist()
        return len(sizes), sum(sizes)

    def delete_unreferenced(self) -> None:
        """Delete data files that no version of the last week needs, and log files older than the log's retention (30 days)."""
        handle = self._open_handle()
        store = self.env.store()
        # Only listed by delta-rs: its own vacuum would add two commits to the ledger.
        for path in handle.vacuum(dry_run=True, full=True):
            store.delete(f"{FOLDER}/{path}")
        handle.cleanup_metadata()

    def write_failure(self, error: Exception | None, expected: int, commit_id: str) -> SchemamigError:
        """Return what to tell about a commit that is not there, after it was looked for."""
        try:
            # delta-rs wraps what the store says in text; a small write of our own says it in a class: full, read-only, forbidden...
            probe_put_if_absent(self.env.store(), EnvironmentRoot.SYSTEM_FOLDER)
        except SchemamigError as clear:
            return clear
        # In this order: what another creator makes meanwhile is no ledger elsewhere.
        if isinstance(error, LedgerElsewhere) or (
            expected < 0 and delta_io.is_there(self.env.ledger_uri, self.env.delta_options) and not self.exists()
        ):
            return LedgerElsewhere(uri=self.env.location.uri, version=expected + 1)
        return LedgerOutcomeUnknown(expected=expected, commit_id=commit_id, reason=self.env.first_line(error))

    def _open_handle(self) -> DeltaTable:
        if self._handle is None:
            self.head()
        assert self._handle is not None
        return self._handle

    def _unreadable(self, error: Exception) -> SchemamigError:
        if isinstance(error, SchemamigError):
            return error
        if not self.exists():
            return no_environment(self.env)
        if _DENIED.search(str(error)):
            return StorageForbidden(uri=self.env.ledger_uri, reason="Permission denied")
        if _NO_ANSWER.search(str(error)):
            return StorageUnreachable(uri=self.env.ledger_uri, reason=self.env.first_line(error))
        return LedgerDamaged(where=f"the ledger at {self.env.location.uri}", reason=self.env.first_line(error))


def _actions(text: bytes, where: str) -> list[dict[str, dict[str, str]]]:
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise LedgerDamaged(where=where, reason=f"not JSON ({error})") from error


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
