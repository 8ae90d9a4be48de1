"""The reading side of a client connection: bytes to requests, one at a time.

The common request, whole in one read, passes from `data_received` to `Handler.handle` by plain calls: no task, no
queue, no timer. Everything else is the same code with bytes kept in between: an incomplete head in the `HeadReader`,
a body in its collector (`mentatd.http.receiving`), what was sent ahead of an answer in `_pipelined`.

uvloop tells neither end of stream nor reset of a paused transport. So a client whose request is out is paused only
when it has sent more than 64 KiB ahead; then, as where its body waits for memory, each sweep asks the kernel whether
it is still there. A client that does not read its answers gets no next one.
"""

from __future__ import annotations

import asyncio
import math
import select
from typing import Final, cast

from mentatd.errors import Refusal
from mentatd.http import refusals
from mentatd.http.connection import State
from mentatd.http.headers import HeadReader
from mentatd.http.limits import (
    PIPELINED_BYTES,
    WRITE_HIGH_WATER,
)
from mentatd.http.receiving import ReceivingConnection
from mentatd.http.request import Request
from mentatd.http.shared import Shared
from mentatd.http.timers import EACH_SWEEP

_IDLE: Final = State.IDLE
_BODY: Final = State.BODY
_ANSWERING: Final = State.ANSWERING


