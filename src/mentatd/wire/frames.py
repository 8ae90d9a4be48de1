"""The frames of the control port, without I/O (wire.md section 4).

`u32le header_len | u32le payload_len | header JSON | payload`. The caller feeds a `Decoder` what it reads and
takes frames until there is none; what it feeds between two takes is what it holds in memory, never the length
that a peer announced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mentatd.errors import WireError

LIMIT = 256 * 1024 * 1024
"""The longest header and the longest payload that the protocol allows, in bytes."""


class FrameError(WireError):
    """The stream cannot be read any further; the link is closed."""


class FrameTooLarge(FrameError):
    """A length is over the limit."""


class FrameMalformed(FrameError):
    """A header is not a JSON object."""


class FrameTruncated(FrameError):
    """The stream ended inside a frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message as it travels."""

    header: Mapping[str, Any]
    payload: bytes = b""


def encode(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """One frame's bytes. Raises FrameTooLarge when the header or the payload is over 256 MiB."""
    raise NotImplementedError


class Decoder:
    """Bytes of one stream, cut anywhere, to frames.

    After an error every further call raises it again.
    """

    def __init__(self, *, max_header: int = LIMIT, max_payload: int = LIMIT) -> None:
        """`max_header` and `max_payload` are in bytes. Raises ValueError when one is over 256 MiB."""
        raise NotImplementedError

    def feed(self, data: bytes) -> None:
        """Add what was read. Follow it with `next_frame` until that gives None."""
        raise NotImplementedError

    def next_frame(self) -> Frame | None:
        """The next whole frame, or None when more bytes are needed. Raises FrameTooLarge, FrameMalformed."""
        raise NotImplementedError

    def finish(self) -> None:
        """The stream ended. Raises FrameTruncated when that was not at a frame's boundary."""
        raise NotImplementedError
