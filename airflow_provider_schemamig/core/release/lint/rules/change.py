"""SM2xx: what locks others out, fails later, or costs more than it seems."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_schemamig.core.release.lint.features import features_before, features_of
from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.model import Severity, rule
from airflow_provider_schemamig.core.release.lint.subject import Changed, Subject
from airflow_provider_schemamig.core.release.queries.query import masked, parse_query
from airflow_provider_schemamig.core.release.steps import Evolution, Replacement, Rewrite
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddKey,
    ChangePartitioning,
    ReorderColumns,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.delta_rules.table_features import (
    ALLOW_COLUMN_DEFAULTS,
    COLUMN_MAPPING,
    FEATURES,
    TIMESTAMP_NTZ,
    TYPE_WIDENING,
)
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.expressions.calls import not_constant
from airflow_provider_schemamig.core.schema.paths import parent_and_name


@rule("SM201", "not-null-without-default", Severity.ERROR, "a new NOT NULL column has no DEFAULT for the rows that are there")
def not_null_without_default(subject: Subject) -> Iterator[Hit]:
    for changed in _evolved(subject):
        for change in changed.changes:
            if isinstance(change, AddColumn) and not change.field.nullable and change.field.default is None:
                yield subject.at_step(changed, f"{change.path} is new and NOT NULL, and older rows have no value for it")


@rule("SM202", "column-mapping-needed", Severity.WARNING, "the first rename or drop turns column mapping on: older clients are locked out")
def column_mapping_needed(subject: Subject) -> Iterator[Hit]:
    yield from _first_use(subject, COLUMN_MAPPING)


@rule("SM203", "type-widening-needed", Severity.WARNING, "the first wider type turns type widening on: older clients are locked out")
def type_widening_needed(subject: Subject) -> Iterator[Hit]:
    yield from _first_use(subject, TYPE_WIDENING)


@rule("SM204", "column-defaults-needed", Severity.WARNING, "the first DEFAULT turns column defaults on: older writers are locked out")
def column_defaults_needed(subject: Subject) -> Iterator[Hit]:
    yield from _first_use(subject, ALLOW_COLUMN_DEFAULTS)


@rule("SM205", "timestamp-ntz-needed", Severity.WARNING, "the first TIMESTAMP_NTZ turns its feature on: older clients are locked out")
def timestamp_ntz_needed(subject: Subject) -> Iterator[Hit]:
    yield from _first_use(subject, TIMESTAMP_NTZ)


@rule("SM206", "partitioning-touched", Severity.WARNING, "a partition column changes, or the partitioning itself")
def partitioning_touched(subject: Subject) -> Iterator[Hit]:
    for changed in subject.changed:
        if not changed.keeps_rows:
            continue
        partitioned = {*changed.old.partitioned_by, *changed.new.partitioned_by}
        for change in changed.changes:
            path = getattr(change, "path", None)
            if isinstance(change, ChangePartitioning) or (path in partitioned and not isinstance(change, AddColumn)):
                yield subject.at_step(changed, f"{describe(change)}: paths, filters and writers of others name the partition columns")


@rule("SM207", "constraint-on-old-rows", Severity.NOTICE, "a new constraint: every row that is there is read and must satisfy it")
def constraint_on_old_rows(subject: Subject) -> Iterator[Hit]:
    for changed in _evolved(subject):
        found = [describe(x) for x in changed.changes if isinstance(x, SetNotNull | AddCheck | AddKey | AddForeignKey)]
        if found:
            yield subject.at_step(changed, f"{'; '.join(found)}: every row is read, and one that violates it stops the upgrade")


@rule("SM208", "lookup-on-a-big-table", Severity.WARNING, "a rewrite looks rows up in a table that is laid out like a big one")
def lookup_on_a_big_table(subject: Subject) -> Iterator[Hit]:
    for step, line in subject.steps:
        for name in step.lookups if isinstance(step, Rewrite) else ():
            other = subject.old.get(name) or subject.new[name]
            if other.partitioned_by or other.clustered_by:
                layout = "partitioned" if other.partitioned_by else "clustered"
                text = f"{name} is {layout}, as big tables are, and is joined again for every batch of the copy and of the tail"
                yield subject.in_module(line, step.collection, text)


@rule("SM209", "lookup-without-key", Severity.WARNING, "a rewrite looks rows up in a table without a key: a second match doubles rows")
def lookup_without_key(subject: Subject) -> Iterator[Hit]:
    for step, line in subject.steps:
        for name in step.lookups if isinstance(step, Rewrite) else ():
            other = subject.old.get(name) or subject.new[name]
            if other.primary_key is None and not other.uniques:
                text = f"{name} has neither PRIMARY KEY nor UNIQUE: two rows that match make two rows of one"
                yield subject.in_module(line, step.collection, text)


@rule("SM210", "columns-reordered", Severity.WARNING, "the order of columns changes: positional INSERTs write into the wrong ones")
def columns_reordered(subject: Subject) -> Iterator[Hit]:
    for changed in subject.changed:
        for change in changed.changes:
            if isinstance(change, ReorderColumns) and changed.keeps_rows and _order(changed, change.old) != _order(changed, change.new):
                yield subject.at_step(changed, f"{describe(change)}: an INSERT without column names writes into other columns")


def _order(changed: Changed, names: tuple[str, ...]) -> list[str]:
    """Return the order of the columns that are no news: an INSERT that does not know of a new one fails instead of writing elsewhere."""
    added = {parent_and_name(change.path)[1] for change in changed.changes if isinstance(change, AddColumn)}
    return [name for name in names if name not in added]


@rule("SM211", "default-not-constant", Severity.WARNING, "a new column's DEFAULT gives another value each time it is filled")
def default_not_constant(subject: Subject) -> Iterator[Hit]:
    for changed in _evolved(subject):
        for change in changed.changes:
            found = not_constant(change.field.default) if isinstance(change, AddColumn) and change.field.default is not None else ()
            if found and isinstance(change, AddColumn):
                yield subject.at_step(changed, f"older rows get the {found[0]} of the moment they are filled as {change.path}")


@rule("SM212", "select-star", Severity.WARNING, "SELECT * in a query: what it gives changes with the collections")
def select_star(subject: Subject) -> Iterator[Hit]:
    from sqlglot import exp

    for step, line, argument, text in subject.queries():
        tree = parse_query(text)
        if not isinstance(tree, tuple) and any(select.is_star for select in tree.find_all(exp.Select)):
            yield subject.in_module(line, step.collection, f"{argument} says SELECT *: name the columns")


@rule("SM213", "fill-not-deterministic", Severity.WARNING, "a fill gives other rows each time it runs, and it may run twice")
def fill_not_deterministic(subject: Subject) -> Iterator[Hit]:
    for step, line in subject.steps:
        found = not_constant(masked(step.fill)) if isinstance(step, Replacement) and step.fill is not None else ()
        if found:
            yield subject.in_module(line, step.collection, f"fill calls {found[0]}, and runs again if its inputs move before the promotion")


def _evolved(subject: Subject) -> Iterator[Changed]:
    return (changed for changed in subject.changed if isinstance(changed.step, Evolution))


def _first_use(subject: Subject, feature: str) -> Iterator[Hit]:
    for changed in _evolved(subject):
        causes = features_of(changed.changes).get(feature)
        if causes and feature not in features_before(subject.release, changed.old.name, subject.before):
            yield subject.at_step(changed, f"{causes}: where it is new, {FEATURES[feature].locks_out}")


RULES = (
    not_null_without_default,
    column_mapping_needed,
    type_widening_needed,
    column_defaults_needed,
    timestamp_ntz_needed,
    partitioning_touched,
    constraint_on_old_rows,
    lookup_on_a_big_table,
    lookup_without_key,
    columns_reordered,
    default_not_constant,
    select_star,
    fill_not_deterministic,
)
