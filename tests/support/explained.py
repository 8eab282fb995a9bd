"""Hold what a plan explains against the commits that its run made: the table, the action, the order, the schema after it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import AddKey, Change, DropKey, Relax, RenameColumn, SetProperty
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.retention import FILES, LOG
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.live_tables import is_in_place, table_store
from airflow_provider_schemamig.core.upgrade.plan.open_holds import physical_after
from airflow_provider_schemamig.core.upgrade.plan.stage_list import stages
from airflow_provider_schemamig.core.upgrade.prepare.preflight import PlanReport

#: What says of a commit that it changed more than rows.
_METADATA = ("protocol", "metaData", "domainMetadata")


@dataclass(frozen=True)
class Commit:
    """One metadata commit. ``schema``: what the table looks like after it; None: nothing new."""

    action: str
    schema: Declaration | None = None


def check_explained(env: EnvironmentRoot, report: PlanReport, generation: Generation, *, runs: int = 1) -> bool:
    """Compare; False if there is nothing to compare: the plan settles what others left, which depends on how far they came.

    Of a generation with several ``runs``, twins or retries, the seals that one of them lifted again are left out.
    """
    plan, state = report.plan, report.view.state
    if plan.of_kind(s.Settle):
        return False
    holds = [state.holds[found] for found in sorted(plan.ends)] if state is not None else []
    derived = stages(plan.target, state, holds)
    assert derived == plan.stages, f"derived {derived}, planned {plan.stages}"
    now = LedgerReader(env).state()
    hold = now.holds.get(generation)
    contracted = hold is not None and hold.state is HoldState.CLOSED
    known = explained(report, contracted=contracted)
    wanted = {_shard(report, now, generation, name): commits for name, commits in known.items() if commits}
    wanted = {shard: commits for shard, commits in wanted.items() if shard in now.shards}  # else contract has deleted it
    made = {shard: _made(env, now, shard, generation, runs) for shard, row in now.shards.items() if row.adopted or row.is_at_own_place}
    done = {shard: [action for action, _ in found] for shard, found in made.items() if found}
    actions = {shard: [commit.action for commit in found] for shard, found in wanted.items()}
    assert done == actions, f"made {done}, explained {actions}"
    for shard, commits in wanted.items():
        for (_, version), expected in zip(made[shard], commits, strict=True):
            if expected.schema is not None:
                head = read_head(table_store(env, now, shard), version)
                assert is_in_place(expected.schema, head), f"{shard} at {version}: {expected}"
    return True


def _made(env: EnvironmentRoot, state: State, shard: ShardId, generation: Generation, runs: int) -> list[tuple[str, int]]:
    """Return the metadata commits, without the seal that a swap sets and lifts where writers are faster, as the plan says.

    Of a generation that a rollback began to undo, and that goes on: those since. Of several ``runs``: without seals that were given up.
    """
    found = list(commits_of(env, state, shard, generation))
    undone = max((number for number, (action, _) in enumerate(found, start=1) if action == "undo"), default=0)
    found = found[undone:]
    while runs > 1 and (given_up := _pair(found, "seal", "unseal")) is not None:
        found = [*found[:given_up], *found[given_up + 2 :]]
    actions = [action for action, _ in found]
    for number in range(len(actions) - 2):
        if actions[number : number + 3] == ["seal", "cutover", "unseal"]:
            return [*found[:number], found[number + 1], *found[number + 3 :]]
    return found


def _pair(commits: Sequence[tuple[str, int]], *actions: str) -> int | None:
    """Return where two commits with these actions stand one behind the other."""
    pairs = ((one, other) for (one, _), (other, _) in pairwise(commits))
    return next((number for number, pair in enumerate(pairs) if pair == actions), None)


def explained(report: PlanReport, *, contracted: bool = False) -> Mapping[tuple[str, CollectionName], list[Commit]]:
    """Return the commits of each table, in their order, by (``new`` or ``old`` table, what it is called). ``contracted``: no hold."""
    expected = _Expected(report)
    for stage in report.plan.stages:
        match stage:
            case s.Build() | s.Copy():
                expected.commits["new", stage.collection].append(Commit("build", stage.declaration))
            case s.CreateShard():
                expected.commits["new", stage.collection].append(Commit("create", stage.declaration))
            case s.EndHold() | s.Seal():
                expected.of_held_table(stage)
            case s.Expand() | s.Online() | s.CutOver():
                expected.of_evolved_table(stage)
            case s.Contract() if contracted:
                expected.of_evolved_table(stage)
            case _:
                pass
    return expected.commits


@dataclass
class _Expected:
    report: PlanReport
    commits: defaultdict[tuple[str, CollectionName], list[Commit]] = field(default_factory=lambda: defaultdict(list))
    #: What each evolved table looks like after the stages so far.
    schemas: dict[CollectionName, Declaration] = field(default_factory=dict)

    def of_held_table(self, stage: s.EndHold | s.Seal) -> None:
        if isinstance(stage, s.Seal) and self.report.view.heads.get(stage.collection) is not None:
            self.commits["old", stage.collection].append(Commit("seal"))
        if isinstance(stage, s.EndHold) and stage.collection is not None and stage.changes:
            self.commits["old", stage.collection].append(Commit("contract"))

    def of_evolved_table(self, stage: s.EvolutionStage) -> None:
        online = self.report.planned.online.get(stage.source)
        if isinstance(stage, s.Online):
            assert online is not None
            for changes in online.commits:
                self._add(stage.source, "change", changes)
        else:
            swapped = online.swapped if online is not None and isinstance(stage, s.CutOver) else ()
            self._add(stage.source, stage.kind, (*swapped, *stage.changes))

    def _add(self, source: CollectionName, action: str, changes: Sequence[Change]) -> None:
        assert self.report.view.state is not None
        head = None if source in self.schemas else self.report.view.heads[source]
        before = self.schemas.get(source, physical_after(self.report.view.state, source, self.report.plan.ends))
        after = self.schemas[source] = apply(before, changes)
        pins = self.report.view.state.pins.values()
        is_pinned = any(pin.shard == self.report.view.state.objects[source].shard for pin in pins)
        if not _is_there(before, after, changes, head, is_pinned=is_pinned):
            self.commits["old", source].append(Commit(action, after))


def _is_there(before: Declaration, after: Declaration, changes: Sequence[Change], head: Head | None, *, is_pinned: bool) -> bool:
    """Return whether no commit is needed: a rollback, or a pin, left the table so, or a pin keeps what the release ends. Of a key nothing
    is on the table."""
    if any(isinstance(change, RenameColumn) for change in changes):  # also where two columns exchange their names
        return False
    of_table = [change for change in changes if not isinstance(change, AddKey | DropKey)]

    def may_be_set(change: Change) -> bool:
        if isinstance(change, SetProperty):
            return change.new is not None or (is_pinned and change.key in (FILES, LOG))
        return isinstance(change, Relax)

    is_set = all(map(may_be_set, of_table))
    return after == before or (is_set and head is not None and is_in_place(after, head))


def commits_of(env: EnvironmentRoot, state: State, shard: ShardId, generation: Generation) -> Iterator[tuple[str, int]]:
    """Yield (action, version) of every metadata commit that a generation made on a table. Contract is not the upgrade's."""
    folder = env.table_location(state.shards[shard].uri).local_path
    assert folder is not None
    for log in sorted((folder / "_delta_log").glob("*.json")):
        actions: list[Mapping[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
        about = next((action["commitInfo"].get("userMetadata") for action in actions if "commitInfo" in action), None)
        tag = json.loads(about).get("schemamig", {}) if about and about.startswith("{") else {}
        if tag.get("generation") == generation and any(kind in action for action in actions for kind in _METADATA):
            yield tag["action"], int(log.stem)


def _shard(report: PlanReport, state: State, generation: Generation, name: tuple[str, CollectionName]) -> ShardId:
    """Return the table that is meant: a new one was made by ``generation``, an old one was there."""
    age, collection = name
    if age == "old":
        assert report.view.state is not None
        return report.view.state.objects[collection].shard
    (found,) = (shard for shard, row in state.shards.items() if (row.generation, row.collection) == (generation, collection))
    return found
