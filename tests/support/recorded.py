"""Answers that real engines gave, kept in tests/fixtures as `curl -i` printed them (chunks already joined)."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parent.parent / "fixtures"

_EVENT_END = re.compile(rb"(?<=\n\n)")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded answer."""

    head: bytes
    """Status line and fields, each ending in CRLF, without the blank line."""
    body: bytes
    """Without framing."""

    @property
    def chunked(self) -> bool:
        return b"transfer-encoding: chunked" in self.head.lower()

    @property
    def events(self) -> list[bytes]:
        """The events of a stream, each with the blank line that ends it."""
        return [event for event in _EVENT_END.split(self.body) if event]

    @property
    def whole(self) -> bytes:
        """As it stood on the wire; a stream has one chunk for each event, as the engines write them."""
        if not self.chunked:
            return self.head + b"\r\n" + self.body
        return self.head + b"\r\n" + b"".join(map(chunk, self.events)) + LAST_CHUNK


LAST_CHUNK = b"0\r\n\r\n"


def chunk(payload: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


@functools.cache
def recorded(name: str) -> Recorded:
    """Such as `vllm-0.32/chat_stream`."""
    head, _, body = (FIXTURES / f"{name}.txt").read_bytes().partition(b"\r\n\r\n")
    return Recorded(head + b"\r\n", body)
