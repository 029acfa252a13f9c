"""Receives metrics over OTLP, read with the protocol's own messages, and prints what it has after each request.

otlp_receiver.py PORT [grpc]    over HTTP, or gRPC

Says "listening" first. Then, for each request, a line with the observations in histograms and their sum, the points of gauges and the
last one's value, and the services that sent: "observations 3 sum 0.252 gauges 1 last 1.0 of shop". Points of rpc_bad are rejected. It ends
with its input.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)

DELTA = 1
have = {"observations": 0, "sum": 0.0, "gauges": 0, "last": 0.0}
services = set()
lock = threading.Lock()


def take(metric):
    """Counts a metric's points; the number of those that are rejected."""
    kind = metric.WhichOneof("data")
    points = getattr(metric, kind).data_points
    if metric.name == "rpc_bad":
        return len(points)
    for point in points:
        assert point.time_unix_nano > 0, metric
        assert [attribute.key for attribute in point.attributes] == [], metric
        if kind == "gauge":
            have["gauges"] += 1
            have["last"] = point.as_double
        else:
            assert kind == "exponential_histogram", kind
            assert metric.exponential_histogram.aggregation_temporality == DELTA
            binned = sum(point.positive.bucket_counts) + sum(point.negative.bucket_counts) + point.zero_count
            assert binned == point.count, point
            have["observations"] += point.count
            have["sum"] += point.sum
    return 0


def answer_to(request):
    """Counts what a request has, and prints the line."""
    answer = ExportMetricsServiceResponse()
    with lock:
        for resource in request.resource_metrics:
            services.update(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
            for scope in resource.scope_metrics:
                answer.partial_success.rejected_data_points += sum(take(metric) for metric in scope.metrics)
        if answer.partial_success.rejected_data_points:
            answer.partial_success.error_message = "nobody wants these"
        line = "observations {observations} sum {sum:.3f} gauges {gauges} last {last}".format(**have)
        print(f"{line} of {' '.join(sorted(services)) or 'nobody'}", flush=True)
    return answer


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = ExportMetricsServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        assert self.path == "/v1/metrics" and self.headers["content-type"] == "application/x-protobuf"
        body = answer_to(request).SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Service(MetricsServiceServicer):
    refused = False

    def Export(self, request, context):
        if not self.refused:
            # The first is refused for now: it has to come again.
            self.refused = True
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return answer_to(request)


if sys.argv[2:] == ["grpc"]:
    calls = grpc.server(ThreadPoolExecutor(2))
    add_MetricsServiceServicer_to_server(Service(), calls)
    calls.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    calls.start()
else:
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("listening", flush=True)
sys.stdin.read()
