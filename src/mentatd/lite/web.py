"""The HTTP port of a lite daemon: `/healthz`, `/status`, `/metrics` and the `/events` WebSocket (wire.md section 1).

Plain requests are answered before any WebSocket handshake, each with `Connection: close`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import parse_qs

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from mentatd import __version__
from mentatd.lite import metrics, report
from mentatd.lite.daemon import Daemon, Subscription
from mentatd.tasks import Tasks

PING_EVERY_S = 15.0
"""wire.md section 1."""

MAX_SUBSCRIBERS = 256
"""Watchers of one daemon; a router has one connection each."""

_PONG_S = 20.0
_HANDSHAKE_S = 10.0
_CLOSE_S = 2.0
_MAX_HEARD = 1024  # bytes of a message; nothing is expected from a subscriber

_QUIET = logging.Logger("quiet", logging.CRITICAL + 1)  # a refused handshake is the client's affair


class Web:
    """Owns the connections of the HTTP port."""

    def __init__(self, daemon: Daemon, *, ping_every_s: float = PING_EVERY_S) -> None:
        self._daemon = daemon
        self._ping_every_s = ping_every_s
        self._tasks = Tasks("web")
        self._servers: list[Server] = []

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Serve on listening sockets, which it owns from now on."""
        for sock in sockets:
            server = await serve(
                self._events,
                sock=sock,
                process_request=self._plain,
                compression=None,
                ping_interval=self._ping_every_s,
                ping_timeout=_PONG_S,
                open_timeout=_HANDSHAKE_S,
                close_timeout=_CLOSE_S,
                max_size=_MAX_HEARD,
                server_header=f"mentatd-lite/{__version__}",
                logger=_QUIET,
            )
            self._servers.append(server)

    async def close(self) -> None:
        """Stop listening and end every subscription."""
        for server in self._servers:
            server.close()
        for server in self._servers:
            await server.wait_closed()
        await self._tasks.close()

    def _plain(self, _connection: ServerConnection, request: Request) -> Response | None:
        """The answer to a plain request; None lets an upgrade of `/events` go on."""
        path, _, query = request.path.partition("?")
        match path:
            case "/healthz":
                return _answer(HTTPStatus.OK, "text/plain; charset=utf-8", b"ok\n")
            case "/status":
                group = parse_qs(query).get("group", [None])[0]
                return _answer(HTTPStatus.OK, "application/json", report.snapshot(self._daemon.state, group))
            case "/metrics":
                text = metrics.exposition(self._daemon.state, self._daemon.subscribers)
                return _answer(HTTPStatus.OK, metrics.CONTENT_TYPE, text.encode())
            case "/events" if "upgrade" not in request.headers:
                return _text(HTTPStatus.BAD_REQUEST, "/events is a WebSocket")
            case "/events" if self._daemon.subscribers >= MAX_SUBSCRIBERS:
                return _text(HTTPStatus.SERVICE_UNAVAILABLE, "too many subscribers")
            case "/events":
                return None
        return _text(HTTPStatus.NOT_FOUND, "there are /healthz, /status, /metrics and /events")

    async def _events(self, connection: ServerConnection) -> None:
        """Serve one subscriber until it leaves or falls behind."""
        subscription = self._daemon.subscribe()
        hearing = self._tasks.start(_hear(connection, subscription), "subscriber")
        try:
            await connection.send(subscription.first)
            while (frame := await subscription.next()) is not None:
                await connection.send(frame)
            await connection.close(CloseCode.TRY_AGAIN_LATER, "too far behind")
        except ConnectionClosed:
            pass
        finally:
            hearing.cancel()
            self._daemon.unsubscribe(subscription)


async def _hear(connection: ServerConnection, subscription: Subscription) -> None:
    """Throw away what a subscriber says, and notice when it leaves."""
    try:
        async for _ in connection:
            pass
    except ConnectionClosed:
        pass
    subscription.end()


def _answer(status: HTTPStatus, content_type: str, body: bytes) -> Response:
    headers = Headers({"Content-Type": content_type, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status.value, status.phrase, headers, body)


def _text(status: HTTPStatus, text: str) -> Response:
    return _answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())
