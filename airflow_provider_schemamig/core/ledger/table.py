"""The Delta table under the ledger: its newest version, its rows, an append at exactly the next version."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from airflow_provider_schemamig.core.delta.errors import LogDamaged, LogTruncated, TableMissing
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, LedgerOutcomeUnknown
from airflow_provider_schemamig.core.ledger.existence import no_environment
from airflow_provider_schemamig.core.ledger.own_table import Mode, OwnTable
from airflow_provider_schemamig.core.ledger.row_files import Column
from airflow_provider_schemamig.core.storage import probe_put_if_absent
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError

FOLDER = f"{EnvironmentRoot.SYSTEM_FOLDER}/ledger"
LOG = f"{FOLDER}/_delta_log"
COLUMNS = (
    Column("collection", "string"),
    Column("key", "string"),
    Column("value", "string"),
    Column("ts", "long"),
    Column("diff", "long"),
)

#: How long what was seen counts as the newest: an append that comes later looks once more whether another ledger was put in its place.
LOOK_AGAIN_SECONDS = 1.0


class LedgerTable:
    """Reads raise NoEnvironment, LedgerDamaged or a storage error; the outcome of a commit that failed the caller resolves."""

    def __init__(self, env: EnvironmentRoot) -> None:
        self.env = env
        self._table = OwnTable(env, FOLDER, COLUMNS)
        self._looked_at = 0.0
        #: Whether its rows were read well before: what is unreadable since may be of another ledger in its place.
        self.was_read = False

    def exists(self) -> bool:
        """Return whether there is any commit or checkpoint; reads no file."""
        return self._table.exists()

    def head(self) -> int:
        """Return the newest version; what is read afterwards is at it."""
        with self._damage():
            version = self._table.refresh()
        self._looked_at = time.monotonic()
        return version

    @property
    def version(self) -> int | None:
        """Return the version that was seen last, by ``head`` or by a commit of ours."""
        return self._table.version

    @property
    def tag(self) -> str | None:
        """Return the tag of the commit that made this version: a ledger that was brought back or rebuilt has the same versions with other
        commits. None where it is not known."""
        return self._table.tag

    @property
    def is_fresh(self) -> bool:
        """Return whether it was looked at just now."""
        return time.monotonic() - self._looked_at < LOOK_AGAIN_SECONDS

    def scan(self, after: int = -1) -> list[RawRow]:
        """Return the raw rows at the version seen last with a ``ts`` later than ``after``; only files that came after it are read."""
        with self._damage():
            rows = map(RawRow, *self._table.read(after))
            return list(rows) if after < 0 else [row for row in rows if row.ts > after]

    def files(self) -> list[str]:
        """Return the active data files at the version seen last, relative to the ledger's folder."""
        return self._table.files()

    def check_file(self, name: str) -> None:
        """Raise LedgerDamaged unless this data file is what was written."""
        with self._damage():
            self._table.check_file(name)

    def create(self, rows: Iterable[RawRow], commit_id: str) -> None:
        """Write version 0, with rows, in one commit."""
        self._table.create(list(rows), commit_id)

    def commit(self, rows: Sequence[RawRow], commit_id: str, mode: Mode) -> None:
        """Make one commit at exactly the version after the one seen last. After any exception the outcome is open: ask ``commit_id``."""
        self._table.commit(rows, commit_id, mode)
        self._looked_at = time.monotonic()

    def commit_id(self, version: int) -> str | None:
        """Return the id of the commit that made ``version``; None if there is no such version, "" if it is not one of ours."""
        with self._damage():
            return self._table.commit_id(version)

    def checkpoint(self) -> None:
        """Write a Delta checkpoint of the newest version.

        It is looked for once more: one of a history that was lost would stand for the ledger that was put in its place.
        """
        self.head()
        self._table.checkpoint()

    def last_checkpoint(self) -> int:
        """Return the version of the newest checkpoint, 0 if there is none."""
        return self._table.last_checkpoint()

    def data_size(self) -> tuple[int, int]:
        """Return the number and the bytes of the active data files."""
        return len(self._table.files()), self._table.data_bytes()

    def delete_unreferenced(self) -> None:
        """Delete data files that no version of the last week needs, and log files older than the log's retention (30 days)."""
        self._table.delete_unreferenced()

    def write_failure(self, error: Exception | None, expected: int, commit_id: str) -> SchemamigError:
        """Return the error about a commit that was looked for and is not there."""
        if isinstance(error, Refusal):  # the store has said why, and that it is for good
            return error
        try:
            # What was raised may have been raised on the way to the store; a small write says what is wrong with it.
            probe_put_if_absent(self.env.store(), EnvironmentRoot.SYSTEM_FOLDER)
        except SchemamigError as clear:
            return clear
        return LedgerOutcomeUnknown(expected=expected, commit_id=commit_id, reason=self.env.first_line(error))

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except TableMissing:
            raise no_environment(self.env) from None
        except LogDamaged as error:
            raise LedgerDamaged(where=f"the ledger at {self.env.location.uri}", reason=error.reason) from None
        except LogTruncated as error:
            reason = f"its version {error.version} is gone"
            raise LedgerDamaged(where=f"the ledger at {self.env.location.uri}", reason=reason) from None
