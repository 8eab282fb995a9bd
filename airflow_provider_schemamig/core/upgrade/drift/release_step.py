"""The step that a release needs to declare a table as others have changed it: from the release's own declaration on.

A table that is ahead of its release (``alter``, an ``accept`` before) was changed by us first. The step of a release begins where the
release is, so both are told as one: what they renamed and dropped between them, by the names in the data files. A column that was dropped
and came again is the release's column of that name: no release knows of another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.rows import UnreleasedChange
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.release.check import unusable_declaration
from airflow_provider_schemamig.core.release.sql.render import create_table_text, with_more_statements, with_statement, without_statement
from airflow_provider_schemamig.core.release.steps import Evolution, Removal
from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import field_at, join, parent_and_name, path_in_files, translate
from airflow_provider_schemamig.core.upgrade.drift.changes import Foreign, declared_renames, dropped, outermost
from airflow_provider_schemamig.core.upgrade.plan.column_names import names_of


@dataclass(frozen=True)
class ReleaseStep:
    """From ``released`` (without columns: no release has the collection) to ``declared`` (without: the table was dropped). ``untold``: why
    no step says that."""

    released: Declaration
    declared: Declaration
    renames: Mapping[ColumnPath, str]
    drops: tuple[ColumnPath, ...] = ()
    untold: tuple[str, ...] = ()

    @cached_property
    def is_needed(self) -> bool:
        """Return whether the release does not say all that already. Raises NameTaken, RenameInLambda, UnknownRename."""
        if not self.released.fields or self.released.name != self.declared.name:
            return True
        return any(change.cost is not Cost.NONE for change in diff(self.released, self.declared, self.renames).changes)

    @property
    def result(self) -> Declaration:
        """Return what the collection is declared as from then on."""
        return self.declared if self.is_needed else self.released

    def check(self) -> None:
        """Raise what the release would be refused for: NotDeclarable, InvalidName, UnusableExpression, UnsupportedProperty, and as
        ``is_needed``."""
        create_table_text(self.declared)
        for refusal in unusable_declaration(self.released if self.released.fields else None, self.declared):
            raise refusal
        if self.released.fields:
            phases(self.released, self.released, self.declared, self.renames)

    def in_schema(self, schema: str) -> str:
        """Return a schema.sql with ``declared`` in the place of ``released``."""
        if not self.declared.fields:
            return without_statement(schema, self.released.name)
        text = create_table_text(self.declared)
        return with_statement(schema, self.released.name, text) if self.released.fields else with_more_statements(schema, text)

    @property
    def step(self) -> Evolution | Removal | None:
        """Return the module's step; None for a collection that the release creates."""
        if not self.released.fields:
            return None
        if not self.declared.fields:
            return Removal(self.released.name)
        source = None if self.released.name == self.declared.name else self.released.name
        return Evolution(self.declared.name, tuple(sorted(self.renames.items())), self.drops, source)


def step_to(state: State, foreign: Foreign, declared: Declaration) -> ReleaseStep:
    """Return the step from the release's declaration to ``declared``, which the table has now."""
    unreleased = state.unreleased_of(foreign.entry.collection)
    return step_over(foreign, declared) if unreleased is None else step_from_release(state, unreleased, declared, foreign.head)


def step_from_release(state: State, unreleased: UnreleasedChange, declared: Declaration, head: Head) -> ReleaseStep:
    """Return the step of a collection that is ahead of its release, from its released declaration to ``declared``."""
    if not unreleased.released.fields:
        return ReleaseStep(unreleased.released, declared, {})
    names = state.names_in_release(unreleased)
    return _by_name(unreleased.released, declared) if names is None else _by_identity(unreleased, declared, names, head)


def step_over(foreign: Foreign, declared: Declaration) -> ReleaseStep:
    """Return the step from what the ledger declares: the release's declaration, or what a release that is not deployed has already."""
    return ReleaseStep(foreign.entry.declared, declared, declared_renames(foreign), dropped(foreign))


def _by_name(released: Declaration, declared: Declaration) -> ReleaseStep:
    """Return the step where the ledger does not know the release's columns any more: nothing may have gone, or be called otherwise."""
    gone = [path for path, _ in walk(released.fields) if field_at(declared.fields, path) is None]
    untold = tuple(f"{path} of the release has gone, and the ledger does not tell any more whether it has another name" for path in gone)
    return ReleaseStep(released, declared, {}, (), untold)


def _by_identity(unreleased: UnreleasedChange, declared: Declaration, names: Mapping[ColumnPath, str], head: Head) -> ReleaseStep:
    released, live = unreleased.released, dict(names_of(head))
    there = {path_in_files(path, live): path for path, _ in walk(declared.fields)}
    stays = {path: there.get(path_in_files(path, names)) for path, _ in walk(released.fields)}
    names_now = {path: parent_and_name(now)[1] for path, now in stays.items() if now is not None}
    renames = {path: name for path, name in names_now.items() if name != parent_and_name(path)[1]}
    came_to = {translate(path, renames) for path in renames}
    gone: list[ColumnPath] = []
    untold: list[str] = []
    for path, before in walk(released.fields):
        here = join(parent_and_name(translate(path, renames))[0], parent_and_name(path)[1])
        field = field_at(declared.fields, here)
        if path in renames and field is not None:
            what = f"{path} of the release is called {stays[path]} now, and another column has its name"
            untold.append(f"{what}, which an upgrade that makes the step would rename again")
        elif stays[path] is None and (field is None or here in came_to):
            gone.append(path)
        elif stays[path] is None and field is not None and canonical_type(field.type) != canonical_type(before.type):
            untold.append(f"{path} was dropped, and came again with another type")
    return ReleaseStep(released, declared, renames, tuple(outermost(gone)), tuple(untold))
