"""Why the ledger cannot be read or appended to (the layer's branch of the error tree)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION
from airflow_provider_schemamig.exceptions import Conflict, Refusal, listed


class LedByAnother(Fenced):
    """Another generation leads. ``winner``: which, ``does``: its releases and state, ``by``: who promoted and who claimed it."""

    message = "{what} does not lead here: generation {winner} ({does}) leads since {since}, promoted by {by}."
    next_action = (
        "Nothing is to be done here if that takes the environment to the same release: `schemamig status` shows how far it is. "
        "If not, start a new deployment when it has ended."
    )
    winner: int
    does: str
    since: str
    by: str


class NoEnvironment(Refusal):
    """There is no environment at this place.

    ``table``: the URI of the Delta table that is there, or that the place lies in; ``is_release``: a release folder is there.
    ``around``: the URI of the environment that the place lies in; ``inside``: of one that lies in it; ``remains``: what is there of an
    environment that has lost its ledger. None of them is a place for a new one.
    """

    code = "no_environment"
    uri: str
    table: str | None = None
    is_release: bool = False
    around: str | None = None
    inside: str | None = None
    remains: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        if self.remains and self.table is None and not self.is_release and self.around is None:
            return f"there is no ledger at {self.uri}, but what an environment had there: {listed(self.remains, 3)}."
        table = ", but a Delta table" if self.table == self.uri else ", but a release folder" if self.is_release else ""
        lies_in = [f"in the Delta table at {self.table}"] if self.table not in (None, self.uri) else []
        lies_in += [f"in the environment at {self.around}"] if self.around is not None else []
        around = f"; it lies {' and '.join(lies_in)}" if lies_in else ""
        inside = f"; the one at {self.inside} lies in it" if self.inside is not None else ""
        return f"there is no schemamig environment at {self.uri}{table}{around}{inside}."

    @property
    def next_action(self) -> str:
        if self.around is not None or self.inside is not None:
            return f"Give that environment's URI: {self.around or self.inside}."
        if self.table is not None:  # the verb alone: a command would be completed with the very place that is wrong
            table = shlex.quote(self.table)
            return f"Give the root of an environment, not a table's folder; `adopt` takes this table into that one: `--table NAME={table}`."
        if self.is_release:
            return "Give the root of an environment; a release folder is what --release takes."
        here = f"--env {shlex.quote(self.uri)}"  # where a command is given two environments, it may be either
        if self.remains:
            return (
                f"Bring the ledger back: `schemamig ledger restore {here} FOLDER` does it from a backup, `schemamig ledger rebuild {here}` "
                "from the tables. For a new environment take another place, or move these folders away."
            )
        return (
            f"Check the URI. `schemamig upgrade {here} --release DIR --create` (or `adopt --create`; Airflow: `create`) makes a new one "
            f"there, `schemamig ledger restore {here} FOLDER` brings one back from a backup."
        )


class LedgerTooNew(Refusal):
    """The ledger was written by newer software; nothing else in it was looked at."""

    code = "ledger_too_new"
    message = "the ledger at {uri} has format {found}, this software knows formats up to {known}."
    next_action = "Install a newer airflow-provider-schemamig; nothing was read or changed."
    uri: str
    found: str
    known: int = FORMAT_VERSION


class LedgerTooOld(Refusal):
    """The ledger has a format that this software no longer knows; nothing else in it was looked at."""

    code = "ledger_too_old"
    message = "the ledger at {uri} has format {found}, this software knows formats from {minimum} on."
    next_action = (
        "Install an older airflow-provider-schemamig that knows formats {found} and {minimum}, run its `schemamig ledger upgrade`, then "
        "come back to this one; nothing was read or changed."
    )
    uri: str
    found: int
    minimum: int


class LedgerFormatOld(Refusal):
    """Reading and preparing work on an older format; changing the environment does not. ``what``: what was refused."""

    code = "ledger_format_old"
    message = "the ledger at {uri} has format {found}, {what} needs format {current}; nothing was written."
    next_action = "Run `schemamig ledger upgrade`; from then on older software is refused here."
    uri: str
    what: str
    found: int
    current: int


class LedgerInUse(Conflict):
    """Somebody is at work with the software of the ledger's format, who would be locked out half-way. ``work``: at what, in words."""

    code = "ledger_in_use"
    message = "{work} of generation {generation} is not over; its software would be locked out half-way."
    next_action = "Finish it, or roll it back, with the software that began it, then run `schemamig ledger upgrade` again."
    generation: int
    work: str


