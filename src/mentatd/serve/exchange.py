"""One proxied request, from the route to the end of its answer.

Theory of operation. An exchange is called by both connections that it stands between: by the client's
(`Flow`) and by the engine's (`Sink`). It has no task, no queue and no timer of its own; each event is one
method, which acts on one side and moves the state:

    event             connecting            waiting               streaming
    ----------------  --------------------  --------------------  ---------------------
    connected         send: waiting
    connect failed    next address, or 502
    head                                    write it: streaming
    body                                                          write it
    end of answer                                                 end
    upstream failed                         502                   cut
    deadline          cancel, 504           abandon, 504          abandon, cut
    client lost       cancel, 499           abandon, 499          abandon, 499
    client paused     (kept until it is connected)  pause or resume reading from the engine
    still silent      comment               comment

Whatever ends it goes through `_leave`, once: the row is closed, the references are dropped, and every later
event finds the state `ended` and does nothing.

A request is sent once. Only a connect that failed, before a byte of it went out, is answered by the next
address; the prober is told of it.

The body passes as it came where the framing is the same on both sides. It is framed anew for an HTTP/1.0
client whose answer is chunked (it ends with the connection), and for an answer that ends with the engine's
connection (chunked for a 1.1 client). A truncated answer stays visible as one: the connection is cut
without the last chunk, or short of its Content-Length. Only a chunked event stream that stands between two
events and two chunks gets an error event first.

A client that asked for a stream and waits for long gets the head of one, and a comment again and again
(`keep_waiting`). The status is then said: an engine's stream of events goes on behind the comments, and any other
answer, or a failure, becomes the error event of a stream that is cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mentatd.cluster.targets import Target
from mentatd.errors import Refusal, UpstreamError
from mentatd.http.connection import Connection
from mentatd.http.request import Request
from mentatd.http.response import ResponseHead
from mentatd.http.upstream import Upstream
from mentatd.log import log
from mentatd.serve import refusals
from mentatd.serve.connecting import Means, connect_first
from mentatd.serve.cors import without_cors
from mentatd.serve.eventstream import (
    awaits_events,
    chunk,
    error_event,
    is_event_stream,
    stands_between_events,
)
from mentatd.serve.forwarding import passes, post_head, response_head
from mentatd.serve.inflight import Row
from mentatd.serve.opening import Opening
from mentatd.wire.openai import render_refusal

CLIENT_LEFT: Final = 499
"""The status that a row ends with when its client left first."""

_CONNECTING: Final = 0
_WAITING: Final = 1
_STREAMING: Final = 2
_ENDED: Final = 3


class Exchange:
    """One request on its way to a group and its answer on the way back."""

    __slots__ = (
        "_connect",
        "_connection",
        "_fields",
        "_head",
        "_keep",
        "_means",
        "_opening",
        "_paused",
        "_rechunk",
        "_request",
        "_row",
        "_state",
        "_targets",
        "_until_close",
        "_upstream",
    )

    def __init__(
        self,
        means: Means,
        connection: Connection,
        row: Row,
        request: Request,
        fields: bytes,
        targets: tuple[Target, ...],
    ) -> None:
        """`row` is this exchange's; `fields` of the request go on, each behind its line break."""
        self._means = means
        self._connection = connection
        self._row = row
        self._request: Request | None = request
        self._fields = fields
        self._targets = targets
        self._state = _CONNECTING
        self._connect: asyncio.Task[None] | None = None
        self._upstream: Upstream | None = None
        self._head: ResponseHead | None = None
        self._paused = False
        self._keep = True
        self._rechunk = False
        self._until_close = False
        self._opening: Opening | None = None

    def start(self) -> None:
        """Send the request over an idle connection now, or else connect first."""
        self._connection.flow = self
        first = self._targets[0]
        upstream = self._means.pool.take(first.origin)
        if upstream is not None:
            self._send(upstream, first)
            return
        connecting = connect_first(self._means, self._row, self._targets, self._send, self._not_connected)
        try:
            self._connect = self._means.tasks.start(connecting, "connect")
        except RuntimeError:  # their owner is closed: the router stops
            self._fail(refusals.engine_unreachable(self._row.group, ["the router is stopping"]))

    def _not_connected(self, refusal: Refusal) -> None:
        if self._state == _CONNECTING:
            self._fail(refusal)

    def _send(self, upstream: Upstream, target: Target) -> None:
        request = self._request
        assert request is not None
        body, request.body, self._request = request.body, b"", None
        self._state = _WAITING
        self._upstream = upstream
        self._row.sent = True
        if self._paused:
            upstream.pause()
        upstream.send(self, post_head(target, request.head.target, len(body), self._fields), body)

    # -- what the engine's connection reports

    def request_sent(self) -> None:
        """Others may use the memory of the body now."""
        self._connection.body_sent()

    def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        """Write the head, together with what came of the body where that goes on as it came."""
        connection = self._connection
        self._state = _STREAMING
        self._head = head
        if self._upstream is not None:
            self._row.meter = self._upstream.answer
        if self._opening is not None:
            return self._go_on(self._opening, head, rest)
        self._until_close = until_close = head.length is None and connection.http10
        self._rechunk = head.length is None and not head.chunked and not connection.http10
        self._keep = not until_close and not connection.must_close
        connection.began = True
        own = add = connection.fields
        if self._rechunk:
            add += b"Transfer-Encoding: chunked\r\n"
        if not self._keep:
            add += b"Connection: close\r\n"
        elif connection.http10:
            add += b"Connection: keep-alive\r\n"
        anew = until_close or self._rechunk
        if not add and head.length != 0 and passes(head):
            connection.write(head.whole + rest)
        else:
            raw = without_cors(head.raw) if own else head.raw
            # a status that allows no body may not name a coding either (RFC 9112 section 6.1)
            whole = response_head(raw, head.length != 0 and not anew, add)
            connection.write(whole if anew else whole + rest)
        if anew:
            return None
        return connection.write if self._body_began() else self._pass_on

    def _body_began(self) -> bool:
        """Note the first byte of the body; whether it has come."""
        row = self._row
        if row.first_byte is None and row.meter is not None and row.meter.payload_bytes:
            row.first_byte = self._means.now()
        return row.first_byte is not None

    def _pass_on(self, data: bytes) -> None:
        if self._body_began() and self._upstream is not None:
            self._upstream.pass_to(self._connection.write)
        self._connection.write(data)

    def _go_on(self, opening: Opening, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        """Pass on an answer whose client has a head already, if it can stand behind that one."""
        if not opening.takes(head):
            return None
        self._keep = opening.keep
        self._until_close = opening.until_close
        self._rechunk = not (head.chunked or opening.until_close)
        if self._rechunk or self._until_close:
            return None
        self._connection.write(rest)
        return self._connection.write if self._body_began() else self._pass_on

    def body_received(self, payload: bytes) -> None:
        """Frame a piece of the body anew."""
        opening = self._opening
        if opening is not None and opening.reading:
            if not opening.read(payload):
                self._let_go()
                self._tell_error(opening)
        elif payload:
            self._body_began()
            self._connection.write(chunk(payload) if self._rechunk else payload)

    def message_ended(self) -> None:
        """The answer is complete."""
        if self._state != _STREAMING or self._head is None:
            return
        if self._opening is not None and self._opening.reading:
            self._tell_error(self._opening)
            return
        if self._rechunk:
            self._connection.write(b"0\r\n\r\n")
        self._leave(self._head.status, None)
        self._connection.end(keep=self._keep)

    def exchange_failed(self, error: UpstreamError) -> None:
        """Refuse in the engine's place, or cut what has begun."""
        if self._state != _ENDED:
            self._fail(refusals.engine_failed(self._row.group, self._row.address, error.reason))

    # -- what the client's connection and the clock report

    def keep_waiting(self, now: float, interval_s: float) -> None:
        """Send a client that waits for a stream a comment each `interval_s`, behind a head of ours."""
        if self._head is not None or self._state == _ENDED or self._paused:
            return
        if self._opening is None:
            if not awaits_events(self._row.path):
                return
            self._opening = Opening(self._connection)
        self._opening.comment(now, interval_s)

    def client_paused(self) -> None:
        """The client does not read: read no more from the engine."""
        self._paused = True
        if self._upstream is not None:
            self._upstream.pause()

    def client_resumed(self) -> None:
        """The client reads again."""
        self._paused = False
        if self._upstream is not None:
            self._upstream.resume()

    def client_lost(self) -> None:
        """Let go of the engine at once, so that it stops."""
        if self._state != _ENDED:
            self._let_go()
            self._leave(CLIENT_LEFT, "the client left")

    def deadline_passed(self) -> None:
        """SERVING_TIMEOUT_S is over."""
        if self._state != _ENDED:
            self._let_go()
            seconds = self._means.inflight.timeout_s
            self._fail(refusals.engine_timeout(self._row.group, self._row.address, seconds))

    # -- the ways out

    def _let_go(self) -> None:
        if self._upstream is not None:
            self._upstream.abandon()
        elif self._connect is not None:
            self._connect.cancel()

    def _fail(self, refusal: Refusal) -> None:
        """Answer with the refusal while nothing has been answered, or else cut the answer visibly."""
        row = self._row
        log(
            "request_failed",
            request=row.id,
            model=row.model,
            group=row.group,
            address=row.address,
            code=refusal.code,
            error=refusal.message,
        )
        if self._head is None and self._opening is None:
            self._leave(refusal.status, refusal.message)
            self._connection.refuse(refusal)
        else:
            self._cut(render_refusal(refusal), refusal.message)

    def _tell_error(self, opening: Opening) -> None:
        """The engine's answer has come, and is an error to a client that has the head of a stream."""
        document, message = opening.engine_error()
        if document is None:
            self._fail(refusals.engine_failed(self._row.group, self._row.address, message))
        else:
            self._cut(document, message)

    def _cut(self, document: bytes, failure: str) -> None:
        """End an answer that has begun short of its end, with an error event where one can stand."""
        head, opening = self._head, self._opening
        event = error_event(self._row.path, document)
        if opening is not None and (head is None or opening.reading):
            opening.write(event)
        elif self._between_events():
            self._connection.write(chunk(event))
        status = head.status if opening is None and head is not None else 200
        # an answer that only the end of the connection delimits would look whole
        reset = self._until_close or (opening is not None and opening.until_close)
        self._leave(status, failure)
        self._connection.cut(reset=reset)

    def _between_events(self) -> bool:
        """Whether the client has a chunked event stream that stands between two events and two chunks."""
        head, upstream = self._head, self._upstream
        if head is None or upstream is None:
            return False
        chunked = self._rechunk or (
            head.chunked and not self._connection.http10 and upstream.answer.at_boundary
        )
        return chunked and is_event_stream(head) and stands_between_events(upstream.answer.tail)

    def _leave(self, status: int, failure: str | None) -> None:
        self._state = _ENDED
        self._means.inflight.leave(self._row, status, failure)
        self._upstream = None
        self._connect = None
        self._request = None
        self._head = None
