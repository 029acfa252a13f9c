"""Two services as the OpenTelemetry SDK sends them every 15 seconds, over an hour that has passed: the SDK's clock is set by this program.

otel_past.py ADDRESS END SECONDS

Sends the exponential histograms `shop.checkout.duration` (two hosts, three routes; host b is slow on /pay for the five minutes that
end ten minutes before END) and `shop.report.duration` (about one sample in 20 seconds), delta. Prints, as JSON, what was recorded:
for each name the count, the greatest value, the counts of routes, and how many were slow.
"""

import json
import random
import sys
import time

address, end, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
now = [(end - seconds) * 10**9]
real = time.time_ns
time.time_ns = lambda: now[0]  # before the SDK takes the function

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

exporter = OTLPMetricExporter(endpoint=f"http://{address}/api/v1/otlp/v1/metrics", timeout=60)
reader = InMemoryMetricReader(preferred_temporality={Histogram: AggregationTemporality.DELTA})
view = View(instrument_type=Histogram, aggregation=ExponentialBucketHistogramAggregation())
resource = Resource.create({"service.name": "shop", "service.instance.id": "shop-1"})
provider = MeterProvider([reader], resource=resource, views=[view])
meter = provider.get_meter("shop")
checkout = meter.create_histogram("shop.checkout.duration", unit="s", description="Time of a checkout.")
report = meter.create_histogram("shop.report.duration", unit="s", description="Time to make a report.")

chance = random.Random(17)
sent = {}
# What is added to a slow checkout, at least.
SLOW = 0.25


def record(instrument, name, value, attributes):
    instrument.record(value, attributes)
    all_of = sent.setdefault(name, {"count": 0, "max": 0.0, "slow": 0, "routes": {}})
    all_of["count"] += 1
    all_of["slow"] += value >= SLOW
    all_of["max"] = max(all_of["max"], value)
    route = attributes.get("route")
    if route is not None:
        all_of["routes"][route] = all_of["routes"].get(route, 0) + 1


USUAL = {"/cart": 0.004, "/pay": 0.012, "/search": 0.03}
for at in range(0, seconds, 15):
    t = end - seconds + at
    slow = end - 900 <= t < end - 600
    for host in ("a", "b"):
        for route, usual in USUAL.items():
            for _ in range(40):
                value = usual * chance.lognormvariate(0, 0.35)
                if slow and host == "b" and route == "/pay" and chance.random() < 0.7:
                    value += chance.uniform(SLOW, 0.5)
                record(checkout, "shop.checkout.duration", value, {"host": host, "route": route})
    if chance.random() < 0.75:
        record(report, "shop.report.duration", 2 * chance.lognormvariate(0, 0.8), {})
    now[0] = (t + 15) * 10**9
    data = reader.get_metrics_data()
    time.time_ns, keep = real, time.time_ns
    if exporter.export(data) is not MetricExportResult.SUCCESS:
        sys.exit("an export failed")
    time.time_ns = keep
print(json.dumps(sent))
