"""One connection of the control port: what goes over it, and every way in which it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mentatd import link as link_module
from mentatd.link import MAX_HEADER, MAX_STATUS, Link, LinkLost, dial
from mentatd.wire.frames import encode
from mentatd.wire.messages import Ping, Pong, ServiceNote, Unknown, Unreadable
from tests.support.deadlines import DEADLINE_S
from tests.support.ports import free_port

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def against(script: Script) -> AsyncIterator[Link]:
    """A link to a server that follows a script and then closes."""
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script(reader, writer)
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        done.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    link = await dial("127.0.0.1", server.sockets[0].getsockname()[1], DEADLINE_S)
    try:
        yield link
    finally:
        await link.close()
        await asyncio.wait_for(done.wait(), DEADLINE_S)
        server.close()
        await server.wait_closed()


async def ended(link: Link) -> bool:
    """Whether the link ends; a cut may look like a close."""
    try:
        return await link.receive(DEADLINE_S) is None
    except LinkLost:
        return True


async def flood(link: Link) -> None:
    for _ in range(1000):
        await link.send(ServiceNote("openai", "x" * 60_000))


async def until_closed(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_messages_both_ways() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(encode({"t": "ping", "req": 7})))
        frames = (
            encode({"t": "pong", "req": 7})
            + encode({"t": "news"})
            + encode({"t": "service_note"}, b"payload")
        )
        writer.write(frames[:5])
        await writer.drain()
        writer.write(frames[5:])
        await reader.read()

    async with against(script) as link:
        assert link.peer == "127.0.0.1"
        await link.send(Ping(7))
        assert await link.receive(DEADLINE_S) == Pong(7)
        assert await link.receive(DEADLINE_S) == Unknown("news", 0)
        assert isinstance(await link.receive(DEADLINE_S), Unreadable)


async def test_a_close_between_frames_is_an_end() -> None:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode({"t": "ping"}))

    async with against(script) as link:
        assert await link.receive(DEADLINE_S) == Ping(0)
        assert await link.receive(DEADLINE_S) is None


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (encode({"t": "ping"})[:-1], "127.0.0.1: "),
        (b"\x02\0\0\0\0\0\0\0[]", "127.0.0.1: "),
        ((MAX_HEADER + 1).to_bytes(4, "little") + bytes(4), str(MAX_HEADER)),
    ],
    ids=["cut in a frame", "no object", "too large"],
)
async def test_what_cannot_be_read_ends_the_link(raw: bytes, why: str) -> None:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)

    async with against(script) as link:
        with pytest.raises(LinkLost, match=why):
            await link.receive(DEADLINE_S)


async def test_silence_ends_the_link() -> None:
    async with against(until_closed) as link:
        with pytest.raises(LinkLost, match=r"127.0.0.1: silent for 0\.01 s"):
            await link.receive(0.01)


async def test_a_reset_ends_the_link() -> None:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with against(script) as link:
        assert await ended(link)


async def test_a_peer_that_takes_nothing_ends_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "_SEND_S", 0.05)
    taken = asyncio.Event()

    async def script(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await taken.wait()

    async with against(script) as link:
        with pytest.raises(LinkLost, match="takes nothing"):
            await flood(link)
        link.cut()
        taken.set()


async def test_cutting_wakes_who_waits() -> None:
    async with against(until_closed) as link:
        asyncio.get_running_loop().call_soon(link.cut)
        assert await ended(link)


async def test_a_wider_link_takes_longer_headers() -> None:
    note = "x" * (2 * MAX_HEADER)

    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode({"t": "service_note", "service": "openai", "note": note}))
        writer.write((MAX_STATUS + 1).to_bytes(4, "little") + bytes(4))

    async with against(script) as link:
        link.widen()
        assert await link.receive(DEADLINE_S) == ServiceNote("openai", note)
        with pytest.raises(LinkLost, match=str(MAX_STATUS)):
            await link.receive(DEADLINE_S)


async def test_it_may_come_from_one_address() -> None:
    sources: list[str] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sources.append(writer.get_extra_info("peername")[0])
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        link = await dial("127.0.0.1", server.sockets[0].getsockname()[1], DEADLINE_S, "127.0.0.2")
        assert await link.receive(DEADLINE_S) is None
        await link.close()
    assert sources == ["127.0.0.2"]


async def test_nobody_there() -> None:
    port = free_port()
    with pytest.raises(LinkLost, match=f"127.0.0.1:{port}: Connection refused"):
        await dial("127.0.0.1", port, DEADLINE_S)


async def test_no_such_host() -> None:
    with pytest.raises(LinkLost, match=r"^host\.invalid:1: "):
        await dial("host.invalid", 1, DEADLINE_S)
