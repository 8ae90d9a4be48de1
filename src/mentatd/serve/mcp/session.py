"""One group's MCP server at one address: handshake, session, calls.

Two kinds stand behind it. A plain responder answers each JSON-RPC request by itself and may not know `initialize`.
A streamable-HTTP server demands `initialize`, may hand out an `Mcp-Session-Id`, may answer in server-sent events,
and answers 404 to a session that it has forgotten (MCP 2025-11-25, "Streamable HTTP"): then the handshake is made
again, once, and the call repeated, which is safe because a refused session has run nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from mentatd import __version__
from mentatd.errors import AnswerTooLarge, MentatError, UpstreamError, UpstreamTimeout
from mentatd.http.client import Client, Streaming
from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import Outcome
from mentatd.wire.sse import EventTooLarge, SseDecoder

NEWEST = "2025-11-25"
"""The protocol version that the router proposes."""
ANSWER_LIMIT = 16 * 1024 * 1024
"""Bytes of one answer: images come in base64."""
_CLOSE_S = 2.0
"""How long a server may take to hear that its session ends, at shutdown."""


class GroupFailed(MentatError):
    """The server was reached and gave no usable answer; the text says what came instead."""


class _SessionGone(Exception):
    """The server does not know our session (any more): nothing was run."""


class _Hello(msgspec.Struct):
    """What an `initialize` answer says that matters here."""

    protocolVersion: str = NEWEST  # noqa: N815 (MCP's spelling)
    capabilities: dict[str, msgspec.Raw] = {}


@dataclass(frozen=True, slots=True)
class Handshake:
    """What is known of the server."""

    version: str | None
    """The negotiated protocol version; None: a plain responder, which does not know `initialize`."""
    session: str | None
    capabilities: frozenset[str] | None
    """What it offers (`tools`, `resources`, `prompts`); None when it did not say."""


class GroupServer:
    """Calls to one MCP server. Calls may run side by side; the handshake runs once."""

    def __init__(self, client: Client, url: str) -> None:
        self.url = url
        self._client = client
        self._handshake: Handshake | None = None
        self._shaking = asyncio.Lock()
        self._ids = 0

    async def offers(self, capability: str, *, deadline: float) -> bool:
        """Whether the server says that it has `capability`, or says nothing of the kind. Raises as `call`."""
        known = (await self._shake(deadline)).capabilities
        return known is None or capability in known

    async def call(self, method: str, params: bytes, *, deadline: float) -> Outcome:
        """Send one call and return its outcome within `deadline` seconds, handshake included.

        Raises ConnectFailed when nothing was sent, another UpstreamError when it may have been, GroupFailed when
        what came back is no answer.
        """
        try:
            async with asyncio.timeout(deadline):
                shake = await self._shake(deadline)
                try:
                    return await self._post(shake, method, params, deadline)
                except _SessionGone:
                    self._forget(shake)
                    return await self._post(await self._shake(deadline), method, params, deadline)
        except _SessionGone:
            raise GroupFailed(f"{self.url}: refuses the session that it has just begun") from None
        except TimeoutError:
            raise UpstreamTimeout(f"{self.url}: no answer within {deadline:g} s") from None

    async def close(self) -> None:
        """Tell the server that its session ends; a server that does not listen is left alone."""
        shake, self._handshake = self._handshake, None
        if shake is None or shake.session is None:
            return
        try:
            fields = self._fields(shake)
            await self._client.ask(
                "DELETE", self.url, deadline=_CLOSE_S, limit=65536, fields=fields, keep=False
            )
        except UpstreamError:
            pass

    def _forget(self, shake: Handshake) -> None:
        if self._handshake is shake:
            self._handshake = None

    async def _shake(self, deadline: float) -> Handshake:
        async with self._shaking:
            if self._handshake is None:
                self._handshake = await self._initialize(deadline)
            return self._handshake

    async def _initialize(self, deadline: float) -> Handshake:
        hello = {
            "protocolVersion": NEWEST,
            "capabilities": {},
            "clientInfo": {"name": "mentatd-serve", "version": __version__},
        }
        fields = self._fields(None)
        self._ids += 1
        body = jsonrpc.write_call(self._ids, "initialize", msgspec.json.encode(hello))
        async with self._client.stream(
            "POST", self.url, deadline=deadline, fields=fields, body=body
        ) as answer:
            outcome = await _outcome(answer, self.url, self._ids)
            session = answer.get(b"mcp-session-id")
        if outcome is None and answer.status >= 500:
            raise GroupFailed(f"{self.url}: HTTP {answer.status} to initialize")
        if outcome is None or outcome.result is None:
            return Handshake(None, None, None)
        try:
            said = msgspec.json.decode(outcome.result, type=_Hello)
        except msgspec.DecodeError as error:
            raise GroupFailed(f"{self.url}: an unreadable answer to initialize: {error}") from None
        shake = Handshake(
            said.protocolVersion, session.decode("latin-1") if session else None, frozenset(said.capabilities)
        )
        note = jsonrpc.write_call(None, "notifications/initialized")
        await self._client.ask(
            "POST", self.url, deadline=deadline, limit=65536, fields=self._fields(shake), body=note
        )
        return shake

    async def _post(self, shake: Handshake, method: str, params: bytes, deadline: float) -> Outcome:
        self._ids += 1
        id_ = self._ids
        body = jsonrpc.write_call(id_, method, params)
        fields = self._fields(shake)
        async with self._client.stream(
            "POST", self.url, deadline=deadline, fields=fields, body=body
        ) as answer:
            if shake.session is not None and answer.status == 404:
                raise _SessionGone
            outcome = await _outcome(answer, self.url, id_)
        if answer.status >= 400:
            # What stands there now may not be what shook hands: the next call begins anew.
            self._forget(shake)
        if outcome is None:
            raise GroupFailed(f"{self.url}: HTTP {answer.status} without a JSON-RPC answer")
        return outcome

    @staticmethod
    def _fields(shake: Handshake | None) -> dict[str, str]:
        fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if shake is not None and shake.version is not None:
            fields["MCP-Protocol-Version"] = shake.version
        if shake is not None and shake.session is not None:
            fields["Mcp-Session-Id"] = shake.session
        return fields


async def _outcome(answer: Streaming, url: str, id_: int) -> Outcome | None:
    """The outcome of call `id_`, from a JSON or an SSE answer; None when a JSON answer holds none.

    Raises GroupFailed and AnswerTooLarge.
    """
    kind = (answer.get(b"content-type") or b"").split(b";")[0].strip().lower()
    if kind == b"text/event-stream":
        return await _from_events(answer, url, id_)
    body = bytearray()
    async for piece in answer.pieces():
        body += piece
        if len(body) > ANSWER_LIMIT:
            raise AnswerTooLarge(f"{url}: an answer of over {ANSWER_LIMIT} bytes")
    return _match(bytes(body), id_)


async def _from_events(answer: Streaming, url: str, id_: int) -> Outcome | None:
    decoder = SseDecoder(ANSWER_LIMIT)
    try:
        async for piece in answer.pieces():
            for data in decoder.feed(piece):
                if (outcome := _match(data, id_)) is not None:
                    return outcome
    except EventTooLarge as error:
        raise AnswerTooLarge(f"{url}: {error}") from None
    raise GroupFailed(f"{url}: the event stream ended without an answer")


def _match(text: bytes, id_: int) -> Outcome | None:
    """The outcome in `text` that answers call `id_`. An error without an id is this call's: it is the only one."""
    for message in jsonrpc.read_body(text).messages:
        if isinstance(message, Outcome):
            mine = message.id == b"%d" % id_ or (message.id == b"null" and message.error is not None)
            if mine:
                return message
    return None
