"""An explicit-state model of online schema change: every interleaving of two writers, a walk of the element and our own work.

Nothing here knows the order of the states or what they ask for: both come from ``core.schema.element_states``, which the engine runs, or
from a mutant of it. What is modelled is the lease ("no writer is more than ``lag`` steps behind"), what rows become, what nobody may see.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

from airflow_provider_schemamig.core.schema.element_states import DUTIES, PATHS, ROW_STATES, Duty, ElementClass, ElementState, following

KEEPS, BREAKS = 1, 2  # the two values of a row; under a rule, the second one violates it


class Kind(Enum):
    """What the element is, hence what can go wrong with it."""

    OPTIONAL = "a nullable column, or a table: values of its own, which nobody misses"
    RULE = "a CHECK or foreign key: no values, but rows that keep or break it"
    REQUIRED = "a column computed from the row: its value lies in the row and goes with it"
    INDEX = "an index: entries beside the rows, which stay unless somebody deletes them"


CLASSES: Mapping[Kind, ElementClass] = {
    Kind.OPTIONAL: ElementClass.SCHEMA_ONLY,
    Kind.RULE: ElementClass.VALIDATION,
    Kind.REQUIRED: ElementClass.REORG,
    Kind.INDEX: ElementClass.REORG,
}


class Anomaly(Enum):
    """The seed's conditions: 1 to 3 broken is orphan data, 4 to 6 a data integrity anomaly."""

    NOT_IN_SCHEMA = "orphan: a value of an element that the schema does not have (1, 2)"
    DANGLING = "orphan: an index entry without its row (3)"
    MISSING = "integrity: a required value is missing or outdated where it is read (4)"
    INCOMPLETE = "integrity: an index is read that lacks an entry (5)"
    VIOLATED = "integrity: a rule is trusted that a row violates (6)"


@dataclass(frozen=True)
class Rules:
    """``steps``: (state, adding) to the next state. ``lag``: how many steps a writer may be behind, 1 in the F1 paper. None is Delta:
    a step that changes what is written is a metadata commit and aborts all who planned before it; of the others nobody hears, ever.
    The flags are ours to keep: the work is over before PUBLIC, a backfill leaves a row alone that has changed since its snapshot (on
    Delta, the batch conflicts), and the element stands in the table's log, not only in the ledger."""

    kind: Kind
    steps: Mapping[tuple[ElementState, bool], ElementState]
    duties: Mapping[ElementState, Duty]
    lag: int | None
    work_is_over_first: bool = True
    fill_heeds_changes: bool = True
    in_the_log: bool = True


def rules_of(kind: Kind, lag: int | None = 1) -> Rules:
    """The very tables of the engine."""
    cls = CLASSES[kind]
    steps = {(state, adding): following(cls, state, adding=adding) for state in PATHS[cls] for adding in (True, False)}
    return Rules(kind, {at: to for at, to in steps.items() if to is not None}, DUTIES, lag)


class Row(NamedTuple):
    """``value`` 0: there is no such row. ``held``: the values that the element has for it."""

    value: int
    held: frozenset[int]


class Writer(NamedTuple):
    under: ElementState  # also what it reads by
    behind: int


class Work(NamedTuple):
    """A backfill: the values it found and has yet to fill in. A scan: the violations it found. One place a row, 0: nothing."""

    todo: tuple[int, ...]
    behind: int  # steps since the stay in REORG or VALIDATE that it belongs to


class World(NamedTuple):
    schema: ElementState
    adding: bool
    writers: tuple[Writer, ...]
    rows: tuple[Row, ...]
    work: Work | None


Move = tuple[str, World]
NOTHING: frozenset[int] = frozenset()
T = TypeVar("T")


def start(state: ElementState) -> World:
    """An empty table before an addition (ABSENT) or a removal (PUBLIC)."""
    return World(state, state is ElementState.ABSENT, (Writer(state, 0),) * 2, (Row(0, NOTHING),) * 2, None)


def moves(world: World, rules: Rules) -> Iterator[Move]:
    """Everything that can happen next, in words. Turning round is possible anywhere: it is the undo of Definition 3."""
    yield "turn round", world._replace(adding=not world.adding)
    yield from _step(world, rules)
    yield from _work(world, rules)
    for number, writer in enumerate(world.writers):
        name = f"writer {number + 1}"
        if writer.behind:
            yield f"{name} plans again, under {world.schema}", world._replace(writers=_put(world.writers, number, Writer(world.schema, 0)))
        for place, row in enumerate(world.rows):
            for what, after in _operations(row, rules.duties[writer.under], rules.kind):
                changed = World(world.schema, world.adding, world.writers, _put(world.rows, place, after), world.work)
                yield f"{name}, under {writer.under}, {what} row {place + 1}", changed


