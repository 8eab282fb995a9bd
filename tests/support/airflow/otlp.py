"""Who receives the metrics and the spans of other processes: an OpenTelemetry collector on this machine."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Metrics:
    """Every value of every gauge and counter, with its tags, in the order they came; and the names of all spans, with theirs."""

    port: int
    found: list[tuple[str, float, Mapping[str, str]]] = field(default_factory=list)
    spans: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    def values(self, name: str, **tags: str) -> list[float]:
        """Of a gauge, of those with at least these tags."""
        return [value for known, value, has in list(self.found) if known == name and tags.items() <= has.items()]

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in (*metric.gauge.data_points, *metric.sum.data_points):
                    value = point.as_double if point.HasField("as_double") else float(point.as_int)
                    self.found.append((metric.name, value, {tag.key: tag.value.string_value for tag in point.attributes}))

    def take_spans(self, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                self.spans.append((span.name, {tag.key: tag.value.string_value for tag in span.attributes}))


@contextmanager
def collector() -> Iterator[Metrics]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            take = found.take_spans if self.path.endswith("traces") else found.take
            take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Not in the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Metrics(server.server_port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def told_to(metrics: Metrics) -> dict[str, str]:
    """The variables of an Airflow that tells it its metrics and its traces."""
    return {
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "AIRFLOW__TRACES__OTEL_ON": "True",
        "OTEL_TRACES_EXPORTER": "otlp_proto_http",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{metrics.port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRIC_EXPORT_INTERVAL": "2000",
    }
