"""The `fluent-logger` package: HOST PORT SOCKET COUNT; each event is a message, with times in seconds and in nanoseconds, over
TCP and a Unix socket, by the sender and by the handler of `logging`."""

import logging
import sys

from fluent import handler, sender

host, port, path, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
deep = {"ok": True, "none": None, "list": [1, -2, 2.5, "ä"], "large": 2**63}
for tag, to, is_precise in (("py.seconds", host, False), ("py.nanos", host, True), ("py.unix", f"unix://{path}", True)):
    with sender.FluentSender(tag, host=to, port=port, timeout=30.0, nanosecond_precision=is_precise) as client:
        for at in range(count):
            event = {"message": "line %d" % at, "level": "WARN", "host": "edge-1", "at": at, "deep": deep}
            assert client.emit("web", event), client.last_error

logger = logging.getLogger("shop")
logger.setLevel(logging.INFO)
with handler.FluentHandler("py.logging", host=host, port=port, timeout=30.0, nanosecond_precision=True) as to_fluent:
    to_fluent.setFormatter(handler.FluentRecordFormatter({"sys_host": "%(hostname)s", "level": "%(levelname)s"}))
    logger.addHandler(to_fluent)
    for at in range(count):
        logger.error("line %d", at)
print("sent", flush=True)
