"""A server of raw bytes: each connection plays a script, so that a test says exactly what an engine does and when."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from mentatd.http.upstream import Origin
from mentatd.tasks import Tasks
from tests.support.deadlines import within


class Line:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        """The next request, whole: its head and a body of the announced length. Raises EOFError at the end."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for field in head.lower().split(b"\r\n"):
            if field.startswith(b"content-length:"):
                length = int(field.split(b":")[1])
        return head + await self.reader.readexactly(length)

    def send(self, data: bytes) -> None:
        """Write at once."""
        self._writer.write(data)

    async def flushed(self, data: bytes = b"") -> None:
        """Write and wait while the other side does not read."""
        self._writer.write(data)
        await self._writer.drain()

    async def closed(self) -> None:
        """Return when the other side has closed."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def close(self) -> None:
        """End the stream in order, after what was sent."""
        self._writer.close()

    def reset(self) -> None:
        """Cut the connection with a TCP reset."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Script = Callable[[Line], Awaitable[object]]


class Scripted:
    """The running server and what it has seen."""

    def __init__(self, port: int, *, tls: bool) -> None:
        self.port = port
        self.origin = Origin("127.0.0.1", port, tls)
        self.url = str(self.origin)
        self.lines: list[Line] = []
        """Every connection that was accepted, in order."""


@asynccontextmanager
async def scripted(script: Script, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    """Serve `script` to each connection and close the connection when it returns."""
    tasks = Tasks("scripted")

    async def play(line: Line) -> None:
        try:
            await script(line)
        except (EOFError, ConnectionError):
            pass
        finally:
            line.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        seen.lines.append(line)
        tasks.start(play(line), "line")

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls, limit=1 << 26)
    seen = Scripted(server.sockets[0].getsockname()[1], tls=tls is not None)
    try:
        yield seen
    finally:
        server.close()
        await tasks.close()
        for line in seen.lines:  # a script that was cancelled before its first step has closed nothing
            line.close()
        async with within():
            await server.wait_closed()


def answering(*answers: bytes) -> Script:
    """A script that answers its first request with the first answer, and so on; the last one for ever after."""

    async def script(line: Line) -> None:
        index = 0
        while True:
            await line.request()
            line.send(answers[min(index, len(answers) - 1)])
            index += 1

    return script
