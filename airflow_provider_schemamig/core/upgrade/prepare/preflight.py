"""Preflight's findings: the report a person reads before promotion, and the checks on data that it asks Spark for."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.objects.nodes import Node
from airflow_provider_schemamig.core.ledger.rows import Deployment
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.online.operation import filled
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.release.queries.casts import casts_over_source
from airflow_provider_schemamig.core.schema.describe import change_json
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.sql import quote, type_sql
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import StageResult
from airflow_provider_schemamig.core.upgrade.errors import SealTooShort
from airflow_provider_schemamig.core.upgrade.plan.estimate import Timing, blocked_seconds, timing_of
from airflow_provider_schemamig.core.upgrade.plan.explain import Explanation, explain
from airflow_provider_schemamig.core.upgrade.plan.expressions import expressions_of, unusable_of
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import ends_by_hand, physical_after
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_names, names_under_way, table_store
from airflow_provider_schemamig.core.upgrade.plan.notes.stopped_writers import stopped_writers
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View
from airflow_provider_schemamig.core.upgrade.plan.row_checks import check_of
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS, Build, Copy, EndHold, Stage
from airflow_provider_schemamig.core.upgrade.prepare.declared_types import shown_as_declared, wide_columns
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs, violation_of
from airflow_provider_schemamig.core.upgrade.prepare.log_stores import proven_session
from airflow_provider_schemamig.exceptions import SchemamigError

#: What Spark runs for one rewrite after the seal, at least, if its table got a commit: a round of the tail, and its digest.
_STATEMENTS = 6


@dataclass(frozen=True)
class PlanReport:
    """A plan as a document: release, from, to, plan_digest, stages, pending, refusals."""

    planned: Planned
    view: View
    #: What the fills will read: {collection, input, rows, bytes, files} each; known to preflight and to ``--check-data``.
    estimates: tuple[dict[str, Any], ...] = ()
    #: How long that took, and would take; known like the estimates.
    timing: Timing | None = None
    #: A note for each table of which a seal stops writers without handles (``stopped_writers``).
    stopped: tuple[str, ...] = ()
    #: For how long the cut-over may lock writers out.
    seal_seconds: int = SEAL_SECONDS
    #: Why: version and docstring of each migration that is gone through.
    reasons: tuple[tuple[str, str], ...] = ()
    #: The questions that all rows were asked, as the job got them; known like the estimates.
    asked: tuple[dict[str, Any], ...] = ()

    @property
    def plan(self) -> Plan:
        return self.planned.plan

    @property
    def refusals(self) -> tuple[SchemamigError, ...]:
        return self.planned.refusals

    @property
    def exit_code(self) -> int:
        """Return 0 for nothing to do, 1 for refused, 3 for differences pending."""
        if self.refusals:
            return 1
        return 0 if self.plan.is_empty and not self.due_holds else 3

    @property
    def due_holds(self) -> tuple[int, ...]:
        state = self.view.state
        over = (hold for hold in self.planned.pending if hold.until <= self.view.now)
        return tuple(hold.generation for hold in over if state is None or not ends_by_hand(state, hold))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the plan's, and what else has to be done before it can run."""
        state, notes = self.view.state, (*self.plan.notes, *self.stopped)
        if state is None:
            return (*notes, "there is no environment here yet: only with `--create` one is made")
        if state.is_current or self.plan.is_empty:
            return notes
        return (*notes, f"the ledger has format {state.format}: `schemamig ledger upgrade` has to run before promotion")

    @property
    def explained(self) -> tuple[Explanation, ...]:
        state = self.view.state
        adopted = () if state is None else tuple(name for name, item in state.objects.items() if state.shards[item.shard].adopted)
        return explain(self.plan, self.view.heads, self.planned.online, adopted, self.seal_seconds)

    def to_json(self, *, explained: bool = False) -> dict[str, Any]:
        target = self.plan.target
        document: dict[str, Any] = {
            "release": target.name,
            "from": str(target.source) if target.source is not None else None,
            "to": str(target.version),
            "plan_digest": self.plan.digest,
            "stages": [stage_json(stage) for stage in self.plan.stages],
            "pending": list(self.view.holds),
            "notes": list(self.notes),
            "estimates": list(self.estimates),
            "timing": self.timing.to_json() if self.timing is not None else None,
            "blocked_seconds": list(blocked_seconds(self.plan, self.seal_seconds)),
            "nodes": [_node(node) for node in self.view.nodes],
            "refusals": [refusal.to_json() for refusal in self.refusals],
        }
        if explained:
            document["explanations"] = [item.to_json() for item in self.explained]
            document["reasons"] = [{"version": version, "text": text} for version, text in self.reasons]
        return document


