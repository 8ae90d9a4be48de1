"""Any bytes over real sockets, from clients and from engines, in any cuts: no exception, no task, no descriptor.

Beside test_fuzz.py, which plays the transports and the pool, this one has a kernel, connects and threads in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import Loop
from tests.serve.test_proxy import ANSWER, BODY, STREAM, Handler, chunk, post, route
from tests.support.deadlines import until, within
from tests.support.leaks import leaked_tasks, settle
from tests.support.scripted import Line, scripted

from mentatd.cluster.routes import EMPTY
from mentatd.http.pool import Pool
from mentatd.http.server import Limits, Server
from mentatd.serve.inflight import Inflight
from mentatd.serve.proxy import Proxy, Routes

SERVING_S = 0.3
LIMITS = Limits(client_timeout_s=0.2, keep_alive_s=0.1, linger_s=0.1)
"""Short, so that whatever hangs has ended soon; what comes of it may depend on the clock, what is left may not."""
LARGE = b'{"x":"%b","model":"m"}' % (b"y" * 200_000)
LARGER = b'{"x":"%b","model":"m"}' % (b"y" * 1_200_000)


@dataclass(frozen=True)
class Engine:
    """What an engine does on each of its connections."""

    pieces: Sequence[bytes]
    """What it writes."""
    reads: bool
    """It reads a whole request first, and again and again; or else it begins with the first byte."""
    ending: str
    """`close`, `reset`, or `stay`."""

    async def __call__(self, line: Line) -> None:
        await (line.request() if self.reads else line.reader.read(1))
        for piece in self.pieces:
            await line.flushed(piece)
            await asyncio.sleep(0)
        match self.ending:
            case "reset":
                line.reset()
            case "stay":
                await line.closed()


@dataclass(frozen=True)
class Client:
    """What a client does on its only connection."""

    pieces: Sequence[bytes]
    """What it writes."""
    ending: str
    """`leave` at once, `half`: shut its side, `read`: until the router closes."""

    async def talk(self, port: int) -> bytes:
        """All of it; returns what came."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        came = bytearray()
        try:
            with contextlib.suppress(ConnectionError):
                for piece in self.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.ending == "half":
                    writer.write_eof()
                while self.ending != "leave" and (data := await reader.read(1 << 20)):
                    came += data
        finally:
            writer.transport.abort()
        return bytes(came)


