"""What an online change does to a live table, as data: steps, each with the element state that it leads to.

An operation is one element's way from ABSENT to PUBLIC along its class's path (``schema.elements.PATHS``, which the model checker
proves). A step is a metadata commit only if it changes what a writer must do; all else is a row of the ledger. Each file beside this one
makes the operations of one kind of change; ``schedule`` arranges those of a table in rounds, so that they share its commits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_schemamig.core.jsonable import canonical, to_json
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.element_states import ElementClass, ElementState


class Files(Enum):
    """Whose rows get a value from us (``backfill.Fill``): those of files that were there when it began, of all, or of those since."""

    OLDER = "older"
    ALL = "all"
    NEWER = "newer"


@dataclass(frozen=True, slots=True)
class Note:
    """No writer does anything different in this state than in the one before: only the ledger knows."""

    state: ElementState


@dataclass(frozen=True, slots=True)
class Enter:
    """A metadata commit, shared with the other elements of the table that are in this round."""

    state: ElementState
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What every row has to answer, as the Spark job ``preflight`` asks it: its kind and what that needs."""

    kind: str
    about: tuple[tuple[str, Any], ...]
    #: The collection that rows refer to; who asks says where it lies now.
    refers: CollectionName | None = None

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **{name: list(value) if isinstance(value, tuple) else value for name, value in self.about}}


@dataclass(frozen=True, slots=True)
class Validate:
    """Ask all rows of a version at or after the commit that began to enforce the rule. One that breaks it leads back."""

    question: Question
    state: ElementState = ElementState.VALIDATE


@dataclass(frozen=True, slots=True)
class Reorg:
    """Give rows their value of ``column``: ``expression`` is Spark SQL over the row. ``files``: see ``backfill.Fill``."""

    column: str
    expression: str
    files: Files = Files.OLDER
    state: ElementState = ElementState.REORG


@dataclass(frozen=True, slots=True)
class Recluster:
    """Lay the rows of older files out anew, by the columns that the table is clustered by since the commit before (``clustering``)."""

    state: ElementState = ElementState.REORG


@dataclass(frozen=True, slots=True)
class Swap:
    """A part of the cut-over's own metadata commit: from it on the column of the new type is the one in use.

    ``filled``: it is right only where no row lacks its value, so it follows a version at which none did, with no file in between. None: a
    rule over such a column, which comes with it.
    """

    changes: tuple[Change, ...]
    filled: Reorg | None = None
    state: ElementState = ElementState.PUBLIC


Step = Note | Enter | Validate | Reorg | Recluster | Swap
#: What reads or writes rows, and the next step waits for.
RowStep = Validate | Reorg | Recluster


@dataclass(frozen=True, eq=False)
class Operation:
    """One element. ``name`` says what it is (``check:positive``), ``spec`` which one exactly."""

    name: str
    cls: ElementClass
    change: Change
    steps: tuple[Step, ...]
    columns: tuple[ColumnPath, ...] = ()
    refers: CollectionName | None = None
    refers_columns: tuple[ColumnPath, ...] = ()
    #: What must hold of the rows as they are before anything is done.
    asks: tuple[Question, ...] = ()
    #: Columns that nobody declares once it is PUBLIC; the end of the hold drops them.
    leaves: tuple[ColumnPath, ...] = ()

    @property
    def spec(self) -> str:
        return hashlib.sha256(canonical([self.change.op, to_json(self.change)]).encode()).hexdigest()[:16]

    @property
    def fills(self) -> bool:
        """Return whether rows get values: the columns are not what they are to be before that is over."""
        return any(isinstance(step, Reorg) for step in self.steps)

    @property
    def swaps(self) -> bool:
        """Return whether it becomes PUBLIC with the cut-over: it is about a column whose type changes by a shadow column."""
        return any(isinstance(step, Swap) for step in self.steps)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return what preflight asks before anything is written: what must hold of every row once it is PUBLIC, and what it begins with."""
        return (*self.asks, *(step.question for step in self.steps if isinstance(step, Validate)))


#: Elements of one change that follow each other: the next begins when the one before is PUBLIC.
Chain = tuple[Operation, ...]


@dataclass(frozen=True)
class Round:
    """What happens to a table between two of its metadata commits: first ``changes`` in one commit (none: no commit), with which the
    elements of ``entering`` reach their states, then ``row_steps`` one after the other, which the next round waits for."""

    entering: tuple[tuple[Operation, Note | Enter | Swap], ...]
    row_steps: tuple[tuple[Operation, RowStep], ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for _, step in self.entering if isinstance(step, Enter | Swap) for change in step.changes)

    @property
    def swaps(self) -> bool:
        """Return whether this is the last round of a table whose columns change places: its commit is the cut-over's."""
        return any(isinstance(step, Swap) for _, step in self.entering)

    @property
    def filled(self) -> tuple[tuple[Operation, Reorg], ...]:
        """Return what no row may lack when the commit is made."""
        return tuple((operation, step.filled) for operation, step in self.entering if isinstance(step, Swap) and step.filled is not None)


