"""Why the ledger cannot be read or appended to (the layer's branch of the error tree)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION
from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class NoEnvironment(Refusal):
    """There is no environment at this place.

    ``is_table``: a Delta table is there; ``around``: the URI of the environment that the place lies in, ``inside``: of one that lies in it;
    ``remains``: what is there of an environment that has lost its ledger. None of them is a place for a new one.
    """

    code = "no_environment"
    uri: str
    is_table: bool = False
    around: str | None = None
    inside: str | None = None
    remains: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        if self.remains and not self.is_table and self.around is None:
            return f"there is no ledger at {self.uri}, but what an environment had there: {', '.join(self.remains[:3])}{self._more}."
        table = ", but a Delta table" if self.is_table else ""
        around = f"; it lies in the environment at {self.around}" if self.around is not None else ""
        inside = f"; the one at {self.inside} lies in it" if self.inside is not None else ""
        return f"there is no schemamig environment at {self.uri}{table}{around}{inside}."

    @property
    def next_action(self) -> str:
        if self.around is not None or self.inside is not None:
            return f"Give that environment's URI: {self.around or self.inside}."
        if self.is_table:
            return "Give the root of an environment, not a table's folder; `schemamig adopt` takes a table under management."
        if self.remains:
            return (
                "Bring the ledger back: `schemamig ledger restore` does it from a backup, `schemamig ledger rebuild` from the tables. "
                "For a new environment take another place, or move these folders away."
            )
        return (
            "Check the URI. `schemamig upgrade --create` makes a new one there (Airflow: `create`), "
            "`schemamig ledger restore` brings one back from a backup."
        )

    @property
    def _more(self) -> str:
        return f" and {len(self.remains) - 3} more" if len(self.remains) > 3 else ""


@dataclass(eq=False)
class LedgerTooNew(Refusal):
    """The ledger was written by newer software; nothing else in it was looked at."""

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
class LedgerTooOld(Refusal):
    """The ledger has a format that this software no longer knows; nothing else in it was looked at."""

    code = "ledger_too_old"
    uri: str
    found: int
    minimum: int

    @property
    def message(self) -> str:
        return f"the ledger at {self.uri} has format {self.found}, this software knows formats from {self.minimum} on."

    @property
    def next_action(self) -> str:
        return (
            f"Install an older airflow-provider-schemamig that knows formats {self.found} and {self.minimum}, "
            "run its `schemamig ledger upgrade`, then come back to this one; nothing was read or changed."
        )


@dataclass(eq=False)
class LedgerFormatOld(Refusal):
    """Reading and preparing work on an older format; changing the environment does not. ``what``: what was refused."""

    code = "ledger_format_old"
    uri: str
    what: str
    found: int
    current: int

    @property
    def message(self) -> str:
        return f"the ledger at {self.uri} has format {self.found}, {self.what} needs format {self.current}; nothing was written."

    @property
    def next_action(self) -> str:
        return "Run `schemamig ledger upgrade`; from then on older software is refused here."


@dataclass(eq=False)
class LedgerInUse(Conflict):
    """Somebody is at work with the software of the ledger's format, who would be locked out half-way. ``work``: at what, in words."""

    code = "ledger_in_use"
    generation: int
    work: str

    @property
    def message(self) -> str:
        return f"{self.work} of generation {self.generation} is not over; its software would be locked out half-way."

    @property
    def next_action(self) -> str:
        return "Finish it, or roll it back, with the software that began it, then run `schemamig ledger upgrade` again."


@dataclass(eq=False)
class FormatStepFailed(Refusal):
    """A step of the ledger's format broke a rule or left something undone: a defect of this software. Nothing was written."""

    code = "format_step_failed"
    source: int
    target: int
    reason: str

    @property
    def message(self) -> str:
        return f"the step from ledger format {self.source} to {self.target} failed: {self.reason}; nothing was written."

    @property
    def next_action(self) -> str:
        return "Go on with the software you had, which still works here, and report this with the output of `schemamig ledger dump`."


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
class LedgerElsewhere(Refusal):
    """A commit was acknowledged, and is not where it was to be: whoever wrote it takes the ledger's name for another place."""

    code = "ledger_elsewhere"
    uri: str
    version: int

    @property
    def message(self) -> str:
        there = f"version {self.version} of the ledger at {self.uri} was acknowledged, and there is no such version there"
        return f"{there}: it was written elsewhere, or taken away at once."

    @property
    def next_action(self) -> str:
        return "Look for a place of nearly the same name before you try again, and report this with both names."


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
class NumbersExhausted(Refusal):
    """An epoch so high that no ledger can go on above it."""

    code = "numbers_exhausted"
    uri: str
    epoch: int

    @property
    def message(self) -> str:
        return f"epoch {self.epoch} was found at {self.uri}, and a ledger that is brought back has to go on far above it: there is no room."

    @property
    def next_action(self) -> str:
        return "No leader gets that far: look for the row, or the table's transaction (`schemamig:...`), that somebody else wrote."


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
