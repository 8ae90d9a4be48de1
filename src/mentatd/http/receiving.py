"""Receiving a body that did not come whole with its head: admission, its place in memory, its pace.

A body of more than 1 MiB is read only as far as `mentatd.http.memory` lets it. While it waits, the client is paused:
what it sends stays in the kernels, and no timeout runs. That it left is noticed by the sweep, as soon as its end of
stream has come through: a client's kernel holds it back behind what ours has no room for.
"""

from __future__ import annotations

import asyncio
from typing import cast

from mentatd.errors import Refusal
from mentatd.http import refusals
from mentatd.http.answers import CONTINUE
from mentatd.http.body import Chunked, Counted, Mapped, Progress
from mentatd.http.connection import Connection, State
from mentatd.http.limits import (
    BODY_GROWTH_BYTES,
    PLAIN_BODY_BYTES,
    PROGRESS_BYTES,
    READ_BYTES,
    UNRESERVED_BODY_BYTES,
)
from mentatd.http.request import Request
from mentatd.http.shared import Shared
from mentatd.http.timers import EACH_SWEEP
from mentatd.log import log

_BODY, _ANSWERING = State.BODY, State.ANSWERING


class ReceivingConnection(Connection):
    """What a connection does between a head and its handler."""

    __slots__ = ("_body", "_progress_mark")

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._body: Counted | Chunked | Mapped | None = None
        self._progress_mark = 0

    def _dispatch(self, request: Request) -> None:
        """Hand a whole request to the handler."""
        raise NotImplementedError

    def _begin_body(self, request: Request, rest: bytes) -> bytes:
        """Read the body of `request`, which begins with `rest`; what does not belong to it comes back."""
        length = request.length
        limit = PLAIN_BODY_BYTES
        if length is None or length > limit or request.head.expects_continue:
            verdict = self._admit(request)
            if not isinstance(verdict, Refusal) and length is not None and length > verdict:
                verdict = refusals.too_large(verdict)
            if isinstance(verdict, Refusal):
                self._reject(verdict, request)
                return b""
            limit = verdict
        self._request = request
        self._state = _BODY
        if length is None:
            self._body = Chunked(limit)
        elif length <= max(PLAIN_BODY_BYTES, len(rest)):
            self._body = Counted(length)
        else:
            self._body = Mapped(cast(asyncio.Protocol, self), length, rest, self._mapped_whole)
            self._transport.set_protocol(self._body)
        if length is not None and not self._ask(length):
            self._wait()
        else:
            self._read_on(invited=not rest)
        return b"" if isinstance(self._body, Mapped) else rest

    def _admit(self, request: Request) -> Refusal | int:
        try:
            return self._shared.handler.admit(request)
        except Exception as error:
            self._log_crash(request, error)
            return refusals.CRASHED

    def _take_body(self, data: bytes) -> bytes:
        body, request = self._body, self._request
        assert request is not None
        assert isinstance(body, Counted | Chunked)
        progress, rest = body.feed(data)
        match progress:
            case Progress.MORE if isinstance(body, Chunked) and not self._may_grow(body):
                self._wait()
            case Progress.DONE:
                request.body = body.take()
                if self._share is not None:
                    self._ask(len(request.body))
                self._dispatch(request)
            case Progress.MALFORMED:
                self._reject(refusals.CHUNKING, request)
            case Progress.TOO_LARGE:
                self._reject(refusals.too_large(body.limit), request)
        return rest

    def _may_grow(self, body: Chunked) -> bool:
        """Whether a body of unknown length may be read on, as far as one read goes."""
        room = UNRESERVED_BODY_BYTES if self._share is None else self._share.held - READ_BYTES
        return body.size <= room or self._ask(min(body.size + READ_BYTES + BODY_GROWTH_BYTES, body.limit))

    def _mapped_whole(self, body: memoryview) -> None:
        request = self._request
        assert request is not None
        self._transport.set_protocol(cast(asyncio.Protocol, self))
        request.body = body
        self._dispatch(request)

    def _wait(self) -> None:
        """Until there is memory for more of the body."""
        self._transport.pause_reading()
        self.deadline = EACH_SWEEP

    def go_on(self) -> None:
        if self._state is _BODY and self._body is not None:
            self._transport.resume_reading()
            self._read_on(invited=not self._body.received)
        else:
            super().go_on()

    def _read_on(self, *, invited: bool) -> None:
        """Begin a time of the body; a client that was `invited` may wait for the word to send it."""
        if invited and self._request is not None and self._request.head.expects_continue:
            self.write(CONTINUE)
        self._progress_mark = 0 if self._body is None else self._body.received
        self.deadline = self._loop.time() + self._shared.limits.client_timeout_s

    def bytes_received(self) -> int | None:
        return self._body.received if self._state is _BODY and self._body is not None else None

    def cut_slow(self) -> None:
        if self._state is _BODY:
            self._reject(refusals.IN_THE_WAY, self._request)

    def _body_expired(self, now: float) -> None:
        received = self._body.received if self._body is not None else 0
        if received - self._progress_mark < PROGRESS_BYTES:
            self._reject(refusals.TOO_SLOW, self._request)
            return
        self._progress_mark = received
        self.deadline = now + self._shared.limits.client_timeout_s

    def _reject(self, refusal: Refusal, request: Request | None) -> None:
        """Refuse what was read so far, and read nothing more as a request: its body or what follows is in doubt."""
        if isinstance(self._body, Mapped):
            self._transport.set_protocol(cast(asyncio.Protocol, self))
        self._body = None
        self._request = request
        self._close = True
        self._state = _ANSWERING
        self.refuse(refusal)

    def _log_crash(self, request: Request, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        log("request_crashed", method=request.method, path=request.path, client=request.peer, error=text)
