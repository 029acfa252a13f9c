"""Delivers N observations through the OpenTelemetry SDK, as its arguments say.

otel.py PROTOCOL ADDRESS TEMPORALITY N [twice] [pause]

A counter, an up-down counter, a gauge, a histogram with explicit bounds and one with exponential bins are counted N times in four
exports, and N log records are written. With `twice` each export is sent a second time, as a sender does that did not hear the
answer. With `pause` it says "half" after two exports and reads a line before it goes on.
"""

import logging
import sys

from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import (
    Counter,
    Histogram,
    MeterProvider,
    ObservableCounter,
    ObservableUpDownCounter,
    UpDownCounter,
)
from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

protocol, address, temporality, n = sys.argv[1:5]
options = sys.argv[5:]
n = int(n)
exports = 4

if protocol == "http":
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    metrics_at = {"endpoint": f"http://{address}/api/v1/otlp/v1/metrics", "compression": Compression.Gzip}
    logs_at = {"endpoint": f"http://{address}/v1/logs"}
else:
    import grpc
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

    metrics_at = {"endpoint": f"http://{address}", "insecure": True, "compression": grpc.Compression.Gzip}
    logs_at = {"endpoint": f"http://{address}", "insecure": True}

# In all, with every attempt: a server that is started anew on a busy machine takes its time.
metrics_at["timeout"] = logs_at["timeout"] = 60
kinds = [Counter, Histogram, ObservableCounter, UpDownCounter, ObservableUpDownCounter]
wanted = AggregationTemporality.DELTA if temporality == "delta" else AggregationTemporality.CUMULATIVE


class Exporter(OTLPMetricExporter):
    """Fails loudly, and sends twice when asked to."""

    def export(self, metrics_data, *args, **more):
        for _ in range(2 if "twice" in options else 1):
            if super().export(metrics_data, *args, **more) is not MetricExportResult.SUCCESS:
                print("an export failed", flush=True)
                sys.exit(1)
        return MetricExportResult.SUCCESS


exporter = Exporter(preferred_temporality={kind: wanted for kind in kinds}, **metrics_at)
reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
resource = Resource.create({"service.name": f"otel-{protocol}", "service.instance.id": temporality})
view = View(instrument_name="fine", aggregation=ExponentialBucketHistogramAggregation())
provider = MeterProvider([reader], resource=resource, views=[view])
meter = provider.get_meter("test")
counter = meter.create_counter("client.requests", unit="{request}")
level = meter.create_up_down_counter("client.level", unit="By")
gauge = meter.create_gauge("client.temperature", unit="Cel")
coarse = meter.create_histogram("coarse", unit="s", explicit_bucket_boundaries_advisory=[0.001, 0.01, 0.1, 1])
fine = meter.create_histogram("fine", unit="s")

logs = LoggerProvider(resource=resource)
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(**logs_at)))
logger = logging.getLogger("test")
logger.propagate = False
logger.setLevel(logging.INFO)
logger.addHandler(LoggingHandler(logger_provider=logs))

for export in range(exports):
    for at in range(export, n, exports):
        attributes = {"http.route": f"/{at % 3}"}
        counter.add(1, attributes)
        level.add(2 if at % 2 == 0 else -1, attributes)
        coarse.record(at * 0.001, attributes)
        fine.record(at * 0.001, attributes)
    gauge.set(20.5 + export)
    provider.force_flush(timeout_millis=60_000)
    if "pause" in options and export == 1:
        print("half", flush=True)
        sys.stdin.readline()
if "pause" not in options:
    for at in range(n):
        logger.warning("record %d", at, extra={"at": at})
# Sends the last points once more when they are cumulative, as the SDK does.
provider.shutdown()
logs.shutdown()
print("done", flush=True)