class ServedConnection(ReceivingConnection):
    """What the server makes for each client."""

    __slots__ = (
        "_advancing",
        "_allowed",
        "_head_begun",
        "_overflow",
        "_pipelined",
        "_reader",
        "_write_paused",
    )

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._pipelined = bytearray()
        self._advancing = False
        self._write_paused = False
        self._head_begun = False
        self._reader: HeadReader
        self._allowed = True
        self._overflow = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        self.write = transport.write
        shared = self._shared
        shared.connections.add(self)
        peer = _peer_address(transport)
        self._reader = HeadReader(peer, shared.judge)
        # What the kernel had accepted before the server stopped must not hold up its end.
        patience = shared.limits.linger_s if shared.draining else shared.limits.keep_alive_s
        self.deadline = self._loop.time() + patience
        transport.set_write_buffer_limits(WRITE_HIGH_WATER)
        if self._has_no_room():
            self._overflow = True
            shared.overflow += 1
            self._reject(refusals.TOO_MANY, None)
            if shared.overflow > shared.room.refused:
                transport.close()
            return
        self._allowed = shared.allowed(peer)

    def _has_no_room(self) -> bool:
        shared = self._shared
        if len(shared.connections) - shared.overflow > shared.room.clients:
            return True
        return int(self._transport.get_extra_info("socket").fileno()) >= shared.room.spared

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = State.CLOSED
        self.deadline = math.inf
        shared = self._shared
        shared.connections.discard(self)
        shared.overflow -= self._overflow
        if not shared.connections:
            shared.emptied.set()
        self._reader.close()
        self._pipelined.clear()
        self._body = self._request = None
        self._lose_flow()
        self.body_sent()

    def eof_received(self) -> None:
        # The transport closes itself behind this, once what is written has drained.
        if self._state is _ANSWERING:
            # A client may go on reading after it shut its sending side, but none that waits for an answer does.
            self._leave()
        elif self._state is _BODY or (self._state is _IDLE and self._reader.holding):
            self._reject(refusals.INCOMPLETE, self._request)
        elif self._state is _IDLE:
            self._drop()

    def _leave(self) -> None:
        """The client has left before its answer."""
        self._state = State.CLOSING
        self._transport.abort()
        self._lose_flow()

    def _lose_flow(self) -> None:
        flow, self.flow = self.flow, None
        if flow is not None:
            flow.client_lost()

    def _drop(self) -> None:
        """Close a connection that has no request in progress."""
        self._transport.close()
        self._linger()

    def pause_writing(self) -> None:
        self._write_paused = True
        if self.flow is not None:
            self.flow.client_paused()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self.flow is not None:
            self.flow.client_resumed()
        self._go_on()

    def data_received(self, data: bytes) -> None:
        """Take what `data` holds, request by request, until one is being answered or the bytes run out."""
        # A handler may answer within this loop, and the end of its answer must not enter it again.
        self._advancing = True
        while data:
            if self._state is _IDLE and not self._write_paused:
                data = self._take_head(data)
            elif self._state is _BODY:
                data = self._take_body(data)
            else:
                self._keep(data)
                break
        self._advancing = False

    def _keep(self, data: bytes) -> None:
        """Hold what is sent ahead of an answer; read away what comes behind the last one."""
        if self._state is State.CLOSING:
            return
        self._pipelined += data
        if len(self._pipelined) > PIPELINED_BYTES:
            self._transport.pause_reading()
            # One that is paused between two requests, because it does not read its answers, has its time already.
            if self._state is _ANSWERING:
                self.deadline = EACH_SWEEP

    def _go_on(self) -> None:
        if self._pipelined and self._state is _IDLE and not self._advancing and not self._write_paused:
            data = bytes(self._pipelined)
            self._pipelined.clear()
            self._transport.resume_reading()
            self.data_received(data)

    def _take_head(self, data: bytes) -> bytes:
        request, rest = self._reader.read(data)
        if request is None:
            if not self._head_begun:
                self._head_begun = self._reader.holding
                self.deadline = self._loop.time() + self._shared.limits.client_timeout_s
            return b""
        self._head_begun = False
        if isinstance(request, Refusal):
            self._reject(request, None)
            return b""
        head = request.head
        self.http10 = head.http10
        self.head_only = head.method == "HEAD"
        self._close = not head.keep_alive
        if not self._allowed:
            self._reject(refusals.FORBIDDEN, request)
            return b""
        if request.length == len(request.body):
            self._dispatch(request)
            return rest
        return self._begin_body(request, rest)

    def _dispatch(self, request: Request) -> None:
        """Hand a whole request to the handler."""
        self._body = None
        self._request = request
        self._state = _ANSWERING
        self.deadline = math.inf
        self.began = False
        try:
            self._shared.handler.handle(request, self)
        except Exception as error:
            self._log_crash(request, error)
            self._recover(request)

    def _recover(self, request: Request) -> None:
        """End a request whose handler failed, unless it has ended."""
        if self._state is not _ANSWERING or self._request is not request:
            return
        self._lose_flow()
        if self.began:
            self.cut()
        else:
            self.refuse(refusals.CRASHED)

    def expired(self, now: float) -> None:
        """The deadline has passed: called by the sweep."""
        match self._state:
            case State.IDLE if self._reader.holding:
                self._reject(refusals.TOO_SLOW, None)
            case State.IDLE:
                self._drop()
            case State.ANSWERING:
                self._look_for_client()
            case State.BODY if self._share is not None and self._share.wanted:
                self._look_for_client()
            case State.BODY:
                self._body_expired(now)
            case State.CLOSING if self._lingering is not None:
                self._lingering.look(now)
                self.deadline = self._lingering.deadline

    def _look_for_client(self) -> None:
        """Ask the kernel (some µs), while reading is paused, whether the client is still there.

        One that only shut its sending side has left, too, as for `eof_received`. That its whole body may wait in the
        kernel makes no difference: it would be forwarded, and its answer given up at once.
        """
        asked = select.poll()
        asked.register(self._transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
        if asked.poll(0):
            self._leave()

    def drain(self) -> None:
        """The server ends: close now if no request is in progress."""
        if self._state is _IDLE and not self._reader.holding and not self._pipelined:
            self._drop()


def _peer_address(transport: asyncio.Transport) -> str:
    """The client's address without a scope id, IPv4 also where it came through an IPv6 socket; empty if it left."""
    peername = transport.get_extra_info("peername")
    if not peername:
        return ""
    address: str = peername[0].partition("%")[0]
    return address.removeprefix("::ffff:") if "." in address else address