def _step(world: World, rules: Rules) -> Iterator[Move]:
    """The schema moves on; who would be too far behind is aborted and plans again. ABSENT drops the element with all its values."""
    target = rules.steps.get((world.schema, world.adding))
    if target is None:
        return
    work = world.work
    over = work is not None and not work.behind and not any(work.todo)
    if world.schema in ROW_STATES and world.adding and rules.work_is_over_first and not over:
        return
    committed = rules.in_the_log and rules.duties[world.schema].written != rules.duties[target].written
    writers = tuple(
        Writer(target, 0) if (behind := _behind(who.behind, rules.lag, committed)) is None else Writer(who.under, behind)
        for who in world.writers
    )
    rows = tuple(Row(row.value, NOTHING) for row in world.rows) if target is ElementState.ABSENT else world.rows
    if work is not None:
        behind = _behind(work.behind, rules.lag, committed)
        work = None if over or behind is None or rules.kind is Kind.RULE else Work(work.todo, behind)
    yield f"the schema goes from {world.schema} to {target}", World(target, world.adding, writers, rows, work)


def _behind(was: int, lag: int | None, committed: bool) -> int | None:
    """How far behind who was ``was`` steps behind is after one more, None if that aborts it."""
    if lag is None:
        return None if committed else 1
    return was + 1 if was < lag else None


def _work(world: World, rules: Rules) -> Iterator[Move]:
    """Backfill and scan, both from one snapshot. A backfill is a writer too: it fills row after row, and may be as far behind as one."""
    work, rule = world.work, rules.kind is Kind.RULE
    if world.schema in ROW_STATES and (work is None or work.behind):
        found = tuple(row.value if not rule or row.value == BREAKS else 0 for row in world.rows)
        yield "the scan reads all rows" if rule else "the backfill takes its snapshot", world._replace(work=Work(found, 0))
    if work is None or rule:
        return
    for place, value in enumerate(work.todo):
        if value:
            row, rest = world.rows[place], Work(_put(work.todo, place, 0), work.behind)
            if row.value == value or not rules.fill_heeds_changes:
                row = _hold(row, value, rules.kind)
            yield f"the backfill fills row {place + 1}", world._replace(rows=_put(world.rows, place, row), work=rest)


def _operations(row: Row, duty: Duty, kind: Kind) -> Iterator[tuple[str, Row]]:
    """Inserts, updates and deletes that this duty allows, and what they make of the row."""
    if kind is Kind.RULE:
        yield from _operations_under_rule(row, duty)
    elif row.value:
        other = Row(BREAKS if row.value == KEEPS else KEEPS, NOTHING if duty.removed else row.held)
        yield "updates", _hold(other, other.value, kind) if duty.written else other
        yield "deletes", Row(0, row.held if kind is Kind.INDEX and not duty.removed else NOTHING)
    else:
        for value in (KEEPS, BREAKS):
            yield "inserts", _hold(Row(value, row.held), value, kind) if duty.written else Row(value, row.held)


def _operations_under_rule(row: Row, duty: Duty) -> Iterator[tuple[str, Row]]:
    keeps, breaks = Row(KEEPS, NOTHING), Row(BREAKS, NOTHING)
    verb = "updates" if row.value else "inserts"
    if row != keeps:
        yield f"{verb}, by the rule,", keeps
    if row != breaks and not duty.written:
        yield f"{verb}, against the rule,", breaks
    if row == keeps and not duty.removed:
        yield "deletes what a foreign key has in", breaks
    if row.value:
        yield "deletes", Row(0, NOTHING)


def _hold(row: Row, value: int, kind: Kind) -> Row:
    """An index gets one more entry, a column has one value."""
    return Row(row.value, row.held | {value} if kind is Kind.INDEX else frozenset({value}))


def _put(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])


def anomaly(world: World, rules: Rules) -> Anomaly | None:
    """The data against the schema, and against what every writer believes it to be (on both sides of a step)."""
    if world.schema is ElementState.ABSENT and any(row.held for row in world.rows):
        return Anomaly.NOT_IN_SCHEMA
    if rules.kind is Kind.INDEX and any(row.held - {row.value} for row in world.rows):
        return Anomaly.DANGLING
    if rules.kind is Kind.OPTIONAL or not any(rules.duties[state].read for state in (world.schema, *(who.under for who in world.writers))):
        return None
    if rules.kind is Kind.RULE:
        return Anomaly.VIOLATED if any(row.value == BREAKS for row in world.rows) else None
    if all(row.held == {row.value} for row in world.rows if row.value):
        return None
    return Anomaly.INCOMPLETE if rules.kind is Kind.INDEX else Anomaly.MISSING


@dataclass(frozen=True)
class Found:
    """What was explored, up to the first anomaly if there is one; the shortest way to it, in words."""

    worlds: frozenset[World]
    anomaly: Anomaly | None = None
    trace: tuple[str, ...] = ()


def explore(rules: Rules, first: World) -> Found:
    """Breadth first, so that the trace of the first anomaly is a shortest one."""
    came: dict[World, tuple[World, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        for words, after in moves(world, rules):
            if after in came:
                continue
            came[after] = (world, words)
            if (wrong := anomaly(after, rules)) is not None:
                return Found(frozenset(came), wrong, _trace(came, after))
            queue.append(after)
    return Found(frozenset(came))


def _trace(came: Mapping[World, tuple[World, str] | None], last: World) -> tuple[str, ...]:
    words, at = [], came[last]
    while at is not None:
        words.append(at[1])
        at = came[at[0]]
    return tuple(reversed(words))
