"""An engine that costs little: `python -m bench.engine PORT`.

A POST is answered with one document, or with `"stream": true` by `max_tokens` chunks, `seed` milliseconds apart.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from typing import cast

import httptools
import msgspec
import uvloop

from bench.answers import DOCUMENT, LISTING, STREAM_END, STREAM_HEAD, chunk, whole

TICK_S = 0.001
PERIOD = 20
"""Ticks between two chunks of one stream; `seed` other than 0 or this is not served."""


class Question(msgspec.Struct):
    """What of a request's body the answer depends on."""

    stream: bool = False
    max_tokens: int = 16
    seed: int = 0


class Ticker:
    """Sends the chunks of all paced streams: each is in one of PERIOD slots, and one slot is due each tick."""

    def __init__(self) -> None:
        self._slots: list[set[Connection]] = [set() for _ in range(PERIOD)]
        self._next = 0

    def add(self, connection: Connection) -> None:
        # seven is prime to the period: streams that begin together spread over all slots
        self._next = (self._next + 7) % PERIOD
        self._slots[self._next].add(connection)

    def discard(self, connection: Connection) -> None:
        for slot in self._slots:
            slot.discard(connection)

    async def run(self) -> None:
        """Catch up with the clock for ever."""
        loop = asyncio.get_running_loop()
        start, done = loop.time(), 0
        while True:
            due = int((loop.time() - start) / TICK_S)
            for tick in range(done + 1, due + 1):
                slot = self._slots[tick % PERIOD]
                slot.difference_update([connection for connection in slot if not connection.step()])
            done = due
            await asyncio.sleep(TICK_S)


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._left = 0
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ticker.discard(self)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        if self._parser.get_method() != b"POST":
            self._transport.write(whole(LISTING))
            return
        question = msgspec.json.decode(body, type=Question)
        if not question.stream:
            self._transport.write(whole(DOCUMENT))
            return
        self._transport.write(STREAM_HEAD)
        self._left = question.max_tokens
        if question.seed:
            self._ticker.add(self)
        else:
            self._run()

    def step(self) -> bool:
        """Send the next chunk; False when that was the last."""
        if self._paused:
            return True
        self._transport.write(chunk(time.monotonic_ns()))
        self._left -= 1
        if self._left:
            return True
        self._transport.write(STREAM_END)
        return False

    def _run(self) -> None:
        """Send without a pause: one chunk a turn of the loop, so that each is a write of its own."""
        if not self._transport.is_closing() and self.step():
            asyncio.get_running_loop().call_soon(self._run)


async def main() -> None:
    ticker = Ticker()
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Connection(ticker), "127.0.0.1", int(sys.argv[1]), backlog=4096)
    gc.freeze()
    gc.set_threshold(50_000)
    await ticker.run()


if __name__ == "__main__":
    uvloop.run(main())
