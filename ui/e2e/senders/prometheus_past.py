"""A program with prometheus_client as it would have been scraped every 15 seconds, over an hour that has passed, as one OpenMetrics text.

prometheus_past.py FILE END SECONDS

The classic histogram `web_request_duration_seconds` with the client's own buckets, for two handlers. Prints, as JSON, how many
requests were counted, of each handler.
"""

import json
import random
import sys

from prometheus_client import CollectorRegistry, Histogram

file, end, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
registry = CollectorRegistry()
took = Histogram("web_request_duration_seconds", "Time of a request.", ["handler"], registry=registry)
chance = random.Random(17)
USUAL = {"/api": 0.02, "/static": 0.004}
counts = dict.fromkeys(USUAL, 0)
# So that the first scrape has zeros: nobody can know what a counter counted before it was first seen.
for handler in USUAL:
    took.labels(handler)
lines = {}
for t in range(end - seconds, end + 1, 15):
    for family in registry.collect():
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            key = f"{sample.name}{{{labels},job=\"web\",instance=\"web-1:9100\"}}"
            lines.setdefault(key, []).append(f"{key} {sample.value} {t}.137")
    if t == end:
        break
    for handler, usual in USUAL.items():
        for _ in range(30):
            took.labels(handler).observe(usual * chance.lognormvariate(0, 0.6))
            counts[handler] += 1
with open(file, "w", encoding="utf-8") as out:
    out.write("# TYPE web_request_duration_seconds histogram\n# UNIT web_request_duration_seconds seconds\n# HELP web_request_duration_seconds Time of a request.\n")
    for one in lines.values():
        out.write("\n".join(one) + "\n")
    out.write("# EOF\n")
print(json.dumps(counts))
