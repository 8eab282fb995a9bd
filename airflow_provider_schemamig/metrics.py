"""Measures for Airflow's metrics. They go where ``[metrics]`` of the deployment says (statsd, OpenTelemetry; docs/airflow.md).

The one place that knows their API. Names are ``schemamig.<measure>``; what they are of is in their tags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.progress import COUNTERS, GAUGES

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.progress import Event, Listener

_PREFIX = "schemamig"


def gauge(measure: str, value: float, **tags: str) -> None:
    """Say how much something is now. Tags without a value are left out."""
    from airflow.sdk.observability import stats

    stats.gauge(f"{_PREFIX}.{measure}", value, tags=_known(tags))


def count(measure: str, number: int = 1, **tags: str) -> None:
    """Say that something happened ``number`` times."""
    from airflow.sdk.observability import stats

    stats.incr(f"{_PREFIX}.{measure}", number, tags=_known(tags))


def metered(listen: Listener, environment: str) -> Listener:
    """Return a listener that also reports the measures of an event, tagged with ``environment``, collection, stage and element."""

    def tell(event: Event) -> None:
        tags = {"environment": environment, "collection": event.collection or "", "stage": event.stage, "element": event.element}
        for measure, value in event.measures.items():
            if measure in GAUGES:
                gauge(measure, value, **tags)
            elif measure in COUNTERS:
                count(measure, int(value), **tags)
        listen(event)

    return tell


def _known(tags: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in tags.items() if value}
