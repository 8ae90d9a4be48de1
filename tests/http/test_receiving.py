"""Bodies and the memory that they wait for, on a transport that a test plays. Other rules: test_reading.py."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.http.played import Played
from tests.http.serving import Answering, chunked, get, post
from tests.support.deadlines import within

from mentatd.errors import Refusal
from mentatd.http.connection import Connection
from mentatd.http.limits import Limits
from mentatd.http.request import Request
from mentatd.http.timers import EACH_SWEEP

MIB = 1 << 20
LIMITS = Limits(body_memory=4 * MIB, client_timeout_s=5)


class Holding(Answering):
    """Leaves each request to the test."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Request, Connection]] = []

    def handle(self, request: Request, connection: Connection) -> None:
        self.waiting.append((request, connection))
        connection.flow = self

    def client_paused(self) -> None: ...
    def client_resumed(self) -> None: ...
    def client_lost(self) -> None: ...


def pair(handler: Answering | None = None) -> tuple[Played, Played]:
    """Two connections of one server with 4 MiB for bodies."""
    first = Played(handler or Holding(), limits=LIMITS)
    return first, Played(first.handler, shared=first.shared)


def big(size: int, fields: str = "") -> bytes:
    return post("/big", bytes(size), fields)


def received(played: Played) -> list[int]:
    handler = played.handler
    assert isinstance(handler, Holding)
    return [len(request.body) for request, _ in handler.waiting]


async def test_a_large_body_waits_until_the_one_before_it_was_sent() -> None:
    first, second = pair()
    first.send(big(3 * MIB))
    second.send(big(2 * MIB)[:1000])
    assert received(first) == [3 * MIB]
    waits = (second.transport.reading, second.connection.deadline)
    first.connection.body_sent()
    assert waits == (False, EACH_SWEEP)
    assert second.transport.reading
    assert second.connection.deadline < math.inf
    second.send(big(2 * MIB)[1000:])
    assert received(first) == [3 * MIB, 2 * MIB]
    assert first.shared.memory.held == 2 * MIB


@pytest.mark.parametrize("how", ["answer", "refuse", "cut", "lost", "left"])
async def test_the_end_of_a_request_gives_its_memory_back(how: str) -> None:
    first, second = pair()
    first.send(big(3 * MIB))
    second.send(big(2 * MIB)[:1000])
    connection = first.connection
    match how:
        case "answer":
            connection.answer(200, b"")
        case "refuse":
            connection.refuse(Refusal(502, "t", "c", "m"))
        case "cut":
            connection.cut()
        case "lost":
            first.lose()
        case _:
            first.end()
            first.lose()
    assert second.transport.reading
    assert first.shared.memory.held == 2 * MIB


@pytest.mark.parametrize("end", [b"x", b""])
async def test_a_body_that_does_not_come_whole_gives_its_memory_back(end: bytes) -> None:
    first, second = pair()
    first.send(big(3 * MIB)[:5000])
    second.send(big(2 * MIB)[:1000])
    if end:
        first.expire()
        first.expire()
        assert first.statuses == [408]
    else:
        first.end()
        assert first.statuses == [400]
    assert second.transport.reading


async def test_small_bodies_never_wait() -> None:
    first, second = pair()
    first.send(big(4 * MIB))
    second.send(big(MIB))
    assert received(first) == [4 * MIB, MIB]
    third = Played(first.handler, shared=first.shared)
    third.send(chunked("/big", *[bytes(MIB // 4)] * 4))
    assert received(first) == [4 * MIB, MIB, MIB]
    assert first.shared.memory.held == 4 * MIB


async def test_a_body_without_a_length_reserves_as_it_grows() -> None:
    first, second = pair()
    first.send(big(3 * MIB // 2))
    eighths = chunked("/big", *[bytes(MIB // 8)] * 24)
    step = len(eighths) // 24
    second.send(eighths[: 8 * step])
    assert first.shared.memory.held == 3 * MIB // 2
    second.send(eighths[8 * step : 10 * step])
    assert second.transport.reading
    assert 3.5 * MIB < first.shared.memory.held <= 4 * MIB
    second.send(eighths[10 * step : 19 * step])
    waits = not second.transport.reading
    first.connection.body_sent()
    assert waits
    assert second.transport.reading
    second.send(eighths[19 * step :])
    assert received(first) == [3 * MIB // 2, 3 * MIB]
    assert first.shared.memory.held == 3 * MIB


async def test_a_body_without_a_length_holds_what_it_is_once_it_is_whole() -> None:
    first, _ = pair()
    first.send(chunked("/big", *[bytes(MIB // 8)] * 10))
    assert received(first) == [10 * MIB // 8]
    assert first.shared.memory.held == 10 * MIB // 8


async def test_a_client_is_asked_to_send_only_when_there_is_room() -> None:
    first, second = pair()
    first.send(big(3 * MIB))
    head = big(2 * MIB, "Expect: 100-continue\r\n").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    second.send(head)
    assert second.transport.written == b""
    first.connection.body_sent()
    assert second.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_a_body_larger_than_all_of_the_memory_goes_alone() -> None:
    first, second = pair()
    first.send(big(9 * MIB))
    assert received(first) == [9 * MIB]
    second.send(big(2 * MIB)[:1000])
    waits = not second.transport.reading
    first.connection.body_sent()
    assert waits
    assert second.transport.reading


async def test_a_client_in_the_way_of_others_is_cut_with_408() -> None:
    first, second = pair()
    first.send(big(3 * MIB)[:5000])
    second.send(big(2 * MIB)[:1000])
    first.connection.cut_slow()
    assert first.statuses == [408]
    assert first.transport.asked == ["eof"]
    assert second.transport.reading


async def test_the_memory_asks_who_is_still_sending() -> None:
    played = Played(Holding(), limits=LIMITS)
    assert played.connection.bytes_received() is None
    played.send(big(2 * MIB)[:5000])
    count = played.connection.bytes_received()
    assert count is not None
    assert 4000 < count < 5000
    played.send(big(2 * MIB)[5000:])
    assert played.connection.bytes_received() is None
    played.connection.cut_slow()
    assert played.statuses == []


async def test_a_pipelined_request_behind_a_large_body_is_served() -> None:
    played = Played(limits=LIMITS)
    played.send(big(3 * MIB) + get("/next"))
    assert [seen.target for seen in played.handler.requests] == [b"/big", b"/next"]
    assert played.shared.memory.held == 0


async def test_a_body_that_becomes_larger_waits_for_its_room() -> None:
    first, second = pair()
    first.send(big(3 * MIB))
    second.send(post("/small", b"x"))
    await second.connection.reserve(MIB)
    growing = asyncio.create_task(second.connection.reserve(2 * MIB))
    await asyncio.sleep(0)
    assert not growing.done()
    first.connection.body_sent()
    async with within():
        await growing
    assert first.shared.memory.held == 2 * MIB
    await second.connection.reserve(MIB + 1)
    assert first.shared.memory.held == MIB + 1
    second.connection.answer(200, b"")
    assert first.shared.memory.held == 0


async def test_one_that_waits_for_room_may_be_cancelled() -> None:
    first, second = pair()
    first.send(big(3 * MIB))
    second.send(post("/small", b"x"))
    growing = asyncio.create_task(second.connection.reserve(2 * MIB))
    await asyncio.sleep(0)
    growing.cancel()
    await asyncio.wait([growing])
    first.connection.body_sent()  # the room comes too late
    second.lose()
    await second.connection.reserve(2 * MIB)
    assert first.shared.memory.held == 0