@dataclass(frozen=True)
class Preflight:
    """``generation`` None: there is nothing to do. ``fills``: collections whose fill is left to mapped tasks; ``filled``: those done."""

    generation: Generation | None
    report: PlanReport
    report_uri: str | None
    fills: tuple[str, ...]
    filled: tuple[StageResult, ...] = ()

    @property
    def plan_digest(self) -> str:
        return self.report.plan.digest

    @property
    def took_long(self) -> bool:
        """Return whether Spark read or wrote rows since the tables were looked at: before promotion that is done again."""
        return bool(self.filled or self.fills or self.report.estimates or self.report.asked or self.report.planned.online)

    def to_json(self) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "plan_digest": self.plan_digest,
            "report_uri": self.report_uri,
            "plan": self.report.to_json(explained=True),
            "fills": list(self.fills),
        }


def _node(node: Node) -> dict[str, Any]:
    return {"id": node.node_id, "kind": node.kind.value, "release": str(node.release), "since": node.since.isoformat()}


def stage_json(stage: Stage) -> dict[str, Any]:
    document = {"kind": stage.kind, "collection": stage.collection, "changes": [change_json(change) for change in stage.changes]}
    return {**document, "generation": stage.generation, "shards": list(stage.shards)} if isinstance(stage, EndHold) else document


def write_report(env: EnvironmentRoot, deployment: Deployment, report: PlanReport) -> str:
    """Put the report beside the plan, under the generation; returns its URI. Repeating it overwrites it with the newest findings."""
    key = f"{env.SYSTEM_FOLDER}/reports/{deployment.generation}.json"
    env.store().put(key, canonical(report.to_json(explained=True)).encode())
    return env.location.child(*key.split("/")).uri


# --- checks on data ------------------------------------------------------------------------------------------------------------------


def report_on(env: EnvironmentRoot, view: View, planned: Planned) -> PlanReport:
    """Return what can be said without Spark."""
    return PlanReport(planned, view, stopped=stopped_writers(env, view, planned.plan))


def check_data(
    env: EnvironmentRoot, view: View, planned: Planned, jobs: Jobs, started: float, listen: Listener | None = None
) -> PlanReport:
    """Ask Spark what only the rows know: NOT NULL and CHECK violations, failing casts, duplicate keys; and what the fills will read. And,
    since it runs, whether it can evaluate the new CHECKs and DEFAULTs.

    Violations become refusals of the report. No question, no JVM. ``started``: when planning began, by ``time.monotonic``; ``listen``
    hears how far Spark is.
    """
    checks, inputs = data_checks(env, view, planned), fill_sizes(env, view, planned.plan)
    stopped = stopped_writers(env, view, planned.plan)
    if not checks and not inputs:
        return PlanReport(planned, view, timing=timing_of(view.state, (), time.monotonic() - started), stopped=stopped)
    wanted = [{"collection": source, "uri": uri} for _, source, uri in inputs]
    asked = expressions_of(view, planned.plan)
    timed = bool(planned.plan.of_kind(Copy))
    request = {"checks": checks, "estimates": wanted, "expressions": asked, "timed": timed, "storage_options": dict(env.options)}
    from airflow_provider_schemamig.core.spark.watched import WatchedRunner  # most plans ask nothing

    if listen is not None:
        listen(Event("plan", note="asking Spark about the rows"))
    runner = jobs() if listen is None else WatchedRunner(jobs(), listen)
    with proven_session(env) as more:
        found = runner.run("preflight", {**request, **more})
    violations = (*map(unusable_of, found["unusable"]), *map(violation_of, found["violations"]))
    estimates = tuple(
        {"collection": collection, "input": source, "rows": item["rows"], "bytes": item["bytes"], "files": item["files"]}
        for (collection, source, _), item in zip(inputs, found["estimates"], strict=True)
    )
    timing = timing_of(view.state, estimates, time.monotonic() - started, found.get("statement_seconds"))
    found_out = replace(planned, refusals=(*planned.refusals, *violations))
    return PlanReport(found_out, view, estimates, timing, stopped, asked=tuple(checks))


def too_slow(report: PlanReport, seal_seconds: int) -> tuple[SealTooShort, ...]:
    """Return a refusal if this Spark, as it was measured, cannot catch up with the rewrites while writers may be locked out."""
    rewrites = len(report.plan.of_kind(Copy))
    seconds = report.timing.statement_seconds if report.timing is not None else None
    if seconds is None or rewrites * _STATEMENTS * seconds <= seal_seconds:
        return ()
    return (SealTooShort(rewrites=rewrites, statements=rewrites * _STATEMENTS, seconds=seconds, limit=seal_seconds),)


