"""Measures each request of an ASGI application: Starlette, FastAPI, Django."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable

from .exporter import Exporter
from .histogram import Recorder

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Middleware:
    """Measures each request into NAME{route,method,code}, in seconds, until its answer is sent or its client is gone.

    The route is the pattern that served it, where the framework says so (`scope["route"].path`, as Starlette and FastAPI do),
    so that paths with identifiers do not make a series each; code is the class: 2xx, 4xx.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], exporter: Exporter, name: str = "http_seconds") -> None:
        self._app, self._exporter, self._name = app, exporter, name
        self._recorders: dict[tuple[str, str, str], Recorder] = {}
        self._lock = threading.Lock()

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        """Passes a connection on to the application, and times it if it is a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter_ns(), 500

        async def watch(message: dict) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            elapsed = time.perf_counter_ns() - start
            route = getattr(scope.get("route"), "path", None) or "other"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._recorder((route, method, f"{status // 100}xx")).record_nanoseconds(elapsed)

    def _recorder(self, key: tuple[str, str, str]) -> Recorder:
        with self._lock:
            if key not in self._recorders:
                route, method, code = key
                self._recorders[key] = self._exporter.recorder(self._name, route=route, method=method, code=code)
            return self._recorders[key]
