"""The server side of HTTP/1.1: listening, the count of connections, and an ordered end.

`Request`, `Connection`, `Flow` and `Handler` are what the rest of the program sees of it.
"""

from __future__ import annotations

import asyncio
import math
import resource
import socket
import time
from collections.abc import Callable, Sequence
from typing import cast

from mentatd.http import refusals
from mentatd.http.accepting import Acceptor
from mentatd.http.answers import Fields, render_head
from mentatd.http.connection import Connection
from mentatd.http.descriptors import BACKLOG, Room, room_for
from mentatd.http.handler import Flow, Handler
from mentatd.http.limits import Limits
from mentatd.http.listener import EVERY_ADDRESS, listen
from mentatd.http.memory import BodyMemory
from mentatd.http.reading import ServedConnection
from mentatd.http.request import Body, Request
from mentatd.http.shared import Shared
from mentatd.http.timers import Sweep
from mentatd.log import log

__all__ = ["Body", "Connection", "Fields", "Flow", "Handler", "Limits", "Request", "Server"]

_LARGEST_TICK_S = 0.5


class Server:
    """One port. In order: `start`, `stop_accepting`, `drain`, `close`; each may be left out, `close` may not.

    `start` is `bind` and then `accept`, for one who has something to do in between.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits | None = None,
        allowed: Callable[[str], bool] = lambda peer: True,
        every_answer: Callable[[Request | None], bytes] | None = None,
    ) -> None:
        """`allowed` tells whether the client at an address may use the server; others get 403 on every path.

        `every_answer` gives field lines, each ending in CRLF, for the answer to a request, refusals included; it is
        called with None where no head could be read.
        """
        self._limits = limits or Limits()
        memory = BodyMemory(self._limits.body_memory, self._limits.pace_window_s)
        room = _room(self._limits.max_connections, used=0)
        self._shared = Shared(handler, self._limits, allowed, room, memory, every_answer)
        times = (self._limits.client_timeout_s, self._limits.keep_alive_s, self._limits.linger_s)
        self._sweep = Sweep(self._shared.connections, min(_LARGEST_TICK_S, min(times) / 4))
        self._bound: list[socket.socket] = []
        self._servers: list[asyncio.Server | Acceptor] = []
        self.port = 0
        """The port in use, once started."""

    @property
    def connections(self) -> int:
        """Client connections that are open now."""
        return len(self._shared.connections)

    async def start(self, port: int, hosts: Sequence[str] = EVERY_ADDRESS) -> None:
        """Serve on `port` (0: any free one) of `hosts`. Raises SettingsError when that is impossible."""
        self.bind(port, hosts)
        await self.accept()

    def bind(self, port: int, hosts: Sequence[str] = EVERY_ADDRESS) -> None:
        """Listen on `port` of `hosts`: who connects waits in the kernel. Raises SettingsError as `start` does."""
        self._bound = listen(port, hosts)
        self.port = self._bound[0].getsockname()[1]
        # the system gives the lowest free descriptor, so those below the newest one are in use
        room = self._shared.room = _room(self._limits.max_connections, used=self._bound[-1].fileno() + 1)
        if room.clients < self._limits.max_connections:
            log("connections_limited", clients=room.clients, wanted=self._limits.max_connections)

    async def accept(self) -> None:
        """Serve those who wait, and those who come."""
        loop = asyncio.get_running_loop()
        while self._bound:
            sock = self._bound.pop()
            self._servers.append(
                await loop.create_server(self._new_connection, sock=sock, backlog=BACKLOG)
                if self._shared.room.plenty
                else Acceptor(sock, self._new_connection, self._is_full, self._no_room)
            )
        self._sweep.start()

    def _new_connection(self) -> asyncio.Protocol:
        return cast(asyncio.Protocol, ServedConnection(self._shared))

    def _is_full(self, coming: int) -> bool:
        room = self._shared.room
        return len(self._shared.connections) + coming >= room.clients + room.refused

    def _no_room(self) -> bytes:
        refusal, shared = refusals.TOO_MANY, self._shared
        content_type, body = shared.handler.refuse(refusal, None)
        more = b"" if shared.every_answer is None else shared.every_answer(None)
        second, close = int(time.time()), b"close"
        head = render_head(refusal.status, len(body), content_type, (), more, second=second, connection=close)
        return head + body

    def stop_accepting(self) -> None:
        """Take no new connections; the ones that are open go on."""
        while self._bound:
            self._bound.pop().close()
        for server in self._servers:
            server.close()

    async def drain(self, within_s: float) -> bool:
        """Close idle connections now and each other one after the answer in progress, for at most `within_s` seconds.

        Returns whether all of them ended; those that did not are left to `close`.
        """
        self._shared.draining = True
        for connection in list(self._shared.connections):
            connection.drain()
        return await self._wait_until_empty(within_s)

    async def close(self) -> None:
        """Cut what is left; harmless when nothing is."""
        self.stop_accepting()
        self._shared.draining = True
        for server in self._servers:
            if isinstance(server, Acceptor):
                await server.settle()
        for connection in list(self._shared.connections):
            connection.abort()
        await self._wait_until_empty(self._limits.linger_s)
        self._sweep.stop()

    async def _wait_until_empty(self, within_s: float) -> bool:
        shared = self._shared
        try:
            async with asyncio.timeout(within_s):
                while shared.connections:
                    shared.emptied.clear()
                    await shared.emptied.wait()
        except TimeoutError:
            return False
        return True


def _room(clients: int, *, used: int) -> Room:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return room_for(clients, limit=math.inf if limit == resource.RLIM_INFINITY else limit, used=used)
