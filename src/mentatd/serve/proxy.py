"""From a request to a route to an exchange, or to the refusal that says why not.

What the usual request costs here: one search for Content-Type, one decoding of the body, one look-up, one
regular expression over the head. A request whose head is odd, or whose body is compressed, goes the same
way with more fields to take out.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from mentatd.cluster.routes import Route, RouteTable, lookup
from mentatd.errors import Refusal
from mentatd.http.connection import Connection
from mentatd.http.pool import Pool
from mentatd.http.request import Request
from mentatd.serve import refusals
from mentatd.serve.answering import Waiting
from mentatd.serve.decoding import codings_of, decode, refuse_codings
from mentatd.serve.exchange import Exchange, Means
from mentatd.serve.forwarding import Parcel, connection_names, request_fields
from mentatd.serve.inflight import Inflight
from mentatd.tasks import Tasks
from mentatd.wire.forms import find_route, is_form
from mentatd.wire.openai import BadBody

MAX_BODY = 128 * 1024 * 1024
"""Bytes of a request's body, as sent and decoded (manual "Request handling")."""


class Routes(Protocol):
    """The cluster as the proxy knows it."""

    table: RouteTable
    """The newest table."""

    def suspect(self, group: str, url: str) -> None:
        """This candidate took no connection."""


class Proxy:
    """Forwards POSTs by their `model`. Owns the tasks that connect and decode."""

    def __init__(self, cluster: Routes, pool: Pool, inflight: Inflight) -> None:
        self._cluster = cluster
        self._inflight = inflight
        self._tasks = Tasks("proxy")
        self._now = asyncio.get_running_loop().time
        self._means = Means(pool, inflight, self._tasks, cluster.suspect, self._now)

    async def close(self) -> None:
        """End what still connects or decodes; its clients are refused."""
        await self._tasks.close()

    def admit(self, request: Request) -> Refusal | int:
        """Refuse what can be refused before its body has come, or the largest body that is read for it."""
        if request.length is not None and request.length > MAX_BODY:
            return refusals.body_too_large(MAX_BODY)
        return refuse_codings(codings_of(request)) or MAX_BODY

    def handle(self, request: Request, connection: Connection) -> None:
        """Forward a request whose body is whole."""
        if not request.head.odd:
            self._forward(request, connection, frozenset())
        elif not (codings := codings_of(request)):
            self._forward(request, connection, _named(request))
        elif refusal := refuse_codings(codings):
            connection.refuse(refusal)
        else:
            task = self._tasks.start(self._decode(request, connection, codings), "decode")
            connection.flow = Waiting(task)

    async def _decode(self, request: Request, connection: Connection, codings: tuple[str, ...]) -> None:
        """Forward a compressed request once a thread has decoded it."""
        try:
            decoded = await decode(request.body, codings, MAX_BODY, connection.reserve)
        except Exception:
            connection.refuse(refusals.internal_error())
            raise
        if isinstance(decoded, Refusal):
            connection.refuse(decoded)
        else:
            request.body = decoded
            self._forward(request, connection, _named(request) | {b"content-encoding"})

    def _forward(self, request: Request, connection: Connection, drop: frozenset[bytes]) -> None:
        """Send a request on by its `model`, without the fields in `drop`."""
        content_type = request.get(b"content-type") or b""
        routing = find_route(request.body, content_type)
        if isinstance(routing, BadBody):
            connection.refuse(refusals.bad_body(routing))
            return
        now = self._now()
        found = lookup(self._cluster.table, routing.model, now=now, load=self._inflight.count)
        if not isinstance(found, Route):
            connection.refuse(refusals.not_routed(routing.model, found))
            return
        corrected = None if routing.form else _corrected_type(content_type)
        parcel = Parcel(
            request.head.target, request_fields(request.head.fields, drop, corrected), request.body
        )
        exchange = Exchange(self._means, connection, parcel, found.targets)
        row = self._inflight.enter(
            exchange,
            model=routing.model,
            group=found.group,
            address=found.targets[0].url,
            client=request.peer,
            path=request.path,
            prompt_bytes=len(request.body),
            stream=routing.stream,
            now=now,
        )
        request.body = b""
        exchange.start(row)


def _named(request: Request) -> frozenset[bytes]:
    """What the request's Connection fields name."""
    return connection_names(request.get_all(b"connection"))


def _corrected_type(content_type: bytes) -> bytes | None:
    """JSON sent without a type, or as a form (a plain `curl -d` does), is refused by engines as it stands."""
    return b"application/json" if not content_type or is_form(content_type) else None
