"""`POST /mcp`: the streamable HTTP transport, stateless, with JSON answers (MCP 2025-11-25, "Transports")."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING

from mentatd.errors import Refusal
from mentatd.http.request import Request
from mentatd.serve import refusals
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.cors import Cors, is_here, parse_origin
from mentatd.serve.decoding import plain_body
from mentatd.serve.mcp.merge import Merge
from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import Body, Call, Invalid, Message

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

BODY_LIMIT = 16 * 1024 * 1024
"""Bytes of a request's body."""


class McpEndpoint:
    """Takes requests for the path `/mcp`."""

    def __init__(self, merge: Merge, answering: Answering, cors: Cors | None = None) -> None:
        """`cors`: pages of other sites that may ask too."""
        self._cors = cors or Cors()
        self._merge = merge
        self._answering = answering

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer one POST; the server has seen to its size."""
        origin = request.get(b"origin")
        if not (origin_allowed(origin, request.get(b"host")) or self._cors.allows(origin)):
            connection.refuse(refusals.origin_not_allowed())
            return
        self._answering.later(connection, self._answer(request, connection), "mcp")

    async def _answer(self, request: Request, connection: Connection) -> Reply | Refusal:
        plain = await plain_body(request, BODY_LIMIT, connection.reserve)
        if isinstance(plain, Refusal):
            return plain
        body = jsonrpc.read_body(plain)
        request.body = plain = b""
        if not body.batch:
            return _reply(body, [await self._one(body.messages[0])])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(message)) for message in body.messages]
        return _reply(body, [task.result() for task in tasks])

    async def _one(self, message: Message) -> bytes | None:
        """The answer to a message; None for what wants none."""
        match message:
            case Call():
                return await self._merge.answer(message)
            case Invalid(id_, code, reason):
                return jsonrpc.write_error(id_, jsonrpc.error_object(code, reason))
        return None


def _reply(body: Body, answers: list[bytes | None]) -> Reply:
    given = [answer for answer in answers if answer is not None]
    if not given:
        return Reply(202, b"")
    if body.batch:
        return Reply(200, b"[%b]" % b",".join(given))
    first = body.messages[0]
    unreadable = isinstance(first, Invalid) and first.code != jsonrpc.INVALID_PARAMS
    return Reply(400 if unreadable else 200, given[0])


def origin_allowed(origin: bytes | None, host: bytes | None) -> bool:
    """Whether a request with this Origin field may pass: none, a loopback host's, or the one that Host names.

    Keeps the pages of other sites out, which a browser lets send to any address (MCP 2025-11-25, "Security
    Warning"). A program that is no browser sends no Origin.
    """
    if origin is None:
        return True
    page = parse_origin(origin)
    return page is not None and (_is_loopback(page.host) or is_here(page, host))


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
