"""Why the ledger cannot be read or appended to (the layer's branch of the error tree)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION
from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class LedgerMissing(Refusal):
    """There is no environment at this place."""

    code = "ledger_missing"
    uri: str

    @property
    def message(self) -> str:
        return f"there is no schemamig environment at {self.uri}."

    @property
    def next_action(self) -> str:
        return "Check the URI; `schemamig upgrade` makes a new environment, `schemamig ledger restore` brings one back from a backup."


@dataclass(eq=False)
class LedgerTooNew(Refusal):
    """The ledger was written by newer software; nothing else in it was looked at (research/materialize_persist_stash.md B8)."""

    code = "ledger_too_new"
    uri: str
    found: str
    known: int = FORMAT_VERSION

    @property
    def message(self) -> str:
        return f"the ledger at {self.uri} has format {self.found}, this software knows formats up to {self.known}."

    @property
    def next_action(self) -> str:
        return "Install a newer airflow-provider-schemamig; nothing was read or changed."


@dataclass(eq=False)
class LedgerDamaged(Refusal):
    """Something in the environment's system folder is not what this software writes. ``where``: a ledger row, a file, a version."""

    code = "ledger_damaged"
    where: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where} is damaged: {self.reason}."

    @property
    def next_action(self) -> str:
        return "`schemamig ledger verify` lists all damage; `schemamig ledger restore` brings a backup back."


@dataclass(eq=False)
class LedgerConflict(Conflict):
    """Somebody else appended first. ``expected``: the version that was appended onto; ``tries``: how often it was tried."""

    code = "ledger_conflict"
    expected: int
    tries: int = 1

    @property
    def message(self) -> str:
        return f"another process appended to the ledger after version {self.expected} (tried {self.tries} time(s)); nothing was written."

    @property
    def next_action(self) -> str:
        return "Try again; if it stays, see with `schemamig status` who else is at work."


@dataclass(eq=False)
class LedgerOutcomeUnknown(Conflict):
    """The append failed, and whether it will still land is not known: the store gave no clear answer. Safe to try again."""

    code = "ledger_outcome_unknown"
    expected: int
    commit_id: str
    reason: str

    @property
    def message(self) -> str:
        return f"the append {self.commit_id} onto ledger version {self.expected} got no clear answer from the store: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Try again: the next run reads what really happened and goes on from there."


@dataclass(eq=False)
class LedgerVersionUnknown(Refusal):
    """As-of a version that does not exist."""

    code = "ledger_version_unknown"
    version: int
    head: int

    @property
    def message(self) -> str:
        return f"the ledger has no version {self.version}, its head is {self.head}."

    @property
    def next_action(self) -> str:
        return f"Ask for a version from 0 to {self.head}."


@dataclass(eq=False)
class LedgerCompacted(Refusal):
    """As-of a version whose history was consolidated away."""

    code = "ledger_compacted"
    version: int
    since: int

    @property
    def message(self) -> str:
        return f"ledger version {self.version} was consolidated away, history begins at version {self.since}."

    @property
    def next_action(self) -> str:
        return f"Ask for version {self.since} or later; the audit log keeps what happened before."


@dataclass(eq=False)
class PlanMissing(Refusal):
    code = "plan_missing"
    digest: str

    @property
    def message(self) -> str:
        return f"the environment keeps no plan {self.digest}."

    @property
    def next_action(self) -> str:
        return "Run preflight again; it stores the plan it prints."


@dataclass(eq=False)
class BackupUnusable(Refusal):
    """A backup folder that is incomplete or altered, or a place where it would overwrite something else."""

    code = "backup_unusable"
    folder: str
    reason: str

    @property
    def message(self) -> str:
        return f"the backup in {self.folder} cannot be used: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Use another backup, or another target: a restore never overwrites what is there."
