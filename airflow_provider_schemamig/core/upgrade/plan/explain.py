"""Explain a plan's stages: what each costs, whom it breaks, what is irreversible, what a rollback leaves or loses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.online.operation import Chain
from airflow_provider_schemamig.core.online.operation import filled as filled_columns
from airflow_provider_schemamig.core.release.merge.chain import Create, Replace, RewriteStep
from airflow_provider_schemamig.core.release.merge.key_on_way_back import gives_key_back
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.delta_rules.table_features import (
    ALLOW_COLUMN_DEFAULTS,
    CLUSTERING,
    COLUMN_MAPPING,
    DECLARABLE,
    FEATURES,
    TYPE_WIDENING,
)
from airflow_provider_schemamig.core.schema.delta_rules.widening import limits_of
from airflow_provider_schemamig.core.schema.describe import column_sql, describe
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.element_states import PATHS
from airflow_provider_schemamig.core.schema.model import Declaration, Primitive
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.estimate import blocked_in_words, fills_while_blocked
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stage_list import OnlineChanges
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS
from airflow_provider_schemamig.exceptions import listed

#: ``Planned.online``.
Online = Mapping[CollectionName, OnlineChanges]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One stage in words. Every tuple may be empty; ``cost`` is the dearest of its changes.

    ``columns``: how a table that is made anew differs from the one before it, or all of its columns.
    ``queries``: name (up, down, fill) and SQL.
    """

    kind: str
    collection: str | None
    summary: str
    cost: c.Cost = c.Cost.NONE
    lines: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    irreversible: tuple[str, ...] = ()
    rollback: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    queries: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Explanation:
        """Return what ``to_json`` wrote down."""
        lists = {name: tuple(document[name]) for name in ("lines", "breaks", "irreversible", "rollback", "columns")}
        queries = tuple(document["queries"].items())
        return cls(document["kind"], document["collection"], document["summary"], c.Cost(document["cost"]), **lists, queries=queries)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "collection": self.collection,
            "summary": self.summary,
            "cost": self.cost.value,
            "lines": list(self.lines),
            "breaks": list(self.breaks),
            "irreversible": list(self.irreversible),
            "rollback": list(self.rollback),
            "columns": list(self.columns),
            "queries": dict(self.queries),
        }


def _aborts(changes: tuple[c.Change, ...]) -> bool:
    """Return whether the changes abort a writer's transaction, whose metadata do not include clustering."""
    return not all(isinstance(change, c.ChangeClustering) for change in changes)


def _columns(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})" if names else "NONE"


def _brings_default(change: c.Change) -> bool:
    return isinstance(change, c.SetDefault) or (isinstance(change, c.AddColumn) and change.field.default is not None)


def _way(chain: Chain) -> str:
    """Describe each element with the states on its way."""
    return ", then ".join(f"{operation.name} {' > '.join(state.value.upper() for state in PATHS[operation.cls])}" for operation in chain)


def _held_to_rules(changes: tuple[c.Change, ...]) -> tuple[str, ...]:
    rules = [describe(change) for change in changes if isinstance(change, c.AddCheck | c.SetNotNull)]
    return tuple(f"{rule}: rows that break it are refused from the first commit on, before the older ones are validated" for rule in rules)


def _widens(change: c.Change) -> bool:
    return isinstance(change, c.ChangeType) and change.widening


def _maps_columns(change: c.Change) -> bool:
    """Return whether a change renames or drops a column, also by the swap of a change of type."""
    return isinstance(change, c.RenameColumn | c.DropColumn) or (isinstance(change, c.ChangeType) and not change.widening)


def _clusters(change: c.Change) -> bool:
    return isinstance(change, c.ChangeClustering)


#: Which changes bring a feature, in the order in which a plan says so.
_BRINGS: Mapping[str, Callable[[c.Change], bool]] = {
    COLUMN_MAPPING: _maps_columns,
    TYPE_WIDENING: _widens,
    ALLOW_COLUMN_DEFAULTS: _brings_default,
    CLUSTERING: _clusters,
}


def _fenced_by_width(source: Version | None, change: c.ChangeType) -> str:
    """Say when a widened type fences readers of ``source``. Where a file's statistics cannot tell (``limits_of``), only its writer can."""
    old, new = change.old, change.new
    told = isinstance(old, Primitive) and isinstance(new, Primitive) and limits_of(old.name, new.name) is not None
    rest = ", or their file's statistics say so" if told else ""
    known = f"known to fit {type_sql(old)}: they came before or by a handle of {source}{rest}"
    return f"readers of {source} are fenced from expand on, also after a rollback, unless all values are {known}"


def _fenced_by_null(source: Version | None) -> str:
    return f"readers of {source} are fenced from expand on, once a NULL has come in"


