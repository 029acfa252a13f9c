"""A real SMTP server (aiosmtpd) and an HTTP receiver: `receivers.py [CERTIFICATE KEY]`.

Prints a line of JSON with the ports, then one for each mail and each request. With a certificate mail is taken behind
STARTTLS and a login (`me`, `secret`) alone. Mail for `refuse@` is refused for good, for `later@` the first time;
requests for `/fail` are answered 503 the first time, those for `/hang` never.
"""

import http.server
import json
import socket
import ssl
import sys
import threading
import time

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

LOCK = threading.Lock()
SEEN = set()


def say(**what):
    with LOCK:
        print(json.dumps(what), flush=True)


def first(name):
    with LOCK:
        is_new = name not in SEEN
        SEEN.add(name)
        return is_new


class Mail:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refuse@"):
            return "550 nobody of that name"
        if address.startswith("later@") and first(address):
            return "451 come back later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        say(
            kind="mail",
            sender=envelope.mail_from,
            to=envelope.rcpt_tos,
            data=envelope.content.decode(),
            tls=session.ssl is not None,
            user=bool(session.authenticated),
        )
        return "250 OK"


def login(server, session, envelope, mechanism, data):
    is_right = (data.login, data.password) == (b"me", b"secret")
    return AuthResult(success=is_right)


class Requests(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/hang":
            time.sleep(600)
        is_bad = self.path == "/fail" and first(self.path)
        say(kind="http", path=self.path, authorization=self.headers.get("authorization"), body=json.loads(body))
        self.send_response(503 if is_bad else 200)
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    more = {}
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1], sys.argv[2])
        more = dict(tls_context=context, require_starttls=True, auth_required=True, authenticator=login)
    smtp = Controller(Mail(), hostname="127.0.0.1", port=0, ready_timeout=30, **more)

    # It connects to itself to see whether it serves, but does not know a port that was given to it.
    def connect():
        with socket.create_connection(smtp.server.sockets[0].getsockname()[:2]) as connection:
            connection.recv(1024)

    smtp._trigger_server = connect
    smtp.start()
    port = smtp.server.sockets[0].getsockname()[1]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(kind="listening", smtp=port, http=server.server_port)
    sys.stdin.read()


main()
