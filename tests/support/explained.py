"""Hold what a plan explains against the commits that its run made: the table, the action, the order, the schema after it."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.actions import json_object
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, HoldState, IntentKind
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import (
    AddForeignKey,
    AddKey,
    Change,
    ChangeClustering,
    DropForeignKey,
    DropKey,
    Relax,
    RenameColumn,
    SetProperty,
)
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade import alter
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter, Outcome
from airflow_provider_schemamig.core.upgrade.execute import expand, recovery
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import HoldOptions, physical_after
from airflow_provider_schemamig.core.upgrade.plan.live_tables import is_in_place, table_store
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View
from airflow_provider_schemamig.core.upgrade.plan.stage_list import Checks, stages
from airflow_provider_schemamig.core.upgrade.prepare.preflight import PlanReport, Preflight
from airflow_provider_schemamig.core.upgrade.prepare.prepare import plan_target, preflight_plan
from airflow_provider_schemamig.core.upgrade.tasks import upgrade as tasks
from airflow_provider_schemamig.core.upgrade.tasks.read_only import preflight

#: What says of a commit that it changed more than rows.
_METADATA = ("protocol", "metaData", "domainMetadata")


@dataclass(frozen=True)
class Commit:
    """One metadata commit. ``schema``: what the table looks like after it; None: nothing new."""

    action: str
    schema: Declaration | None = None


class ExplainedRuns:
    """The upgrades of a test: each that comes through made the commits that its plan explained."""

    def __init__(self) -> None:
        self._runs: Counter[tuple[str, Generation]] = Counter()
        self._reports: dict[tuple[str, Generation], PlanReport] = {}
        self._settled: dict[tuple[str, Generation], tuple[View, Planned]] = {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        go_through, settle = tasks.go_through, recovery.settle

        def reported(looks: Callable[..., Preflight]) -> Callable[..., Preflight]:
            @functools.wraps(looks)
            def report(env: EnvironmentRoot, *given: Any, **options: Any) -> Preflight:
                found = looks(env, *given, **options)
                if found.generation is not None:
                    self._reports[env.location.uri, found.generation] = found.report
                return found

            return report

        @functools.wraps(go_through)
        def checked(env: EnvironmentRoot, generation: Generation, *given: Any, **options: Any) -> Outcome:
            self._runs[env.location.uri, generation] += 1
            report = self._reports[env.location.uri, generation]
            is_begun = self._runs[env.location.uri, generation] == 1 and _is_promoted(env, generation)  # by tasks of its own
            outcome = go_through(env, generation, *given, **options)
            if not is_begun:
                self._check(env, report, generation)
            return outcome

        def settled(writer: LeaderWriter, *given: Any, **options: Any) -> None:
            holds = writer.state.holds.values()
            is_open = bool(writer.state.intents) or any(hold.state is HoldState.ROLLING_BACK for hold in holds)
            report = self._reports.get((writer.env.location.uri, writer.generation))
            # A settling upgrade is taken up after all was settled, too: what it explained has the stage, what is run has it no more.
            is_open = is_open or (report is not None and bool(report.plan.of_kind(s.Settle)))
            settle(writer, *given, **options)
            if is_open:
                self._look(writer)

        patch.setattr(tasks, "preflight", reported(preflight))
        patch.setattr(alter, "preflight_plan", reported(preflight_plan))
        patch.setattr(tasks, "go_through", checked)
        patch.setattr(alter, "go_through", checked)
        patch.setattr(expand, "settle", settled)

    def _look(self, writer: LeaderWriter) -> None:
        """Plan over what settling left, which is what the tasks derive their stages from."""
        key = writer.env.location.uri, writer.generation
        if key not in self._settled:
            self._settled[key] = plan_target(
                writer.env, writer.state, writer.plan.target, HoldOptions(bool(writer.plan.ends), writer.deployment.ignore_nodes)
            )

    def _check(self, env: EnvironmentRoot, report: PlanReport, generation: Generation) -> None:
        if env.location.local_path is None:
            return  # the commits are looked at as files
        check_derived(report)
        runs = self._runs[env.location.uri, generation]
        if report.plan.of_kind(s.Settle):
            view, planned = self._settled[env.location.uri, generation]
            report = replace(report, planned=planned, view=view)
            check_derived(report)
        check_explained(env, report, generation, runs=runs)


def _is_promoted(env: EnvironmentRoot, generation: Generation) -> bool:
    return LedgerReader(env).state().deployments[generation].state is DeploymentState.PROMOTED


def check_derived(report: PlanReport) -> None:
    """Compare a plan's stages with those that are derived without what the planner asks besides."""
    plan, state = report.plan, report.view.state
    holds = [state.holds[found] for found in sorted(plan.ends)] if state is not None else []
    checks = Checks()
    checks.only_settles = lambda: report.view.only_settles  # type: ignore[method-assign]
    derived = stages(plan.target, state, holds, checks)
    assert derived == plan.stages, f"derived {derived}, planned {plan.stages}"


