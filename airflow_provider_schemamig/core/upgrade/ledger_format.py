"""``ledger upgrade``: bring the ledger's own format to this software's, step by step.

A leader verb of its own, never a part of a release upgrade: until somebody runs it, older software goes on working, whatever newer
software planned, built and gave up. Afterwards older software is refused by its next look at the ledger, and its append in between
conflicts. Killed between two steps, the ledger has the format in between, and the next run goes on from there.

It raises no epoch: it touches no table, and nobody is at work on one (``check_unused``). Whatever an older leader left open (an intent of a
contract that died) is what any next leader finds, and settles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.errors import LedgerInUse
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS, Formats
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, HoldState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


@dataclass(frozen=True, slots=True)
class FormatStep:
    """One step that this run took: as which ledger version, and how many rows it inserted, updated or deleted."""

    source: int
    title: str
    version: int
    rows: int

    def to_json(self) -> dict[str, Any]:
        return {"from": self.source, "to": self.source + 1, "title": self.title, "version": self.version, "rows": self.rows}


@dataclass(frozen=True, slots=True)
class FormatUpgrade:
    """``source``: the format that was found; ``steps``: none if it was current, or another run was faster."""

    source: int
    target: int
    steps: tuple[FormatStep, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        rows = sum(step.rows for step in self.steps)
        return {
            "from": self.source,
            "to": self.target,
            "steps": [step.to_json() for step in self.steps],
            "rows": rows,
            "notes": list(self.notes),
        }


def upgrade_ledger(env: EnvironmentRoot, *, formats: Formats = FORMATS, listen: Listener = silent) -> FormatUpgrade:
    """Take every step from the stored format to the current one, each in one commit with the format's number.

    Safe to repeat and to race. Raises LedgerInUse while a deployment is promoted and not committed, or a rollback has begun and not ended
    (a claimed one keeps what it built); LedgerTooOld, LedgerTooNew, FormatStepFailed, LedgerConflict.
    """
    ledger = LedgerWriter(env, formats)
    found = ledger.state().format
    taken: list[FormatStep] = []
    notes: list[str] = []
    while True:
        started = pendulum.now("UTC")
        before, after = ledger.upgrade_format(check_unused)
        if before is after:
            return FormatUpgrade(found, after.format, tuple(taken), tuple(notes))
        step = formats.steps_from(before.format)[0]
        taken.append(FormatStep(step.source, step.title, after.version, before.upgrades[0].changed))
        notes += _remember(env, taken[-1], started)
        listen(Event("ledger_format", note=f"format {step.target}: {step.title}"))


def check_unused(state: State) -> None:
    """Raise LedgerInUse if a leader, whose software may be older, is at work on an upgrade or a rollback."""
    leader = state.leader
    if leader is None:
        return
    deployment = state.deployments.get(leader.generation)
    if deployment is not None and deployment.state is DeploymentState.PROMOTED:
        raise LedgerInUse(generation=leader.generation, work="the upgrade")
    for hold in state.holds.values():
        if hold.state is HoldState.ROLLING_BACK:
            raise LedgerInUse(generation=hold.generation, work="the rollback")


def _remember(env: EnvironmentRoot, step: FormatStep, started: pendulum.DateTime) -> list[str]:
    """Write one line of audit; return the note, if it could not be written."""
    detail = f"format {step.source + 1}: {step.rows} row(s), {step.title}"
    note = append_history(env, HistoryEntry.ended("ledger upgrade", started, detail=detail))
    return [] if note is None else [note]
