"""The queries of the Grafana dashboard, against what the code can tell a Prometheus behind an OpenTelemetry collector."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk.observability import stats

from airflow_provider_schemamig import replica_metrics
from airflow_provider_schemamig.core.progress import COUNTERS, GAUGES, Event, silent
from airflow_provider_schemamig.metrics import gauge, metered
from tests.support.airflow.home import ROOT

DASHBOARD = json.loads((ROOT / "ops" / "grafana" / "schemamig.json").read_text())
#: All labels that some metric of ours has.
LABELS = {"environment", "collection", "stage", "element", "origin", "target", "hash"}


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (item["query"] for item in DASHBOARD["templating"]["list"] if item["type"] == "query")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Every metric that the code can emit, as Prometheus names it, with its labels."""
    found: dict[str, set[str]] = {}

    def keep(suffix: str) -> Any:
        return lambda stat, value, *, tags: found.setdefault(f"airflow_{stat.replace('.', '_')}{suffix}", set()).update(tags)

    monkeypatch.setattr(stats, "gauge", keep(""))
    monkeypatch.setattr(stats, "incr", keep("_total"))
    measures = dict.fromkeys((*GAUGES, *COUNTERS), 1.0)
    metered(silent, "lake")(Event("copy", "a", element="column:n", measures=measures))
    stream = SimpleNamespace(origin="a", target="b", collection="c")
    state: Any = SimpleNamespace(stream=stream, pause=None, error=None, lag_versions=0, restores=0, applied_rows=0, lag_seconds=lambda _: 0)
    replica_metrics.measure_stream(state, pendulum.now("UTC"))
    gauge("schema_hash_info", 1, environment="e", collection="c", hash="h")
    return found


def test_every_query_asks_for_a_metric_that_is_told(told: dict[str, set[str]]) -> None:
    asked = {name for query in queries() for name in re.findall(r"airflow_\w+", query)}
    assert asked == set(told), "the dashboard shows all there is, and nothing else"


def test_every_label_is_one_of_its_metric(told: dict[str, set[str]]) -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            text = f"{target['expr']} {target['legendFormat']}"
            labels = {label for label in LABELS if re.search(rf"\b{label}\b", re.sub(r"\$\w+|airflow_\w+", "", text))}
            for name in re.findall(r"airflow_\w+", target["expr"]):
                assert labels <= told[name], (panel["title"], name)


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_schema_hashes_are_told_under_the_name_that_is_asked_for() -> None:
    source = (ROOT / "airflow_provider_schemamig" / "replica_metrics.py").read_text()
    assert 'gauge("schema_hash_info"' in source
