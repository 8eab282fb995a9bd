"""Somebody else in the middle of an online change, at every state of its elements: a twin, another generation, who cancels, who writes;
Spark that fails; two processes of one generation at once.

Whoever was held up goes on with what he had read before. The end is wholly the release before or the new one, never something in between.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.spark.errors import SparkJobFailed, SparkUnavailable
from airflow_provider_schemamig.core.spark.runners import Job
from airflow_provider_schemamig.core.transfer import throttle
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Lake
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert, snapshot
from tests.unit.upgrade.leaders.test_takeover import at_once
from tests.unit.upgrade.online.test_online import OPERATIONS, Operation, at_source, at_target

soak = pytest.mark.soak
#: Taking a clustering away is one commit of the cut-over: the change before it has no states to be met in.
CHANGES = {name: operation for name, operation in OPERATIONS.items() if name != "no clustering"}
each = pytest.mark.parametrize("operation", CHANGES.values(), ids=CHANGES)
#: The hardest there is, as one of its commits is right at one version only: played in ``make test``. All else is for soak.
HARD = "text to a number"


@dataclass(frozen=True)
class Expanded:
    """A lake whose online changes come next."""

    lake: Lake
    generation: Generation

    @classmethod
    def of(cls, operation: Operation, folder: Path) -> Expanded:
        lake = operation.lake(folder)
        generation = commands.preflight(lake.env, lake.second, jobs=OnlineJobs(), claim_id="run").generation
        assert generation is not None
        commands.promote(lake.env, generation)
        commands.expand(lake.env, generation)
        return cls(lake, generation)

    def copy(self, folder: Path) -> Expanded:
        shutil.copytree(self.lake.env.location.local_path or Path(), folder)
        return replace(self, lake=replace(self.lake, env=Environment.open(str(folder))))

    def change(self, jobs: OnlineJobs | None = None, env: Environment | None = None, listen: Listener = silent) -> SchemamigError | None:
        """What it ended with."""
        try:
            commands.change(env or self.lake.env, self.generation, jobs=jobs or OnlineJobs(), listen=listen)
        except SchemamigError as error:
            return error
        return None

    def finish(self) -> None:
        """As Airflow would: what may be tried again is tried again."""
        for _ in range(5):
            error = self.change()
            if error is None:
                commands.cutover(self.lake.env, self.generation, jobs=OnlineJobs())
                return
            assert error.retryable, error
        raise AssertionError("it meets one conflict after the other")

    @property
    def states(self) -> frozenset[tuple[str, str]]:
        """Where the elements are, by name; those of an attempt that was taken back left out."""
        return frozenset((element.name, element.state.name) for element in self.lake.state.elements.values())


def moments(start: Expanded, folder: Path) -> dict[int, bool]:
    """Every write of the change, which is a moment to act; True for the first of a state."""
    found: dict[int, bool] = {}
    known: set[frozenset[tuple[str, str]]] = set()
    run = start.copy(folder)

    def hook(moment: str, what: str, key: str) -> None:
        found[len(found)] = run.states not in known
        known.add(run.states)

    assert run.change(env=replace(run.lake.env, on_write=hook)) is None
    assert len(known) > 2
    return found


def held_up(run: Expanded, at: int, other: Callable[[], object], listen: Listener = silent) -> SchemamigError | None:
    """Change, and let ``other`` do all that it does at this moment; what the one held up ended with."""
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count == at + 1:
            other()

    error = run.change(env=replace(run.lake.env, on_write=hook), listen=listen)
    assert count > at
    return error


# --- who else is there: what they do meanwhile, and what holds afterwards ----------------------------------------------------------------

Other = Callable[[Expanded, Operation], object]
After = Callable[[Expanded, Operation, SchemamigError | None], None]


def _done(run: Expanded, operation: Operation, error: SchemamigError | None) -> None:
    assert error is None or error.retryable, error
    run.finish()
    at_target(run.lake, operation)


def _committed(run: Expanded, operation: Operation, error: SchemamigError | None) -> None:
    assert error is None, error
    at_target(run.lake, operation)


def _fenced(run: Expanded, operation: Operation, error: SchemamigError | None) -> None:
    assert error is None or error.code == "fenced", error  # None: nothing was left to be done
    at_target(run.lake, operation)
    commands.rollback(run.lake.env, jobs=OnlineJobs())
    at_source(run.lake, operation)


def _cancelled(run: Expanded, operation: Operation, error: SchemamigError | None) -> None:
    assert error is None or error.code == "fenced", error
    at_source(run.lake, operation)
    commands.upgrade(run.lake.env, run.lake.second, jobs=OnlineJobs())
    at_target(run.lake, operation)


def _more_rows(run: Expanded, operation: Operation, error: SchemamigError | None) -> None:
    _done(run, operation.with_row(_new(operation)), error)


def _new(operation: Operation) -> dict[str, Any]:
    """A row that keeps all rules; what came with the change is left to its default."""
    return {"id": 3} | {name: 30 for name in ("u", "v") if name in operation.given[0]}


def _write(run: Expanded, operation: Operation) -> None:
    """By somebody who has read the table as it is now; what has a default is written, as Spark does for who leaves it out."""
    rows = (operation.made[0] | _new(operation), operation.given[0] | _new(operation))
    fields = snapshot(run.lake.path("a")).fields
    insert(run.lake.path("a"), [{field["name"]: _fitting(field["type"], [row.get(field["name"]) for row in rows]) for field in fields}])


def _fitting(kind: str, values: Sequence[Any]) -> Any:
    """The first value of that type: a column has the old type until the swap, and the new one after it."""
    return next((value for value in values if value is not None and _is_of(kind, value)), None)


def _is_of(kind: Any, value: Any) -> bool:
    if value is None:
        return True
    if isinstance(kind, str):
        return isinstance(value, str if kind == "string" else int)
    if kind["type"] == "struct":
        return all(_is_of(field["type"], value[field["name"]]) for field in kind["fields"])
    if kind["type"] == "array":
        return all(_is_of(kind["elementType"], item) for item in value)
    return all(_is_of(kind["keyType"], key) and _is_of(kind["valueType"], item) for key, item in value.items())


OTHERS: Mapping[str, tuple[Other, After]] = {
    "a twin changes": (lambda run, operation: run.change(), _done),
    "a twin commits": (lambda run, operation: run.finish(), _committed),
    "another generation takes over": (
        lambda run, operation: commands.upgrade(run.lake.env, run.lake.second, claim_id="another", jobs=OnlineJobs()),
        _fenced,
    ),
    "it is cancelled": (lambda run, operation: commands.cancel(run.lake.env, run.generation, jobs=OnlineJobs()), _cancelled),
    "a row comes": (_write, _more_rows),
}


def check_others(operation: Operation, folder: Path, names: Sequence[str], chosen: Callable[[dict[int, bool]], Sequence[int]]) -> None:
    start = Expanded.of(operation, folder / "start")
    tried = chosen(moments(start, folder / "count"))
    for who, (other, after) in ((name, OTHERS[name]) for name in names):
        for at in tried:
            run = start.copy(folder / who / str(at))
            error = held_up(run, at, lambda run=run, other=other: other(run, operation))  # type: ignore[misc]
            try:
                after(run, operation, error)
            except Exception as failure:
                raise AssertionError(f"{who}, moment {at}, ours: {error!r}") from failure
            shutil.rmtree(folder / who)


def test_others_while_rows_are_filled(tmp_path: Path) -> None:
    def the_one(found: dict[int, bool]) -> list[int]:
        return [at for at, is_first in found.items() if is_first][2:3]  # DELETE and WRITE come together, then REORG

    check_others(OPERATIONS[HARD], tmp_path, ["another generation takes over", "it is cancelled", "a row comes"], the_one)


@soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("who", OTHERS)
@each
def test_others_at_every_write(tmp_path: Path, operation: Operation, who: str) -> None:
    check_others(operation, tmp_path, [who], list)


@pytest.mark.parametrize("name", ["check", pytest.param("not null", marks=soak), pytest.param("all of them, and a rename", marks=soak)])
def test_rows_that_come_right_before_a_rule(tmp_path: Path, name: str) -> None:
    """They do not stop its commit: it holds from then on, and they are asked with all others."""
    operation = OPERATIONS[name]
    run, written = Expanded.of(operation, tmp_path), 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal written
        if moment == "before" and key.startswith("_delta_log/") and written < 2:
            written += 1
            insert(run.lake.path("a"), [operation.given[0] | _new(operation)] if written == 1 else [])

    assert run.change(env=replace(run.lake.env, on_write=hook)) is None
    assert written == 2
    run.finish()
    at_target(run.lake, operation.with_row(_new(operation)))


@pytest.mark.parametrize("name", [HARD, *(pytest.param(name, marks=soak) for name in OPERATIONS if name != HARD)])
def test_two_processes_at_once(tmp_path: Path, name: str) -> None:
    """They start together, and neither waits for the other."""
    run = Expanded.of(OPERATIONS[name], tmp_path)
    at_once(lambda: commands.change(run.lake.env, run.generation, jobs=OnlineJobs()))
    run.finish()
    at_target(run.lake, OPERATIONS[name])


# --- Spark fails, people pause -----------------------------------------------------------------------------------------------------------


@dataclass
class FailingJobs(OnlineJobs):
    """Its ``at``-th job ends with ``error``."""

    at: int = 0
    error: SchemamigError = field(default_factory=SchemamigError)

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        if len(self.asked) == self.at:
            self.asked.append((job, request))
            raise self.error
        return super().run(job, request)


FAILURES: Mapping[str, Callable[[], SchemamigError]] = {
    "for now": lambda: SparkUnavailable(where="sc://spark", reason="it is gone"),
    "for good": lambda: SparkJobFailed(job="fill", tail="no room"),
}


@soak
@pytest.mark.parametrize("failure", FAILURES)
@each
def test_a_job_of_it_fails(tmp_path: Path, operation: Operation, failure: str) -> None:
    """For now: it goes on from there. For good: it is walked back, and the next try begins anew."""
    start = Expanded.of(operation, tmp_path / "start")
    at, error = 0, None
    while at == 0 or error is not None:
        run = start.copy(tmp_path / str(at))
        error = run.change(FailingJobs(at=at, error=FAILURES[failure]()))
        if error is not None:
            assert error.retryable is (failure == "for now")
            assert ({state for _, state in run.states} == {"ABSENT"}) is (failure == "for good")
        run.finish()
        at_target(run.lake, operation)
        at += 1
    assert at > 1


@soak
@pytest.mark.parametrize("name", [name for name, found in OPERATIONS.items() if "DEFAULT" in found.after or "text" in name])
def test_paused_and_resumed_in_every_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(throttle, "_LOOK_SECONDS", 0.0)
    operation = OPERATIONS[name]
    start = Expanded.of(operation, tmp_path / "start")
    waited = 0
    for at in (at for at, is_first in moments(start, tmp_path / "count").items() if is_first):
        run = start.copy(tmp_path / str(at))

        def resumed(event: Event, run: Expanded = run) -> None:
            nonlocal waited
            if event.note.startswith("paused"):
                waited += 1
                controls.resume(run.lake.env, None)

        held_up(run, at, lambda run=run: controls.pause(run.lake.env, None), resumed)  # type: ignore[misc]
        controls.resume(run.lake.env, None)
        run.finish()
        at_target(run.lake, operation)
    assert waited
