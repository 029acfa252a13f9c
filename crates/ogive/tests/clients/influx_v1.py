"""The `influxdb` package, of version 1: URL's HOST PORT FROM COUNT; a database is created as people do, then points are written."""

import sys

from influxdb import InfluxDBClient
from influxdb.exceptions import InfluxDBClientError

host, port, begin, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
client = InfluxDBClient(host=host, port=port, database="plant")
assert client.ping(), "no answer to a ping"
if {"name": "plant"} not in client.get_list_database():
    client.create_database("plant")
assert {"name": "plant"} in client.get_list_database(), "a database that was created is not listed"
points = [
    {"measurement": "boiler", "tags": {"site": "a"}, "fields": {"bar": at + 0.5}, "time": begin + at * 1_000_000}
    for at in range(count)
]
assert client.write_points(points, batch_size=100)
try:
    client.query("SELECT * FROM boiler")
except InfluxDBClientError as error:
    assert "PromQL" in str(error), error
else:
    raise AssertionError("a query in InfluxQL was answered")
print("sent", flush=True)
