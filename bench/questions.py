"""What the load generator asks, and whether an answer is the right one."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bench.answers import CHUNK_BYTES, CONTENT, DONE, MARK, STAMP, document, last, told, unstamped
from bench.workloads import Workload


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to ask."""

    port: int
    prefix: str = ""
    """What stands before `/v1/…`."""
    loose: bool = False
    """It rewrites answers, so that only their status, content, number of chunks and end can be checked."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request and its right answer."""

    request: bytes
    """Head and body."""
    chunks: int
    """Of the answer; 0: it is one document."""
    paced: bool
    """The chunks come with pauses, so that the time which each took tells something."""
    end: bytes
    """Of the answer's body: what follows the chunks."""
    loose: bool
    """As in Target."""

    def fault(self, status: int, body: bytes) -> str:
        """What is wrong with this answer; empty when it is right."""
        if status == 200 and (self._right_loosely(body) if self.loose else self._right(body)):
            return ""
        return f"{status}, {len(body)} bytes: {body[:200]!r}"

    def fault_of_start(self, status: int, body: bytes) -> str:
        """The same for the first bytes of a long stream."""
        known = len(body) // CHUNK_BYTES
        right = STAMP.sub(MARK, body[: known * CHUNK_BYTES]) == unstamped(known)
        if status == 200 and known and (right or self.loose):
            return ""
        return f"{status}, its first {len(body)} bytes: {body[:200]!r}"

    def _right(self, body: bytes) -> bool:
        if self.chunks:
            body = STAMP.sub(MARK, body)
        return body == unstamped(self.chunks) + self.end

    def _right_loosely(self, body: bytes) -> bool:
        if self.chunks:
            return body.count(MARK) == self.chunks and body.rstrip().endswith(DONE.rstrip())
        return CONTENT in body


def question(workload: Workload, target: Target, model: str) -> Question:
    """As an OpenAI client writes it; `model` comes last in its body."""
    text = "lorem ipsum dolor sit amet " * (workload.body_bytes // 27 + 1)
    asked = (
        {"stream": True, "max_tokens": workload.chunks, "seed": workload.pause_ms} if workload.chunks else {}
    )

    def body_of(length: int) -> bytes:
        messages = [{"role": "user", "content": text[:length]}]
        return json.dumps({"messages": messages} | asked | {"model": model}).encode()

    body = body_of(workload.body_bytes - len(body_of(0)))
    head = (
        f"POST {target.prefix}/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n"
        "Accept-Encoding: identity\r\nConnection: keep-alive\r\nAccept: application/json\r\n"
        "Content-Type: application/json\r\n"
        "User-Agent: OpenAI/Python 1.99.1\r\nX-Stainless-Lang: python\r\nAuthorization: Bearer sk-1234\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    seen = told(body)
    end = last(seen) if workload.chunks else document(seen)
    return Question(head.encode() + body, workload.chunks, workload.pause_ms > 0, end, target.loose)
