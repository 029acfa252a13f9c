"""WebSocket servers whose paths behave well and badly.

sockets.py DIRECTORY    socket.pem and socket.key stand in it

Says a name and a port in each line: "plain", and "tls" for the same over TLS. What a path does is said at its function, or in `refused` and
`answered`. It ends with its input.
"""

import http
import ssl
import sys
import threading
import time
from pathlib import Path

from websockets.sync.server import serve


def echo(connection):
    """Returns each message."""
    for message in connection:
        connection.send(message)


def welcome(connection):
    """Greets first, in bytes that are no text, too."""
    connection.send("welcome")
    connection.send(b"\xff\xfe")
    echo(connection)


def feed(connection):
    """Sends without being asked."""
    for at in range(5):
        connection.send(f"price {at}")
        time.sleep(0.02)
    echo(connection)


def quiet(connection):
    """Reads and says nothing."""
    for _ in connection:
        pass


def dismissive(connection):
    """Closes with a code of its own."""
    connection.close(1008, "not today")


def rude(connection):
    """Ends without a closing handshake."""
    connection.recv()
    connection.socket.shutdown(2)


def large(connection):
    """Announces 2 MiB and sends them."""
    connection.recv()
    connection.send(b"x" * (2 << 20))


def boastful(connection):
    """Announces 2^40 bytes and sends three."""
    connection.recv()
    connection.socket.sendall(b"\x82\x7f" + (1 << 40).to_bytes(8, "big") + b"few")
    time.sleep(2)


def short(connection):
    """Announces 100 bytes, sends three and ends."""
    connection.recv()
    connection.socket.sendall(b"\x81\x64few")
    connection.socket.shutdown(2)


def late(connection):
    """Announces 100 bytes, sends three and does not go on."""
    connection.recv()
    connection.socket.sendall(b"\x81\x64few")
    time.sleep(5)


paths = {f"/{handler.__name__}": handler for handler in [
    echo, welcome, feed, quiet, dismissive, rude, large, boastful, short, late,
]} | {"/secret": echo, "/forged": echo}


def handle(connection):
    try:
        paths[connection.request.path](connection)
    except Exception:  # The check that asked is gone.
        pass


def refused(connection, request):
    """Only who has the token gets to /secret."""
    if request.path not in paths:
        return connection.respond(http.HTTPStatus.NOT_FOUND, "no such path\n")
    if request.path == "/secret" and request.headers.get("Authorization") != "Bearer open sesame":
        return connection.respond(http.HTTPStatus.UNAUTHORIZED, "who are you?\n")
    return None


def answered(connection, request, response):
    """/forged answers as somebody would who did not read the key."""
    if request.path == "/forged":
        del response.headers["Sec-WebSocket-Accept"]
        response.headers["Sec-WebSocket-Accept"] = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    return response


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(Path(sys.argv[1]) / "socket.pem", Path(sys.argv[1]) / "socket.key")
for name, tls in [("plain", None), ("tls", context)]:
    server = serve(handle, "127.0.0.1", 0, ssl=tls, process_request=refused, process_response=answered)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(name, server.socket.getsockname()[1], flush=True)
sys.stdin.read()
