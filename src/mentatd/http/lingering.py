"""The end of a connection: what was written drains, and the client can still read it.

Closing a socket while bytes of the client wait in the kernel resets it, and a reset takes away from the client what
it has not read yet. So the sending side is shut, and what arrives is read away for a while (RFC 9112 section 9.6).

A truncated answer that only the end of the connection delimits must not look whole: there the connection is reset,
once the client's kernel has acknowledged all that was written.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import socket
import struct
import termios

from mentatd.http.limits import Limits


class Lingering:
    """One connection on its way out. The owner keeps reading and discarding, and calls `look` at each deadline."""

    __slots__ = ("_limits", "_reset", "_transport", "_unsent", "_until", "deadline")

    def __init__(self, transport: asyncio.Transport, limits: Limits, now: float, *, reset: bool) -> None:
        self._transport = transport
        self._limits = limits
        self._reset = reset
        self._until = now + limits.client_timeout_s
        self._unsent = math.inf
        self.deadline = now if reset else now + limits.linger_s
        """Loop time at which to call `look`; infinity once the connection is cut."""
        if not reset and not transport.is_closing():
            transport.write_eof()
            transport.resume_reading()

    def look(self, now: float) -> None:
        """Cut the connection, unless its client is still taking what was written."""
        if self._reset:
            if now < self._until and self._unacknowledged():
                return
            self._arm_reset()
        else:
            unsent = self._transport.get_write_buffer_size()
            if 0 < unsent < self._unsent:
                self._unsent = unsent
                self.deadline = now + self._limits.client_timeout_s
                return
        self.deadline = math.inf
        self._transport.abort()

    def _unacknowledged(self) -> int:
        sock: socket.socket = self._transport.get_extra_info("socket")
        (queued,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))
        return self._transport.get_write_buffer_size() + int(queued)

    def _arm_reset(self) -> None:
        sock: socket.socket = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
