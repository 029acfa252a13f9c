"""The `statsd` package: HOST PORT COUNT; every kind of metric, one a datagram, in pipelines, and over TCP."""

import sys

from statsd import StatsClient, TCPStatsClient

host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for via, client in (("udp", StatsClient(host, port, prefix="py")), ("tcp", TCPStatsClient(host, port, prefix="py"))):
    for at in range(count // 2):
        client.timing(via + ".time", at % 100 + 1)
        client.incr(via + ".n")
    with client.pipeline() as pipe:
        for at in range(count // 2):
            pipe.timing(via + ".time", at % 100 + 1)
            pipe.incr(via + ".n")
            pipe.set(via + ".users", "user-%d" % (at % 7))
    client.gauge(via + ".level", 40)
    client.gauge(via + ".level", 2, delta=True)
    client.incr(via + ".sampled", 3, rate=1)
print("sent", flush=True)