def explain(
    plan: Plan,
    heads: Mapping[CollectionName, Head | None],
    online: Online,
    adopted: Collection[CollectionName] = (),
    seal_seconds: int = SEAL_SECONDS,
) -> tuple[Explanation, ...]:
    """Return every stage of ``plan`` explained, in its order.

    ``online``: ``Planned.online``; ``adopted``: whose tables are; ``seal_seconds``: a seal's deadline.
    """
    visitor = _Explainer(plan, heads, online, adopted, seal_seconds)
    return tuple(getattr(visitor, f"visit_{stage.kind}")(stage) for stage in plan.stages)


ABORTS = "writers in flight on the table abort once (DELTA_METADATA_CHANGED); a retry succeeds"
ADDED = (
    "positional INSERT and MERGE ... * without autoMerge, and delta-rs appends without schema_mode='merge', "
    "fail while they do not know the new column"
)
_RETYPED = (
    "until contract the table has an extra column: positional INSERT, MERGE ... * without autoMerge and delta-rs appends without "
    "schema_mode='merge' fail (a declared rewrite spares them). From the cut-over on, readers and writers of the release before are "
    "fenced, and others get the new type"
)
_SEALED = (
    "if writers win the race for this commit twice (once with force), they are blocked while their rows are filled: for seconds, and at "
    "most {seal_seconds} (--seal-seconds)"
)
_INVERSE_CAST = (
    "gets its old values back, and rows written since the swap theirs by a cast; one that does not fit is refused (or NULL, by order)"
)
_CLUSTERED = "delta-rs appends, overwrites and deletes fail from then on; PARTITIONED BY, declared as a rewrite, spares them"
_LAID_OUT = "older files are rewritten in order, in batches of up to 128 GiB; no row changes, so CDF and streams see nothing of it"
_FOUND_BY = (
    "{}rollback finds changed and deleted rows by {}: if `down` does not reproduce what that was, it is refused (rows_not_found) until "
    "that row is as it was"
)
_NEW_TABLE_IN_ROLLBACK = "its table is sealed and keeps its rows for as long as the hold was, at least a day, until contract deletes it"
_RENAMED = "readers and writers that use the old name fail from the cut-over on"
_DROPPED = "readers of the dropped column fail once contract has run; until then it is served and may be NULL in new rows"


#: So many collections of one stage are spelled out.
_NAMES_SHOWN = 3