def check_explained(env: EnvironmentRoot, report: PlanReport, generation: Generation, *, runs: int = 1) -> None:
    """Compare what a plan explains with the commits of its generation. ``report``: as settling left it.

    Of a generation with several ``runs``, twins or retries, the seals that one of them lifted again are left out.
    """
    now = LedgerReader(env).state()
    hold = now.holds.get(generation)
    contracted = hold is not None and hold.state is HoldState.CLOSED
    known = explained(env, report, generation, contracted=contracted)
    wanted = {_shard(report, now, generation, name): commits for name, commits in known.items() if commits}
    shards = [shard for shard, row in now.shards.items() if (row.adopted or row.is_at_own_place) and _is_log_complete(env, now, shard)]
    made = {shard: _made(env, now, shard, generation, runs) for shard in shards}
    wanted = {shard: commits for shard, commits in wanted.items() if shard in made}  # else contract has deleted it
    done = {shard: [action for action, _ in found] for shard, found in made.items() if found}
    actions = {shard: [commit.action for commit in found] for shard, found in wanted.items()}
    assert done == actions, f"made {done}, explained {actions}"
    for shard, explained_commits in wanted.items():
        for (_, version), expected in zip(made[shard], explained_commits, strict=True):
            if expected.schema is not None:
                head = read_head(table_store(env, now, shard), version)
                assert is_in_place(expected.schema, head), f"{shard} at {version}: {expected}"


def _made(env: EnvironmentRoot, state: State, shard: ShardId, generation: Generation, runs: int) -> list[tuple[str, int]]:
    """Return the metadata commits, without the seal that a swap sets and lifts where writers are faster, as the plan says.

    Of a generation that settled what others left, or that a rollback began to take back, and that goes on: those since.
    Of several ``runs``: without seals that were given up, or that a RESTORE of others lifted, and without a cut-over that was swapped back
    as its append did not come.
    """
    found = [made for made in commits_of(env, state, shard, generation) if made[0] not in ("settle", "pin")]
    while runs > 1 and (swapped := _swapped_back(env, state, shard, found)) is not None:
        found = [*found[:swapped], *found[swapped + 2 :]]
    rolled_back = max((number for number, (action, _) in enumerate(found, start=1) if action == IntentKind.TAKE_BACK.value), default=0)
    found = found[rolled_back:]
    while runs > 1 and (given_up := _pair(found, "seal", "unseal")) is not None:
        found = [*found[:given_up], *found[given_up + 2 :]]
    while runs > 1 and (lifted := _lifted(env, state, shard, found)) is not None:
        found = [*found[:lifted], *found[lifted + 1 :]]
    actions = [action for action, _ in found]
    for number in range(len(actions) - 2):
        if actions[number : number + 3] == ["seal", "cutover", "unseal"]:
            return [*found[:number], found[number + 1], *found[number + 3 :]]
    return found


def _lifted(env: EnvironmentRoot, state: State, shard: ShardId, found: Sequence[tuple[str, int]]) -> int | None:
    """Return where a seal stands that a RESTORE of others lifted before the next one."""
    number = _pair(found, "seal", "seal")
    if number is None:
        return None
    between = commits(table_store(env, state, shard), found[number][1], found[number + 1][1])
    return number if any(commit.restores for commit in between) else None


def _swapped_back(env: EnvironmentRoot, state: State, shard: ShardId, commits: Sequence[tuple[str, int]]) -> int | None:
    """Return where a cut-over stands that was taken back to the columns of right before it: a rollback leaves them otherwise."""
    number = _pair(commits, "cutover", IntentKind.TAKE_BACK.value)
    if number is None:
        return None
    store = table_store(env, state, shard)
    before, after = read_head(store, commits[number][1] - 1), read_head(store, commits[number + 1][1])
    return number if _columns(before) == _columns(after) else None  # a swap brings column mapping, and that stays


