"""The reading visitor over a plan's stages: what each costs, whom it breaks, what is irreversible, what a rollback leaves or loses.

``execute`` (the verbs) is the other visitor; both go over the same closed list, and a test holds them to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.chain import Evolve
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.properties import WITH_FEATURE
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.upgrade import stages as s
from airflow_provider_schemamig.core.upgrade.plan import Plan


@dataclass(frozen=True, slots=True)
class Explanation:
    """One stage in words. Every tuple may be empty; ``cost`` is the dearest of its changes."""

    kind: str
    collection: str | None
    summary: str
    cost: c.Cost = c.Cost.NONE
    lines: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    irreversible: tuple[str, ...] = ()
    rollback: tuple[str, ...] = ()

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
        }


def explain(plan: Plan, heads: Mapping[CollectionName, Head | None]) -> tuple[Explanation, ...]:
    """Every stage of ``plan`` explained, in its order."""
    visitor = _Explainer(plan, heads)
    return tuple(getattr(visitor, f"visit_{stage.kind}")(stage) for stage in plan.stages)


_ABORTS = "writers in flight on the table abort once (DELTA_METADATA_CHANGED); a retry succeeds"
#: The last round of one tail and its digest on a warm session, measured (`make bench`: block). It does not grow with the table.
_CATCH_UP_SECONDS = (1.0, 4.0)
_ADDED = (
    "positional INSERT and MERGE ... * without autoMerge, and delta-rs appends without schema_mode='merge', "
    "fail while they do not know the new column"
)
_RENAMED = "readers and writers that use the old name fail from the cut-over on"
_DROPPED = "readers of the dropped column fail once contract has run; until then it is served and may be NULL in new rows"


class _Explainer:
    def __init__(self, plan: Plan, heads: Mapping[CollectionName, Head | None]) -> None:
        self._plan = plan
        self._heads = heads
        self._sources = {step.collection: step.old.name for step in plan.target.steps if isinstance(step, Evolve)}

    def visit_settle(self, stage: s.Settle) -> Explanation:
        names = ", ".join(stage.collections)
        summary = f"fence and finish or undo what an earlier leader left open on {names}"
        return Explanation("settle", None, summary, c.Cost.INSTANT, breaks=(_ABORTS,))

    def visit_end_hold(self, stage: s.EndHold) -> Explanation:
        gone = f"generation {stage.generation} cannot be rolled back any more"
        return Explanation("end_hold", None, f"end the hold of generation {stage.generation}", irreversible=(gone,))

    def visit_build(self, stage: s.Build) -> Explanation:
        inputs = ", ".join(source.collection for source in stage.inputs)
        how = f"filled on Spark from {inputs}" if stage.fill is not None else "empty"
        summary = f"build a replacement shard, {how}"
        return Explanation("build", stage.collection, summary, c.Cost.REWRITE if stage.fill else c.Cost.INSTANT)

    def visit_copy(self, stage: s.Copy) -> Explanation:
        source = stage.source if not stage.lookups else f"{stage.source} with {', '.join(found.collection for found in stage.lookups)}"
        lines = ["copied at one version and followed until the cut-over; the live table gets no commit before it"]
        lines += [f"{found.collection} is read at one version and not followed" for found in stage.lookups]
        rollback = [f"what is written after the commit is lost by a rollback (--allow-lossy): {stage.no_way_back or 'there is no down'}"]
        if stage.down is not None:
            rollback = [f"what is written after the commit goes back through `down`; writers wait for it: {self._blocked()}"]
        rollback += [f"column {path} of rows written after the commit is NULL after a rollback" for path in stage.lost_on_way_back]
        return Explanation(
            "copy",
            stage.collection,
            f"copy {source} on Spark into a new shard",
            c.Cost.REWRITE,
            tuple(lines),
            rollback=tuple(rollback),
        )

    def visit_create(self, stage: s.Create) -> Explanation:
        leaves = "its shard stays, sealed, with whatever rows it got"
        summary = f"create the collection ({len(stage.declaration.fields)} columns)"
        return Explanation("create", stage.collection, summary, c.Cost.INSTANT, rollback=(leaves,))

    def visit_expand(self, stage: s.Expand) -> Explanation:
        return self._changes("expand", stage.collection, stage.changes)

    def visit_cutover(self, stage: s.CutOver) -> Explanation:
        return self._changes("cutover", stage.collection, stage.changes)

    def visit_contract(self, stage: s.Contract) -> Explanation:
        found = self._changes("contract", stage.collection, stage.changes)
        dropped = tuple(f"{change.path} is gone once contract has run" for change in stage.changes if isinstance(change, c.DropColumn))
        return replace(found, summary="after the hold: " + found.summary, irreversible=(*dropped, *found.irreversible))

    def visit_seal(self, stage: s.Seal) -> Explanation:
        replaced = any(build.collection == stage.collection for build in self._plan.of_kind(s.Build))
        if any(copy.source == stage.collection for copy in self._plan.of_kind(s.Copy)):
            return self._seal_of_rewrite(stage)
        what = "replaced" if replaced else "removed"
        breaks = (f"every writer of the old shard is refused from the cut-over on, its readers see frozen rows: the collection is {what}",)
        loses = ("rows written to the replacement after the commit are lost by a rollback (--allow-lossy)",) if replaced else ()
        return Explanation("seal", stage.collection, f"seal the shard, it is {what}", c.Cost.INSTANT, breaks=breaks, rollback=loses)

    def _seal_of_rewrite(self, stage: s.Seal) -> Explanation:
        breaks = (
            "every writer of the old shard is refused from the cut-over on, its readers see frozen rows: foreign ones have to move",
            f"writers are blocked from the seal to the commit: {self._blocked()}",
        )
        return Explanation("seal", stage.collection, "seal the shard, it is rewritten", c.Cost.INSTANT, breaks=breaks)

    def _blocked(self) -> str:
        """All rewritten collections are sealed together and caught up with one after the other."""
        rewrites = len(self._plan.of_kind(s.Copy))
        low, high = (round(seconds * rewrites) for seconds in _CATCH_UP_SECONDS)
        return f"{low} to {high} s for {rewrites} rewrite(s), and what Spark takes for the files that the last commits touched"

    def visit_retire(self, stage: s.Retire) -> Explanation:
        gone = ("the old shard's rows are deleted once contract has run (an adopted table's files never)",)
        return Explanation("retire", stage.collection, "after the hold: delete the old shard", irreversible=gone)

    def visit_commit(self, stage: s.Commit) -> Explanation:
        what = f"{stage.source or 'nothing'} -> {stage.target}: one ledger append, all collections together"
        return Explanation("commit", None, what, c.Cost.INSTANT)

    def _changes(self, kind: str, collection: CollectionName, changes: tuple[c.Change, ...]) -> Explanation:
        lines = tuple(describe(change) for change in changes)
        cost = max((change.cost for change in changes), key=lambda cost: cost.rank, default=c.Cost.NONE)
        breaks = [_ABORTS]
        if any(isinstance(change, c.AddColumn) for change in changes):
            breaks.append(_ADDED)
        if any(isinstance(change, c.RenameColumn) for change in changes):
            breaks.append(_RENAMED)
        if any(isinstance(change, c.DropColumn) for change in changes):
            breaks.append(_DROPPED)
        irreversible = list(self._features(collection, changes))
        leaves = [f"{change.path} stays {type_sql(change.new)}" for change in changes if isinstance(change, c.ChangeType)]
        leaves += [f"{change.path} stays as a hidden column if rows carry it" for change in changes if isinstance(change, c.AddColumn)]
        leaves += [f"{change.path} stays nullable if a NULL came in" for change in changes if isinstance(change, c.Relax)]
        leaves += [f"CHECK {change.check.name} stays dropped if rows came in" for change in changes if isinstance(change, c.DropCheck)]
        summary = "; ".join(lines)
        return Explanation(kind, collection, summary, cost, lines, tuple(breaks), tuple(irreversible), tuple(leaves))

    def _features(self, collection: CollectionName, changes: tuple[c.Change, ...]) -> list[str]:
        """Protocol features that a commit switches on: they stay, whatever is rolled back."""
        head = self._heads.get(self._sources.get(collection, collection))
        has = head.features if head is not None else frozenset()
        found = []
        if "columnMapping" not in has and any(isinstance(change, c.RenameColumn | c.DropColumn) for change in changes):
            found.append(
                "column mapping is switched on (protocol 3,7): older readers, and delta-rs' to_pandas/to_pyarrow, are refused from then on"
            )
        if "typeWidening" not in has and any(isinstance(change, c.ChangeType) for change in changes):
            found.append("type widening is switched on: delta-rs cannot read the table any more; the wider type stays")
        if "allowColumnDefaults" not in has and any(isinstance(change, c.SetDefault) for change in changes):
            found.append("column defaults are switched on: delta-rs cannot write the table any more")
        for change in changes:
            if isinstance(change, c.SetProperty) and change.key in WITH_FEATURE and change.new == "true":
                found.append(f"{change.key} brings a table feature, which stays: older readers or writers may be refused from then on")
        return found
