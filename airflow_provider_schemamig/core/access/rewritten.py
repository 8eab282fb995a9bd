"""Which columns a rewrite left as they were: those it hands through keep their identity in the new table, all others are other columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.access.field_ids import Shape
from airflow_provider_schemamig.core.access.releases import PlannedShape, entry_of_release, planned_steps, shape_of
from airflow_provider_schemamig.core.ledger.errors import PlanMissing
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, ColumnPath, ShardId
from airflow_provider_schemamig.core.release.merge.merged import RewriteStep
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import parse_one
from airflow_provider_schemamig.core.schema.model import walk
from airflow_provider_schemamig.core.schema.paths import path_in_files
from airflow_provider_schemamig.core.schema.sql import quote
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

if TYPE_CHECKING:
    from sqlglot import exp

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def seen_from(env: EnvironmentRoot, state: State, live: Shape, shard: ShardId, origin: ShardId) -> Shape:
    """Return the shape of ``shard`` with the names that its columns had in ``origin``, an earlier table of the collection.

    A column that a rewrite or replacement in between made anew gets a name that no column ever had.
    """
    if shard == origin:
        return live
    names = {}
    paths = [path for path, _ in walk(live.fields)]
    step = step_that_made(env, state, shard)
    if step is not None and isinstance(step.step, RewriteStep) and step.deployment.source is not None:
        entry = entry_of_release(state, step.step.old.name, step.deployment.source)
        if entry is not None:
            before = seen_from(env, state, shape_of(entry), entry.shard, origin)
            names = _kept_columns(live, paths, before, _kept(step, before))
    # Tables of ours are made without column mapping, so what a column was called when the table was made is its name in the files.
    return replace(live, stored={path: names.get(path, f"{shard}/{live.name_in_files(path)}") for path in paths})


def _kept_columns(live: Shape, paths: list[ColumnPath], before: Shape, kept: dict[str, str]) -> dict[ColumnPath, str]:
    known = {path for path, _ in walk(before.fields)}
    found = {}
    for path in paths:
        top, *rest = path_in_files(path, live.stored)
        if top.lower() in kept:
            old = ColumnPath(".".join((kept[top.lower()], *rest)))
            if old in known:
                found[path] = before.name_in_files(old)
    return found


def step_that_made(env: EnvironmentRoot, state: State, shard: ShardId) -> PlannedShape | None:
    """Return the step that made the table; None if that is no longer known."""
    known = state.shards.get(shard)
    deployment = None if known is None else state.deployments.get(known.generation)
    if deployment is None:
        return None
    try:
        steps = planned_steps(env, deployment)
    except PlanMissing:
        return None
    names = {entry.collection for entry in state.schemas_of(shard)}
    return next((planned for planned in steps if planned.step.collection in names), None)


def _kept(planned: PlannedShape, before: Shape) -> dict[str, str]:
    """Name in the new table, in small letters -> name in the old one, of the columns that go through projection and ``up`` unchanged."""
    assert isinstance(planned.step, RewriteStep)
    plain = set((planned.projection or "").split(", "))
    columns = [field.name for field in before.fields if quote(field.name) in plain]
    return handed_through(planned.step.up, planned.step.down, columns)


def handed_through(up: str, down: str | None, columns: Collection[str]) -> dict[str, str]:
    """Map columns of the new table, in small letters, to those among ``columns`` of the old one that they are: ``up`` shows them unchanged.

    Of several that show one column, it is the one that ``down`` reads, or else the one that kept the name: the others need not stay equal
    to it. What ``down`` makes of something else is none of them, nor what it makes in a way that is not understood: a rollback would lose
    what was written there.
    """
    names = {column.lower(): column for column in columns}
    shown = _shown_by(_parsed(up), _EVERY_ROW)
    found = {new: old for new, old in shown.expanded(names).items() if old in names}
    if down is not None:
        back = _shown_by(_parsed(down), _EVERY_ROW | _SOME_ROWS).expanded(names)
        found = {new: old for new, old in found.items() if back.get(old) == new}
    times = Counter(found.values())
    return {new: names[old] for new, old in found.items() if times[old] == 1 or new == old}


@dataclass(frozen=True)
class _Shown:
    """What a SELECT shows unchanged: output column -> input column, both in small letters; with ``*``, all others under their names."""

    columns: Mapping[str, str]
    has_star: bool = False

    def expanded(self, names: Iterable[str]) -> dict[str, str]:
        return {name: name for name in names if self.has_star} | dict(self.columns)

    def input_of(self, name: str) -> str | None:
        return self.columns.get(name, name if self.has_star else None)


def _parsed(query: str) -> exp.Expr:
    # As the view is called: before a dot, the collection's own name is a struct's.
    return parse_one(_PLACEHOLDER.sub(lambda match: quote(f"{RESERVED_PREFIX}_{match[1]}"), query))


def _shown_by(query: exp.Expr, parts: frozenset[str]) -> _Shown:
    """Return nothing of a query that is no SELECT, has other ``parts``, or gives the columns other names on the way."""
    from sqlglot import exp

    if not isinstance(query, exp.Select) or any(value for name, value in query.args.items() if name not in parts):
        return _NOTHING
    source = query.args["from_"].this
    if any(value for name, value in source.args.items() if name not in ("this", "alias")) or source.alias_column_names:
        return _NOTHING
    below = _ALL if isinstance(source, exp.Table) else _shown_by(source.this, parts) if isinstance(source, exp.Subquery) else _NOTHING
    found, has_star = {}, False
    for item in query.expressions:
        column = item.unalias()
        is_own = isinstance(column, exp.Column) and column.table.lower() in ("", source.alias_or_name.lower()) and not column.args.get("db")
        star = column if isinstance(column, exp.Star) else column.this if is_own and isinstance(column.this, exp.Star) else None
        if star is not None:
            has_star = not any(star.args.values())
        elif is_own and (name := below.input_of(column.name.lower())) is not None:
            found[item.alias_or_name.lower()] = name
    if has_star:
        return _Shown({**below.columns, **found}, below.has_star)
    return _Shown(found)


_NOTHING = _Shown({})
_ALL = _Shown({}, has_star=True)
#: The parts of a SELECT that neither take rows away nor add any.
_EVERY_ROW = frozenset({"expressions", "from_", "kind"})
#: Those that take some away, or put them in order, and give no column another name.
_SOME_ROWS = frozenset({"where", "distinct", "order", "limit"})