def schedule(chains: Sequence[Chain]) -> tuple[Round, ...]:
    """Arrange all steps of all chains in as few commits as there are in the longest chain.

    Columns that change places do so in a round of their own, the last one. A rule over a column that older rows have no value in yet waits:
    enforced before, it would refuse whoever copies such a row. Clustering waits for every column to have its values: files that are written
    once more would lie out of order again.
    """
    everything = [[(operation, step) for operation in chain for step in operation.steps] for chain in chains]
    left = [[taken for taken in steps if not isinstance(taken[1], Swap)] for steps in everything]
    rounds = []
    while any(left):
        ready = [steps for steps in left if steps and not _waits(steps, left)]
        entering = [taken for steps in ready for taken in _enter(steps)]
        # Each of a shadow's values is a CAST of its row as it is then, so the other columns have theirs before.
        row_steps = sorted((taken for steps in ready for taken in _row_steps(steps)), key=lambda taken: _fills_shadow(taken[1]))
        rounds.append(Round(tuple(entering), tuple(row_steps)))
    swaps = [(operation, step) for steps in everything for operation, step in steps if isinstance(step, Swap)]
    if swaps:  # the rules come after the columns that they are about
        ordered = sorted(swaps, key=lambda taken: taken[1].filled is None)
        rounds.append(Round(tuple(ordered), ()))
    return tuple(rounds)


def _fills_shadow(step: RowStep) -> bool:
    return isinstance(step, Reorg) and step.files is Files.ALL


def filled(chains: Sequence[Chain]) -> frozenset[ColumnPath]:
    """Return the columns that get their values while the change runs."""
    return frozenset(column for chain in chains for operation in chain if operation.fills for column in operation.columns)


def _waits(steps: list[tuple[Operation, Step]], left: Sequence[list[tuple[Operation, Step]]]) -> bool:
    operation, step = steps[0]
    if operation.fills or step is not operation.steps[0]:
        return False
    if operation.swaps:  # the fill itself asks rows for the rule
        return False
    everything = any(isinstance(own, Recluster) for own in operation.steps)
    others = [other for found in left if found is not steps for other, left_over in found if not isinstance(left_over, Note)]
    return any(other.fills and (everything or not _roots(operation).isdisjoint(_roots(other))) for other in others)


def _roots(operation: Operation) -> frozenset[str]:
    """Return the top-level columns that it is about, as Spark compares names."""
    return frozenset(path.partition(".")[0].lower() for path in operation.columns)


def _enter(steps: list[tuple[Operation, Step]]) -> Iterator[tuple[Operation, Note | Enter]]:
    """Take the notes at the front, and one commit."""
    committed = False
    while steps:
        operation, step = steps[0]
        if isinstance(step, RowStep | Swap) or (committed and isinstance(step, Enter)):
            return
        committed |= isinstance(step, Enter)
        yield operation, step
        steps.pop(0)


def _row_steps(steps: list[tuple[Operation, Step]]) -> Iterator[tuple[Operation, RowStep]]:
    while steps:
        operation, step = steps[0]
        if not isinstance(step, RowStep):
            return
        yield operation, step
        steps.pop(0)
