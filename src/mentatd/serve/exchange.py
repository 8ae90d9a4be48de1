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

Whatever ends it goes through `_leave`, once: the row is closed, the references are dropped, and every later
event finds the state `ended` and does nothing.

A request is sent once. Only a connect that failed, before a byte of it went out, is answered by the next
address; the prober is told of it.

The body passes as it came where the framing is the same on both sides. It is framed anew for an HTTP/1.0
client whose answer is chunked (it ends with the connection), and for an answer that ends with the engine's
connection (chunked for a 1.1 client). A truncated answer stays visible as one: the connection is cut
without the last chunk, or short of its Content-Length. Only a chunked event stream that stands between two
events and two chunks gets an error event first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mentatd.cluster.targets import Target
from mentatd.errors import ConnectFailed, Refusal, UpstreamError
from mentatd.http.connection import Connection
from mentatd.http.pool import Pool
from mentatd.http.response import ResponseHead
from mentatd.http.upstream import Origin, Upstream
from mentatd.log import log
from mentatd.serve import refusals
from mentatd.serve.forwarding import Parcel, response_head
from mentatd.serve.inflight import Inflight, Row
from mentatd.tasks import Tasks
from mentatd.wire.openai import render_refusal

CONNECT_TIMEOUT_S = 5.0
"""For one address. A connect takes milliseconds on any link that can carry inference; a longer wait would
keep the client from the next address."""

CLIENT_LEFT = 499
"""The status that a row ends with when its client left first."""

_CONNECTING, _WAITING, _STREAMING, _ENDED = range(4)

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


@dataclass(frozen=True, slots=True)
class Means:
    """What exchanges share."""

    pool: Pool
    inflight: Inflight
    tasks: Tasks
    """Owns the connects."""
    suspect: Callable[[str, str], None]
    """Told of the group and the base URL that did not take a connection."""
    now: Callable[[], float]
    """Loop time."""


