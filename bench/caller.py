"""A client that waits for each answer, on a blocking socket: it adds the least to what it measures."""

from __future__ import annotations

import http.client
import select
import socket
import time
from types import TracebackType
from typing import Self

from bench.questions import Question

WAIT_S = 30.0
"""For each step of one request."""


class Caller:
    """One kept connection, made anew when the other side has closed it after an answer.

    Raises OSError or HTTPException where an answer does not come.
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

    def send(self, question: Question) -> http.client.HTTPResponse:
        """The answer, its head read."""
        if self._socket is None:
            self._socket = sock = socket.socket()
            if self._receive_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
            sock.settimeout(WAIT_S)
            sock.connect(("127.0.0.1", self._port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(question.request)
        response = http.client.HTTPResponse(self._socket, method="POST")
        response.begin()
        return response

    def ask(self, question: Question) -> tuple[float, str]:
        """Microseconds until the whole answer was here, and what is wrong with it (empty: nothing)."""
        start = time.monotonic_ns()
        response = self.send(question)
        body = response.read()
        took = (time.monotonic_ns() - start) / 1e3
        if response.will_close:
            self.close()
        return took, question.fault(response.status, body)