def _columns(head: Head) -> Mapping[str, object]:
    """Return the types by name: what is swapped back leaves the columns of its own behind the others."""
    return {field["name"]: _without_metadata(field["type"]) for field in head.schema["fields"]}


def _without_metadata(part: object) -> object:
    """Return a type without what stands beside its fields: a swap brings column mapping, whose ids do at any depth."""
    if isinstance(part, Mapping):
        return {key: _without_metadata(value) for key, value in part.items() if key != "metadata"}
    return [_without_metadata(value) for value in part] if isinstance(part, list) else part


def _pair(commits: Sequence[tuple[str, int]], *actions: str) -> int | None:
    """Return where two commits with these actions stand one behind the other."""
    pairs = ((one, other) for (one, _), (other, _) in pairwise(commits))
    return next((number for number, pair in enumerate(pairs) if pair == actions), None)


def explained(
    env: EnvironmentRoot, report: PlanReport, generation: Generation, *, contracted: bool
) -> Mapping[tuple[str, CollectionName], list[Commit]]:
    """Return the commits of each table, in their order, by (``new`` or ``old`` table, what it is called). ``contracted``: no hold."""
    expected = _Expected(env, report, generation)
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
    env: EnvironmentRoot
    report: PlanReport
    generation: Generation
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
        state = self.report.view.state
        assert state is not None
        head = None if source in self.schemas else self._head(state, source)
        before = self.schemas.get(source, physical_after(state, source, self.report.plan.ends))
        after = self.schemas[source] = apply(before, changes)
        shard = state.objects[source].shard
        if head is not None and self._is_adopted(state, shard) and is_in_place(after, head):
            return
        if not _is_there(before, after, changes, head):
            self.commits["old", source].append(Commit(action, after))

    def _head(self, state: State, source: CollectionName) -> Head | None:
        """Return what the table was like before any commit of the generation; None if an earlier run made some of them."""
        head = self.report.view.heads[source]
        assert head is not None
        found = commits_of(self.env, state, state.objects[source].shard, self.generation)
        own = ("settle", IntentKind.TAKE_BACK.value)
        return None if any(version <= head.version and action not in own for action, version in found) else head

    def _is_adopted(self, state: State, shard: ShardId) -> bool:
        """Return whether an earlier generation made the expand commit of this one."""
        intent = state.transition(shard, IntentKind.EXPAND, self.generation)
        return intent is not None and intent.done_version is not None


def _is_there(before: Declaration, after: Declaration, changes: Sequence[Change], head: Head | None) -> bool:
    """Return whether no commit is needed: a rollback, or a pin, left the table so, or a pin keeps what the release ends. Of a key nothing
    is on the table."""
    if any(isinstance(change, RenameColumn) for change in changes):  # also where two columns exchange their names
        return False
    of_table = [change for change in changes if not isinstance(change, AddKey | DropKey | AddForeignKey | DropForeignKey)]

    def may_be_set(change: Change) -> bool:
        if isinstance(change, SetProperty):
            return head is not None and head.properties.get(change.key) != change.old
        if isinstance(change, ChangeClustering):
            return head is not None and head.declaration(after.name).clustered_by == change.new
        return isinstance(change, Relax)

    is_set = all(map(may_be_set, of_table))
    return after == before or (is_set and head is not None and is_in_place(after, head))


def _is_log_complete(env: EnvironmentRoot, state: State, shard: ShardId) -> bool:
    """Return whether no commit of the table was cleaned up: what is gone cannot be looked at."""
    folder = env.table_location(state.shards[shard].uri).local_path
    assert folder is not None
    log = folder / "_delta_log"
    return not log.exists() or (log / f"{0:020}.json").exists()


def commits_of(env: EnvironmentRoot, state: State, shard: ShardId, generation: Generation) -> Iterator[tuple[str, int]]:
    """Yield (action, version) of every metadata commit that a generation made on a table. Contract is not the upgrade's."""
    folder = env.table_location(state.shards[shard].uri).local_path
    assert folder is not None
    for log in sorted((folder / "_delta_log").glob("*.json")):
        actions = [json_object(line) or {} for line in log.read_text().splitlines()]  # one that cannot be read is nobody's of ours
        infos = (action.get("commitInfo") for action in actions)
        found: Mapping[str, Any] = next((info for info in infos if isinstance(info, dict)), {})
        tag = (json_object(found.get("userMetadata")) or {}).get("schemamig", {})
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
