"""A server with a small handler, and clients that speak bytes to it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from tests.support.deadlines import until, within

from mentatd.errors import Refusal
from mentatd.http.server import Connection, Limits, Request, Server

LOOPBACK = ("127.0.0.1",)


class Gate:
    """An allow-check that remembers whom it was asked about."""

    def __init__(self, *, opens: bool = True) -> None:
        self.asked: list[str] = []
        self._opens = opens

    def __call__(self, peer: str) -> bool:
        self.asked.append(peer)
        return self._opens


class HeldFlow:
    """An answer that a test gives itself; it records what the connection tells it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.told: list[str] = []

    def client_paused(self) -> None:
        self.told.append("paused")

    def client_resumed(self) -> None:
        self.told.append("resumed")

    def client_lost(self) -> None:
        self.told.append("lost")


@dataclass(frozen=True)
class Seen:
    """What a handler saw of a request."""

    method: str
    target: bytes
    head: bytes
    body: bytes


@dataclass
class Answering:
    """Answers each request with its own body; `/held` when the test says so, `/crash` never."""

    admission: Refusal | int = 1 << 27
    requests: list[Seen] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)
    held: list[HeldFlow] = field(default_factory=list)

    def admit(self, request: Request) -> Refusal | int:
        assert len(request.body) == 0
        self.admitted.append(request.path)
        return self.admission

    def handle(self, request: Request, connection: Connection) -> None:
        body = bytes(request.body)
        self.requests.append(Seen(request.method, request.head.target, request.head.fields, body))
        match request.path:
            case "/held":
                flow = HeldFlow(connection)
                self.held.append(flow)
                connection.flow = flow
            case "/crash":
                raise RuntimeError("no")
            case "/crash-late":
                connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
                connection.began = True
                raise RuntimeError("no")
            case "/crash-answered":
                connection.answer(200, b"whole")
                raise RuntimeError("no")
            case "/refused":
                connection.refuse(Refusal(404, "invalid_request_error", "x", "not here"))
            case "/empty":
                connection.answer(204, b"")
            case _:
                connection.answer(200, body, b"text/plain", [(b"X-Path", request.path.encode("latin-1"))])

    def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
        path = request.path if request is not None else "-"
        return b"text/plain", f"{refusal.code} {path}".encode()


@dataclass(frozen=True)
class Answer:
    """One answer, read off a client's socket."""

    status: int
    head: str
    body: bytes

    def get(self, name: str) -> str | None:
        found = re.search(rf"(?im)^{name}: *(.*?)\r$", self.head)
        return found[1] if found else None


class Peer:
    """A client that says exactly these bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def shut(self) -> None:
        """Shut the sending side."""
        self.writer.write_eof()

    def vanish(self) -> None:
        """Go away without reading."""
        self.writer.transport.abort()

    def reset(self) -> None:
        """Go away by a reset, which overtakes what was sent."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.vanish()

    async def answer(self, *, head_only: bool = False) -> Answer:
        """The next answer with a Content-Length, or without a body."""
        async with within():
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            answer = Answer(int(head[9:12]), head, b"")
            length = 0 if head_only or answer.status < 200 else int(answer.get("content-length") or 0)
            return Answer(answer.status, head, await self.reader.readexactly(length))

    async def rest(self) -> bytes:
        """All until the server shuts its side; a reset raises ConnectionResetError."""
        async with within():
            return await self.reader.read()


class Served:
    """A running server and the clients that dialled it."""

    def __init__(self, server: Server, handler: Answering) -> None:
        self.server = server
        self.handler = handler
        self._peers: list[Peer] = []

    async def dial(self, data: bytes = b"", *, host: str = "127.0.0.1") -> Peer:
        async with within():
            peer = Peer(*await asyncio.open_connection(host, self.server.port, limit=1 << 24))
        self._peers.append(peer)
        peer.send(data)
        return peer

    async def held(self, count: int = 1) -> HeldFlow:
        """The newest of `count` requests to `/held`."""
        await until(lambda: len(self.handler.held) >= count)
        return self.handler.held[-1]

    async def close(self) -> None:
        for peer in self._peers:
            peer.writer.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                await peer.writer.wait_closed()
        await self.server.close()


@contextlib.asynccontextmanager
async def serving(
    handler: Answering | None = None,
    *,
    limits: Limits | None = None,
    allowed: Callable[[str], bool] = lambda peer: True,
    hosts: tuple[str, ...] = LOOPBACK,
) -> AsyncIterator[Served]:
    handler = handler or Answering()
    server = Server(handler, limits=limits, allowed=allowed)
    await server.start(0, hosts)
    served = Served(server, handler)
    try:
        yield served
    finally:
        await served.close()


def post(path: str, body: bytes, fields: str = "") -> bytes:
    """A request with a Content-Length."""
    return f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode() + body


def get(path: str, fields: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n".encode()


def chunked(path: str, *chunks: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
