"""From a request to a route to an exchange, or to the refusal that says why not.

What the usual request costs here: one decoding of the body, one look-up. What its head says is known, unless it is
the first with such a head.
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
from mentatd.serve.connecting import Means
from mentatd.serve.decoding import codings_of, decode, refuse_codings
from mentatd.serve.exchange import Exchange
from mentatd.serve.forwarding import Parcel, passage
from mentatd.serve.inflight import Inflight
from mentatd.tasks import Tasks
from mentatd.wire.forms import find_route
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
        codings = passage(request.head).codings
        if not codings:
            self._forward(request, connection)
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
            self._forward(request, connection)

    def _forward(self, request: Request, connection: Connection) -> None:
        """Send a request on by its `model`."""
        head, body = request.head, request.body
        known = passage(head)
        routing = find_route(body, known.content_type)
        if isinstance(routing, BadBody):
            connection.refuse(refusals.bad_body(routing))
            return
        now = self._now()
        found = lookup(self._cluster.table, routing.model, now=now, load=self._inflight.count)
        if not isinstance(found, Route):
            connection.refuse(refusals.not_routed(routing.model, found))
            return
        parcel = Parcel(head.target, known.form_fields if routing.form else known.json_fields, body)
        exchange = Exchange(self._means, connection, parcel, found.targets)
        row = self._inflight.enter(
            exchange,
            model=routing.model,
            group=found.group,
            address=found.targets[0].url,
            client=request.peer,
            path=head.path,
            prompt_bytes=len(body),
            stream=routing.stream,
            now=now,
        )
        request.body = b""
        exchange.start(row)
