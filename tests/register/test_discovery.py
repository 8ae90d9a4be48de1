"""Looking for engines on real ports, and keeping them announced."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from tests.support.deadlines import until
from tests.support.scripted import Line, scripted

from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.register.discovery import Finder, keep_announced
from mentatd.register.engines import FORGET_S, Announced, Engine


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    pool = Pool()
    yield Client(pool)
    await pool.close()


def table(*rows: tuple[str, int]) -> str:
    """The kernel's table, in which something listens there."""
    return "\n".join(f"0: {address}:{port:04X} 00000000:0000 0A x" for address, port in rows)


LOOPBACK, EVERYWHERE = "0100007F", "00000000"


Documents = Mapping[str, object]


@asynccontextmanager
async def engine(documents: Documents) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that has these documents by path: its port, and the paths that it was asked for."""
    asked: list[str] = []

    async def script(line: Line) -> None:
        path = (await line.request()).split()[1].decode()
        asked.append(path)
        status = "200 OK" if path in documents else "404 Not Found"
        body = json.dumps(documents.get(path)).encode()
        line.send(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)

    async with scripted(script) as server:
        yield server.port, asked


LISTED = {"data": [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm"}]}
PLAIN = {"data": [{"id": "m", "owned_by": "me"}]}


@pytest.mark.parametrize("bound", [LOOPBACK, EVERYWHERE])
async def test_an_engine_is_found_where_it_listens(client: Client, bound: str) -> None:
    async with engine({"/v1/models": LISTED}) as (port, asked):
        finder = Finder(client, [1, port], tables=lambda: [table((bound, port))])
        for _ in range(3):
            assert await finder.look() == {port: Engine("Qwen3-8B", "vllm")}
        # what tells it from others is asked once
        assert asked.count("/v1/models") == 3
        assert asked.count("/status.json") == 1


@pytest.mark.parametrize(
    ("documents", "provider"),
    [
        ({"/version": {"version": "0.11.0"}}, "vllm"),
        ({"/api/version": {"version": "0.12.0"}}, "ollama"),
        ({}, ""),
    ],
)
async def test_what_the_models_do_not_tell_the_version_does(
    client: Client, documents: Documents, provider: str
) -> None:
    async with engine({"/v1/models": PLAIN, **documents}) as (port, _):
        finder = Finder(client, [port], tables=lambda: [table((LOOPBACK, port))])
        (found,) = (await finder.look()).values()
        assert found is not None
        assert found.provider == provider


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        ({}, "its /v1/models lists no model"),
        ({"/v1/models": {"data": []}}, "its /v1/models lists no model"),
        ({"/v1/models": LISTED, "/status.json": {"daemons": {}, "groups": {}}}, "it is a router"),
    ],
)
async def test_what_is_no_engine_is_said_once(
    client: Client, documents: Documents, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with engine(documents) as (port, _):
        finder = Finder(client, [port], tables=lambda: [table((LOOPBACK, port))])
        for _ in range(3):
            assert await finder.look() == {port: None}
        told = capsys.readouterr().err
        assert told.count("event=discover_no_engine") == 1
        assert f'why="{why}"' in told


async def test_who_does_not_answer_is_no_engine(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    async with engine({}) as (port, _):
        pass
    finder = Finder(client, [port], tables=lambda: [table((LOOPBACK, port))])
    assert await finder.look() == {port: None}
    assert "refused" in capsys.readouterr().err


class Announcements:
    """Records who is announced; a test says what the next looks see."""

    def __init__(self) -> None:
        self.seen: Mapping[int, Engine | None] = {}
        self.now = 0.0
        self.running: set[str] = set()
        self.fail = asyncio.Event()

    async def look(self) -> Mapping[int, Engine | None]:
        return self.seen

    async def announce(self, port: int, known: Announced) -> None:
        self.running.add(known.group)
        try:
            await self.fail.wait()
            raise RuntimeError("a fault")
        finally:
            self.running.remove(known.group)


async def test_each_engine_is_announced_for_as_long_as_it_is_to_be() -> None:
    told = Announcements()
    work = asyncio.get_running_loop().create_task(
        keep_announced(told.look, told.announce, every_s=0.005, clock=lambda: told.now)
    )
    told.seen = {8000: Engine("a", ""), 8001: Engine("b", "")}
    await until(lambda: told.running == {"a", "b"})
    told.seen = {8000: Engine("c", "")}
    await until(lambda: told.running == {"b", "c"})
    told.now += FORGET_S + 1
    await until(lambda: told.running == {"c"})
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert told.running == set()


async def test_a_fault_in_one_ends_all(capsys: pytest.CaptureFixture[str]) -> None:
    told = Announcements()
    told.seen = {8000: Engine("a", ""), 8001: Engine("b", "")}
    work = asyncio.get_running_loop().create_task(keep_announced(told.look, told.announce, every_s=1000.0))
    await until(lambda: told.running == {"a", "b"})
    told.fail.set()
    with pytest.raises(RuntimeError, match="a fault"):
        await work
    assert told.running == set()
