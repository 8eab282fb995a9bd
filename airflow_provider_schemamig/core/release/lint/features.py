"""Which Delta table features the changes of a release bring, as far as the folder shows; the table itself may have more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.steps import Evolution, Removal
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, ChangeType, DropColumn, RenameColumn, SetClause
from airflow_provider_schemamig.core.schema.clauses import clause_of, clauses_of
from airflow_provider_schemamig.core.schema.delta_rules.table_features import COLUMN_MAPPING, TIMESTAMP_NTZ, TYPE_WIDENING
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Map, Primitive, walk


def features_of(changes: Iterable[Change]) -> Mapping[str, str]:
    """Map each feature to the first change that needs it, in words."""
    found: dict[str, str] = {}
    for change in changes:
        for feature in _needs(change):
            found.setdefault(feature, describe(change))
    return found


def features_before(release: Release, name: CollectionName, version: Version | None) -> frozenset[str]:
    """Return the features that a collection has at ``version`` already, by how it was created and by every evolution since."""
    found: set[str] = set()
    versions = [known for known in release.versions if version is not None and known <= version]
    for earlier, later in reversed(list(pairwise(versions))):
        new = release.declarations(later).get(name)
        if new is None:
            return frozenset(found)
        step = next((step for step in release.steps(later) if step.collection == name), None)
        source = step.renamed_from if isinstance(step, Evolution) and step.renamed_from is not None else name
        old = release.declarations(earlier).get(source)
        if old is None or not (step is None or isinstance(step, Evolution | Removal)):
            return frozenset(found | _of_new(new))
        if isinstance(step, Evolution):
            found |= set(features_of(diff(old, new, step.renames).changes))
        name = source
    first = release.declarations(versions[0]).get(name) if versions else None
    return frozenset(found if first is None else found | _of_new(first))


def _needs(change: Change) -> list[str]:
    if isinstance(change, SetClause):
        return [] if change.new is None else [clause_of(change).feature]
    match change:
        case DropColumn() | RenameColumn():
            return [COLUMN_MAPPING]
        case ChangeType(widening=True, old=Primitive(name=old)) if not old.startswith("varchar"):
            return [TYPE_WIDENING]
        case AddColumn(field=field):
            types = [field.type, *(inner.type for _, inner in walk((field,)))]
            return [
                *(clause.feature for clause, _ in clauses_of(field)),
                *([TIMESTAMP_NTZ] if any(_holds_ntz(data_type) for data_type in types) else []),
            ]
        case _:
            return []


def _of_new(declaration: Declaration) -> set[str]:
    fields = [field for _, field in walk(declaration.fields)]
    found = {clause.feature for field in fields for clause, _ in clauses_of(field)}
    return found | ({TIMESTAMP_NTZ} if any(_holds_ntz(field.type) for field in fields) else set())


def _holds_ntz(data_type: DataType) -> bool:
    match data_type:
        case Primitive(name=name):
            return name == "timestamp_ntz"
        case Array(element=element):
            return _holds_ntz(element)
        case Map(key=key, value=value):
            return _holds_ntz(key) or _holds_ntz(value)
        case _:
            return False
