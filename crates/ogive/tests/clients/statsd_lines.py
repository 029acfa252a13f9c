"""The `statsd` package: HOST PORT COUNT [parts]; every kind of metric, one a datagram, in pipelines, and over TCP.

With `parts` it says "part" after each fifty turns of datagrams and reads a line before it goes on."""

import sys

from statsd import StatsClient, TCPStatsClient

host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for via, client in (("udp", StatsClient(host, port, prefix="py")), ("tcp", TCPStatsClient(host, port, prefix="py"))):
    for at in range(count // 2):
        client.timing(via + ".time", at % 100 + 1)
        client.incr(via + ".n")
        if via == "udp" and sys.argv[4:] == ["parts"] and at % 50 == 49:
            print("part", flush=True)
            sys.stdin.readline()
    with client.pipeline() as pipe:
        for at in range(count // 2):
            pipe.timing(via + ".time", at % 100 + 1)
            pipe.incr(via + ".n")
            pipe.set(via + ".users", "user-%d" % (at % 7))
    client.gauge(via + ".level", 40)
    client.gauge(via + ".level", 2, delta=True)
    client.incr(via + ".sampled", 3, rate=1)
print("sent", flush=True)
