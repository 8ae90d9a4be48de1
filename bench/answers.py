"""What the bench's engine answers, byte for byte, so that the load generator can hold every answer to it."""

from __future__ import annotations

import json

MODEL = "bench"
MARK = b"tk="
"""Stands once in each chunk, before the time at which the engine sent it."""
STAMP_DIGITS = 19
"""A monotonic time in nanoseconds, written with leading zeros."""
DONE = b"data: [DONE]\n\n"

_FIELDS = {"id": "chatcmpl-0123456789abcdef0123456789abcdef", "created": 1780000000, "model": MODEL}


def _event(delta: dict[str, str], reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    document = _FIELDS | {"object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


_BEFORE, _AFTER = _event({"content": "tk=? "}, None).split(b"?")
_LAST = _event({}, "stop")
CHUNK_BYTES = len(_BEFORE) + STAMP_DIGITS + len(_AFTER)
"""One event of a stream, without the framing of HTTP."""

CONTENT = b"x" * 240
"""What the answer that is not streamed says."""
DOCUMENT = json.dumps(
    _FIELDS
    | {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": CONTENT.decode(), "tool_calls": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160},
    }
).encode()
"""The answer that is not streamed."""

LISTING = json.dumps(
    {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "bench"}]}
).encode()


def _chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


_CHUNK_HEAD = b"%x\r\n%b" % (CHUNK_BYTES, _BEFORE)
_CHUNK_TAIL = _AFTER + b"\r\n"
STREAM_END = _chunk(_LAST) + _chunk(DONE) + b"0\r\n\r\n"
"""What follows the last chunk of a stream, on the wire."""
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 05:05:02 GMT\r\nserver: uvicorn\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def chunk(now_ns: int) -> bytes:
    """One chunk of a stream on the wire, stamped with the time."""
    return b"%b%019d%b" % (_CHUNK_HEAD, now_ns, _CHUNK_TAIL)


def stream_bytes(chunks: int) -> int:
    """The payload of a stream of so many chunks."""
    return chunks * CHUNK_BYTES + len(_LAST) + len(DONE)


def whole(body: bytes) -> bytes:
    """An answer of known length on the wire, with the head that vLLM's server writes."""
    return (
        b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 05:05:02 GMT\r\nserver: uvicorn\r\n"
        b"content-length: %d\r\ncontent-type: application/json\r\n\r\n%b" % (len(body), body)
    )
