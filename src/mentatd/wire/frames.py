"""The frames of the control port, without I/O (wire.md section 4).

`u32le header_len | u32le payload_len | header JSON | payload`. The caller feeds a `Decoder` what it reads and
takes frames until there is none; what it feeds between two takes is what it holds in memory, never the length
that a peer announced.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from mentatd.errors import WireError
from mentatd.wire.rawjson import decode_object

LIMIT = 256 * 1024 * 1024
"""The longest header and the longest payload that the protocol allows, in bytes."""

_LENGTHS = struct.Struct("<II")


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
    head = msgspec.json.encode(header)
    for what, length in (("header", len(head)), ("payload", len(payload))):
        if length > LIMIT:
            raise FrameTooLarge(f"a {what} of {length} bytes; at most {LIMIT} can be sent")
    return b"".join((_LENGTHS.pack(len(head), len(payload)), head, payload))


class Decoder:
    """Bytes of one stream, cut anywhere, to frames.

    After an error every further call raises it again.
    """

    def __init__(self, *, max_header: int = LIMIT, max_payload: int = LIMIT) -> None:
        """`max_header` and `max_payload` are in bytes. Raises ValueError when one is over 256 MiB."""
        if max(max_header, max_payload) > LIMIT:
            raise ValueError(f"the protocol allows at most {LIMIT} bytes")
        self._max_header = max_header
        self._max_payload = max_payload
        self._held = bytearray()

    def widen(self, max_header: int) -> None:
        """Take headers of up to `max_header` bytes from now on, once it is known what the stream carries."""
        self._max_header = max_header

    def feed(self, data: bytes) -> None:
        """Add what was read. Follow it with `next_frame` until that gives None."""
        self._held += data

    def next_frame(self) -> Frame | None:
        """The next whole frame, or None when more bytes are needed. Raises FrameTooLarge, FrameMalformed."""
        if len(self._held) < _LENGTHS.size:
            return None
        header_length, payload_length = _LENGTHS.unpack_from(self._held)
        self._check("header", header_length, self._max_header)
        self._check("payload", payload_length, self._max_payload)
        payload_at = _LENGTHS.size + header_length
        end = payload_at + payload_length
        if len(self._held) < end:
            return None
        with memoryview(self._held) as view:
            header, payload = bytes(view[_LENGTHS.size : payload_at]), bytes(view[payload_at:end])
        try:
            frame = Frame(decode_object(header), payload)
        except WireError as error:
            raise FrameMalformed(f"a frame's header: {error}") from error
        del self._held[:end]
        return frame

    def finish(self) -> None:
        """The stream ended. Raises FrameTruncated when that was not at a frame's boundary."""
        if self._held:
            raise FrameTruncated(f"the stream ended inside a frame, {len(self._held)} bytes into it")

    @staticmethod
    def _check(what: str, length: int, limit: int) -> None:
        if length > limit:
            raise FrameTooLarge(f"a {what} of {length} bytes; at most {limit} are read")
