"""For every evolution: editing a table's metadata does what applying the changes to its declaration does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, assume, event, given, settings

from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.validate import TableState, validate
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.errors import HiddenConflict, NameTaken, NotApplicable
from airflow_provider_schemamig.core.schema.expressions.renames import RenameInLambda
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.exceptions import Refusal
from tests.support.examples import examples
from tests.unit.delta.tables import declared, raw
from tests.unit.schema.strategies import Evolved, evolutions

hard = settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def on_the_table(declaration: Declaration) -> Declaration:
    """What of a declaration a table's metaData can say."""
    return replace(declaration, primary_key=None, uniques=(), foreign_keys=(), clustered_by=())


@hard
@given(evolutions())
def test_edits_and_declarations_agree(evolved: Evolved) -> None:
    properties = tuple((key, "interval 30 days" if "Duration" in key else "1") for key, _ in evolved.old.properties)
    old = on_the_table(replace(evolved.old, properties=properties))
    try:
        found = phases(old, old, on_the_table(replace(evolved.new, properties=properties)), evolved.renames)
    except (NameTaken, RenameInLambda, HiddenConflict):
        assume(False)
        raise
    protocol, metadata = raw(old)
    declaration = old
    for changes in (found.expand, found.cutover, found.contract):
        before = TableState(protocol, metadata)
        try:
            protocol, metadata, _ = edit(protocol, metadata, changes)
        except Refusal as error:
            event(f"refused by the table: {error.code}")
            return
        expected = _applied(declaration, changes)
        event("in step" if changes else "nothing to do")
        assert expected is not None, "the table took what the declaration refuses"
        assert declared(metadata) == expected
        validate("file:///t", before, TableState(protocol, metadata))
        assert edit(protocol, metadata, ()) == (protocol, metadata, ())
        declaration = expected


def _applied(declaration: Declaration, changes: Sequence[Change]) -> Declaration | None:
    try:
        return apply(declaration, changes)
    except NotApplicable:
        return None
