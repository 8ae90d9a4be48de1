"""A client that waits for each answer, on a blocking socket: it adds the least to what it measures."""

from __future__ import annotations

import select
import socket
import time
from types import TracebackType
from typing import Self

import httptools

from bench.questions import Question

WAIT_S = 30.0
"""For each step of one request."""
READ = 1 << 18
"""Bytes asked of the kernel at a time."""


class Answer:
    """What has come of one answer."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self.length = 0
        """Bytes of body so far."""
        self.complete = False
        self.last = False
        """The other side closes the connection after it."""

    def feed(self, data: bytes) -> None:
        """Raises ConnectionError for the end of the stream and for what is no HTTP."""
        if not data:
            raise ConnectionResetError("the connection ended before the answer")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ConnectionAbortedError(f"no HTTP: {error}") from error

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self.length += len(body)

    def on_message_complete(self) -> None:
        self.complete = True
        # the parser knows it now and not afterwards
        self.last = not self._parser.should_keep_alive()

    @property
    def status(self) -> int:
        return self._parser.get_status_code()

    @property
    def body(self) -> bytes:
        return b"".join(self._parts)


class Caller:
    """One kept connection, made anew when the other side has closed it after an answer.

    Raises OSError where an answer does not come.
    """

    def __init__(self, port: int, *, receive_bytes: int = 0) -> None:
        """`receive_bytes`: of the kernel's receive buffer, if not its own choice."""
        self._port = port
        self._receive_bytes = receive_bytes
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def open(self) -> bool:
        """Whether there is a connection that the other side has not closed."""
        if self._socket is None:
            return False
        ended = select.poll()
        ended.register(self._socket, select.POLLIN)
        return not ended.poll(0)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, question: Question) -> socket.socket:
        """Ask, and read nothing."""
        if self._socket is None:
            self._socket = sock = socket.socket()
            if self._receive_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
            sock.settimeout(WAIT_S)
            sock.connect(("127.0.0.1", self._port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(question.request)
        return self._socket

    def ask(self, question: Question) -> tuple[float, str]:
        """Microseconds until the whole answer was here, and what is wrong with it (empty: nothing)."""
        start = time.monotonic_ns()
        sock, answer = self.send(question), Answer()
        while not answer.complete:
            answer.feed(sock.recv(READ))
        took = (time.monotonic_ns() - start) / 1e3
        if answer.last:
            self.close()
        return took, question.fault(answer.status, answer.body)
