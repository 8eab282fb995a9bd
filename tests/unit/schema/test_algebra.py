"""What must hold for every pair of declarations: diff, apply, phases, fingerprint and inverse agree with each other."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings

from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, Cost, DropColumn, ReorderColumns
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.schema.diff.phases import Phases, phases
from airflow_provider_schemamig.core.schema.diff.renames import net_renames
from airflow_provider_schemamig.core.schema.errors import NameTaken
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import field_at
from tests.support.examples import examples
from tests.unit.schema.inverses import inverse
from tests.unit.schema.strategies import Evolved, declarations, evolutions, restated

hard = settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def changes_of(evolved: Evolved) -> tuple[Change, ...]:
    try:
        return diff(evolved.old, evolved.new, evolved.renames).changes
    except NameTaken:
        assume(False)
        raise


def phases_of(evolved: Evolved) -> Phases:
    try:
        return phases(evolved.old, evolved.old, evolved.new, evolved.renames)
    except NameTaken:
        assume(False)
        raise


@hard
@given(evolutions())
def test_applying_the_difference_gives_the_new_declaration(evolved: Evolved) -> None:
    assert apply(evolved.old, changes_of(evolved)) == evolved.new


@hard
@given(evolutions())
def test_the_renames_among_the_changes_amount_to_the_declared_ones(evolved: Evolved) -> None:
    assert net_renames(changes_of(evolved)) == evolved.renames


@hard
@given(declarations())
def test_equal_declarations_have_no_difference(declaration: Declaration) -> None:
    assert diff(declaration, declaration).changes == ()
    assert diff(declaration, replace(declaration)).outcome is Cost.NONE


@hard
@given(evolutions())
def test_fingerprints_are_equal_exactly_where_no_step_is_needed(evolved: Evolved) -> None:
    found = diff(evolved.old, evolved.new)
    assert (fingerprint(evolved.old) == fingerprint(evolved.new)) == (found.outcome is Cost.NONE)


@hard
@given(declarations())
def test_order_and_comments_are_no_difference(declaration: Declaration) -> None:
    other = restated(declaration)
    assert fingerprint(other) == fingerprint(declaration)
    assert diff(declaration, other).outcome is Cost.NONE
    assert phases(declaration, declaration, other) == Phases()
    assert live_differences(declaration, replace(other, primary_key=None, uniques=(), foreign_keys=(), clustered_by=())) == ()


@hard
@given(evolutions())
def test_the_phases_lead_to_the_new_declaration(evolved: Evolved) -> None:
    found = phases_of(evolved)
    expanded = apply(evolved.old, [*found.expand, *found.online])
    contracted = apply(apply(expanded, found.cutover), found.contract)
    assert fingerprint(contracted) == fingerprint(evolved.new)


@hard
@given(evolutions())
def test_no_phase_is_a_commit_for_comments_or_order_alone(evolved: Evolved) -> None:
    found = phases_of(evolved)
    gains = any(isinstance(change, AddColumn) for change in (*found.expand, *found.online, *found.cutover))
    for changes in (found.expand, found.cutover, found.contract):
        worth = [change for change in changes if change.cost is Cost.INSTANT or (gains and isinstance(change, ReorderColumns))]
        assert worth or not changes
    assert all(change.cost.rank > Cost.INSTANT.rank for change in found.online)


@hard
@given(evolutions())
def test_after_expand_a_writer_may_leave_out_what_contract_drops(evolved: Evolved) -> None:
    found = phases_of(evolved)
    after = apply(apply(evolved.old, [*found.expand, *found.online]), found.cutover)
    for change in found.contract:
        assert isinstance(change, DropColumn)
        column = field_at(after.fields, change.path)
        assert column is not None
        assert all(inner.nullable for _, inner in walk((column,)))


@hard
@given(evolutions())
def test_algebra_what_the_table_has_already_is_not_done_again(evolved: Evolved) -> None:
    """As after a rollback that left everything of the expand behind."""
    found = phases_of(evolved)
    left_behind = apply(evolved.old, [*found.expand, *found.online])
    again = phases(left_behind, evolved.old, evolved.new, evolved.renames)
    after = apply(apply(apply(left_behind, [*again.expand, *again.online]), again.cutover), again.contract)
    assert fingerprint(after) == fingerprint(evolved.new)
    # What lives outside the table (keys, clustering) and what has to be made sure of (older rows' values) stays in the plan.
    assert {change.op for change in again.expand} <= {"drop_key", "drop_foreign_key", "set_comment"}


@hard
@given(evolutions())
def test_every_prefix_may_be_applied_again(evolved: Evolved) -> None:
    found = phases_of(evolved)
    for changes in (found.expand, found.contract):
        start = evolved.old if changes is found.expand else apply(apply(evolved.old, [*found.expand, *found.online]), found.cutover)
        once = apply(start, changes)
        assert apply(once, changes) == once


@hard
@given(evolutions())
def test_an_inverse_takes_its_change_back(evolved: Evolved) -> None:
    now = evolved.old
    for change in changes_of(evolved):
        after = apply(now, [change])
        back = inverse(change)
        if back is not None and after != now:
            assert apply(after, [back]) == now
        now = after


@hard
@given(evolutions())
def test_drift_is_seen_exactly_where_the_table_itself_differs(evolved: Evolved) -> None:
    """Keys and clustering are not in metaData; a property nobody declared is nobody's business."""
    bare = {"primary_key": None, "uniques": (), "foreign_keys": (), "clustered_by": ()}
    physical = replace(evolved.old, **bare)  # type: ignore[arg-type]
    live = replace(evolved.new, **bare, properties=physical.properties)  # type: ignore[arg-type]
    assert bool(live_differences(physical, live)) == (diff(physical, live).outcome is not Cost.NONE)
