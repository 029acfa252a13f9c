"""The ASGI middleware in a real FastAPI application behind a real uvicorn, sent to a real server. OGIVE_BIN names the binary."""

import os
import threading
import time
import unittest
import urllib.error
import urllib.request

import uvicorn
from fastapi import FastAPI, HTTPException
from test_exporter import Server

from ogive import Exporter
from ogive.asgi import Middleware

app = FastAPI()


@app.get("/users/{user}")
async def show(user: int) -> dict:
    if user == 7:
        raise HTTPException(410)
    return {"user": user}


@app.post("/fails")
async def fails() -> None:
    raise RuntimeError("no")


@unittest.skipUnless(os.environ.get("OGIVE_BIN"), "NOT TESTED against a server: OGIVE_BIN names no ogive binary")
class InFastApi(unittest.TestCase):
    def test_requests_are_measured_by_their_route(self):
        server = Server()
        self.addCleanup(server.data.cleanup)
        self.addCleanup(server.kill)
        exporter = Exporter(f"http://{server.address}", interval=0.1)
        site = uvicorn.Server(uvicorn.Config(Middleware(app, exporter), port=0, log_level="critical"))
        thread = threading.Thread(target=site.run)
        thread.start()
        while not site.started:
            time.sleep(0.01)
        port = site.servers[0].sockets[0].getsockname()[1]
        for method, path in [("GET", "/users/1"), ("GET", "/users/2"), ("GET", "/users/7"), ("GET", "/elsewhere"), ("POST", "/fails")]:
            try:
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)).close()
            except urllib.error.HTTPError as error:
                error.close()
        site.should_exit = True
        thread.join()
        self.assertEqual(exporter.shutdown(120), 0)
        count = "sum(histogram_count(sum_over_time(http_seconds{%s}[10m])))"
        for labels, expected in [
            ('route="/users/{user}",method="GET",code="2xx"', 2),
            ('route="/users/{user}",code="4xx"', 1),
            ('route="other",code="4xx"', 1),
            ('route="/fails",method="POST",code="5xx"', 1),
            ("", 5),
        ]:
            self.assertEqual(server.query(count % labels), expected, labels)


if __name__ == "__main__":
    unittest.main()
