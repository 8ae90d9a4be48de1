"""`POST /mcp`: the streamable HTTP transport, stateless, with JSON answers (MCP 2025-11-25, "Transports")."""

from __future__ import annotations

import asyncio
import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

from mentatd.errors import Refusal
from mentatd.http.request import Request
from mentatd.serve import refusals
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.decoding import plain_body
from mentatd.serve.mcp.merge import Merge
from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import Body, Call, Invalid, Message

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

BODY_LIMIT = 16 * 1024 * 1024
"""Bytes of a request's body."""
_AUTHORITY = r"(\[[0-9a-f:.]+\]|[^\[\]:/?#@\\]+)(?::([0-9]*))?"
_ORIGIN = re.compile(rf"([a-z][a-z0-9+.-]*)://{_AUTHORITY}")
_HOST = re.compile(_AUTHORITY)
_PORTS = {"http": "80", "https": "443"}


class McpEndpoint:
    """Takes requests for the path `/mcp`."""

    def __init__(self, merge: Merge, answering: Answering) -> None:
        self._merge = merge
        self._answering = answering

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer one POST; the server has seen to its size."""
        if not origin_allowed(request.get(b"origin"), request.get(b"host")):
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
    said = _ORIGIN.fullmatch(origin.decode("latin-1").lower())
    if said is None:
        return False
    scheme, name, port = said.groups()
    if _is_loopback(name):
        return True
    default = _PORTS.get(scheme)
    here = _HOST.fullmatch((host or b"").decode("latin-1").lower())
    return (
        default is not None and here is not None and (name, port or default) == (here[1], here[2] or default)
    )


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
