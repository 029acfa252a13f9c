"""Delivers spans through the OpenTelemetry SDK: PROTOCOL ADDRESS N BEGIN_NS.

N spans of 5 ms, every tenth of them failed, and one of 2 s with an event in its middle. Each export is sent twice, as a sender does that
did not hear the answer.
"""

import sys

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode

protocol, address, n, begin = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if protocol == "http":
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    options = {"endpoint": f"http://{address}/v1/traces", "compression": Compression.Gzip}
else:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    options = {"endpoint": f"http://{address}", "insecure": True}


class Exporter(OTLPSpanExporter):
    """Fails loudly, and sends everything twice."""

    def export(self, spans):
        for _ in range(2):
            if super().export(spans) is not SpanExportResult.SUCCESS:
                print("an export failed", flush=True)
                sys.exit(1)
        return SpanExportResult.SUCCESS


provider = TracerProvider(resource=Resource.create({"service.name": f"spans-{protocol}"}))
provider.add_span_processor(BatchSpanProcessor(Exporter(timeout=60, **options), max_export_batch_size=50))
tracer = provider.get_tracer("test")
MS = 1_000_000
for at in range(n):
    start = begin + at * MS
    span = tracer.start_span("GET /a", kind=SpanKind.SERVER, start_time=start)
    if at % 10 == 0:
        span.set_status(StatusCode.ERROR)
    span.end(end_time=start + 5 * MS)
slow = tracer.start_span("GET /a", kind=SpanKind.SERVER, start_time=begin)
slow.add_event("half way", timestamp=begin + 500 * MS)
slow.end(end_time=begin + 2_000 * MS)
provider.shutdown()
print("sent", flush=True)
print(f"{slow.get_span_context().trace_id:032x}", flush=True)
