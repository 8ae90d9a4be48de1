"""Clients of every manner, in a process of their own: `python -m tests.soak.clients MANNER PORT AMOUNT`.

`mixed`: 200 connections for AMOUNT seconds. `leaving`: AMOUNT requests that nobody waits for. `trickling`: AMOUNT
requests to each engine that closes idle connections. What was asked for, and what went wrong, is told as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count

from tests.soak.engines import EVENT, EVENTS, IDLE, LAST, chunk

CONNECTIONS = 200
PATIENCE_S = 20.0
COMMENT = chunk(b": keepalive\n\n")
SICK = ("slow", "dying", "babbling", "hanging", "failing", "flooding")

_dice = random.Random()
_numbers = count(1)
done: Counter[str] = Counter()
wrong: Counter[str] = Counter()


class Client:
    """One connection at a time to the router."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, data: bytes) -> None:
        if self._writer is None:
            self.reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(data)
        await self._writer.drain()

    def leave(self) -> None:
        """In order, by a reset, or by half."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        match _dice.randrange(3):
            case 0:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            case 1:
                writer.close()
            case _:
                if not writer.transport.is_closing():
                    writer.write_eof()
                writer.close()


def post(model: str, *, stream: bool = False, padding: int = 0) -> tuple[int, bytes]:
    """A request and its number."""
    number = next(_numbers)
    body = json.dumps({"n": number, "stream": stream, "x": "y" * padding, "model": model}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nContent-Length: %d\r\n\r\n" % len(body)
    return number, head + body


async def whole(client: Client) -> None:
    """A request, answered right."""
    number, sent = post("good", padding=_dice.choice([0, 0, 1000, 200_000, 3_000_000]))
    await client.send(sent)
    head = await client.reader.readuntil(b"\r\n\r\n")
    expected = b'{"n":%d}' % number
    body = await client.reader.readexactly(len(expected))
    if not head.startswith(b"HTTP/1.1 200 ") or body != expected:
        raise AssertionError(f"{head!r} {body!r}")


async def stream(client: Client) -> None:
    """A stream, whole."""
    await client.send(post("good", stream=True)[1])
    head = await client.reader.readuntil(b"\r\n\r\n")
    expected = chunk(EVENT) * EVENTS + LAST
    body = await client.reader.readuntil(LAST)
    if not head.startswith(b"HTTP/1.1 200 ") or body.replace(COMMENT, b"") != expected:
        raise AssertionError(f"{head!r} {body!r}")


async def early(client: Client) -> None:
    """Leave at any moment of a request."""
    model = _dice.choice(("good", *SICK))
    sent = post(model, stream=_dice.random() < 0.7, padding=_dice.choice([0, 0, 500_000]))[1]
    await client.send(sent[: _dice.choice([len(sent), len(sent), _dice.randrange(len(sent))])])
    await asyncio.sleep(_dice.random() * 0.1)
    client.leave()


async def sick(client: Client) -> None:
    """See what a bad engine says, for a moment."""
    await client.send(post(_dice.choice(SICK), stream=_dice.random() < 0.7)[1])
    try:
        async with asyncio.timeout(_dice.random() * 2):
            while await client.reader.read(65536):
                await asyncio.sleep(_dice.random() * 0.02)
    except TimeoutError:
        pass
    client.leave()


async def babble(client: Client) -> None:
    """Send what is no request."""
    good = post("good")[1]
    await client.send(
        _dice.choice(
            [
                _dice.randbytes(200),
                good.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length"),
                good.replace(b"Content-Length: ", b"Content-Length: 1\r\nContent-Length: "),
                good.replace(b'"model"', b'"modem"'),
                good.replace(b'"good"', b'"none"'),
                good.replace(b"HTTP/1.1", b"HTTP/2.0"),
                b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
            ]
        )
    )
    try:
        async with asyncio.timeout(0.5):
            await client.reader.read(65536)
    except TimeoutError:
        pass
    client.leave()


async def idle(client: Client) -> None:
    """Connect, say nothing or half a head, and leave."""
    await client.send(_dice.choice([b"", b"POST /v1/x HTTP/1.1\r\nHo"]))
    await asyncio.sleep(_dice.random() * 0.5)
    client.leave()


MANNERS: tuple[tuple[Callable[[Client], Awaitable[None]], int], ...] = (
    (whole, 8), (stream, 4), (early, 4), (sick, 2), (babble, 2), (idle, 1),
)  # fmt: skip
"""Each with its share."""
GOOD = (whole, stream)


async def one(manner: Callable[[Client], Awaitable[None]], client: Client) -> None:
    done[manner.__name__] += 1
    try:
        async with asyncio.timeout(PATIENCE_S):
            await manner(client)
    except (AssertionError, EOFError, OSError, TimeoutError) as error:
        client.leave()
        if manner in GOOD:
            wrong[f"{manner.__name__}: {error!r}"[:300]] += 1


async def mixed(port: int, seconds: int) -> None:
    until = time.monotonic() + seconds
    manners, shares = zip(*MANNERS, strict=True)

    async def go() -> None:
        client = Client(port)
        while time.monotonic() < until:
            await one(_dice.choices(manners, shares)[0], client)
            await asyncio.sleep(_dice.random() * 0.2)
        client.leave()

    await asyncio.gather(*(go() for _ in range(CONNECTIONS)))


async def leaving(port: int, requests: int) -> None:
    async def go() -> None:
        client = Client(port)
        for _ in range(requests // CONNECTIONS):
            await one(early, client)

    await asyncio.gather(*(go() for _ in range(CONNECTIONS)))


async def trickling(port: int, requests: int) -> None:
    lanes = 25

    async def go(engine: str) -> None:
        client = Client(port)
        for _ in range(requests // lanes):
            number, sent = post(engine)
            done[engine] += 1
            await client.send(sent)
            head = await client.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await client.reader.readexactly(length)
            if body != b'{"n":%d}' % number:
                wrong[engine] += 1
            # around the moment at which the engine closes, and at once
            idle_s = IDLE[engine][0]
            await asyncio.sleep(
                _dice.choice([0.0, idle_s + _dice.uniform(-0.05, 0.02), _dice.random() * idle_s])
            )
        client.leave()

    await asyncio.gather(*(go(engine) for engine in IDLE for _ in range(lanes)))


async def main(manner: str, port: int, amount: int) -> None:
    await {"mixed": mixed, "leaving": leaving, "trickling": trickling}[manner](port, amount)
    print(json.dumps({"done": done, "wrong": wrong}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
