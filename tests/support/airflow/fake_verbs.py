"""``core.commands`` played by a script: for tests of what Airflow does around the verbs, not of the verbs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pendulum

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.tasks.gate import Rejected
from airflow_provider_schemamig.exceptions import Refusal

PLAN: dict[str, Any] = {
    "from": "1.0.0",
    "to": "1.1.0",
    "plan_digest": "d" * 64,
    "stages": [{"kind": "expand", "collection": "flights", "changes": [{"op": "add_column", "path": "gate"}]}],
    "pending": [],
    "refusals": [],
    "release": "flights_lake",
    "explanations": [
        {
            "kind": "expand",
            "collection": "flights",
            "summary": "add gate STRING",
            "cost": "instant",
            "lines": ["add gate STRING"],
            "breaks": ["positional INSERT fails"],
            "irreversible": [],
            "rollback": ["gate stays as a hidden column if rows carry it"],
            "columns": [],
            "queries": {},
        }
    ],
    "notes": [],
    "estimates": [],
    "timing": None,
    "blocked_seconds": [0, 0],
    "nodes": [],
}


@dataclass
class FakeVerbs:
    """``raises``: the errors of a verb's first calls. ``calls``: every call, by verb, with its arguments."""

    fills: Sequence[str] = ()
    #: Rewritten collections: they are followed until this many rounds were run, or the generation was promoted.
    rewritten: Sequence[str] = ()
    rounds: int = 1_000_000
    to_change_now: Sequence[str] = ()
    refusals: Sequence[Refusal] = ()
    due: bool = True
    hold_over: bool = False
    old_files: bool = False
    approvals: Sequence[bool] = (True,)
    #: The holds of every outcome's document.
    pending: Sequence[Any] = ()
    drifted: Sequence[str] = ()
    #: The plan's stages in words, by which the gate ``auto`` goes.
    explained: Sequence[Any] = ()
    #: Generations and claims that are open.
    claims: Sequence[tuple[int, str]] = ()
    raises: dict[str, list[BaseException]] = field(default_factory=dict)
    calls: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def plan(self, env: object, release: object, **options: Any) -> Any:
        self._called("plan", env=env, release=release, **options)
        return SimpleNamespace(refusals=tuple(self.refusals), plan=SimpleNamespace(is_empty=not self.due), to_json=lambda: PLAN)

    def preflight(self, env: object, release: object, **options: Any) -> Any:
        self._called("preflight", env=env, release=release, **options)
        copies = [{"kind": "copy", "collection": name, "changes": []} for name in self.rewritten]
        report = SimpleNamespace(
            to_json=lambda **_: {**PLAN, "stages": [*copies, *PLAN["stages"]]},
            explained=self.explained,
            plan=SimpleNamespace(target=SimpleNamespace(source="1.0.0")),
            asked=(),
            reasons=(("1.1.0", "Gates are known.\n\nWhy: people miss their flights."),),
        )
        return SimpleNamespace(generation=7, plan_digest="d" * 64, report_uri="file:///r.json", report=report, fills=tuple(self.fills))

    def to_change(self, env: object, generation: int) -> Sequence[str]:
        self._called("stale", env=env, generation=generation)
        return self.to_change_now

    def followed(self, env: object, generation: int, collections: Sequence[str]) -> tuple[str, ...]:
        self._called("followed", env=env, generation=generation, collections=collections)
        waits = not self.calls["promote"] and len(self.calls["tail"]) < self.rounds
        return tuple(name for name in self.rewritten if name in collections) if waits else ()

    def tail(self, env: object, generation: int, collections: Sequence[str], **options: Any) -> Any:
        self._called("tail", env=env, generation=generation, collections=collections, **options)
        return self._outcome("tail")

    def approved(self, env: object, generation: int) -> bool:
        self._called("approved", env=env, generation=generation)
        looks = len(self.calls["approved"])
        return self.approvals[min(looks, len(self.approvals)) - 1]

    def reject(self, env: object, generation: int, digest: str, by: str, **gate: Any) -> Rejected:
        self._called("reject", env=env, generation=generation, digest=digest, by=by, **gate)
        return Rejected(digest, None)

    def meet_rejection(self, env: object, generation: int) -> pendulum.DateTime:
        self._called("meet_rejection", env=env, generation=generation)
        return pendulum.datetime(2026, 11, 24, 3)

    def plan_digest(self, env: object, generation: int) -> str:
        return "d" * 64

    def write_report_file(self, env: object, generation: int) -> None:
        self._called("write_report_file", env=env, generation=generation)

    def open_claims(self, env: object) -> Sequence[tuple[int, str]]:
        return self.claims

    def status(self, env: object) -> Any:
        self._called("status", env=env)
        return SimpleNamespace(drifted=self.drifted)

    def contract(self, env: object, generation: int | None = None, **options: Any) -> Any:
        self._called("contract", env=env, generation=generation, **options)
        return self._outcome("retire") if self.hold_over else SimpleNamespace(generation=None, pending=tuple(self.pending))

    def compact(self, env: object, collections: Sequence[str] = (), **options: Any) -> Any:
        self._called("compact", env=env, collections=collections, **options)
        batches = [SimpleNamespace(files=3), SimpleNamespace(files=2)] if self.old_files else []
        return SimpleNamespace(outcome=self._outcome("compact"), collections=[SimpleNamespace(batches=batches)])

    def table_changes(self, env: object, generation: int) -> Any:
        return SimpleNamespace(tables=())

    def rollback(self, env: object, **options: Any) -> Any:
        self._called("rollback", env=env, **options)
        return self._outcome("rollback")

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb not in {"fill", "promote", "expand", "change", "cutover", "cleanup", "cancel", "alter"}:
            real: Callable[..., Any] = getattr(commands, verb)
            return real  # not played

        def run(env: object, generation: int, *arguments: Any, **options: Any) -> Any:
            self._called(verb, env=env, generation=generation, arguments=arguments, **options)
            return self._outcome(verb)

        return run

    def _called(self, verb: str, **arguments: Any) -> None:
        self.calls[verb].append(arguments)
        if self.raises.get(verb):
            raise self.raises[verb].pop(0)

    def _outcome(self, kind: str) -> Any:
        stages = [{"kind": kind, "collection": "flights", "table_version": 3, "seconds": 0.5}]
        document: dict[str, Any] = {"from": "1.0.0", "to": "1.1.0", "generation": 7, "epoch": 2, "stages": stages, "notes": ["a note"]}
        document["pending"] = list(self.pending)
        return SimpleNamespace(generation=7, notes=("a note",), pending=(), to_json=lambda: document)


def install(monkeypatch: Any, fake: FakeVerbs) -> FakeVerbs:
    """Put ``fake`` in the place of ``core.commands`` for one test."""
    import sys

    import airflow_provider_schemamig.core as package

    monkeypatch.setitem(sys.modules, f"{package.__name__}.commands", fake)
    monkeypatch.setattr(package, "commands", fake, raising=False)
    return fake
