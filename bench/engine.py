"""An engine that costs little: `python -m bench.engine PORT HOST…`.

A POST is answered with one document, or with `"stream": true` by `max_tokens` chunks, `seed` milliseconds apart. The
model of a base such as `/g7/v1` is called `g7`, so that one engine stands for any number.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import zlib
from typing import cast

import httptools
import msgspec
import uvloop

from bench.answers import MODEL, STREAM_HEAD, Told, chunk, document, listing, stream_end, whole

TICK_S = 0.001
PERIOD = 20
"""Ticks between two chunks of one stream; `seed` other than 0 or this is not served."""
LARGE = 1 << 20
"""A body from this size on is only counted, never read: the engine must not be what others wait for."""


class Question(msgspec.Struct):
    """What of a request's body the answer depends on."""

    stream: bool = False
    max_tokens: int = 16
    max_completion_tokens: int = 0
    """What sglang-router makes of `max_tokens`."""
    seed: int = 0


class Ticker:
    """Sends the chunks of all paced streams: each is in one of PERIOD slots, and one slot is due each tick."""

    def __init__(self) -> None:
        self._slots: list[set[Connection]] = [set() for _ in range(PERIOD)]
        self._next = 0
        self._added = asyncio.Event()

    def add(self, connection: Connection) -> None:
        # seven is prime to the period: streams that begin together spread over all slots
        self._next = (self._next + 7) % PERIOD
        self._slots[self._next].add(connection)
        self._added.set()

    def discard(self, connection: Connection) -> None:
        for slot in self._slots:
            slot.discard(connection)

    async def run(self) -> None:
        """Catch up with the clock for ever; sleep while there is no stream, for what is measured then."""
        loop = asyncio.get_running_loop()
        start, done = loop.time(), 0
        while True:
            if not any(self._slots):
                self._added.clear()
                await self._added.wait()
                done = int((loop.time() - start) / TICK_S)
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
        self._left = 0
        self._paused = self._waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ticker.discard(self)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._waiting:
            self._waiting = False
            self._run()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._pieces: list[bytes] = []
        self._crc = self._length = 0

    def on_url(self, url: bytes) -> None:
        self._url = url

    def on_body(self, body: bytes) -> None:
        self._crc = zlib.crc32(body, self._crc)
        self._length += len(body)
        if self._length < LARGE:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self._parser.get_method() != b"POST":
            name = self._url.decode().strip("/").partition("/")[0]
            self._transport.write(whole(listing(MODEL if name == "v1" else name)))
            return
        self._told = Told(self._crc, self._length)
        question = Question()
        if self._length < LARGE:
            question = msgspec.json.decode(b"".join(self._pieces), type=Question)
        if not question.stream:
            self._transport.write(whole(document(self._told)))
            return
        self._transport.write(STREAM_HEAD)
        self._left = question.max_completion_tokens or question.max_tokens
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
        self._transport.write(stream_end(self._told))
        return False

    def _run(self) -> None:
        """Send without a pause: one chunk a turn of the loop, so that each is a write of its own."""
        if self._paused:
            self._waiting = True
        elif not self._transport.is_closing() and self.step():
            asyncio.get_running_loop().call_soon(self._run)


async def main() -> None:
    ticker = Ticker()
    port, hosts = int(sys.argv[1]), sys.argv[2:]
    await asyncio.get_running_loop().create_server(lambda: Connection(ticker), hosts, port, backlog=4096)
    gc.freeze()
    gc.set_threshold(50_000)
    await ticker.run()


if __name__ == "__main__":
    uvloop.run(main())
