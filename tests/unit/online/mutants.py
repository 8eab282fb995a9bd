"""What must not be changed about the walk of an element: each mutant is one change of the table, or of a rule, and what it breaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_schemamig.core.schema.element_states import ElementState
from tests.unit.online.model import Anomaly, Kind, Rules, rules_of

ABSENT, CREATED, PUBLIC = ElementState.ABSENT, ElementState.CREATED, ElementState.PUBLIC
CHECK, VALIDATE = ElementState.CHECK, ElementState.VALIDATE
DELETE, WRITE, REORG = ElementState.DELETE, ElementState.WRITE, ElementState.REORG

Steps = Mapping[tuple[ElementState, bool], ElementState]


@dataclass(frozen=True)
class Mutant:
    """``steps`` replace those of the table; ``length`` of the shortest trace, which starts with the element in ``at``."""

    name: str
    kind: Kind
    breaks: Anomaly
    length: int
    steps: Steps = field(default_factory=dict)
    at: ElementState = ABSENT
    lag: int | None = 1
    work_is_over_first: bool = True
    fill_heeds_changes: bool = True
    in_the_log: bool = True

    def rules(self) -> Rules:
        true = rules_of(self.kind, self.lag)
        return replace(
            true,
            steps={**true.steps, **self.steps},
            work_is_over_first=self.work_is_over_first,
            fill_heeds_changes=self.fill_heeds_changes,
            in_the_log=self.in_the_log,
        )


STRAIGHT: Steps = {(PUBLIC, False): ABSENT}
UNORDERED: Steps = {(PUBLIC, False): DELETE, (DELETE, False): WRITE, (WRITE, False): ABSENT}
REORG_FIRST: Steps = {(DELETE, True): REORG, (REORG, True): WRITE, (WRITE, True): PUBLIC}
VALIDATE_FIRST: Steps = {(ABSENT, True): VALIDATE, (VALIDATE, True): CHECK, (CHECK, True): PUBLIC}

OPTIONAL, RULE, REQUIRED, INDEX = Kind.OPTIONAL, Kind.RULE, Kind.REQUIRED, Kind.INDEX
NOT_IN_SCHEMA, DANGLING, MISSING = Anomaly.NOT_IN_SCHEMA, Anomaly.DANGLING, Anomaly.MISSING
INCOMPLETE, VIOLATED = Anomaly.INCOMPLETE, Anomaly.VIOLATED

MUTANTS: tuple[Mutant, ...] = (
    Mutant("DELETE is skipped", INDEX, DANGLING, 4, {(ABSENT, True): WRITE}),
    Mutant("DELETE is skipped on the way back", INDEX, NOT_IN_SCHEMA, 4, {(WRITE, False): ABSENT}, at=PUBLIC),
    Mutant("DELETE is skipped on the way back", REQUIRED, NOT_IN_SCHEMA, 4, {(WRITE, False): ABSENT}, at=PUBLIC),
    Mutant("a writer is two states behind", INDEX, DANGLING, 5, lag=2),
    Mutant("a writer is two states behind", REQUIRED, NOT_IN_SCHEMA, 7, lag=2),
    Mutant("a writer is two states behind", RULE, VIOLATED, 5, lag=2),
    Mutant("a writer is two states behind", OPTIONAL, NOT_IN_SCHEMA, 7, lag=2),
    Mutant("backfill before WRITE", INDEX, INCOMPLETE, 7, REORG_FIRST),
    Mutant("backfill before WRITE", REQUIRED, MISSING, 7, REORG_FIRST),
    Mutant("backfill over rows that changed since its snapshot", INDEX, DANGLING, 7, fill_heeds_changes=False),
    Mutant("backfill over rows that changed since its snapshot", REQUIRED, MISSING, 8, fill_heeds_changes=False),
    Mutant("PUBLIC before REORG is over", INDEX, INCOMPLETE, 5, work_is_over_first=False),
    Mutant("PUBLIC before REORG is over", REQUIRED, MISSING, 5, work_is_over_first=False),
    Mutant("validation before CHECK", RULE, VIOLATED, 5, VALIDATE_FIRST),
    Mutant("PUBLIC before VALIDATE is over", RULE, VIOLATED, 4, work_is_over_first=False),
    Mutant("removal straight to ABSENT", OPTIONAL, NOT_IN_SCHEMA, 2, STRAIGHT, at=PUBLIC),
    Mutant("removal straight to ABSENT", RULE, VIOLATED, 3, STRAIGHT, at=PUBLIC),
    Mutant("removal straight to ABSENT", REQUIRED, NOT_IN_SCHEMA, 2, STRAIGHT, at=PUBLIC),
    Mutant("removal straight to ABSENT", INDEX, NOT_IN_SCHEMA, 2, STRAIGHT, at=PUBLIC),
    Mutant("removal in the order of addition", REQUIRED, MISSING, 3, UNORDERED, at=PUBLIC),
    Mutant("removal in the order of addition", INDEX, INCOMPLETE, 3, UNORDERED, at=PUBLIC),
    Mutant("a removal undone without backfill", REQUIRED, MISSING, 6, {(WRITE, True): PUBLIC}, at=PUBLIC),
    Mutant("a removal undone without backfill", INDEX, INCOMPLETE, 6, {(WRITE, True): PUBLIC}, at=PUBLIC),
    Mutant("a removal undone without validation", RULE, VIOLATED, 6, {(CHECK, True): PUBLIC}, at=PUBLIC),
    Mutant("Delta, but CHECK is no commit", RULE, VIOLATED, 5, lag=None, in_the_log=False),
    Mutant("Delta, but WRITE is no commit", REQUIRED, MISSING, 6, lag=None, in_the_log=False),
    Mutant("Delta, but WRITE is no commit", INDEX, DANGLING, 5, lag=None, in_the_log=False),
)
