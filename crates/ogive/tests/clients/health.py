"""Health services of gRPC, each at a port of its own.

health.py DIRECTORY    grpc.pem and grpc.key stand in it

Says a name and a port in each line: "whole" knows the services "" and shop.Cart (SERVING) and shop.Mail (NOT_SERVING), "tls" the same
over TLS, "closed" the same for who has the token "open sesame"; "none" has no health service, and "slow" answers after five seconds. It ends
with its input.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from grpc_health.v1.health import HealthServicer
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

known = HealthServicer()
known.set("", HealthCheckResponse.SERVING)
known.set("shop.Cart", HealthCheckResponse.SERVING)
known.set("shop.Mail", HealthCheckResponse.NOT_SERVING)


class Closed(HealthServicer):
    def Check(self, request, context):
        if ("authorization", "Bearer open sesame") not in [(one.key, one.value) for one in context.invocation_metadata()]:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        return known.Check(request, context)


class Slow(HealthServicer):
    def Check(self, request, context):
        time.sleep(5)
        return known.Check(request, context)


directory = Path(sys.argv[1])
pair = ((directory / "grpc.key").read_bytes(), (directory / "grpc.pem").read_bytes())
servers = []
for name, service in [("whole", known), ("tls", known), ("closed", Closed()), ("none", None), ("slow", Slow())]:
    server = grpc.server(ThreadPoolExecutor(4))
    if service:
        add_HealthServicer_to_server(service, server)
    if name == "tls":
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    servers.append(server)
    print(name, port, flush=True)
sys.stdin.read()
