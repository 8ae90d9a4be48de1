"""A sink that notes all that it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mentatd.errors import UpstreamError
from mentatd.http.response import ResponseHead


class Recorder:
    """Notes one answer. `through`: takes the body as it comes, or else without framing."""

    def __init__(self, *, through: bool = True) -> None:
        self.through = through
        self.head: ResponseHead | None = None
        self.wire = b""
        """The body as on the wire (only with `through`)."""
        self.payload = b""
        """The body without framing (only without `through`)."""
        self.ends: list[str | UpstreamError] = []
        """Every terminal call: "ended", or the error."""
        self.sent = asyncio.Event()
        self.headed = asyncio.Event()
        self.done = asyncio.Event()

    def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        assert self.head is None
        self.head = head
        self.headed.set()
        if not self.through:
            return None
        self.wire += rest
        return self.passed

    def passed(self, data: bytes) -> None:
        assert not self.ends
        self.wire += data

    def body_received(self, payload: bytes) -> None:
        assert not self.through
        assert not self.ends
        self.payload += payload

    def message_ended(self) -> None:
        self.ends.append("ended")
        self.done.set()

    def exchange_failed(self, error: UpstreamError) -> None:
        self.ends.append(error)
        self.done.set()

    def request_sent(self) -> None:
        assert not self.sent.is_set()
        self.sent.set()

    @property
    def outcome(self) -> str:
        """How it ended, once."""
        (end,) = self.ends
        return str(end)
