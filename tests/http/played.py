"""A served connection on a transport that a test plays, without sockets and without time."""

from __future__ import annotations

import asyncio
import math
import re
import socket
from collections.abc import Callable
from typing import cast

from tests.http.serving import Answering

from mentatd.http.descriptors import REFUSED, Room
from mentatd.http.limits import Limits
from mentatd.http.memory import BodyMemory
from mentatd.http.reading import ServedConnection
from mentatd.http.shared import Shared

_READ_BYTES = 256 * 1024


class _Socket:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor


class PlayedTransport(asyncio.Transport):
    """Records what is written, and what else is asked of it, in order."""

    def __init__(self, peer: str = "", descriptor: int = 0, sock: socket.socket | None = None) -> None:
        super().__init__({"peername": (peer, 1) if peer else None, "socket": sock or _Socket(descriptor)})
        self.protocol: asyncio.BaseProtocol | None = None
        self.written = b""
        self.asked: list[str] = []
        self.unsent = 0
        self.reading = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert "close" not in self.asked
        assert "eof" not in self.asked
        self.written += data

    def write_eof(self) -> None:
        self.asked.append("eof")

    def close(self) -> None:
        self.asked.append("close")

    def abort(self) -> None:
        self.asked.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.asked or "abort" in self.asked

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Played:
    """One connection, its handler, and what the client would see."""

    def __init__(
        self,
        handler: Answering | None = None,
        *,
        limits: Limits | None = None,
        allowed: Callable[[str], bool] = lambda peer: True,
        spared: float = math.inf,
        shared: Shared | None = None,
        peer: str = "10.0.0.9",
        descriptor: int = 7,
    ) -> None:
        self.handler = handler or Answering()
        limits = limits or Limits()
        room = Room(limits.max_connections, REFUSED, True, spared)
        memory = BodyMemory(limits.body_memory, limits.pace_window_s)
        self.shared = shared or Shared(self.handler, limits, allowed, room, memory)
        self.transport = PlayedTransport(peer, descriptor)
        self.connection = ServedConnection(self.shared)
        self.transport.set_protocol(cast(asyncio.Protocol, self.connection))
        self.connection.connection_made(self.transport)

    @property
    def listens(self) -> bool:
        """The connection itself is told what comes, not a reader of its body."""
        return cast(object, self.transport.protocol) is self.connection

    def send(self, *pieces: bytes) -> None:
        """Each piece as one read, or as many as the protocol of the moment has room for."""
        for piece in pieces:
            while piece and not self.transport.is_closing():
                protocol = self.transport.protocol
                if isinstance(protocol, asyncio.BufferedProtocol):
                    room = cast(memoryview, protocol.get_buffer(-1))
                    taken = min(len(room), len(piece))
                    room[:taken] = piece[:taken]
                    protocol.buffer_updated(taken)
                else:
                    taken = min(_READ_BYTES, len(piece))
                    cast(asyncio.Protocol, protocol).data_received(piece[:taken])
                piece = piece[taken:]

    def end(self) -> None:
        """The client shuts its sending side."""
        protocol = cast(asyncio.Protocol, self.transport.protocol)
        if not protocol.eof_received():
            self.transport.close()

    def lose(self) -> None:
        """The connection is gone."""
        protocol, self.transport.protocol = self.transport.protocol, None
        assert protocol is not None
        protocol.connection_lost(None)

    def expire(self) -> None:
        """Let the present deadline pass."""
        self.connection.expired(self.connection.deadline)

    @property
    def statuses(self) -> list[int]:
        """Of the answers written so far, none of them to HEAD."""
        found, data = [], self.transport.written
        while data:
            head, _, data = data.partition(b"\r\n\r\n")
            found.append(int(head[9:12]))
            length = re.search(rb"\r\nContent-Length: (\d+)", head)
            data = data[int(length[1]) :] if length else data
        return found

    @property
    def bodies(self) -> list[bytes]:
        """Of the requests handled so far."""
        return [request.body for request in self.handler.requests]
