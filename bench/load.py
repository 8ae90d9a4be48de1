"""The load generator: `python -m bench.load PORT WORKLOAD SECONDS` prints one JSON line.

Every answer is held to what the engine sends, to its length and its end; a wrong one is an error of the run.
"""

from __future__ import annotations

import array
import asyncio
import gc
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

import httptools
import uvloop

from bench.answers import DOCUMENT, DONE, MARK, MODEL, STAMP_DIGITS, stream_bytes
from bench.workloads import GUARDED, WORKLOADS, Workload

_STAMP = re.compile(rb"%b(\d{%d})" % (MARK, STAMP_DIGITS))
GRACE_S = 20.0
"""For the requests in flight when the time is over."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run saw. Times in microseconds."""

    requests: int
    chunks: int
    seconds: float
    errors: int
    first_error: str
    request_p50: float
    request_p99: float
    chunk_p50: float
    """From the engine's write to the client's read."""
    chunk_p99: float


def request(workload: Workload, port: int) -> bytes:
    """One request as an OpenAI client writes it; `model` comes last in its body."""
    text = "lorem ipsum dolor sit amet " * (workload.body_bytes // 27 + 1)
    asked = (
        {"stream": True, "max_tokens": workload.chunks, "seed": workload.pause_ms} if workload.chunks else {}
    )

    def body_of(length: int) -> bytes:
        messages = [{"role": "user", "content": text[:length]}]
        return json.dumps({"messages": messages} | asked | {"model": MODEL}).encode()

    body = body_of(workload.body_bytes - len(body_of(0)))
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept-Encoding: identity\r\n"
        b"Connection: keep-alive\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
        b"User-Agent: OpenAI/Python 1.99.1\r\nX-Stainless-Lang: python\r\nAuthorization: Bearer sk-1234\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (port, len(body), body)
    )


class Run:
    """The state that all connections share."""

    def __init__(self, workload: Workload, port: int, seconds: float) -> None:
        self.workload = workload
        self.request = request(workload, port)
        self.ends = time.monotonic_ns() + int(seconds * 1e9)
        self.begun = self.done = self.chunks = self.errors = 0
        self.first_error = ""
        self.request_us, self.chunk_us = array.array("d"), array.array("d")
        self.open = 0
        self.over = asyncio.get_running_loop().create_future()

    def begin(self) -> bool:
        """Whether one more request is to be sent."""
        if self.begun >= self.workload.requests or time.monotonic_ns() > self.ends:
            return False
        self.begun += 1
        return True

    def fail(self, what: str) -> None:
        self.errors += 1
        self.first_error = self.first_error or what

    def closed(self) -> None:
        self.open -= 1
        if not self.open and not self.over.done():
            self.over.set_result(None)


class Client(asyncio.Protocol):
    """One connection: a request, its whole answer, the next request."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parser = httptools.HttpResponseParser(self)
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._run.open += 1
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._busy:
            self._run.fail(f"connection lost: {exc!r}")
        self._run.closed()

    def data_received(self, data: bytes) -> None:
        if self._run.workload.pause_ms:
            now = time.monotonic_ns()
            self._run.chunk_us.extend((now - int(stamp)) / 1e3 for stamp in _STAMP.findall(data))
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        run, body = self._run, b"".join(self._parts)
        run.request_us.append((time.monotonic_ns() - self._sent) / 1e3)
        run.done += 1
        self._busy = False
        status, chunks = self._parser.get_status_code(), run.workload.chunks
        run.chunks += body.count(MARK)
        if chunks:
            right = len(body) == stream_bytes(chunks) and body.count(MARK) == chunks and body.endswith(DONE)
        else:
            right = body == DOCUMENT
        if status != 200 or not right:
            run.fail(f"{status}, {len(body)} bytes: {body[:200]!r}")
        self._next()

    def _next(self) -> None:
        if not self._run.begin():
            self._transport.close()
            return
        self._parts: list[bytes] = []
        self._busy = True
        self._sent = time.monotonic_ns()
        self._transport.write(self._run.request)


def percentile(values: Sequence[float], part: float) -> float:
    """0 where there are no values."""
    return round(sorted(values)[min(len(values) - 1, int(len(values) * part))], 1) if values else 0.0


async def main() -> None:
    port, name, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    run = Run((WORKLOADS | GUARDED)[name], port, seconds)
    gc.freeze()
    gc.set_threshold(100_000)
    started = time.monotonic()
    for _ in range(run.workload.connections):
        await asyncio.get_running_loop().create_connection(lambda: Client(run), "127.0.0.1", port)
    try:
        async with asyncio.timeout(seconds + GRACE_S):
            await run.over
    except TimeoutError:
        run.fail("requests in flight did not end")
    load = Load(
        requests=run.done,
        chunks=run.chunks,
        seconds=round(time.monotonic() - started, 3),
        errors=run.errors,
        first_error=run.first_error,
        request_p50=percentile(run.request_us, 0.5),
        request_p99=percentile(run.request_us, 0.99),
        chunk_p50=percentile(run.chunk_us, 0.5),
        chunk_p99=percentile(run.chunk_us, 0.99),
    )
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    uvloop.run(main())
