"""Accepting one by one, for a process that has few descriptors.

The event loop's own server accepts all that wait in the kernel before it hands over the first, and drops them without
a word where descriptors run out. That is cheap and right for a process that has thousands to spare. Where there are
few, each connection is looked at before the next is accepted, and a last descriptor is held back, to be given up for
a moment, so that a client can be told even when there is no other one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from mentatd.log import log
from mentatd.tasks import Tasks

BATCH = 16
"""Connections accepted in one turn of the event loop."""
REST_S = 0.1
"""Seconds until the next try, where not even the descriptor that was held back can be had again."""

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts from one listening socket, which it closes in the end."""

    def __init__(
        self,
        sock: socket.socket,
        factory: Callable[[], asyncio.Protocol],
        is_full: Callable[[int], bool],
        no_room: Callable[[], bytes],
    ) -> None:
        """`is_full` tells, with the number of connections that are still to be made, whether a further one cannot be
        kept, not even to be refused in order; it is then sent `no_room()`, a whole answer, and closed."""
        self._sock = sock
        self._factory = factory
        self._is_full = is_full
        self._no_room = no_room
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks("accept")
        self._coming = 0
        self._reserve = -1
        self._rest: asyncio.TimerHandle | None = None
        self._said = False
        sock.setblocking(False)
        self._begin()

    def _begin(self) -> None:
        """Accept, once there is a descriptor to hold back."""
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            self._rest = self._loop.call_later(REST_S, self._begin)
        else:
            self._rest = None
            self._loop.add_reader(self._sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more; harmless when that has been done."""
        if self._rest is not None:
            self._rest.cancel()
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    async def settle(self) -> None:
        """Once it is closed: give up the connections that were accepted and are not made yet."""
        await self._tasks.close()

    def _accept(self) -> None:
        for _ in range(BATCH):
            try:
                client, _ = self._sock.accept()
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._accept_with_reserve(error)
                # else there is none that waits, or it left while it did
                return
            client.setblocking(False)
            if self._is_full(self._coming):
                self._turn_away(client)
            else:
                self._coming += 1
                self._tasks.start(self._loop.connect_accepted_socket(self._make, client), "client")

    def _make(self) -> asyncio.Protocol:
        self._coming -= 1
        return self._factory()

    def _accept_with_reserve(self, error: OSError) -> None:
        if not self._said:
            self._said = True
            log("descriptors_used_up", error=os.strerror(error.errno or 0))
        os.close(self._reserve)
        self._reserve = -1
        self._loop.remove_reader(self._sock.fileno())
        try:
            client, _ = self._sock.accept()
        except OSError:
            pass
        else:
            client.setblocking(False)
            self._turn_away(client)
        self._begin()

    def _turn_away(self, client: socket.socket) -> None:
        """Answer without a request; what has come of one is read away, so that the answer is not reset."""
        with client:
            try:
                client.send(self._no_room())
                client.shutdown(socket.SHUT_WR)
                client.recv(64 * 1024)
            except OSError:
                pass