class Exchange:
    """One request on its way to a group and its answer on the way back."""

    __slots__ = (
        "_connect",
        "_connection",
        "_head",
        "_keep",
        "_means",
        "_parcel",
        "_paused",
        "_rechunk",
        "_row",
        "_state",
        "_targets",
        "_until_close",
        "_upstream",
    )

    def __init__(
        self, means: Means, connection: Connection, parcel: Parcel, targets: tuple[Target, ...]
    ) -> None:
        self._means = means
        self._connection = connection
        self._parcel: Parcel | None = parcel
        self._targets = targets
        self._state = _CONNECTING
        self._connect: asyncio.Task[None] | None = None
        self._upstream: Upstream | None = None
        self._head: ResponseHead | None = None
        self._paused = False
        self._keep = True
        self._rechunk = False
        self._until_close = False
        self._row: Row

    def start(self, row: Row) -> None:
        """Send the request over an idle connection now, or else connect first. `row` is this exchange's."""
        self._row = row
        self._connection.flow = self
        first = self._targets[0]
        upstream = self._means.pool.take(_origin(first))
        if upstream is not None:
            self._send(upstream, first)
            return
        try:
            self._connect = self._means.tasks.start(self._connect_first(), "connect")
        except RuntimeError:  # their owner is closed: the router stops
            self._fail(refusals.engine_unreachable(row.group, ["the router is stopping"]))

    # -- connecting

    async def _connect_first(self) -> None:
        """Send the request to the first address that takes a connection."""
        failures: list[str] = []
        try:
            for target in self._targets:
                try:
                    upstream = await self._reach(target)
                except ConnectFailed as error:
                    failures.append(str(error))
                    self._means.suspect(self._row.group, target.url)
                else:
                    self._send(upstream, target)
                    return
            self._fail(refusals.engine_unreachable(self._row.group, failures))
        except BaseException:
            # the router stops, or a fault of ours: the client must not wait for a task that is gone
            if self._state == _CONNECTING:
                self._fail(refusals.engine_unreachable(self._row.group, [*failures, "given up"]))
            raise

    async def _reach(self, target: Target) -> Upstream:
        origin = _origin(target)
        self._row.address = target.url
        idle = self._means.pool.take(origin)
        return idle or await self._means.pool.connect(origin, timeout=CONNECT_TIMEOUT_S)

    def _send(self, upstream: Upstream, target: Target) -> None:
        parcel = self._parcel
        assert parcel is not None
        self._parcel = None
        self._state = _WAITING
        self._upstream = upstream
        self._row.meter = upstream
        if self._paused:
            upstream.pause()
        upstream.send(self, parcel.pieces(target))

    # -- what the engine's connection reports

    def request_sent(self) -> None:
        """Others may use the memory of the body now."""
        self._connection.body_sent()

    def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        """Write the head, together with what came of the body where that goes on as it came."""
        connection = self._connection
        self._state = _STREAMING
        self._head = head
        self._until_close = until_close = head.length is None and connection.http10
        self._rechunk = head.length is None and not head.chunked and not connection.http10
        self._keep = not until_close and not connection.must_close
        connection.began = True
        add = b"Transfer-Encoding: chunked\r\n" if self._rechunk else b""
        if not self._keep:
            add += b"Connection: close\r\n"
        elif connection.http10:
            add += b"Connection: keep-alive\r\n"
        if until_close or self._rechunk:
            connection.write(response_head(head.raw, coding=False, add=add))
            return None
        # a status that allows no body may not name a coding either (RFC 9112 section 6.1)
        connection.write(response_head(head.raw, coding=head.length != 0, add=add) + rest)
        return connection.write if self._body_began() else self._pass_on

    def _body_began(self) -> bool:
        """Note the first byte of the body; whether it has come."""
        row = self._row
        if row.first_byte is None and row.out_bytes:
            row.first_byte = self._means.now()
        return row.first_byte is not None

    def _pass_on(self, data: bytes) -> None:
        self._body_began()
        self._connection.write(data)

    def body_received(self, payload: bytes) -> None:
        """Frame a piece of the body anew."""
        if payload:
            self._body_began()
            self._connection.write(_chunk(payload) if self._rechunk else payload)

    def message_ended(self) -> None:
        """The answer is complete."""
        if self._state != _STREAMING or self._head is None:
            return
        if self._rechunk:
            self._connection.write(b"0\r\n\r\n")
        self._leave(self._head.status, None)
        self._connection.end(keep=self._keep)

    def exchange_failed(self, error: UpstreamError) -> None:
        """Refuse in the engine's place, or cut what has begun."""
        if self._state != _ENDED:
            self._fail(refusals.engine_failed(self._row.group, self._row.address, str(error)))

    # -- what the client's connection and the clock report

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
        head, row = self._head, self._row
        log(
            "request_failed",
            request=row.id,
            model=row.model,
            group=row.group,
            address=row.address,
            code=refusal.code,
            error=refusal.message,
        )
        if head is None:
            self._leave(refusal.status, refusal.message)
            self._connection.refuse(refusal)
            return
        if self._between_events(head):
            self._connection.write(_chunk(b"data: " + render_refusal(refusal) + b"\n\n"))
        self._leave(head.status, refusal.message)
        # an answer that only the end of the connection delimits would look whole
        self._connection.cut(reset=self._until_close)

    def _between_events(self, head: ResponseHead) -> bool:
        """Whether the client has a chunked event stream that stands between two events and two chunks."""
        upstream = self._upstream
        chunked = self._rechunk or (head.chunked and not self._connection.http10)
        if not chunked or upstream is None or not (self._rechunk or upstream.at_boundary):
            return False
        media_type = (head.get(b"content-type") or b"").lower()
        if not media_type.startswith(b"text/event-stream") or head.get(b"content-encoding") is not None:
            return False
        return not upstream.payload_bytes or upstream.tail.endswith(_EVENT_ENDS)

    def _leave(self, status: int, failure: str | None) -> None:
        self._state = _ENDED
        self._means.inflight.leave(self._row, status, failure)
        self._upstream = None
        self._connect = None
        self._parcel = None
        self._head = None


def _origin(target: Target) -> Origin:
    return Origin(target.host, target.port, target.tls)


def _chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)
