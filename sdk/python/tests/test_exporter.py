"""The exporter against a real server, which is killed in between. OGIVE_BIN names the binary."""

import asyncio
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from ogive import Bin, Exporter, Histogram, Recorder, bin_of_integer
from ogive.asgi import Middleware


class Server:
    def __init__(self):
        self.data = tempfile.TemporaryDirectory()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.run()

    def run(self):
        command = [os.environ["OGIVE_BIN"], "serve", "--data", self.data.name, "--listen", self.address]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.address}/-/ready") as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def query(self, expression):
        """The one number of an expression. The last cell ends after its shutdown, at the end of its interval."""
        form = urllib.parse.urlencode({"query": expression, "time": int(time.time()) + 2})
        with urllib.request.urlopen(f"http://{self.address}/api/v1/query?{form}") as answer:
            [found] = json.load(answer)["data"]["result"]
        return float(found["value"][1])


class AgainstAServer(unittest.TestCase):
    def setUp(self):
        if not os.environ.get("OGIVE_BIN"):
            self.skipTest("NOT TESTED against a server: OGIVE_BIN names no ogive binary")
        self.server = Server()
        self.addCleanup(self.server.data.cleanup)
        self.addCleanup(lambda: self.server.kill())

    def test_every_sample_is_stored_once_across_a_kill(self):
        exporter = Exporter(f"http://{self.server.address}", labels={"service": "orders"}, interval=0.1)
        logins = exporter.recorder("login_seconds", route="/login")
        with self.assertRaises(ValueError):
            exporter.recorder("login_seconds", route="/login")
        exporter.gauge("queue_length", lambda: 17.0)

        def record():
            for at in range(1, 20_001):
                logins.record_nanoseconds(at)
                if at % 1000 == 0:
                    time.sleep(0.01)

        writers = [threading.Thread(target=record) for _ in range(3)]
        for writer in writers:
            writer.start()
        while exporter.status().acknowledged < 2:
            time.sleep(0.005)
        self.server.kill()
        for writer in writers:
            writer.join()
        self.server.run()
        self.assertEqual(exporter.shutdown(120), 0)
        status = exporter.status()
        self.assertEqual((status.waiting, status.dropped, status.taken), (0, {}, status.acknowledged))
        expression = 'histogram_count(sum_over_time(login_seconds{service="orders",route="/login"}[10m]))'
        self.assertEqual(self.server.query(expression), 60_000)
        total = self.server.query("histogram_sum(sum_over_time(login_seconds[10m]))")
        self.assertAlmostEqual(total, 3 * 20_000 * 20_001 / 2 / 1e9, places=9)
        self.assertEqual(self.server.query("queue_length"), 17)

    def test_requests_are_measured_by_their_route(self):
        class Route:
            path = "/users/{id}"

        async def app(scope, receive, send):
            if scope["path"].startswith("/users"):
                scope["route"] = Route
            await send({"type": "http.response.start", "status": 410 if scope["path"] == "/users/7" else 200})
            if scope["path"] == "/broken":
                raise RuntimeError("gone")

        async def nothing(*_):
            return None

        with Exporter(f"http://{self.server.address}", interval=0.1) as exporter:
            measured = Middleware(app, exporter)
            for path in ("/users/1", "/users/2", "/users/7", "/broken"):
                try:
                    asyncio.run(measured({"type": "http", "method": "GET", "path": path}, nothing, nothing))
                except RuntimeError:
                    self.assertEqual(path, "/broken")
        count = 'sum(histogram_count(sum_over_time(http_seconds{route="%s",code="%s"}[10m])))'
        self.assertEqual(self.server.query(count % ("/users/{id}", "2xx")), 2)
        self.assertEqual(self.server.query(count % ("/users/{id}", "4xx")), 1)
        self.assertEqual(self.server.query(count % ("other", "2xx")), 1)


class Alone(unittest.TestCase):
    def test_what_waits_is_bounded_and_counted(self):
        heard = []
        exporter = Exporter("http://127.0.0.1:1", interval=0.1, keep_bytes=2000, on_error=heard.append)
        exporter.counter("served_total", lambda: 1.0)
        while not heard or not exporter.status().dropped["full"]:
            time.sleep(0.01)
        self.assertGreater(exporter.shutdown(0), 0)
        status = exporter.status()
        self.assertEqual((status.taken, status.waiting_bytes), (sum(status.dropped.values()), 0))
        self.assertEqual(len(heard), 1)

    def test_a_recorder_counts_a_block_also_when_it_raises(self):
        recorder = Recorder()
        with self.assertRaises(KeyError), recorder.timed():
            raise KeyError
        with recorder.timed():
            pass
        recorder.record_nanoseconds(-5)
        recorder.record_nanoseconds(2**70)
        taken = recorder.take()
        self.assertEqual((taken.count, recorder.take().count), (4, 0))
        self.assertEqual(list(taken.bins())[-1][0], Bin(18, 10))

    def test_bounds_of_arguments(self):
        histogram = Histogram([1.0])
        with self.assertRaises(OverflowError):
            histogram.record(1.0, -1)
        with self.assertRaises(OverflowError):
            bin_of_integer(2**63, 0)
        histogram.merge(histogram)
        self.assertEqual((histogram.count, histogram.exact_sum, histogram.extremes), (2, 2.0, (1.0, 1.0)))


if __name__ == "__main__":
    unittest.main()
