"""Hosts that vanish with a request on its way to them.

The kernel's keep-alive asks only where everything is acknowledged; what is not it sends again, for a quarter of an
hour. TCP_USER_TIMEOUT would end that sooner, and would also cut a peer that is there and does not read: that one
acknowledges.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

PATIENCE_S = 60.0
"""A peer that has acknowledged nothing for so long, though it was sent to again and again, is taken as gone: as long
as the keep-alive of an idle connection takes."""

_REPEATS_AT = 2  # `tcpi_retransmits` in the kernel's `struct tcp_info`


class Sending(Protocol):
    """A connection that is looked after."""

    @property
    def repeats(self) -> int:
        """How often in a row the same bytes were sent without a word about them."""


S = TypeVar("S", bound=Sending)


class Unanswered(Generic[S]):
    """Remembers between two looks since when a connection has been unanswered."""

    def __init__(self) -> None:
        self._since: dict[S, float] = {}

    def look(self, connections: Iterable[S], now: float) -> list[S]:
        """Those of `connections`, all that there are, whose peer is taken as gone at `now` (seconds)."""
        self._since = since = {each: self._since.get(each, now) for each in connections if each.repeats}
        return [each for each, began in since.items() if now - began >= PATIENCE_S]


def repeats(sock: socket.socket) -> int:
    """How often in a row the kernel has sent the same bytes over a TCP connection without an acknowledgement."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _REPEATS_AT + 1)[_REPEATS_AT]
