"""A daemon in a test's own loop: `/status` and `/events` on one free port of loopback, as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from mentatd.wire.snapshot import View
from mentatd.wire.snapshot_writer import write_snapshot
from tests.support.views import view as plain_view

Status = Callable[[], Awaitable[tuple[int, bytes]]]


class ScriptedDaemon:
    """Reports `view`; `answer` replaces the whole answer to `/status`."""

    def __init__(self, view: View | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.view = view or plain_view()
        self.answer: Status | None = None
        self.reads = 0
        """Requests for `/status` so far."""
        self.takes_events = True
        """False refuses `/events` with 404."""
        self.host, self.port = host, port
        self._server: Server | None = None
        self._stopping = asyncio.Event()

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def listeners(self) -> int:
        """Open `/events` connections."""
        return len(self._server.connections) if self._server else 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await serve(
            self._events,
            self.host,
            self.port,
            process_request=self._process,
            compression=None,
            close_timeout=0.1,
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        self._stopping.set()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def never(self) -> tuple[int, bytes]:
        """For `answer`: no answer, as long as the daemon runs."""
        await self._stopping.wait()
        return 500, b""

    async def event(self, count: int = 1) -> None:
        """Send this many event frames to everybody who listens."""
        frame = json.dumps({"type": "agent_register", "seq": 1, "ts_ms": 0, "node": "n"})
        if self._server is not None:
            for connection in self._server.connections:
                for _ in range(count):
                    await connection.send(frame)

    async def _events(self, connection: ServerConnection) -> None:
        await connection.send(json.dumps({"type": "snapshot", "seq": 0, "data": {}}))
        await connection.wait_closed()

    async def _process(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/events":
            return None if self.takes_events else connection.respond(404, "no events here\n")
        self.reads += 1
        status, body = (200, write_snapshot(self.view)) if self.answer is None else await self.answer()
        headers = Headers({"Content-Length": str(len(body)), "Connection": "close"})
        return Response(status, "Scripted", headers, body)
