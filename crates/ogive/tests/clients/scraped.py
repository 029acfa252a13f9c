"""A program with prometheus_client, scraped at PORT: each line that it hears is COUNT observations more.

scraped.py PORT COUNT [CERTIFICATE KEY]
"""

import sys

from prometheus_client import Counter, Gauge, Histogram, Summary, start_http_server

port, count = int(sys.argv[1]), int(sys.argv[2])
tls = {"certfile": sys.argv[3], "keyfile": sys.argv[4]} if len(sys.argv) > 3 else {}

calls = Counter("py_calls", "Calls.", ["route"])
level = Gauge("py_level", "Level.")
took = Histogram("py_took_seconds", "How long.", buckets=(0.1, 0.5, 1.0))
size = Summary("py_size_bytes", "How large.")

start_http_server(port, addr="127.0.0.1", **tls)
print("ready", flush=True)
for line in sys.stdin:
    for at in range(count):
        calls.labels(route='/"x"\\').inc(exemplar={"trace_id": f"t{at}"})
        took.observe(at % 10 / 10)
        size.observe(at)
        level.set(at)
    print("done", flush=True)
