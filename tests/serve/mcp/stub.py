"""A group's MCP server as a test wants it, on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.support.scripted import Line, Scripted, scripted
from tests.support.views import agent, group_view, merged, seen, view

from mentatd.cluster.groups import Group
from mentatd.tasks import Tasks
from mentatd.wire.service import UrlService


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that came."""

    method: str
    """HTTP's."""
    fields: dict[str, str]
    """Names in lower case."""
    message: Any
    """The body, decoded; None without one."""

    @property
    def rpc(self) -> str:
        """The JSON-RPC method; HTTP's where there is no call."""
        return str(self.message.get("method", "answer")) if self.message is not None else self.method

    @property
    def id(self) -> Any:
        return None if self.message is None else self.message.get("id")


Answer = Callable[[Asked], bytes | Awaitable[bytes]]


class Stub:
    """Answers each request with what `answer` makes of it, and remembers all that came."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.arrived = asyncio.Event()
        """Set by each request; a test clears it."""
        self.left = asyncio.Event()
        """A connection closed."""

    async def __call__(self, line: Line) -> None:
        try:
            while True:
                asked = _read(await line.request())
                self.asked.append(asked)
                self.arrived.set()
                answer = self.answer(asked)
                line.send(answer if isinstance(answer, bytes) else await _unless_closed(line, answer))
        finally:
            self.left.set()

    @property
    def calls(self) -> list[str]:
        """What was asked, in order."""
        return [asked.rpc for asked in self.asked]


async def _unless_closed(line: Line, answer: Awaitable[bytes]) -> bytes:
    """The answer, or EOFError when the other side closes before it is there."""
    tasks = Tasks("stub")
    closed, made = tasks.start(line.closed(), "closed"), tasks.start(_made(answer), "answer")
    try:
        await asyncio.wait((closed, made), return_when=asyncio.FIRST_COMPLETED)
        if not made.done():
            raise EOFError
        data: bytes = await made
        return data
    finally:
        await tasks.close()


async def _made(answer: Awaitable[bytes]) -> bytes:
    return await answer


async def never(asked: Asked) -> bytes:
    """An answer that does not come."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def _read(request: bytes) -> Asked:
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Asked(first.split()[0], fields, json.loads(body) if body else None)


def http(status: int, body: bytes = b"", content_type: str = "application/json", **fields: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def result(asked: Asked, value: Any, **fields: str) -> bytes:
    return http(200, json.dumps({"jsonrpc": "2.0", "id": asked.id, "result": value}).encode(), **fields)


def error(asked: Asked, code: int, message: str = "no", status: int = 200) -> bytes:
    failure = {"code": code, "message": message}
    return http(status, json.dumps({"jsonrpc": "2.0", "id": asked.id, "error": failure}).encode())


def events(*messages: Any) -> bytes:
    """An event stream with these messages."""
    body = b"".join(
        b"event: message\r\ndata: %b\r\n\r\n" % json.dumps(message).encode() for message in messages
    )
    return http(200, body, "text/event-stream")


def said(text: str) -> dict[str, Any]:
    """A tool's result."""
    return {"content": [{"type": "text", "text": text}], "isError": False}


def plain(tools: list[str], call: Answer | None = None) -> Answer:
    """A responder that does not know `initialize`."""

    def answer(asked: Asked) -> bytes | Awaitable[bytes]:
        match asked.rpc:
            case "tools/list":
                return result(asked, {"tools": [{"name": name} for name in tools]})
            case "tools/call":
                return call(asked) if call else result(asked, said(asked.message["params"]["name"]))
        return error(asked, -32601)

    return answer


class Stateful:
    """An answer for `Stub`: demands a session, answers in events, forgets its sessions when told."""

    def __init__(self, call: Answer | None = None, lost_status: int = 404) -> None:
        self.sessions: list[str] = []
        self.ended: list[str] = []
        self.capabilities: dict[str, Any] = {"tools": {}}
        self._call = call
        self._lost_status = lost_status
        self._count = 0

    def forget(self) -> None:
        self.sessions.clear()

    def __call__(self, asked: Asked) -> bytes | Awaitable[bytes]:
        if asked.rpc == "initialize":
            self._count += 1
            self.sessions.append(f"session-{self._count}")
            hello = {"protocolVersion": "2025-06-18", "capabilities": self.capabilities, "serverInfo": {}}
            return result(asked, hello, Mcp_Session_Id=self.sessions[-1])
        session = asked.fields.get("mcp-session-id", "")
        if session not in self.sessions:
            body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session"}}'
            return http(self._lost_status, body)
        assert asked.fields["mcp-protocol-version"] == "2025-06-18"
        match asked.rpc:
            case "DELETE":
                self.sessions.remove(session)
                self.ended.append(session)
                return http(200)
            case "tools/list":
                return events({"jsonrpc": "2.0", "id": asked.id, "result": {"tools": [{"name": "status"}]}})
            case "tools/call":
                progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
                answer = {"jsonrpc": "2.0", "id": asked.id, "result": said(session)}
                return self._call(asked) if self._call else events(progress, answer)
        return http(202) if asked.id is None else error(asked, -32601)


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[Stub, Scripted]]:
    """A stub on a port of its own."""
    stub = Stub(answer)
    async with scripted(stub) as server:
        yield stub, server


def group_at(name: str, *urls: str) -> Group:
    """A group whose MCP server answers at these addresses, best first."""
    announced = agent(f"{name}@c0@10.0.0.1", mcp=UrlService(urls[0]) if urls else None)
    group = merged(seen(view(groups={name: group_view(announced)})))[name]
    return replace(group, mcp_candidates=urls)


def groups_of(*groups: Group) -> Callable[[], dict[str, Group]]:
    """What `Servers` and the rest are given."""
    return lambda: {group.name: group for group in sorted(groups, key=lambda group: group.name)}
