"""Takes a cell of each series at the end of every interval and brings them to a server: numbered, kept until acknowledged."""

from __future__ import annotations

import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .batch import Kind, Sample, SeriesOf, Temporality, encode_batch
from .histogram import Histogram, Recorder

_SERIES_MAX = 100_000
_FIRST_WAIT, _LONGEST_WAIT, _ANSWER_SECONDS = 0.1, 10.0, 30.0


@dataclass
class Status:
    """What an exporter did, in samples: taken is always acknowledged + waiting + all dropped + all rejected."""

    taken: int = 0
    acknowledged: int = 0
    waiting: int = 0
    waiting_bytes: int = 0
    dropped: Counter = field(default_factory=Counter)
    rejected: Counter = field(default_factory=Counter)


class Exporter:
    """Sends what a program measures to an Ogive server such as http://127.0.0.1:6448, each sample exactly once.

    `interval` is the width of a cell in seconds (at least 0.1), `keep_bytes` bounds what waits for a server that is away, and
    `on_error` hears of each kind of failure once until the server takes a batch again. Usable in a `with` block. A child of
    fork must start one of its own.
    """

    def __init__(
        self,
        server: str,
        *,
        labels: Mapping[str, str] | None = None,
        token: str | None = None,
        tenant: str | None = None,
        interval: float = 1.0,
        keep_bytes: int = 16 << 20,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        address = urlsplit(server)
        if address.scheme not in ("http", "https") or not address.netloc:
            raise ValueError(f"{server!r} is no http://HOST:PORT or https://HOST:PORT")
        self._url = server.rstrip("/") + "/v1/batch"
        self._labels = dict(labels or {})
        self._headers = {"Content-Type": "application/x-ogive-batch-flatbuffer"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        if tenant is not None:
            self._headers["X-Scope-OrgID"] = tenant
        self._interval_ms = max(round(interval * 1000), 100)
        self._keep_bytes, self._on_error = keep_bytes, on_error
        self._source, self._next = os.urandom(16), 1
        self._series: dict[tuple[str, ...], tuple[SeriesOf, Callable[[], float | Histogram | None]]] = {}
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._bytes, self._in_flight, self._finished = 0, False, False
        self._counts, self._reported = Status(), ""
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._deadline = float("inf")
        self._threads = [
            threading.Thread(target=work, name=f"ogive-{name}", daemon=True)
            for name, work in (("cells", self._take_cells), ("send", self._send_all))
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def recorder(self, name: str, **labels: str) -> Recorder:
        """Adds a histogram of durations, in seconds, and returns what records it. Name it ..._seconds."""
        recorder = Recorder()
        self.cells(name, "s", recorder.take, **labels)
        return recorder

    def cells(self, name: str, unit: str, take: Callable[[], Histogram], /, **labels: str) -> None:
        """Adds a histogram that `take` gives and empties each interval."""

        def some() -> Histogram | None:
            cell = take()
            return cell if cell.count > 0 else None

        self._add(name, labels, unit, Kind.Histogram, Temporality.Delta, some)

    def gauge(self, name: str, read: Callable[[], float], /, **labels: str) -> None:
        """Adds a number that `read` gives at the end of each interval."""
        self._add(name, labels, "", Kind.Float, Temporality.Gauge, read)

    def counter(self, name: str, read: Callable[[], float], /, **labels: str) -> None:
        """Adds a number that only grows, as `read` gives it. Name it ..._total."""
        self._add(name, labels, "", Kind.Float, Temporality.Cumulative, read)

    def _add(self, name, labels, unit, kind, temporality, take) -> None:  # noqa: ANN001
        every = {**self._labels, **labels, "__name__": name}
        flat = tuple(text for label in sorted(every) for text in (label, str(every[label])))
        with self._changed:
            if flat in self._series:
                raise ValueError(f"the series exists already: {flat}")
            self._series[flat] = (SeriesOf(flat, unit, kind, temporality), take)

    def status(self) -> Status:
        """What was taken, acknowledged and dropped, and what waits."""
        with self._changed:
            counts = self._counts
            waiting = sum(samples for _, samples in self._waiting)
            return Status(
                counts.taken, counts.acknowledged, waiting, self._bytes, Counter(counts.dropped), Counter(counts.rejected)
            )

    def shutdown(self, timeout: float = 5.0) -> int:
        """Takes the cell that has begun and sends what waits, for `timeout` seconds at most. Returns how many samples the
        server could not have by then; they are counted as dropped."""
        self._deadline = time.monotonic() + timeout
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        left = 0
        with self._changed:
            while self._waiting:
                left += self._drop(0, "shutdown")
        return left

    def _take_cells(self) -> None:
        while True:
            width = self._interval_ms * 1_000_000
            end = (time.time_ns() // width + 1) * width
            stopped = self._stop.wait(max(end - time.time_ns(), 0) / 1e9)
            self._take_all(end)
            if stopped:
                break
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def _take_all(self, end_ns: int) -> None:
        with self._changed:
            every = list(self._series.values())
        samples = []
        for series, take in every:
            try:
                value = take()
            except Exception as error:  # noqa: BLE001 - what a program's own function raises must not stop the others
                self._report(error)
                continue
            if value is not None:
                samples.append(Sample(series, value))
        with self._changed:
            for at in range(0, len(samples), _SERIES_MAX):
                part = samples[at : at + _SERIES_MAX]
                frame = encode_batch(self._source, self._next, end_ns, self._interval_ms, part)
                self._next += 1
                self._counts.taken += len(part)
                self._waiting.append((frame, len(part)))
                self._bytes += len(frame)
            first = int(self._in_flight)
            while self._bytes > self._keep_bytes and len(self._waiting) > first:
                self._drop(first, "full")
            self._changed.notify_all()

    def _drop(self, at: int, reason: str) -> int:
        frame, samples = self._waiting[at]
        del self._waiting[at]
        self._bytes -= len(frame)
        self._counts.dropped[reason] += samples
        return samples

    def _send_all(self) -> None:
        """Brings the oldest batch to the server, again and again under its number, then the next."""
        failures = 0
        while True:
            with self._changed:
                while not self._waiting and not self._finished:
                    self._changed.wait()
                if not self._waiting or time.monotonic() >= self._deadline:
                    return
                self._in_flight = True
                frame, samples = self._waiting[0]
            after = self._attempt(frame, samples)
            if after < 0:
                failures = 0
                continue
            step = min(_FIRST_WAIT * 2**failures, _LONGEST_WAIT)
            failures = min(failures + 1, 32)
            self._pause(max(after, random.uniform(step / 2, step)))

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            while (now := time.monotonic()) < min(end, self._deadline):
                self._changed.wait(min(end, self._deadline) - now)

    def _attempt(self, frame: bytes, samples: int) -> float:
        """Sends once. Negative when the batch is done with, else the least wait before the next attempt, in seconds."""
        limit = min(_ANSWER_SECONDS, max(self._deadline - time.monotonic(), 0.01))
        request = urllib.request.Request(self._url, frame, self._headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=limit) as response:
                status, headers, body = response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            with error:
                status, headers, body = error.code, error.headers, error.read()
        except (OSError, urllib.error.URLError) as error:
            self._report(error)
            return 0
        answer = _object_in(body)
        if status == 200:
            return self._acknowledge(answer, samples)
        # Without the object somebody else answers at that address, and the batch is sent again.
        if status == 413 or (status in (400, 415, 422) and isinstance(answer.get("error"), str)):
            with self._changed:
                self._drop(0, "refused")
                self._in_flight = False
            self._report(RuntimeError(f"a batch was refused with {status}: {answer.get('error')}"))
            return -1
        self._report(RuntimeError(f"the server answers {status}: {answer.get('error', '')}"))
        seconds = headers.get("Retry-After") or ""
        return min(int(seconds), 3600) if seconds.isdecimal() else 0

    def _acknowledge(self, answer: dict, samples: int) -> float:
        rejected = answer.get("rejected") if isinstance(answer.get("rejected"), list) else []
        taken = [answer.get(name) for name in ("accepted", "duplicate")]
        if not all(isinstance(count, int) for count in taken) or sum(taken) + len(rejected) != samples:
            self._report(RuntimeError("the answer does not speak of every sample: is this an Ogive server?"))
            return 0
        with self._changed:
            self._counts.rejected.update(str(one.get("reason")) for one in rejected)
            self._counts.acknowledged += samples - len(rejected)
            self._bytes -= len(self._waiting.popleft()[0])
            self._in_flight = False
        self._reported = ""
        return -1

    def _report(self, error: Exception) -> None:
        if str(error) != self._reported and self._on_error is not None:
            self._on_error(error)
        self._reported = str(error)


def _object_in(body: bytes) -> dict:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
