"""One group's MCP server at one address: handshake, session, calls.

Two kinds stand behind it. A plain responder answers each JSON-RPC request by itself and may not know `initialize`.
A streamable-HTTP server demands `initialize`, may hand out an `Mcp-Session-Id`, may answer in server-sent events,
and answers 404 to a session that it has forgotten (MCP 2025-11-25, "Transports"): then the handshake is made
again, once, and the call repeated, which is safe because a refused session has run nothing.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

import msgspec

from mentatd import __version__
from mentatd.errors import UpstreamError, UpstreamTimeout
from mentatd.http.client import Client, Streaming
from mentatd.serve.mcp.reading import GroupFailed, quoted, read_answer
from mentatd.tasks import Tasks
from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import Outcome

NEWEST = "2025-11-25"
"""The protocol version that the router proposes."""
CONNECT_S = 3.0
"""Seconds for one address to take the connection: one that swallows packets leaves time for the next."""
_TELL_S = 2.0
"""Seconds for a server to take what wants no answer; plain responders may never say that they did."""
_TELL_LIMIT = 64 * 1024
"""Bytes of what it says to that."""
_UNAVAILABLE = (502, 503, 504)
_TOKEN = re.compile(r"[!-~]{1,1024}")
"""What a session id may be: visible ASCII."""
_HELLO = msgspec.json.encode(
    {
        "protocolVersion": NEWEST,
        "capabilities": {},
        "clientInfo": {"name": "mentatd-serve", "version": __version__},
    }
)


class _SessionGone(Exception):
    """The server does not know our session (any more): nothing was run."""


class _Hello(msgspec.Struct):
    """What an `initialize` answer says that matters here."""

    protocolVersion: str | None = None  # noqa: N815 (MCP's spelling)
    capabilities: dict[str, msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class Handshake:
    """What is known of the server."""

    version: str | None
    """The negotiated protocol version; None when it did not say, as a responder that does not know `initialize`."""
    session: str | None
    """Its id for our session; None when it keeps none."""
    capabilities: frozenset[str] | None
    """What it offers (`tools`, `resources`, `prompts`); None when it did not say."""


_PLAIN = Handshake(None, None, None)


class GroupServer:
    """Calls to one MCP server. Calls may run side by side; the handshake runs once.

    The caller sets the deadline (`asyncio.timeout`) that its call needs; none waits longer than `seconds`.
    """

    def __init__(self, client: Client, url: str, tasks: Tasks, *, seconds: float) -> None:
        """`tasks` runs what is left to tell the server when a call is given up."""
        self.url = url
        self.users = 0
        """Who uses it right now: kept by its owner, which closes it only without any."""
        self._client = client
        self._tasks = tasks
        self._seconds = seconds
        self._handshake: Handshake | None = None
        self._shaking = asyncio.Lock()
        self._ids = 0

    async def offers(self, capability: str) -> bool | None:
        """Whether the server has `capability`; None when it did not say. Raises as `call`."""
        known = (await self._shake()).capabilities
        return None if known is None else capability in known

    async def call(self, method: str, params: bytes) -> Outcome:
        """Send one call and return its outcome; its result is the JSON text of an object.

        Raises ConnectFailed when nothing was sent, another UpstreamError when it may have been, GroupFailed when
        what came back is no answer.
        """
        shake = await self._shake()
        try:
            return await self._post(shake, method, params)
        except _SessionGone:
            self._forget(shake)
        try:
            return await self._post(await self._shake(), method, params)
        except _SessionGone:
            raise GroupFailed(f"{self.url}: refuses the session that it has just begun") from None

    async def close(self) -> None:
        """Tell the server that its session ends; a server that does not listen is left alone."""
        shake, self._handshake = self._handshake, None
        if shake is not None and shake.session is not None:
            await self._tell("DELETE", shake)

    def _forget(self, shake: Handshake) -> None:
        if self._handshake is shake:
            self._handshake = None

    async def _shake(self) -> Handshake:
        async with self._shaking:
            if self._handshake is None:
                self._handshake = await self._initialize()
            return self._handshake

    async def _initialize(self) -> Handshake:
        id_ = self._next_id()
        async with self._send(_PLAIN, jsonrpc.write_call(id_, "initialize", _HELLO)) as answer:
            outcome = await read_answer(answer, id_, self.url, partial(self._tell, "POST", _PLAIN))
            session = answer.get(b"mcp-session-id")
        if isinstance(outcome, Outcome) and isinstance(outcome.answer, bytes):
            shake = self._greeted(outcome.answer, session)
            await self._tell("POST", shake, jsonrpc.write_notification("notifications/initialized"))
            return shake
        if answer.status in _UNAVAILABLE:
            raise GroupFailed(f"{self.url}: HTTP {answer.status} to initialize: {quoted(outcome)}")
        return _PLAIN

    def _greeted(self, result: bytes, session: bytes | None) -> Handshake:
        id_ = None if session is None else session.decode("latin-1")
        try:
            hello = msgspec.json.decode(result, type=_Hello)
        except (msgspec.DecodeError, RecursionError) as error:
            raise GroupFailed(f"{self.url}: an unreadable answer to initialize: {error}") from None
        for word in (id_, hello.protocolVersion):
            if word is not None and not _TOKEN.fullmatch(word):
                raise GroupFailed(
                    f"{self.url}: answers initialize with {word[:200]!r}, which cannot be sent back"
                )
        known = None if hello.capabilities is None else frozenset(hello.capabilities)
        return Handshake(hello.protocolVersion, id_, known)

    async def _post(self, shake: Handshake, method: str, params: bytes) -> Outcome:
        id_ = self._next_id()
        try:
            async with self._send(shake, jsonrpc.write_call(id_, method, params)) as answer:
                outcome = await read_answer(answer, id_, self.url, partial(self._tell, "POST", shake))
        except (asyncio.CancelledError, UpstreamTimeout):
            self._cancel(shake, id_)
            raise
        if shake.session is not None and _refuses_session(answer.status, outcome):
            raise _SessionGone
        if answer.status >= 400:
            # What stands there now may not be what shook hands: the next call begins anew.
            self._forget(shake)
        if isinstance(outcome, bytes):
            raise GroupFailed(f"{self.url}: HTTP {answer.status} and no JSON-RPC answer: {quoted(outcome)}")
        if isinstance(outcome.answer, bytes) and outcome.answer[:1] != b"{":
            raise GroupFailed(f"{self.url}: a result that is no object: {quoted(outcome.answer)}")
        return outcome

    def _cancel(self, shake: Handshake, id_: int) -> None:
        """A server with sessions goes on with a call whose connection has closed, unless it is told."""
        if shake.session is not None:
            note = jsonrpc.write_notification("notifications/cancelled", b'{"requestId":%d}' % id_)
            self._tasks.start(self._tell("POST", shake, note), "cancel")

    async def _tell(self, method: str, shake: Handshake, message: bytes | None = None) -> None:
        """Send what wants no answer."""
        try:
            await self._client.ask(
                method,
                self.url,
                deadline=min(_TELL_S, self._seconds),
                limit=_TELL_LIMIT,
                fields=_fields(shake),
                body=message,
            )
        except UpstreamError:
            pass

    def _send(self, shake: Handshake, message: bytes) -> AbstractAsyncContextManager[Streaming]:
        return self._client.stream(
            "POST",
            self.url,
            deadline=self._seconds,
            fields=_fields(shake),
            body=message,
            connect_within=CONNECT_S,
        )

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids


def _fields(shake: Handshake) -> dict[str, str]:
    fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if shake.version is not None:
        fields["MCP-Protocol-Version"] = shake.version
    if shake.session is not None:
        fields["Mcp-Session-Id"] = shake.session
    return fields


def _refuses_session(status: int, outcome: Outcome | bytes) -> bool:
    """404 as the transport has it, or 400 as servers made from the TypeScript SDK's examples have it; unless it
    answers the call itself, which was then read."""
    if isinstance(outcome, Outcome):
        return outcome.id == b"null" and status in (400, 404)
    return status == 404
