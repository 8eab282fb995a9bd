from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.operators.arguments import BadArgument, as_flag, as_generation, as_hold, release_folder
from airflow_provider_schemamig.operators.base import log_progress
from airflow_provider_schemamig.operators.read_only import ReadOnlyMigrationOperator
from airflow_provider_schemamig.operators.replicas import ReplicateCollectionOperator
from airflow_provider_schemamig.operators.reports import chunks, outcome_summary


@pytest.mark.parametrize(
    "read, value, expected",
    [
        (as_hold, "24", timedelta(hours=24)),
        (as_hold, "0", timedelta(0)),
        (as_hold, 0.5, timedelta(minutes=30)),
        (as_hold, timedelta(days=2), timedelta(days=2)),
        (as_generation, "7", 7),
        (as_generation, 7, 7),
        (lambda value: as_flag("end_hold", value), "True", True),
        (lambda value: as_flag("end_hold", value), False, False),
    ],
)
def test_arguments_come_as_values_or_as_rendered_templates(read: Callable[[Any], Any], value: Any, expected: Any) -> None:
    assert read(value) == expected


@pytest.mark.parametrize(
    "read, value, argument",
    [
        (as_hold, "a day", "hold"),
        (as_hold, "-1", "hold"),
        (as_hold, "nan", "hold"),
        (as_hold, None, "hold"),
        (as_hold, [24], "hold"),
        (as_generation, "None", "generation"),
        (as_generation, None, "generation"),
        (lambda value: as_flag("end_hold", value), "yes please", "end_hold"),
    ],
)
def test_a_bad_argument_is_named(read: Callable[[Any], Any], value: Any, argument: str) -> None:
    with pytest.raises(BadArgument) as caught:
        read(value)
    assert caught.value.argument == argument
    assert not caught.value.retryable


def test_a_relative_release_lies_next_to_the_dag_file() -> None:
    context: Any = {"dag": SimpleNamespace(folder="/dags")}
    assert release_folder("lake", context) == Path("/dags/lake")
    assert release_folder("/srv/lake", context) == Path("/srv/lake")
    with pytest.raises(BadArgument):
        release_folder("", context)


def test_progress_is_one_line_a_stage_a_second_and_always_the_last() -> None:
    lines: list[tuple[Any, ...]] = []
    now = 0.0
    listen = log_progress(lambda *line: lines.append(line), clock=lambda: now)
    for done in range(1, 1001):
        now = done / 100
        listen(Event("expand", f"c{done}", done, 1000, 0.01))
        listen(Event("seal", f"c{done}", done, 1000, 0.01))
    stages = [stage for _, stage, _ in lines]
    assert stages.count("expand") == stages.count("seal") == 11
    assert lines[-1] == ("%s: %s", "seal", "1000 of 1000, c1000, 0.01 s")


def test_a_note_that_counts_nothing_is_never_held_back() -> None:
    lines: list[tuple[Any, ...]] = []
    listen = log_progress(lambda *line: lines.append(line), clock=lambda: 0.0)
    listen(Event("copy", "flights", 3, 10, 12.0, "3 of 10 files"))
    listen(Event("copy", "flights", 4, 10, 13.0, "4 of 10 files"))
    listen(Event("copy", "flights", note="paused"))
    assert [text for _, _, text in lines] == ["3 of 10, flights, 12.00 s, 3 of 10 files", "flights, paused"]


def test_operator_basics_what_only_runs_is_told_at_its_start_and_every_half_minute() -> None:
    lines: list[tuple[Any, ...]] = []
    now = 0.0
    listen = log_progress(lambda *line: lines.append(line), clock=lambda: now)
    listen(Event("start Spark", beat=True))
    for second in range(95):
        now = float(second)
        listen(Event("digest", "flights", second, 100, now, beat=True))
    listen(Event("digest", "flights", 1, 1, 95.0, beat=True))
    listen(Event("digest", "flights", 1, 2, 95.0))
    assert [(stage, text.partition(",")[0]) for _, stage, text in lines] == [
        ("start Spark", "begun"),
        *(("digest", f"{second} of 100" if second else "0 of 100") for second in (0, 30, 60, 90)),
        ("digest", "1 of 2"),
    ]


class SlowRunner:
    """A runner whose job takes long enough to be told of."""

    def run(self, job: str, request: dict[str, Any]) -> dict[str, Any]:
        return {"job": job, **request}

    def stop(self) -> None: ...


@pytest.mark.parametrize(
    "operator",
    [
        lambda: ReadOnlyMigrationOperator(task_id="t", environment="/lake", release="r").hook,
        lambda: ReplicateCollectionOperator(task_id="t", origin="/lake", target="/replica").hooks[1],
    ],
    ids=["environment", "stream"],
)
def test_a_task_tells_what_spark_does(operator: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda *_: SlowRunner())
    found = operator().job_runner().run("digest", {"collection": "flights"})
    assert found == {"job": "digest", "collection": "flights"}
    assert "digest: flights" in capsys.readouterr().out


@pytest.mark.parametrize("size, expected", [(2, [["a", "b"], ["c"]]), (3, [["a", "b", "c"]]), (9, [["a", "b", "c"]])])
def test_operator_basics_chunks(size: int, expected: list[list[str]]) -> None:
    assert chunks("abc", size) == expected
    assert chunks((), size) == []


@pytest.mark.parametrize("count, size, longest", [(10_240, 10, 10), (10_241, 10, 11), (30_000, 10, 30), (0, 10, 0), (3, 1, 1)])
def test_there_are_never_more_chunks_than_airflow_maps_over(count: int, size: int, longest: int) -> None:
    names = [f"t{n}" for n in range(count)]
    found = chunks(names, size, 1024)
    assert len(found) <= 1024 and [name for chunk in found for name in chunk] == names
    assert max(map(len, found), default=0) == longest


def outcome(stages: int) -> dict[str, Any]:
    stage = {"kind": "expand", "collection": "flights", "table_version": 3, "seconds": 0.25}
    return {"from": "1.0.0", "to": "1.1.0", "generation": 7, "epoch": 2, "stages": [stage] * stages, "pending": [], "notes": []}


def test_operator_basics_what_goes_through_xcom_does_not_grow_with_the_collections() -> None:
    assert outcome_summary(outcome(4))["stages"] == {"expand": {"count": 4, "seconds": 1.0}}
    assert len(str(outcome_summary(outcome(5000)))) < 300
