"""What the bench's engine answers, byte for byte, so that the load generator can hold every answer to it.

Each answer tells the length and the checksum of the body that it answers: a program that changes, cuts or mixes up
what it forwards, either way, gives a wrong one.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

MODEL = "bench"
CONTENT = b"x" * 240
"""What the answer that is not streamed says."""
MARK = b"tk="
"""Stands once in each chunk, before the time at which the engine sent it."""
STAMP_DIGITS = 19
"""A monotonic time in nanoseconds, written with leading zeros."""
STAMP = re.compile(rb"%b(\d{%d})" % (MARK, STAMP_DIGITS))
DONE = b"data: [DONE]\n\n"

_DATE = b"date: Mon, 30 Nov 2026 05:05:02 GMT\r\nserver: uvicorn\r\n"
_ID = "chatcmpl-0123456789abcdef0123456789abcdef"
_BODY = "fp_%08x_%010d"
"""Where an OpenAI answer has its fingerprint: the body's CRC-32 and its length."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the engine saw of a request's body."""

    crc: int
    length: int
    """Bytes."""

    def __bytes__(self) -> bytes:
        return (_BODY % (self.crc, self.length)).encode()


def told(body: bytes) -> Told:
    return Told(zlib.crc32(body), len(body))


def _split(document: Mapping[str, object], delimiter: str) -> tuple[bytes, bytes]:
    fields: dict[str, object] = {"id": _ID, "created": 1780000000, "model": MODEL}
    before, after = (
        json.dumps(fields | dict(document), separators=(",", ":")).encode().split(delimiter.encode())
    )
    return before, after


def _event(delta: dict[str, str], reason: str | None, fingerprint: str) -> tuple[bytes, bytes]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    document = {
        "object": "chat.completion.chunk",
        "system_fingerprint": fingerprint,
        "choices": [choice],
    }
    before, after = _split(document, "?")
    return b"data: " + before, after + b"\n\n"


_MESSAGE = {"role": "assistant", "content": CONTENT.decode(), "tool_calls": None}
_DOCUMENT = _split(
    {
        "object": "chat.completion",
        "system_fingerprint": "?",
        "choices": [{"index": 0, "message": _MESSAGE, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160},
    },
    "?",
)
_BEFORE, _AFTER = _event({"content": f"{MARK.decode()}? "}, None, "fp_bench")
_LAST = _event({}, "stop", "?")
CHUNK_BYTES = len(_BEFORE) + STAMP_DIGITS + len(_AFTER)
"""One event of a stream, without the framing of HTTP."""


def document(of: Told) -> bytes:
    """The answer that is not streamed."""
    return bytes(of).join(_DOCUMENT)


def listing(model: str) -> bytes:
    """What the engine answers to `GET /v1/models`."""
    return json.dumps({"object": "list", "data": [{"id": model, "object": "model"}]}).encode()


def unstamped(chunks: int) -> bytes:
    """The payload of so many chunks, as `STAMP.sub(MARK, payload)` leaves it."""
    return (_BEFORE + _AFTER) * chunks


def last(of: Told) -> bytes:
    """The payload that follows the last chunk of a stream."""
    return bytes(of).join(_LAST) + DONE


def whole(body: bytes) -> bytes:
    """An answer of known length on the wire, with the head that vLLM's server writes."""
    return b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\ncontent-type: application/json\r\n\r\n%b" % (
        _DATE,
        len(body),
        body,
    )


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\n%bcontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n" % _DATE
)
_CHUNK_HEAD = b"%x\r\n%b" % (CHUNK_BYTES, _BEFORE)
_CHUNK_TAIL = _AFTER + b"\r\n"


def chunk(now_ns: int) -> bytes:
    """One chunk of a stream on the wire, stamped with the time."""
    return b"%b%019d%b" % (_CHUNK_HEAD, now_ns, _CHUNK_TAIL)


def stream_end(of: Told) -> bytes:
    """What follows the last chunk of a stream, on the wire."""
    events = last(of).removesuffix(DONE), DONE
    return b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"
