"""The CHECKs, DEFAULTs and ways back of a plan, for Spark to judge where it runs anyway: what types a function takes only
Spark knows, and of a ``down`` nobody else would ask it before a rollback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.merge.chain import Remove, RewriteStep
from airflow_provider_schemamig.core.release.queries.query import bind, placeholders
from airflow_provider_schemamig.core.release.queries.with_column import with_column
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import AddCheck, AddColumn, Change, SetDefault
from airflow_provider_schemamig.core.schema.delta_rules.widening import varchar_length
from airflow_provider_schemamig.core.schema.model import DataType, Declaration, Field, Primitive
from airflow_provider_schemamig.core.schema.sql import quote, type_sql
from airflow_provider_schemamig.core.schema.unusable import UnusableExpression
from airflow_provider_schemamig.core.transfer.row_transfer import MADE_OF
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import physical_after
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.planner import View
from airflow_provider_schemamig.core.upgrade.plan.stages import Build, Copy, CreateShard, Expand, Online
from airflow_provider_schemamig.exceptions import Refusal

#: What uses a query that is a rewrite's ``down``.
_WAY_BACK = "the way back"


class UnusableWayBack(Refusal):
    """A ``down`` that Spark does not take: every rollback with rows to bring back would fail, and the release is deployed by then."""

    code = "unusable_down"
    message = "`down` of its rewrite does not give the columns of the release before: Spark says {reason}."
    next_action = "Correct it in the release, or leave it out: then a rollback loses what was written since, and the plan says so."
    reason: str


def expressions_of(view: View, plan: Plan) -> list[dict[str, Any]]:
    """Return one question for each expression, as ``spark_jobs/preflight.py`` takes them."""
    found = [
        question
        for stage in plan.stages
        if isinstance(stage, Build | Copy | CreateShard)
        for question in _of_declaration(stage.collection, stage.declaration)
    ]
    found += [question for copy in plan.of_kind(Copy) for question in _way_back(view, plan, copy)]
    for online in plan.of_kind(Online):
        found += _of_changes(_table(view, plan, online.source), online.collection, online.changes, _expanded(plan, online.collection))
    for expand in plan.of_kind(Expand):
        found += _of_changes(_table(view, plan, expand.source), expand.collection, expand.changes, ())
    return found


def unusable_of(item: Mapping[str, Any]) -> UnusableExpression | UnusableWayBack:
    """Return a finding of the preflight job as a refusal."""
    used_by, expression, reason = (str(item[name]) for name in ("used_by", "expression", "reason"))
    if used_by == _WAY_BACK:
        return UnusableWayBack(collection=item["collection"], reason=reason.rstrip("."))
    return UnusableExpression(collection=item["collection"], used_by=used_by, expression=expression, reason=f"Spark says {reason}")


def _way_back(view: View, plan: Plan, copy: Copy) -> Iterator[dict[str, Any]]:
    """Yield the question for ``down`` as a rollback reads it, unless it looks up what nobody knows here."""
    old = next(step.old for step in plan.target.steps if isinstance(step, RewriteStep) and step.collection == copy.collection)
    tables = {name: _after(view, plan, name) for name in placeholders(copy.down or "")}
    if copy.down is None or None in tables.values():
        return
    names = {name: f"schemamig_{name}" for name in tables}
    views = {names[name]: _columns(table.fields) for name, table in tables.items() if table is not None}
    views[names[copy.collection]] = f"{MADE_OF} INT, {views[names[copy.collection]]}"
    keeping, _ = with_column(copy.down, copy.collection, MADE_OF)
    query = {"expression": bind(keeping, names), "views": views, "columns": _columns(old.fields)}
    yield {"collection": copy.collection, "used_by": _WAY_BACK, **query}


def _after(view: View, plan: Plan, collection: CollectionName) -> Declaration | None:
    """Return what the release declares of a collection; None if nobody knows it."""
    for step in plan.target.steps:
        if not isinstance(step, Remove) and step.collection == collection:
            return step.new
    known = view.state is not None and collection in view.state.objects
    return view.state.entry(collection).declared if view.state is not None and known else None


def _of_declaration(collection: CollectionName, declaration: Declaration) -> Iterator[dict[str, Any]]:
    for field in declaration.fields:
        if field.default is not None:
            yield _default(collection, field.name, field.default, field.type)
    for check in declaration.checks:
        yield _check(collection, check.name, check.expression, declaration.fields)


def _table(view: View, plan: Plan, source: CollectionName) -> Declaration | None:
    """Return what an evolution finds; None if it has no table."""
    known = view.state is not None and source in view.state.objects
    return physical_after(view.state, source, plan.ends) if view.state is not None and known else None


def _of_changes(
    table: Declaration | None, collection: CollectionName, changes: Sequence[Change], before: Sequence[Change]
) -> Iterator[dict[str, Any]]:
    for change in changes:
        match change:
            case AddColumn(path=path, field=Field(default=str() as default, type=data_type)):
                yield _default(collection, path, default, data_type)
            case SetDefault(path=path, new=str() as default) if table is not None:
                field = next((f for f in table.fields if f.name.lower() == path.lower()), None)
                if field is not None:
                    yield _default(collection, path, default, field.type)
            case AddCheck(check=check) if table is not None:
                yield _check(collection, check.name, check.expression, apply(table, before).fields)


def _expanded(plan: Plan, collection: CollectionName) -> tuple[Change, ...]:
    """Return what stands on the table when the online changes come."""
    return tuple(change for stage in plan.of_collection(collection) if isinstance(stage, Expand) for change in stage.changes)


def _default(collection: CollectionName, path: str, expression: str, data_type: DataType) -> dict[str, Any]:
    used_by = f"the DEFAULT of {path}"
    return {"collection": collection, "used_by": used_by, "expression": expression, "type": _stored(data_type)}


def _check(collection: CollectionName, name: str, expression: str, fields: Sequence[Field]) -> dict[str, Any]:
    return {"collection": collection, "used_by": f"the CHECK {name}", "expression": expression, "columns": _columns(fields)}


def _columns(fields: Sequence[Field]) -> str:
    return ", ".join(f"{quote(field.name)} {_stored(field.type)}" for field in fields)


def _stored(data_type: DataType) -> str:
    """Return the type in Spark's SQL, a varchar(n) as the string it is stored as."""
    is_varchar = isinstance(data_type, Primitive) and varchar_length(data_type.name) is not None
    return "STRING" if is_varchar else type_sql(data_type)