def fill_sizes(env: EnvironmentRoot, view: View, plan: Plan) -> list[tuple[CollectionName, CollectionName, str]]:
    """Return (filled or copied collection, input, the input's table URI) for every input of every fill and copy."""
    if view.state is None:
        return []
    found = [(build.collection, source.collection) for build in plan.of_kind(Build) for source in build.inputs]
    for stage in plan.of_kind(Copy):
        found += [(stage.collection, name) for name in (stage.source, *(lookup.collection for lookup in stage.lookups))]
    return [
        (collection, source, table_store(env, view.state, view.state.objects[source].shard).location.uri) for collection, source in found
    ]


def data_checks(env: EnvironmentRoot, view: View, planned: Planned) -> list[dict[str, Any]]:
    """Return the questions a plan has about the rows of its rewritten and evolved collections. Raises NamesUnderWay."""
    checks: list[dict[str, Any]] = []
    for stage in planned.plan.of_kind(Copy):
        head = view.heads.get(stage.source)
        if view.state is not None and head is not None:
            check_names(view.state, stage.source, head)
            shard = view.state.objects[stage.source].shard
            uri = table_store(env, view.state, shard).location.uri
            shown = shown_as_declared(view.state, shard, stage.projection, or_null=True)  # ``_fits`` asks for what does not fit
            checks += [{"collection": stage.source, "uri": uri, "projection": shown, **found} for found in _casts(stage)]
    checks += _fits(env, view, planned.plan)
    for source, chains in planned.asked.items():
        assert view.state is not None  # what evolves is there
        physical = physical_after(view.state, source, planned.plan.ends)
        # A column that is only just added has no rows to ask, also where it lies hidden since an earlier attempt.
        given = {path.lower() for path in filled(chains)}
        there = {path.lower() for path, _ in walk(physical.fields)} - given
        empty = _added(physical, planned.online[source].table, given)
        for operation in (operation for chain in chains for operation in chain):
            asked = [question for question in operation.questions if _can_be_asked(view, source, question.refers)]
            columns = {path.lower() for path in operation.columns}  # a CHECK may spell them as it likes
            if there.issuperset(columns) or operation.asks:
                checks += [check_of(env, view.state, source, question) for question in asked]
            elif {*there, *empty}.issuperset(columns):
                shown = ", ".join([*(quote(field.name) for field in physical.fields), *empty.values()])
                rules = [check_of(env, view.state, source, question) for question in asked if question.kind == "check"]
                checks += [{**rule, "projection": shown} for rule in rules]
    return checks


def _fits(env: EnvironmentRoot, view: View, plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield questions for values that do not fit their declared types, in the wide columns of all tables read by a query."""
    for source, uri in dict.fromkeys((source, uri) for _, source, uri in fill_sizes(env, view, plan)):
        assert view.state is not None  # else nothing would be read
        for column in wide_columns(view.state, view.state.objects[source].shard):
            rule = f"{column.name} as {type_sql(column.declared)}"
            yield {"collection": source, "uri": uri, "kind": "check", "expression": column.fits, "rule": rule}


def _added(physical: Declaration, expanded: Declaration, filled: Collection[str]) -> dict[str, str]:
    """Return the columns that no row has a value in when rules over them are enforced, each as an item of a select list.

    Names, also those of ``filled``, are in small letters.
    """
    known = {*(field.name.lower() for field in physical.fields), *filled}
    new = (field for field in expanded.fields if field.name.lower() not in known)
    return {field.name.lower(): f"CAST(NULL AS {type_sql(field.type)}) AS {quote(field.name)}" for field in new}


def _can_be_asked(view: View, *names: CollectionName | None) -> bool:
    """Return whether the tables have the names that a question is put in.

    If not, a run was killed between its renames and its commit; then ``change`` has asked, or will once that is taken back.
    """
    heads = ((name, view.heads.get(name)) for name in names if name is not None)
    return not any(head is not None and view.state is not None and names_under_way(view.state, name, head) for name, head in heads)


def _casts(stage: Copy) -> Iterator[dict[str, Any]]:
    """Yield questions for values that the casts in ``up`` would fail on: Spark names the first one only, and after hours of copying."""
    for cast in casts_over_source(stage.up, stage.source):
        reached = "" if cast.where is None else f"({cast.where}) IS NOT TRUE OR "
        fine = f"{reached}({cast.operand}) IS NULL OR TRY_CAST({cast.operand} AS {cast.type}) IS NOT NULL"
        yield {"kind": "check", "expression": fine, "rule": f"up: CAST({cast.operand} AS {cast.type})"}
