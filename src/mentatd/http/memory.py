"""Memory for large request bodies: who goes on, who waits, who is too slow.

Theory of operation. A body of more than 1 MiB has a share of the memory. Its length is asked for before it is read,
more and more of it where no length is known. Who asks for what is not there waits, first come, first served: nobody
passes by one who came before, so that a large body does not starve behind small ones. A share is given back as soon
as the body has been written to the engine, or its request has ended.

Bodies that grow can all wait for each other. Where every share that holds something waits, the oldest one goes on
past the limit, by one body at most. While others wait, a client that does not send is in their way: it is cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

SLOW_BYTES_PER_S = 64 * 1024
"""What a client has to send while others wait for the memory that its body holds."""


class Filler(Protocol):
    """Whose body it is."""

    def go_on(self) -> None:
        """What was asked for is there now. Must not ask for more at once."""

    def bytes_received(self) -> int | None:
        """What the client has sent of its body so far; None once all of it is here."""

    def cut_slow(self) -> None:
        """Others have waited for too long: end the request, and give the share back."""


@dataclass(slots=True, eq=False)
class Share:
    """What one body has of the memory."""

    filler: Filler
    held: int = 0
    """Bytes that it may fill."""
    wanted: int = 0
    """Further bytes that it waits for."""
    mark: int | None = None
    """What had been received when the present window began; None: it was not reading all the time since."""


def to_go_on(shares: Collection[Share], limit: int) -> list[Share]:
    """Which of those that wait go on now. `shares` is in the order in which they came."""
    free = limit - sum(share.held for share in shares)
    waiting = [share for share in shares if share.wanted]
    going = []
    for share in waiting:
        if share.wanted > free:
            break
        free -= share.wanted
        going.append(share)
    if not going and all(share.wanted for share in shares if share.held):
        return waiting[:1]
    return going


def is_slow(mark: int, received: int, seconds: float) -> bool:
    """Whether a client that has sent `mark` bytes, and `seconds` later `received`, is in the way of others."""
    return received - mark < SLOW_BYTES_PER_S * seconds


class BodyMemory:
    """The shares of one server. To be used on the event loop only."""

    def __init__(self, limit: int, window_s: float) -> None:
        """`limit` in bytes; `window_s` is the time over which the pace of clients is measured."""
        self._limit = limit
        self._window_s = window_s
        self._shares: dict[Share, None] = {}
        self._window: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        """Bytes that are promised to bodies now."""
        return sum(share.held for share in self._shares)

    def join(self, filler: Filler) -> Share:
        """A share that holds nothing yet; to be given back with `leave` on every way out."""
        share = Share(filler)
        self._shares[share] = None
        return share

    def ask(self, share: Share, size: int) -> bool:
        """Let the share hold `size` bytes in all. False: not yet, `Filler.go_on` is called when it may."""
        share.wanted = max(0, size - share.held)
        share.held = min(share.held, size)
        self._settle(share)
        return not share.wanted

    def leave(self, share: Share) -> None:
        """Give all of it back; harmless when that has been done."""
        if share in self._shares:
            del self._shares[share]
            self._settle(share)

    def _settle(self, asking: Share) -> None:
        """Let go on who can."""
        for share in to_go_on(self._shares, self._limit):
            share.held += share.wanted
            share.wanted = 0
            share.mark = None
            if share is not asking:
                share.filler.go_on()
        if self._window is not None and not self._contended():
            self._window.cancel()
            self._window = None
        elif self._window is None and self._contended():
            self._begin_window()

    def _contended(self) -> bool:
        return any(share.wanted for share in self._shares)

    def _begin_window(self) -> None:
        for share in self._shares:
            share.mark = None if share.wanted else share.filler.bytes_received()
        self._window = asyncio.get_running_loop().call_later(self._window_s, self._end_window)

    def _end_window(self) -> None:
        slow = [share for share in self._shares if self._was_slow(share)]
        self._window = None
        for share in slow:
            if self._contended():
                share.filler.cut_slow()
        if self._window is None and self._contended():
            self._begin_window()

    def _was_slow(self, share: Share) -> bool:
        received = share.filler.bytes_received()
        if share.wanted or share.mark is None or received is None:
            return False
        return is_slow(share.mark, received, self._window_s)