class _Explainer:
    def __init__(
        self,
        plan: Plan,
        heads: Mapping[CollectionName, Head | None],
        online: Online,
        adopted: Collection[CollectionName],
        seal_seconds: int,
    ) -> None:
        self._adopted, self._seal_seconds = adopted, seal_seconds
        self._plan = plan
        self._heads = heads
        self._online = online
        self._steps = {step.collection: step for step in plan.target.steps}

    def visit_settle(self, stage: s.Settle) -> Explanation:
        names = listed(stage.collections, _NAMES_SHOWN)
        summary = f"fence and finish or undo what an earlier leader left open on {names}"
        if not names:
            summary = "fence a rollback that was begun and not ended, and open its hold again"
        return Explanation("settle", None, summary, c.Cost.INSTANT, breaks=(ABORTS,))

    def visit_end_hold(self, stage: s.EndHold) -> Explanation:
        """Explain the end of a hold, with each column and table that goes."""
        lines = [f"column {change.path}" for change in stage.changes] + [f"table {shard}" for shard in stage.shards]
        gone = (f"generation {stage.generation} cannot be rolled back any more", *(f"{line} is gone" for line in lines))
        what = ", ".join(lines) if lines else "nothing is deleted"
        summary = f"at expand, before its time: end the hold of generation {stage.generation} ({what})"
        return Explanation("end_hold", stage.collection, summary, c.Cost.INSTANT, irreversible=gone)

    def visit_build(self, stage: s.Build) -> Explanation:
        inputs = ", ".join(source.collection for source in stage.inputs)
        how = f"filled on Spark from {inputs}" if stage.fill is not None else "empty"
        is_new = not any(seal.collection == stage.collection for seal in self._plan.of_kind(s.Seal))
        summary = f"create the collection, {how}" if is_new else f"build a replacement shard, {how}"
        cost = c.Cost.REWRITE if stage.fill else c.Cost.INSTANT
        return Explanation(
            "build",
            stage.collection,
            summary,
            cost,
            rollback=(_NEW_TABLE_IN_ROLLBACK,) if is_new else (),
            columns=self._columns(stage),
            queries=_queries(fill=stage.fill),
        )

    def visit_copy(self, stage: s.Copy) -> Explanation:
        source = stage.source if not stage.lookups else f"{stage.source} with {', '.join(found.collection for found in stage.lookups)}"
        lines = ["copied at one version and followed until the cut-over; the live table gets no commit before it"]
        lines += [f"{found.collection} is read at one version and not followed" for found in stage.lookups]
        rollback = [
            f"what is written after the commit is lost by a rollback, done only by order: {stage.no_way_back or 'there is no down'}"
        ]
        if stage.down is not None:
            rollback = [f"what is written after the commit goes back through `down`; writers wait for it: {blocked_in_words(self._plan)}"]
            rollback += self._how_found(stage)
        rollback += [f"column {path} of rows written after the commit is NULL after a rollback" for path in stage.lost_on_way_back]
        return Explanation(
            "copy",
            stage.collection,
            f"copy {source} on Spark into a new shard",
            c.Cost.REWRITE,
            tuple(lines),
            rollback=tuple(rollback),
            columns=self._columns(stage),
            queries=_queries(up=stage.up, down=stage.down),
        )

    def visit_create(self, stage: s.CreateShard) -> Explanation:
        summary = f"create the collection ({len(stage.declaration.fields)} columns)"
        rollback = (_NEW_TABLE_IN_ROLLBACK,)
        return Explanation("create", stage.collection, summary, c.Cost.INSTANT, rollback=rollback, columns=self._columns(stage))

    def _columns(self, stage: s.Build | s.Copy | s.CreateShard) -> tuple[str, ...]:
        """Return how the new table differs from the one before; without one all of its columns, but not for a whole new environment."""
        match self._steps.get(stage.collection):
            case RewriteStep(old=old, new=new) | Replace(old=old, new=new):
                return _differences(old, new)
            case Create(new=new) if self._plan.target.source is not None:
                return tuple(f"{field.name} {column_sql(field)}" for field in new.fields)
            case _:
                return ()

    def visit_expand(self, stage: s.Expand) -> Explanation:
        return self._changes(stage)

    def visit_change(self, stage: s.Online) -> Explanation:
        found = self._changes(stage)
        online = self._online[stage.source]
        commits = online.commits
        aborts = sum(map(_aborts, commits))
        lines = [f"{describe(change)}: {_way(chain)}" for change, chain in online.changes]
        which = "each of which aborts" if aborts == len(commits) else f"{aborts} of which abort(s)"
        lines.append(f"{len(commits)} metadata commit(s) for all of them, {which} the writers in flight once")
        filled = [str(column) for column in sorted(filled_columns(online.chains))]
        if filled:
            lines.append(f"older files are rewritten with {', '.join(filled)}, in batches; CDF and streams see these rows change")
        lines += [_LAID_OUT for change in stage.changes if isinstance(change, c.ChangeClustering)]
        return replace(found, lines=tuple(lines), breaks=(*found.breaks, *_held_to_rules(stage.changes)))

    def visit_cutover(self, stage: s.CutOver) -> Explanation:
        found = self._changes(stage)
        if not stage.swaps:
            return found
        lines = (*(f"{path}: the column of its new type takes its place" for path in stage.swaps), *found.lines)
        breaks = tuple(dict.fromkeys((ABORTS, _SEALED.format(seal_seconds=self._seal_seconds), *found.breaks)))
        return replace(found, summary="; ".join(lines), cost=c.Cost.INSTANT, lines=lines, breaks=breaks)

    def visit_contract(self, stage: s.Contract) -> Explanation:
        found = self._changes(stage)
        dropped = tuple(f"{change.path} is gone once contract has run" for change in stage.changes if isinstance(change, c.DropColumn))
        return replace(found, summary="after the hold: " + found.summary, irreversible=(*dropped, *found.irreversible))

    def visit_seal(self, stage: s.Seal) -> Explanation:
        replaced = any(build.collection == stage.collection for build in self._plan.of_kind(s.Build))
        if any(copy.source == stage.collection for copy in self._plan.of_kind(s.Copy)):
            return self._seal_of_rewrite(stage)
        what = "replaced" if replaced else "removed"
        breaks = (
            f"every writer of the old shard is refused from the cut-over on, its readers see frozen rows: the collection is {what}",
            f"handles of {self._plan.target.source} are fenced from the cut-over on, for all of its columns",
        )
        stays = ("rows written to the replacement after the commit stay behind in it on a rollback, done only by order",)
        loses = stays if replaced else ()
        return Explanation("seal", stage.collection, f"seal the shard, it is {what}", c.Cost.INSTANT, breaks=breaks, rollback=loses)

    def _seal_of_rewrite(self, stage: s.Seal) -> Explanation:
        blocked = blocked_in_words(self._plan) + fills_while_blocked(self._plan, stage.collection)
        breaks = (
            "every writer of the old shard is refused from the cut-over on, its readers see frozen rows: foreign ones have to move",
            f"handles of {self._plan.target.source} are fenced from the cut-over on, but for readers of columns that `up` hands through",
            f"writers are blocked from the seal to the commit: {blocked}",
        )
        return Explanation("seal", stage.collection, "seal the shard, it is rewritten", c.Cost.INSTANT, breaks=breaks)

    def _how_found(self, stage: s.Copy) -> Sequence[str]:
        """Return what a rollback finds rows by, unless it is sure to find them."""
        step = self._steps.get(stage.collection)
        if not isinstance(step, RewriteStep) or gives_key_back(step):
            return []
        has_key = step.old.primary_key is not None
        return [_FOUND_BY.format(*(("", "their primary key") if has_key else ("without a primary key, ", "value")))]

    def visit_retire(self, stage: s.Retire) -> Explanation:
        if stage.collection in self._adopted:
            return Explanation("retire", stage.collection, "after the hold: leave the old shard where it is, for it was adopted")
        gone = ("the old shard's rows are deleted once contract has run",)
        return Explanation("retire", stage.collection, "after the hold: delete the old shard", irreversible=gone)

    def visit_commit(self, stage: s.Commit) -> Explanation:
        way = f"{stage.source or 'nothing'} -> {stage.target}" if not self._plan.target.ahead else f"stay at {stage.target}"
        what = f"{way}: one ledger append, all collections together"
        return Explanation("commit", None, what, c.Cost.INSTANT)

    def _changes(self, stage: s.EvolutionStage) -> Explanation:
        changes, has = stage.changes, self._features_of(stage.source)
        lines = tuple(describe(change) for change in changes)
        cost = max((change.cost for change in changes), key=lambda cost: cost.rank, default=c.Cost.NONE)
        breaks = [ABORTS] if _aborts(changes) else []
        if CLUSTERING not in has and any(map(_clusters, changes)):
            breaks.append(_CLUSTERED)
        if any(isinstance(change, c.AddColumn) for change in changes):
            breaks.append(ADDED)
        retyped = [change for change in changes if isinstance(change, c.ChangeType) and not change.widening]
        breaks += [f"{change.path}: {_RETYPED}" for change in retyped]
        if any(isinstance(change, c.RenameColumn) for change in changes):
            breaks.append(_RENAMED)
        if any(isinstance(change, c.DropColumn) for change in changes):
            breaks.append(_DROPPED)
        irreversible = list(_features(has, changes))
        leaves = [f"{change.path} {_INVERSE_CAST}" for change in retyped]
        widened = [change for change in changes if isinstance(change, c.ChangeType) and change.widening]
        source = self._plan.target.source
        breaks += [f"{change.path}: {_fenced_by_width(source, change)}" for change in widened]
        breaks += [f"{change.path}: {_fenced_by_null(source)}" for change in changes if isinstance(change, c.Relax)]
        leaves += [f"{change.path} stays {type_sql(change.new)}" for change in widened]
        leaves += [f"{change.path} stays as a hidden column if rows carry it" for change in changes if isinstance(change, c.AddColumn)]
        leaves += [f"{change.path} stays nullable if a NULL came in" for change in changes if isinstance(change, c.Relax)]
        leaves += [f"CHECK {change.check.name} stays dropped if rows came in" for change in changes if isinstance(change, c.DropCheck)]
        leaves += [
            f"CLUSTER BY {_columns(change.old)} is back, files stay as they lie"
            for change in changes
            if isinstance(change, c.ChangeClustering)
        ]
        summary = "; ".join(lines)
        return Explanation(stage.kind, stage.collection, summary, cost, lines, tuple(breaks), tuple(irreversible), tuple(leaves))

    def _features_of(self, collection: CollectionName) -> frozenset[str]:
        head = self._heads.get(collection)
        return head.features if head is not None else frozenset()


def _differences(old: Declaration, new: Declaration) -> tuple[str, ...]:
    changes = (change for change in diff(old, new).changes if not isinstance(change, c.ReorderColumns))
    return tuple(map(describe, changes)) or ("the columns stay as they are",)


def _queries(**queries: str | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, inspect.cleandoc(sql)) for name, sql in queries.items() if sql is not None)


def _features(has: frozenset[str], changes: tuple[c.Change, ...]) -> list[str]:
    """Return the protocol features that a commit switches on, in words: they stay, whatever is rolled back."""
    switched = [name for name, brings in _BRINGS.items() if name not in has and any(map(brings, changes))]
    found = [words for name in switched if (words := FEATURES[name].switched_on)]
    for change in changes:
        if isinstance(change, c.SetProperty) and change.key in DECLARABLE and change.new == "true":
            found.append(f"{change.key} brings a table feature, which stays: older readers or writers may be refused from then on")
    return found
