"""The `influxdb-client` package: URL FROM COUNT; half of the points, a word, the other half; batches are tried again."""

import sys

from influxdb_client import InfluxDBClient, Point, WriteOptions, WritePrecision

url, begin, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = WriteOptions(
    batch_size=20, flush_interval=100, retry_interval=200, max_retry_delay=400, max_retries=100, max_retry_time=50_000
)
with InfluxDBClient(url=url, token="none", org="o") as client:
    assert client.ping(), "no answer to a ping"
    with client.write_api(write_options=options) as api:

        def write(numbers):
            for at in numbers:
                point = Point("tank level").tag("site", "a,b =c").field("litres", at + 0.5).field("valve", at)
                api.write("site", record=point.time(begin + at * 1_000_000, WritePrecision.NS))

        write(range(count // 2))
        print("half", flush=True)
        assert sys.stdin.readline().strip() == "more"
        write(range(count // 2, count))
print("sent", flush=True)