def descriptors() -> set[tuple[str, str]]:
    """What this process has open, by number."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


@contextlib.asynccontextmanager
async def routing(url: str) -> AsyncIterator[tuple[int, Callable[[], bool]]]:
    """A server, its proxy and its pool, with `m` at `url`: its port, and whether nothing is in progress there."""
    inflight, pool = Inflight(SERVING_S), Pool(proof_s=0)
    table = replace(EMPTY, models={"m": (route("glm", f"{url}/v1"),)})
    proxy = Proxy(cast(Routes, SimpleNamespace(table=table, suspect=lambda *_: None)), pool, inflight)
    server = Server(Handler(proxy), limits=LIMITS)
    await server.start(0, ("127.0.0.1",))

    def quiet() -> bool:
        busy = [upstream for upstream in pool._open if not upstream.idle]
        return not (server.connections or len(inflight) or len(proxy._tasks) or busy)

    try:
        yield server.port, quiet
    finally:
        await server.close()
        await proxy.close()
        inflight.close()
        await pool.close()


async def converse(client: Client, engine: Engine) -> bytes:
    """One conversation from the first byte to the last; what the client got."""
    loop, here = asyncio.get_running_loop(), asyncio.current_task()
    assert isinstance(loop, Loop)
    async with scripted(engine):
        pass  # a loop opens a descriptor for itself with its first listener
    tasks, opened, said = asyncio.all_tasks(), descriptors(), io.StringIO()
    async with within():
        with contextlib.redirect_stderr(said):
            async with scripted(engine) as there, routing(there.url) as (port, quiet):
                came = await client.talk(port)
                await until(quiet)  # by itself, before anything is closed
            left = await settle(lambda: leaked_tasks(here, tasks) + sorted(map(str, descriptors() - opened)))
    assert left == []
    assert loop.errors == []
    # that an engine failed may be said, and nothing else
    assert [line for line in said.getvalue().splitlines() if " event=request_failed " not in line] == []
    return came


def packed(body: bytes, *, coding: bytes = b"gzip") -> bytes:
    return post(gzip.compress(body, mtime=0), fields=b"Content-Encoding: %b\r\n" % coding)


def in_chunks(body: bytes) -> bytes:
    head = b"POST /v1/x HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(chunk(body[at : at + 70_000]) for at in range(0, len(body), 70_000)) + b"0\r\n\r\n"


SOUND = [post(), post(LARGE), post(LARGER), packed(BODY), packed(LARGE), packed(LARGER), in_chunks(LARGE)]


@pytest.mark.parametrize("number", range(len(SOUND)))
async def test_what_is_sound_is_answered(number: int) -> None:
    got = await converse(Client([SOUND[number]], "read"), Engine([ANSWER], reads=True, ending="stay"))
    assert got == ANSWER


BROKEN_ZIP = packed(BODY)[:-4] + b"junk"
BROKEN_CHUNKS = in_chunks(LARGE)[:-5] + b"zz\r\n"
EVENT = STREAM + b"\r\n" + chunk(b"data: 1\n\n")
REQUESTS = st.one_of(
    st.sampled_from(SOUND),
    # named twice: most conversations are to get as far as the engine
    st.sampled_from(SOUND),
    st.sampled_from(
        [
            *(sound[: len(sound) * 2 // 3] for sound in SOUND),
            BROKEN_ZIP,
            BROKEN_CHUNKS,
            post(packed(LARGE)[200:], fields=b"Content-Encoding: gzip\r\n"),
            post(b"model=m"),
            post(BODY.replace(b"m", b"\xff")),
            b"GET / HTTP/1.1\r\n\r\n",
        ]
    ),
    st.binary(max_size=40),
)
ANSWERS = st.one_of(
    st.sampled_from([ANSWER, ANSWER + ANSWER, EVENT, EVENT + b"0\r\n\r\n", chunk(b"y" * 200_000)]),
    st.sampled_from([ANSWER[:-3], STREAM + b"\r\n", EVENT + b"zz\r\n", b"HTTP/1.1 100 Go on\r\n\r\n"]),
    st.binary(max_size=40),
)


@st.composite
def cut(draw: st.DrawFn, messages: st.SearchStrategy[bytes]) -> list[bytes]:
    """Some messages one after the other, cut anywhere."""
    data = b"".join(draw(st.lists(messages, min_size=1, max_size=3)))
    places = st.integers(0, len(data))
    cuts = sorted({0, *draw(st.lists(places, max_size=5)), len(data)})
    return [data[start:end] for start, end in pairwise(cuts)]


CLIENTS = st.builds(Client, cut(REQUESTS), st.sampled_from(["read", "half", "leave"]))
ENGINES = st.builds(Engine, cut(ANSWERS), st.booleans(), st.sampled_from(["close", "reset", "stay"]))


@given(client=CLIENTS, engine=ENGINES)
@example(Client([post()], "read"), Engine([], reads=True, ending="stay"))
@example(Client([post()], "half"), Engine([EVENT], reads=True, ending="stay"))
@example(Client([post(LARGER)], "leave"), Engine([], reads=False, ending="stay"))
@example(Client([post()], "read"), Engine([EVENT, b"zz\r\n"], reads=True, ending="stay"))
@example(Client([post()], "read"), Engine([b"no HTTP\r\n\r\n"], reads=True, ending="stay"))
@example(Client([BROKEN_ZIP], "read"), Engine([ANSWER], reads=True, ending="close"))
@example(Client([BROKEN_CHUNKS], "read"), Engine([ANSWER], reads=True, ending="close"))
@settings(max_examples=30)
async def test_nothing_is_left_of_any_conversation(client: Client, engine: Engine) -> None:
    await converse(client, engine)
