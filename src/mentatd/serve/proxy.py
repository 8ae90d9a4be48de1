"""From a request to a route to an exchange, or to the refusal that says why not.

What the usual request costs here: one decoding of the body, one look-up. What its head says is known, unless it is
the first with such a head.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from mentatd.cluster.routes import Route, RouteTable, lookup
from mentatd.errors import Refusal
from mentatd.http.connection import Connection
from mentatd.http.pool import Pool
from mentatd.http.request import Body, Head, Request
from mentatd.serve import refusals
from mentatd.serve.answering import Answer, Waiting
from mentatd.serve.connecting import Means
from mentatd.serve.decoding import codings_of, decode, refuse_codings
from mentatd.serve.exchange import Exchange
from mentatd.serve.forwarding import Passage, passage, uncompressed
from mentatd.serve.inflight import Inflight, Row
from mentatd.tasks import Tasks
from mentatd.wire.forms import find_route
from mentatd.wire.openai import BadBody, Routing, find_model

MAX_BODY = 128 * 1024 * 1024
"""Bytes of a request's body, as sent and decoded (manual "Request handling")."""
INLINE = 1024 * 1024
"""Bytes of a body whose `model` is looked for on the event loop: about a millisecond."""
FORM_INLINE = 16 * 1024
"""The same of a form, whose fields are read in Python, one by one: a byte may cost a hundred times as much."""


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

    def forwarder(self, head: Head) -> Answer:
        """Who forwards the requests with this head, once they are whole."""
        known = passage(head)
        if refusal := refuse_codings(known.codings):
            return lambda request, connection: connection.refuse(refusal)
        return partial(self._decode if known.codings else self._look, known)

    def _decode(self, known: Passage, request: Request, connection: Connection) -> None:
        connection.flow = Waiting(self._tasks.start(self._read(request, connection, known), "read"))

    def _look(self, known: Passage, request: Request, connection: Connection) -> None:
        body = request.body
        if len(body) > (FORM_INLINE if known.form else INLINE):
            self._decode(known, request, connection)
        elif known.form:
            self._forward(known, request, connection, find_route(body, known.content_type))
        else:
            self._forward(known, request, connection, find_model(body))

    async def _read(self, request: Request, connection: Connection, known: Passage) -> None:
        """Forward a request that threads have to decode, or to look through."""
        try:
            if known.codings:
                decoded = await decode(request.body, known.codings, MAX_BODY, connection.reserve)
                if isinstance(decoded, Refusal):
                    connection.refuse(decoded)
                    return
                request.body = decoded
            routing = await _find_route(request.body, known)
        except Exception:
            connection.refuse(refusals.internal_error())
            raise
        self._forward(known, request, connection, routing)

    def _forward(
        self, known: Passage, request: Request, connection: Connection, routing: Routing | BadBody
    ) -> None:
        """Send a request on by its `model`."""
        if isinstance(routing, BadBody):
            connection.refuse(refusals.bad_body(routing))
            return
        now, inflight, model = self._now(), self._inflight, routing.model
        found = lookup(self._cluster.table, model, now=now, load=inflight.count)
        if not isinstance(found, Route):
            connection.refuse(refusals.not_routed(model, found))
            return
        # by position: a call with names costs as much again
        url, path, size = found.targets[0].url, request.head.path, len(request.body)
        row = Row(model, found.group, url, request.peer, path, size, routing.stream, now)
        fields = known.form_fields if routing.form else known.json_fields
        if routing.stream:
            fields = uncompressed(fields)
        exchange = Exchange(self._means, connection, row, request, fields, found.targets)
        inflight.enter(row, exchange)
        exchange.start()


async def _find_route(body: Body, known: Passage) -> Routing | BadBody:
    """The routing of a body; a thread looks through a large one, and lets the loop run between its steps."""
    if len(body) <= (FORM_INLINE if known.form else INLINE):
        return find_route(body, known.content_type)
    return await asyncio.to_thread(find_route, body, known.content_type)
