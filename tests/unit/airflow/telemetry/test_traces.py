"""The spans that a task's phases make, where Airflow has traces on."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from airflow_provider_schemamig import traces
from airflow_provider_schemamig.core.progress import Event, silent
from airflow_provider_schemamig.exceptions import Refusal
from airflow_provider_schemamig.operators.leader import CutoverOperator, ExpandOperator
from airflow_provider_schemamig.traces import PhaseSpans, phases, traced
from tests.support.lake import Lake, make_lake
from tests.support.upgrades import promoted


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What an Airflow with traces would send."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(traces, "phases", lambda environment: PhaseSpans(environment, provider.get_tracer("t")))
    monkeypatch.setattr("airflow_provider_schemamig.operators.base.phases", traces.phases)
    return found


def named(spans: InMemorySpanExporter) -> list[str]:
    return [span.name for span in spans.get_finished_spans()]


def played(spans: InMemorySpanExporter, *events: Event, error: BaseException | None = None) -> list[ReadableSpan]:
    found: Any = traces.phases("s3://ann:secret@lake/prod")
    listen = traced(silent, found)
    for event in events:
        listen(event)
    found.end(error)
    return list(spans.get_finished_spans())


def test_each_phase_is_a_span(spans: InMemorySpanExporter) -> None:
    played(spans, Event("copy", "a", 1, 4), Event("copy", "a", 4, 4), Event("backfill n", "a", 1, 1), Event("backfill m", "b", 1, 1))
    assert named(spans) == ["schemamig.copy", "schemamig.backfill"]


def test_a_span_says_where_and_how_far(spans: InMemorySpanExporter) -> None:
    (span,) = played(spans, Event("copy", "a", 1, 4, measures={"rows": 10}), Event("copy", "b", 4, 4, 0.5, measures={"rows": 70}))
    assert dict(span.attributes or {}) == {
        "schemamig.environment": "s3://***@lake/prod",
        "schemamig.stage": "copy",
        "schemamig.done": 4,
        "schemamig.total": 4,
        "schemamig.rows": 70,
    }
    assert [(event.name, dict(event.attributes or {})) for event in span.events] == [
        ("a", {"schemamig.seconds": 0.0}),
        ("b", {"schemamig.seconds": 0.5}),
    ]


def test_traces_what_is_told_at_its_end_began_before(spans: InMemorySpanExporter) -> None:
    (span,) = played(spans, Event("commit", seconds=2.0))
    assert span.start_time is not None and span.end_time is not None
    assert span.end_time - span.start_time >= 2_000_000_000


def test_a_thousand_collections_make_one_span_of_a_hundred_events(spans: InMemorySpanExporter) -> None:
    (span,) = played(spans, *(Event("expand", f"t{number}", number, 1000) for number in range(1, 1001)))
    assert len(span.events) == 100


def test_a_phase_that_failed_says_so(spans: InMemorySpanExporter) -> None:
    class Overtaken(Refusal):
        code = "overtaken"

    (span,) = played(spans, Event("seal", "a", 0, 1), error=Overtaken())
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "overtaken")


def test_without_traces_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert phases("lake") is None
    assert traced(silent, None) is silent
    monkeypatch.setenv("AIRFLOW__TRACES__OTEL_ON", "True")
    assert phases("lake") is not None


@pytest.fixture
def lake(tmp_path: Any) -> Lake:
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    return found


def test_the_tasks_of_an_upgrade_make_spans(lake: Lake, spans: InMemorySpanExporter) -> None:
    generation = promoted(lake, lake.second)
    for kind in (ExpandOperator, CutoverOperator):
        kind(task_id="t", environment=lake.env.location.uri, generation=generation).execute({})
    assert named(spans) == [
        "schemamig.create",
        "schemamig.expand",
        "schemamig.cutover",
        "schemamig.seal",
        "schemamig.cutover",
        "schemamig.commit",
    ]
