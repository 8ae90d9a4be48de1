"""How many clients a process has descriptors for. Pure.

A client that is served may need a second descriptor, for its engine. So clients get at most half of what is left, and
some are spared for those that are told that there is no room, and for what the process itself opens.
"""

from __future__ import annotations

from dataclasses import dataclass

BACKLOG = 4096
"""Connections that the kernel completes ahead of us; 128 stalls a ramp of clients by whole seconds."""
REFUSED = 256
"""Connections that stay open for a while so that their client reads its 503."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the descriptors of a process allow."""

    clients: int
    """Connections that are served at one time."""
    refused: int
    """Further ones that are open at one time only to be answered 503; beyond, they are closed with the answer."""
    plenty: bool
    """There are descriptors for all that the kernel can hand over in one turn of the event loop."""
    spared: float
    """The first descriptor number that no served client may have. The system gives the lowest free one, so this many
    are in use when a connection gets it."""


def room_for(wanted: int, *, limit: float, used: int) -> Room:
    """The room for `wanted` clients, of which there may be fewer, where `used` of `limit` descriptors are in use."""
    left = limit - used
    spare = max(2, int(min(left / 8, BACKLOG + REFUSED)))
    refused = min(REFUSED, spare // 2)
    clients = max(1, int(min(wanted, (left - spare) / 2)))
    return Room(clients, refused, spare == BACKLOG + REFUSED, limit - spare)
