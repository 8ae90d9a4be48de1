"""Many connections at once: on each a request, its whole answer, the next request."""

from __future__ import annotations

import array
import asyncio
import math
import time
from collections.abc import Sequence
from typing import cast

import httptools

from bench.answers import MARK, STAMP
from bench.questions import Question

GRACE_S = 20.0
"""For the requests in flight when the time is over."""


class Run:
    """The state that all connections share."""

    def __init__(self, port: int, questions: Sequence[Question], *, seconds: float, requests: int) -> None:
        """`questions` are asked in turn, until the time is over or so many requests have been begun.

        The time begins when all connections stand: a program that is slow to accept them is not given less work.
        """
        self.port = port
        self.questions = questions
        self.seconds = seconds
        self.ends = math.inf
        """Of the monotonic clock, in nanoseconds."""
        self.requests = requests
        self.begun = self.done = self.chunks = self.errors = 0
        self.first_error = ""
        self.request_us, self.chunk_us = array.array("d"), array.array("d")
        self._open = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reconnects: set[asyncio.Task[None]] = set()

    @property
    def more(self) -> bool:
        """Whether one more request is to be sent."""
        return self.begun < self.requests and time.monotonic_ns() <= self.ends

    def next(self) -> Question:
        question = self.questions[self.begun % len(self.questions)]
        self.begun += 1
        return question

    def fail(self, what: str) -> None:
        self.errors += 1
        self.first_error = self.first_error or what

    async def connect(self) -> None:
        """One more connection. A failure is an error of the run."""
        self._open += 1
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: _Connection(self), "127.0.0.1", self.port)
        except OSError as error:
            self.fail(f"no connection: {error}")
            self._closed()

    def closed(self) -> None:
        """A connection is gone; one that ended with its answer gives way to a new one while there is work."""
        if self.more and not self.errors:
            task = asyncio.get_running_loop().create_task(self.connect())
            self._reconnects.add(task)
            task.add_done_callback(self._reconnects.discard)
        self._closed()

    def _closed(self) -> None:
        self._open -= 1
        if not self._open and not self._reconnects and not self._over.done():
            self._over.set_result(None)

    async def work(self, connections: int, within_s: float) -> None:
        """Hold so many connections until the last request is answered; later than `within_s` is an error."""
        try:
            async with asyncio.timeout(within_s):
                for _ in range(connections):
                    await self.connect()
                self.ends = min(self.ends, time.monotonic_ns() + self.seconds * 1e9)
                await self._over
        except TimeoutError:
            self.fail("requests in flight did not end")


class _Connection(asyncio.Protocol):
    def __init__(self, run: Run) -> None:
        self._run = run
        self._parser = httptools.HttpResponseParser(self)
        self._question: Question | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._question is not None:
            self._run.fail(f"connection lost: {exc!r}")
        self._run.closed()

    def data_received(self, data: bytes) -> None:
        if self._question is not None and self._question.paced:
            now = time.monotonic_ns()
            self._run.chunk_us.extend([(now - int(stamp)) / 1e3 for stamp in STAMP.findall(data)])
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        run, question, body = self._run, self._question, b"".join(self._parts)
        run.request_us.append((time.monotonic_ns() - self._sent) / 1e3)
        if question is None:
            run.fail(f"an answer that nobody asked for: {body[:200]!r}")
            return
        self._question = None
        run.done += 1
        run.chunks += body.count(MARK)
        if fault := question.fault(self._parser.get_status_code(), body):
            run.fail(fault)
        if self._parser.should_keep_alive():
            self._next()
        else:
            self._transport.close()

    def _next(self) -> None:
        if not self._run.more:
            self._transport.close()
            return
        self._question = self._run.next()
        self._parts: list[bytes] = []
        self._sent = time.monotonic_ns()
        self._transport.write(self._question.request)
