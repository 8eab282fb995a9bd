"""What rules look at: the head of a release, the migration to it, and where things stand in the two files that are being written.

Released versions are not looked at: they cannot be changed any more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.errors import SCHEMA_SQL
from airflow_provider_schemamig.core.release.folder.modules import Migration
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.sql.parse import places
from airflow_provider_schemamig.core.release.sql.text import Statement, line_and_column
from airflow_provider_schemamig.core.release.steps import Evolution, Replacement, Rewrite, Step
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.diff.compare import Diff, diff
from airflow_provider_schemamig.core.schema.model import Declaration

Declarations = Mapping[CollectionName, Declaration]


@dataclass(frozen=True)
class Changed:
    """A collection that goes on and differs; ``step`` None where order and comments alone do."""

    step: Step | None
    line: int
    old: Declaration
    new: Declaration

    @property
    def name(self) -> CollectionName:
        return self.new.name

    @cached_property
    def difference(self) -> Diff:
        return diff(self.old, self.new, self.step.renames if isinstance(self.step, Evolution) else {})

    @property
    def changes(self) -> tuple[Change, ...]:
        return self.difference.changes

    @property
    def keeps_rows(self) -> bool:
        """Return whether rows of before are there after: not after an empty replacement."""
        return not (isinstance(self.step, Replacement) and self.step.fill is None)


@dataclass(frozen=True)
class Subject:
    """The head of ``release``, which has passed ``check``. ``module``: the text of its migration, empty for the oldest version."""

    release: Release
    schema: str
    module: str

    @property
    def version(self) -> Version:
        return self.release.version

    @cached_property
    def before(self) -> Version | None:
        earlier = [version for version in self.release.versions if version < self.version]
        return earlier[-1] if earlier else None

    @property
    def migration(self) -> Migration | None:
        return self.release.modules.get(self.version)

    @cached_property
    def old(self) -> Declarations:
        """Return nothing for the oldest version."""
        return {} if self.before is None else self.release.declarations(self.before)

    @property
    def new(self) -> Declarations:
        return self.release.declarations(self.version)

    @cached_property
    def steps(self) -> tuple[tuple[Step, int], ...]:
        """Return each step with its line."""
        return () if self.migration is None else tuple(zip(self.migration.steps, self.migration.lines, strict=True))

    @cached_property
    def changed(self) -> tuple[Changed, ...]:
        """Return every collection that goes on and differs, by name."""
        by_name = {step.collection: (step, line) for step, line in self.steps}
        found = []
        for name, new in sorted(self.new.items()):
            step, line = by_name.get(name, (None, 1))
            source = step.renamed_from if isinstance(step, Evolution) and step.renamed_from is not None else name
            old = self.old.get(source)
            if old is not None and (old != new or step is not None):
                found.append(Changed(step, line, old, new))
        return tuple(found)

    @cached_property
    def created(self) -> tuple[Declaration, ...]:
        """Return the collections that this version begins; none for the oldest version, which begins all of them."""
        gone_on = {changed.name for changed in self.changed}
        return tuple(new for name, new in sorted(self.new.items()) if self.before and name not in self.old and name not in gone_on)

    def queries(self) -> Iterator[tuple[Step, int, str, str]]:
        """Yield (step, line, argument, text) of every query."""
        for step, line in self.steps:
            match step:
                case Rewrite(up=up, down=down):
                    yield step, line, "up", up
                    if down is not None:
                        yield step, line, "down", down
                case Replacement(fill=str() as fill):
                    yield step, line, "fill", fill

    # --- places --------------------------------------------------------------------------------------------------------------------

    def at_step(self, changed: Changed, text: str) -> Hit:
        return self.in_module(changed.line, changed.name, text)

    def in_module(self, line: int, collection: CollectionName | None, text: str) -> Hit:
        file = SCHEMA_SQL if self.migration is None else self.migration.file
        return Hit(file, line, collection, text)

    def in_schema(self, collection: CollectionName, text: str, column: str | None = None) -> Hit:
        """Place a hit at a collection's statement in schema.sql, or at the line of one of its columns (a dotted path: the column it is
        in)."""
        statement = self.statements[collection]
        offset = statement.offset
        if column is not None:
            name = re.escape(column.partition(".")[0])
            found = re.compile(rf"(?<!\w)`?{name}`?(?!\w)").search(statement.text, statement.text.find("(") + 1)
            offset += 0 if found is None else found.start()
        line, _ = line_and_column(self.schema, offset)
        return Hit(SCHEMA_SQL, line, collection, text)

    @cached_property
    def statements(self) -> Mapping[CollectionName, Statement]:
        return places(self.schema)

    @cached_property
    def step_spans(self) -> tuple[tuple[int, int], ...]:
        """Return the first and last line of each step."""
        for node in ast.parse(self.module).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
                return tuple((call.lineno, call.end_lineno or call.lineno) for call in node.value.elts)
        return ()
