"""The `datadog` package: HOST PORT SOCKET COUNT [parts]; every kind of metric over UDP and a Unix socket.

With `parts` it says "part" after each fifty turns over UDP and reads a line before it goes on. A kernel queues ten
datagrams of a Unix socket; by default this client drops what has no room, so it is configured to wait."""

import sys

from datadog.dogstatsd import DogStatsd

host, port, path, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
for via, client in (
    ("udp", DogStatsd(host=host, port=port, disable_telemetry=True)),
    ("unix", DogStatsd(socket_path=path, socket_timeout=10, disable_telemetry=True)),
):
    tags = ["via:" + via, "route:/x"]
    for at in range(count):
        client.distribution("dog.size", at % 100 + 1, tags=tags)
        client.histogram("dog.wait", 0.25, tags=tags)
        client.timing("dog.time", 250, tags=tags)
        client.increment("dog.n", tags=tags)
        if via == "udp" and sys.argv[5:] == ["parts"] and at % 50 == 49:
            print("part", flush=True)
            sys.stdin.readline()
    client.gauge("dog.level", 1.5, tags=tags)
    client.set("dog.users", "bob", tags=tags)
    client.event("restarted", "version 7\nis live", alert_type="info", tags=tags)
    client.service_check("dog.up", DogStatsd.CRITICAL, tags=tags, message="no answer")
    client.flush()
    client.stop()
print("sent", flush=True)
