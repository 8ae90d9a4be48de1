"""An engine for tests: it records each request byte for byte, and answers as a script says.

Without scripts it answers like the vLLM whose answers are in tests/fixtures, under any model names.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.deadlines import DEADLINE_S, wait_until
from tests.support.recorded import LAST_CHUNK, chunk, recorded

HEAD_LIMIT = 128 * 1024


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came."""

    method: str
    target: str
    head: bytes
    """Start line and fields, up to and including the blank line."""
    body: bytes
    connection: int
    """Which of the engine's connections brought it, counted from 0."""

    def fields(self, name: str) -> list[str]:
        """The values of a field, in order."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        return [value.strip() for key, _, value in pairs if key.lower() == name.lower()]


class Exchange:
    """One request, for a script to answer."""

    def __init__(self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Write, and wait while the other side does not read."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(
        self, body: bytes, status: str = "200 OK", content_type: str = "application/json"
    ) -> None:
        """A whole answer."""
        head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
        await self.send(head.encode() + body)

    async def begin(self) -> None:
        """The head of a chunked stream of events."""
        await self.send(recorded("vllm-0.32/chat_stream").head + b"\r\n")

    async def event(self, payload: bytes) -> None:
        """One chunk."""
        await self.send(chunk(payload))

    async def end(self) -> None:
        """The last chunk."""
        await self.send(LAST_CHUNK)

    async def gone(self) -> None:
        """Return when the other side has closed or cut the connection."""
        try:
            while await self._reader.read(HEAD_LIMIT):
                pass
        except ConnectionError:
            pass

    def cut(self) -> None:
        """Reset the connection, as the death of the process would."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Script = Callable[[Exchange], Awaitable[None]]


class Engine:
    """Runs in its own thread, so that a test may block; use `running`."""

    def __init__(self, models: Sequence[str], host: str, port: int) -> None:
        self.received: list[Received] = []
        self.host, self.port = host, port
        self._models = models
        self._scripts: dict[str, Script] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._connections = 0
        self._up = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    def play(self, target: str, script: Script) -> None:
        """Answer POSTs of `target` so from now on."""
        self._scripts[target] = script

    def forget(self) -> None:
        """Begin anew: no scripts, nothing received."""
        self._scripts.clear()
        self.received.clear()

    def posts(self, target: str | None = None) -> list[Received]:
        """The POSTs so far, of one target or of all."""
        return [r for r in self.received if r.method == "POST" and target in (None, r.target)]

    def die(self) -> None:
        """As if the process were killed: the port is shut, every connection reset. Returns when it has happened."""
        asyncio.run_coroutine_threadsafe(self._die(), self._loop).result(DEADLINE_S)

    async def _die(self) -> None:
        self._server.close()
        for writer in self._writers:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def run(self) -> None:
        """The thread's work."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._connected, self.host, self.port, limit=HEAD_LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]
        self._up.set()
        await self._stop.wait()
        await self._die()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def wait_up(self) -> None:
        assert self._up.wait(DEADLINE_S), "the engine did not start"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        number = self._connections
        self._connections += 1
        self._serving.add(task)
        self._writers.add(writer)
        try:
            while True:
                request = await _read(reader, number)
                self.received.append(request)
                await self._answer(Exchange(request, reader, writer))
        except (EOFError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.method == "GET" and request.target == "/v1/models":
            await exchange.answer(_listing(self._models))
        elif request.method == "POST" and request.target in self._scripts:
            await self._scripts[request.target](exchange)
        elif request.method == "POST" and request.target in ANSWERS:
            streams = json.loads(request.body).get("stream") is True
            await exchange.send(recorded(ANSWERS[request.target][streams]).whole)
        else:
            await exchange.answer(b'{"detail":"Not Found"}', "404 Not Found")


ANSWERS = {
    "/v1/chat/completions": ("vllm-0.32/chat", "vllm-0.32/chat_stream"),
    "/v1/messages": ("llamacpp-2026.10/messages", "vllm-0.32/messages_stream"),
    "/tokenize": ("vllm-0.32/tokenize_chat",) * 2,
}
"""By target: the recorded answer to a request that asks for no stream, and for one."""


@contextmanager
def running(
    *models: str, host: str = "127.0.0.1", port: int = 0, enter: Callable[[], object] = lambda: None
) -> Iterator[Engine]:
    """An engine that lists `models`; port 0: a free one. `enter` is called first in its thread."""
    engine = Engine(models or ("tiny",), host, port)

    def run() -> None:
        enter()
        engine.run()

    thread = threading.Thread(target=run, name="engine")
    thread.start()
    try:
        engine.wait_up()
        yield engine
    finally:
        engine.stop()
        thread.join(DEADLINE_S)
        wait_until(lambda: not thread.is_alive())


def _listing(models: Sequence[str]) -> bytes:
    """The recorded listing, its first entry once for each of `models`."""
    document = json.loads(recorded("vllm-0.32/models").body)
    entry = document["data"][0]
    document["data"] = [entry | {"id": model} for model in models]
    return json.dumps(document).encode()


async def _read(reader: asyncio.StreamReader, connection: int) -> Received:
    """The next request. Raises EOFError when there is none."""
    head = await reader.readuntil(b"\r\n\r\n")
    method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    request = Received(method, target, head, b"", connection)
    length = int((request.fields("content-length") or ["0"])[0])
    return Received(method, target, head, await reader.readexactly(length), connection)
