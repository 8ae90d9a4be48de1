"""The request on its way to the kernel.

A large body goes out in slices, each when the one before has gone, so that neither the transport's queue nor TLS
ever holds a second copy of it, and so that the one who owns it learns when it can be released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mentatd.http.request import Body

_JOIN = 32768
"""A request up to this size is copied into one piece: one `write` is cheaper than gathering."""
_SLICE = 262144
_SLICES_A_TURN = 8
"""Slices written before others get their turn: an engine that reads fast would otherwise hold up the event loop
for 50 ms with one large body."""


class Outgoing:
    """Writes one request at a time to one transport."""

    __slots__ = ("_blocked", "_on_sent", "_transport", "_unsent", "under_way")

    under_way: bool
    """Something of the request has not been handed to the kernel."""

    def __init__(self, transport: asyncio.Transport, on_sent: Callable[[], None], *, tls: bool) -> None:
        """`on_sent` is called when all of a request has been handed to the kernel, but for what `start` says."""
        # No high water: `pause_writing` then says that the kernel did not take all, `resume_writing` that it has
        # (TLS pauses at, not above, its mark).
        transport.set_write_buffer_limits(high=1 if tls else 0, low=0)
        self._transport = transport
        self._on_sent = on_sent
        self._unsent: memoryview | None = None
        self._blocked = False
        self.under_way = False

    def start(self, head: bytes, body: Body) -> bool:
        """Write a request. True: the kernel has all of a small one; else `on_sent` is called, maybe at once."""
        self.under_way = True
        if len(head) + len(body) <= _JOIN:
            self._transport.write(head + body)
            if not self.under_way:  # TLS tells inside `write`
                return False
            self.under_way = self._blocked
            return not self._blocked
        last = memoryview(body)
        self._unsent = last[_SLICE:]
        self._transport.writelines((head, last[:_SLICE]))
        self._go_on()
        return False

    def stop(self) -> None:
        """Write no more of it, and let go of its body."""
        self._unsent = None
        self.under_way = False

    def blocked(self) -> None:
        """The transport's `pause_writing`."""
        self._blocked = True

    def drained(self) -> None:
        """The transport's `resume_writing`."""
        self._blocked = False
        self._go_on()

    def _go_on(self) -> None:
        for _ in range(_SLICES_A_TURN):
            if not self._unsent or self._blocked:
                break
            piece, self._unsent = self._unsent[:_SLICE], self._unsent[_SLICE:]
            self._transport.write(piece)
        if self._blocked or not self.under_way:
            return
        if self._unsent:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self.stop()
            self._on_sent()