class FormatStepFailed(Refusal):
    """A step of the ledger's format broke a rule or left something undone: a defect of this software. Nothing was written."""

    code = "format_step_failed"
    message = "the step from ledger format {source} to {target} failed: {reason}; nothing was written."
    next_action = "Go on with the software you had, which still works here, and report this with the output of `schemamig ledger dump`."
    source: int
    target: int
    reason: str


class LedgerDamaged(Refusal):
    """Something in the environment's system folder is not what this software writes. ``where``: a ledger row, a file, a version."""

    code = "ledger_damaged"
    message = "{where} is damaged: {reason}."
    next_action = (
        "`schemamig ledger verify` lists all damage. Where files are lost or damaged, move `_schemamig/ledger` away first; then "
        "`schemamig ledger restore FOLDER` brings a backup back, or `schemamig ledger rebuild` makes a new one from the tables."
    )
    where: str
    reason: str


class LedgerConflict(Conflict):
    """Somebody else appended first. ``expected``: the version that was appended onto; ``tries``: how often it was tried."""

    code = "ledger_conflict"
    message = "another process appended to the ledger after version {expected} (tried {tries} time(s)); nothing was written."
    next_action = "Try again; if it stays, see with `schemamig status` who else is at work."
    expected: int
    tries: int = 1


class LedgerOutcomeUnknown(Conflict):
    """The append failed, and whether it will still land is not known: the store gave no clear answer. Safe to try again."""

    code = "ledger_outcome_unknown"
    message = "the append {commit_id} onto ledger version {expected} got no clear answer from the store: {reason}."
    next_action = "Try again: the next run reads what really happened and goes on from there."
    expected: int
    commit_id: str
    reason: str


class LedgerVersionUnknown(Refusal):
    """As-of a version that does not exist."""

    code = "ledger_version_unknown"
    message = "the ledger has no version {version}, its head is {head}."
    next_action = "Ask for a version from 0 to {head}."
    version: int
    head: int


class LedgerCompacted(Refusal):
    """As-of a version whose history was consolidated away."""

    code = "ledger_compacted"
    message = "ledger version {version} was consolidated away, history begins at version {since}."
    next_action = "Ask for version {since} or later; the audit log keeps what happened before."
    version: int
    since: int


class PlanMissing(Refusal):
    code = "plan_missing"
    message = "the environment keeps no plan {digest}."
    next_action = "Run preflight again; it stores the plan it prints."
    digest: str


class NumbersExhausted(Refusal):
    """An epoch so high that no ledger can go on above it."""

    code = "numbers_exhausted"
    message = (
        "epoch {epoch} at {uri} is too high: a ledger that is restored has to go on far above the highest epoch, and no numbers are left."
    )
    next_action = "No leader gets that far: look for the row, or the table's transaction (`schemamig:...`), that somebody else wrote."
    uri: str
    epoch: int


class UnknownLedgerCollection(Refusal):
    """A part of the ledger was asked for by a name that none has. ``known``: the names of the parts."""

    code = "unknown_ledger_collection"
    message = "the ledger has no collection {name!r} (a table of the environment is none)."
    name: str
    known: Sequence[str]

    @property
    def next_action(self) -> str:
        return f"Give one of {', '.join(self.known)}."


class BackupUnusable(Refusal):
    """An incomplete or altered backup folder, or a place where it would overwrite something else.

    ``is_made``: the backup was to be made there, not restored from there. ``in_the_way``: the folder of the ledger that is there.
    """

    code = "backup_unusable"
    folder: str
    reason: str
    is_made: bool = False
    in_the_way: str = ""

    @property
    def message(self) -> str:
        if self.in_the_way:
            return f"the backup in {self.folder} is not brought back over a ledger: {self.reason}."
        if self.is_made:
            return f"no backup is made in {self.folder}: {self.reason}."
        return f"the backup in {self.folder} cannot be used: {self.reason}."

    @property
    def next_action(self) -> str:
        if self.is_made:
            return "Give a folder of its own, outside of every environment and table: a backup never overwrites what is there."
        if self.in_the_way:
            return f"If the backup is to take its place, move the folder {self.in_the_way} away first: a restore overwrites nothing."
        return "Use another backup, or another target: a restore never overwrites what is there."
