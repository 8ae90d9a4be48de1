"""`POST /mcp`: the streamable HTTP transport, stateless, with JSON answers (MCP 2025-11-25, "Transports")."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from mentatd.errors import Refusal
from mentatd.http.connection import Connection
from mentatd.http.request import Request
from mentatd.serve import refusals
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.mcp.merge import Merge
from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import Body, Call, Invalid, Message

BODY_LIMIT = 16 * 1024 * 1024
_BATCH_LIMIT = 100
"""Messages of one batch: each may be a call to every group."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


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
        body = jsonrpc.read_body(request.body)
        if len(body.messages) > _BATCH_LIMIT:
            too_many = Invalid(b"null", jsonrpc.INVALID_REQUEST, f"a batch of over {_BATCH_LIMIT} messages")
            body = Body((too_many,), batch=False)
        if any(isinstance(message, Call) for message in body.messages):
            self._answering.later(connection, self._answer(body), "mcp")
        else:
            reply = _reply(body, [_invalid(message) for message in body.messages])
            connection.answer(reply.status, reply.body, reply.content_type)

    async def _answer(self, body: Body) -> Reply | Refusal:
        return _reply(body, await asyncio.gather(*(self._one(message) for message in body.messages)))

    async def _one(self, message: Message) -> bytes | None:
        return await self._merge.answer(message) if isinstance(message, Call) else _invalid(message)


def _invalid(message: Message) -> bytes | None:
    """The error for what is no message; None for what wants no answer."""
    if isinstance(message, Invalid):
        return jsonrpc.write_error(message.id, jsonrpc.error_object(message.code, message.message))
    return None


def _reply(body: Body, answers: list[bytes | None]) -> Reply:
    given = [answer for answer in answers if answer is not None]
    if not given:
        return Reply(202, b"")
    if body.batch:
        return Reply(200, b"[%b]" % b",".join(given))
    unreadable = isinstance(body.messages[0], Invalid) and body.messages[0].code != jsonrpc.INVALID_PARAMS
    return Reply(400 if unreadable else 200, given[0])


def origin_allowed(origin: bytes | None, host: bytes | None) -> bool:
    """Whether a request with this Origin field may pass: none, a loopback host's, or the one that Host names.

    Guards against DNS rebinding, as the transport demands of servers.
    """
    if origin is None:
        return True
    try:
        parts = urlsplit(origin.decode("ascii"))
        name = parts.hostname
    except (ValueError, UnicodeDecodeError):
        return False
    if parts.scheme not in ("http", "https") or not name:
        return False
    return name in _LOOPBACK or (host is not None and parts.netloc.lower() == host.decode("latin-1").lower())
