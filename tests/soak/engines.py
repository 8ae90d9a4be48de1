"""Engines of every temper, in a process of their own.

`python -m tests.soak.engines` tells their ports, and runs until its input ends.
Each lists one model, named like itself, and writes down which requests reached it.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

EVENT = b'data: {"choices":[{"delta":{"content":"word "}}]}\n\n'
EVENTS = 20
LAST = b"0\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
IDLE = {
    "shuts-0": (0.0, b""),
    "shuts-0-said": (0.0, b"Connection: close\r\n"),
    "shuts-1": (1.0, b""),
    "shuts-1-said": (1.0, b"Keep-Alive: timeout=1\r\n"),
    "shuts-5": (5.0, b""),
}
"""Engines that close connections that were idle for so many seconds, and what they say of it."""

Answer = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_dice = random.Random()


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def whole(body: bytes, status: bytes = b"200 OK", fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b" % (
        status,
        fields,
        len(body),
        body,
    )


async def good(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Streams, or gives back the request's number."""
    asked = json.loads(body)
    if not asked.get("stream"):
        writer.write(whole(b'{"n":%d}' % asked["n"]))
        return
    writer.write(STREAM)
    for _ in range(EVENTS):
        await asyncio.sleep(_dice.random() * 0.01)
        writer.write(chunk(EVENT))
        await writer.drain()
    writer.write(LAST)


async def slow(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Is silent for so long that clients get comments."""
    await asyncio.sleep(_dice.random() * 2)
    await (good if _dice.random() < 0.5 else failing)(body, reader, writer)


async def dying(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Breaks off anywhere."""
    sent = STREAM + chunk(EVENT) * EVENTS
    writer.write(sent[: _dice.randrange(len(sent))])
    if _dice.random() < 0.5:
        await writer.drain()
        writer.transport.abort()
    raise EOFError


async def babbling(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says anything."""
    writer.write(_dice.choice([b"", STREAM, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"]))
    writer.write(_dice.randbytes(_dice.randrange(1, 3000)))


async def hanging(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never answers."""
    while await reader.read(65536):
        pass
    raise EOFError


async def failing(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Refuses."""
    status = _dice.choice([b"400 Bad Request", b"429 Too Many Requests", b"500 Oops"])
    writer.write(whole(b'{"error":{"message":"no"}}', status))


async def flooding(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Streams faster than anybody reads."""
    writer.write(STREAM)
    for _ in range(200):
        writer.write(chunk(b"data: " + b"x" * 65536 + b"\n\n"))
        await writer.drain()
    writer.write(LAST)


TEMPERS: dict[str, Answer] = {
    answer.__name__: answer for answer in (good, slow, dying, babbling, hanging, failing, flooding)
}


class Engine:
    """One of them."""

    def __init__(self, name: str) -> None:
        self.seen: Counter[int] = Counter()
        """How often each numbered request came."""
        self._name = name
        self._answer = TEMPERS.get(name, good)
        self._idle_s, self._fields = IDLE.get(name, (60.0, b""))
        self._listing = json.dumps({"object": "list", "data": [{"id": name}]}).encode()

    async def start(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            idle_s = 60.0
            while True:
                async with asyncio.timeout(idle_s):
                    head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                await self._one(head, body, reader, writer)
                await writer.drain()
                idle_s = self._idle_s
                if not idle_s:
                    return
        except (EOFError, OSError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _one(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if head.startswith(b"GET /v1/models "):
            writer.write(whole(self._listing, fields=self._fields))
        elif head.startswith(b"GET"):
            writer.write(whole(b"{}", b"404 Not Found", self._fields))
        elif self._fields or self._name in IDLE:
            number = json.loads(body)["n"]
            self.seen[number] += 1
            writer.write(whole(b'{"n":%d}' % number, fields=self._fields))
        else:
            await self._answer(body, reader, writer)


async def main() -> None:
    """Serve them all; at the end, tell how often the trickled requests came."""
    engines = {name: Engine(name) for name in (*TEMPERS, *IDLE)}
    print(json.dumps({name: await engine.start() for name, engine in engines.items()}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps({name: max(engine.seen.values(), default=0) for name, engine in engines.items()}))


if __name__ == "__main__":
    asyncio.run(main())
