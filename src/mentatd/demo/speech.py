"""One answer of a demonstration engine while it is being given: a word each moment, as a person would read it."""

from __future__ import annotations

import asyncio

from mentatd.demo.answers import Answer
from mentatd.demo.counters import Counters
from mentatd.demo.words import reply
from mentatd.http.server import Connection

PREFILL_S = 0.15
"""Before the first word."""

_STREAM = b"Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"


class Speech:
    """The `Flow` of one answer: says its words to a connection, and counts what it does."""

    def __init__(self, connection: Connection, answer: Answer, counters: Counters, pace_s: float) -> None:
        """Begins at once. `pace_s` is the time from word to word, in seconds."""
        question = answer.question
        words = reply(question.model, question.said)
        self._words = words[: question.max_tokens]
        self._reason = "length" if len(words) > question.max_tokens else "stop"
        self._connection = connection
        self._answer = answer
        self._counters = counters
        self._pace_s = pace_s
        self._said = 0
        self._paused = False
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._chunked = not connection.http10
        connection.flow = self
        counters.running += 1
        counters.held += answer.prompt_tokens
        counters.prompt_tokens += answer.prompt_tokens
        counters.queue_s.add(0.0)
        if question.stream:
            self._write_head()
            self._write(answer.opening())
        self._timer: asyncio.Handle = self._loop.call_later(PREFILL_S, self._say)

    def client_paused(self) -> None:
        """The client reads slowly: the next word waits for it."""
        self._paused = True

    def client_resumed(self) -> None:
        """The client has read: go on."""
        self._paused = False
        self._timer.cancel()
        self._timer = self._loop.call_soon(self._say)

    def client_lost(self) -> None:
        """Nobody listens any more, so an engine stops."""
        self._timer.cancel()
        self._count_end("abort")

    def _say(self) -> None:
        """One word, and the end after the last."""
        if self._paused:
            return
        self._count_word()
        word, last = self._words[self._said], self._said + 1 == len(self._words)
        self._said += 1
        if self._answer.question.stream:
            self._write(self._answer.piece(word, self._reason if last else None))
        if last:
            self._end()
        else:
            self._timer = self._loop.call_later(self._pace_s, self._say)

    def _end(self) -> None:
        self._count_end(self._reason)
        if not self._answer.question.stream:
            text = "".join(self._words)
            self._connection.answer(200, self._answer.whole(text, self._reason, self._said))
            return
        self._write(self._answer.closing(self._said))
        if self._chunked:
            self._connection.write(b"0\r\n\r\n")
        self._connection.end(keep=self._chunked)

    def _write_head(self) -> None:
        """A stream's length is not known: chunks, or for a client of HTTP/1.0 the end of the connection."""
        framing = b"Transfer-Encoding: chunked\r\n" if self._chunked else b""
        closing = b"Connection: close\r\n" if self._connection.must_close or not self._chunked else b""
        self._connection.began = True
        self._connection.write(b"HTTP/1.1 200 OK\r\n" + _STREAM + framing + closing + b"\r\n")

    def _write(self, event: bytes) -> None:
        if event:
            self._connection.write(b"%x\r\n%b\r\n" % (len(event), event) if self._chunked else event)

    def _count_word(self) -> None:
        now = self._loop.time()
        (self._counters.itl_s if self._said else self._counters.ttft_s).add(now - self._since)
        self._since = now
        self._counters.generation_tokens += 1
        self._counters.held += 1

    def _count_end(self, reason: str) -> None:
        self._counters.running -= 1
        self._counters.held -= self._answer.prompt_tokens + self._said
        self._counters.finished[reason] += 1
