"""The server side of HTTP/1.1: listening, the count of connections, and an ordered end.

`Request`, `Connection`, `Flow` and `Handler` are what the rest of the program sees of it.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Sequence

from mentatd.http.answers import Fields
from mentatd.http.connection import Connection
from mentatd.http.handler import Flow, Handler
from mentatd.http.limits import SPARE_DESCRIPTORS, Limits
from mentatd.http.listener import BACKLOG, EVERY_ADDRESS, listen
from mentatd.http.memory import BodyMemory
from mentatd.http.reading import ServedConnection
from mentatd.http.request import Body, Request
from mentatd.http.shared import Shared
from mentatd.http.timers import Sweep

__all__ = ["Body", "Connection", "Fields", "Flow", "Handler", "Limits", "Request", "Server"]

_LARGEST_TICK_S = 0.5


class Server:
    """One port. In order: `start`, `stop_accepting`, `drain`, `close`; each may be left out, `close` may not."""

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
        self._shared = Shared(
            handler, self._limits, allowed, _descriptors_for_clients(), memory, every_answer
        )
        times = (self._limits.client_timeout_s, self._limits.keep_alive_s, self._limits.linger_s)
        self._sweep = Sweep(self._shared.connections, min(_LARGEST_TICK_S, min(times) / 4))
        self._servers: list[asyncio.Server] = []
        self.port = 0
        """The port in use, once started."""

    @property
    def connections(self) -> int:
        """Client connections that are open now."""
        return len(self._shared.connections)

    async def start(self, port: int, hosts: Sequence[str] = EVERY_ADDRESS) -> None:
        """Listen on `port` (0: any free one) of `hosts`. Raises SettingsError when that is impossible."""
        loop = asyncio.get_running_loop()
        sockets = listen(port, hosts)
        self.port = sockets[0].getsockname()[1]
        for sock in sockets:
            server = await loop.create_server(self._new_connection, sock=sock, backlog=BACKLOG)
            self._servers.append(server)
        self._sweep.start()

    def _new_connection(self) -> ServedConnection:
        return ServedConnection(self._shared)

    def stop_accepting(self) -> None:
        """Take no new connections; the ones that are open go on."""
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


def _descriptors_for_clients() -> float:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return float("inf")
    return limit - min(SPARE_DESCRIPTORS, limit // 8)
