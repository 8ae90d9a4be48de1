"""The server on real sockets: what a client sees, byte by byte."""

from __future__ import annotations

import asyncio
import gc
import math
import mmap
import os
import resource
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
from tests.http.serving import LOOPBACK, Answering, Gate, Peer, chunked, get, post, serving
from tests.http.shapes import REFUSED, Shape
from tests.support.deadlines import until, within

from mentatd.errors import Refusal, SettingsError
from mentatd.http.limits import WRITE_HIGH_WATER, Limits
from mentatd.http.server import Connection, Request, Server
from mentatd.http.timers import EACH_SWEEP

OFTEN = Limits(linger_s=0.04)
"""Sweeps come every 10 ms."""


async def test_requests_of_every_framing_on_one_connection() -> None:
    async with serving() as served:
        big = bytes(range(256)) * 4096
        peer = await served.dial(
            post("/1", b"one") + chunked("/2", b"t", b"wo") + post("/3", big) + get("/4")
        )
        for path, body in (("/1", b"one"), ("/2", b"two"), ("/3", big), ("/4", b"")):
            answer = await peer.answer()
            assert (answer.status, answer.get("x-path"), answer.body) == (200, path, body)
        assert served.server.connections == 1


async def test_a_large_body_is_received_while_the_client_still_sends() -> None:
    async with serving() as served:
        data = post("/a", bytes(3 << 20)) + post("/b", b"x")
        peer = await served.dial()
        for at in range(0, len(data), 100_000):
            peer.send(data[at : at + 100_000])
            await peer.writer.drain()
        assert len((await peer.answer()).body) == 3 << 20
        assert (await peer.answer()).body == b"x"


async def test_the_memory_of_a_large_body_goes_with_its_last_view() -> None:
    kept: list[memoryview] = []

    class Keeping(Answering):
        def handle(self, request: Request, connection: Connection) -> None:
            kept.append(cast(memoryview, request.body))
            request.body = b""
            connection.answer(200, b"")

    async with serving(Keeping()) as served:
        peer = await served.dial(post("/a", bytes(1 << 20)))
        await peer.answer()
        mapped = cast(mmap.mmap, kept[0].obj)
        del kept[:]
        gc.collect()
        mapped.close()  # refused while a view of it is left anywhere


@pytest.mark.parametrize("chunk", [None, 300_000])
async def test_many_large_bodies_at_once_stay_inside_the_memory(chunk: int | None) -> None:
    class Watching(Answering):
        most = 0

        def handle(self, request: Request, connection: Connection) -> None:
            self.most = max(self.most, connection._shared.memory.held)
            super().handle(request, connection)

    body = bytes(range(256)) * 6 * 1024
    pieces = [] if chunk is None else [body[at : at + chunk] for at in range(0, len(body), chunk)]
    data = chunked("/a", *pieces) if pieces else post("/a", body)
    handler = Watching()
    async with serving(handler, limits=Limits(body_memory=4 << 20)) as served:
        peers = [await served.dial(data) for _ in range(20)]
        answers = await asyncio.gather(*(peer.answer() for peer in peers))
        assert [answer.body == body for answer in answers] == [True] * 20
        assert len(body) <= handler.most <= 4 << 20
        assert served.server._shared.memory.held == 0


async def test_a_client_that_leaves_while_it_waits_for_memory_takes_none() -> None:
    async with serving(limits=Limits(body_memory=2 << 20)) as served:
        memory = served.server._shared.memory
        first = await served.dial(post("/held", bytes(2 << 20)))
        flow = await served.held()
        second = await served.dial(post("/a", bytes(2 << 20))[:-1])
        third = await served.dial(post("/a", bytes(2 << 20)))
        await until(lambda: len(memory._shares) == 3)
        second.vanish()
        assert (await (await served.dial(post("/a", bytes(1 << 20)))).answer()).status == 200
        flow.connection.answer(200, b"")
        assert (await first.answer()).status == 200
        assert (await third.answer()).status == 200
        assert memory.held == 0


async def test_a_slow_body_is_cut_while_others_wait() -> None:
    async with serving(limits=Limits(body_memory=2 << 20, pace_window_s=0.05)) as served:
        slow = await served.dial(post("/slow", bytes(2 << 20))[:-1])
        await until(lambda: served.server._shared.memory.held)
        other = await served.dial(post("/a", bytes(2 << 20)))
        answer = await slow.answer()
        assert (answer.status, answer.get("connection")) == (408, "close")
        assert (await other.answer()).status == 200


@pytest.mark.parametrize("shape", REFUSED, ids=lambda shape: shape.name)
async def test_an_attack_is_answered_and_the_connection_closed(shape: Shape) -> None:
    async with serving() as served:
        peer = await served.dial(shape.data + get("/smuggled") * 2)
        answer = await peer.answer()
        assert (answer.status, answer.get("connection")) == (shape.status, "close")
        assert await peer.rest() == b""
        assert served.handler.requests == []


async def test_a_refusal_is_read_by_a_client_that_still_sends() -> None:
    async with serving(Answering(admission=Refusal(404, "t", "none", "m"))) as served:
        peer = await served.dial(post("/a", bytes(8 << 20)))
        await peer.writer.drain()
        answer = await peer.answer()
        assert (answer.status, answer.body) == (404, b"none /a")
        assert await peer.rest() == b""


async def test_a_refused_client_that_stays_is_cut_after_a_while() -> None:
    async with serving(limits=Limits(linger_s=0.05)) as served:
        peer = await served.dial(b"\n")
        assert (await peer.answer()).status == 400
        assert await peer.rest() == b""
        await until(lambda: served.server.connections == 0)


async def test_a_refusal_of_a_sound_request_keeps_the_connection() -> None:
    async with serving() as served:
        peer = await served.dial(post("/refused", b"x") + get("/a"))
        assert [(await peer.answer()).status for _ in range(2)] == [404, 200]


async def test_fields_that_every_answer_carries() -> None:
    def fields(request: Request | None) -> bytes:
        return b"X-For: %b\r\n" % (b"-" if request is None else request.path.encode())

    server = Server(Answering(), every_answer=fields)
    await server.start(0, LOOPBACK)
    try:
        for data, path in (
            (get("/a"), "/a"),
            (get("/refused"), "/refused"),
            (get("/crash"), "/crash"),
            (get("/empty"), "/empty"),
            (chunked("/b", b"x")[:-7] + b"\n", "/b"),
            (b"BAD\r\n", "-"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            async with within():
                head = await reader.readuntil(b"\r\n\r\n")
            writer.close()
            assert f"\r\nX-For: {path}\r\n".encode() in head
    finally:
        await server.close()


async def test_head_gets_the_head_of_the_answer_to_get() -> None:
    async with serving() as served:
        peer = await served.dial(
            b"HEAD /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody" + get("/empty")
        )
        answer = await peer.answer(head_only=True)
        assert (answer.status, answer.get("content-length")) == (200, "4")
        answer = await peer.answer()
        assert (answer.status, answer.get("content-length"), answer.get("date") is None) == (204, None, False)


@pytest.mark.parametrize(
    ("request_", "connection", "kept"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", "close", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive", True),
        (get("/"), None, True),
        (get("/", "Connection: close\r\n"), "close", False),
    ],
)
async def test_who_keeps_the_connection(request_: bytes, connection: str | None, kept: bool) -> None:
    async with serving() as served:
        peer = await served.dial(request_ * 2)
        answer = await peer.answer()
        assert answer.head.startswith("HTTP/1.1 200 OK\r\n")
        assert answer.get("connection") == connection
        if kept:
            assert (await peer.answer()).status == 200
        else:
            assert await peer.rest() == b""


async def test_an_upgrade_is_not_followed_and_keeps_its_body() -> None:
    fields = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    async with serving() as served:
        peer = await served.dial(post("/a", b"hello", fields) + get("/b"))
        assert (await peer.answer()).body == b"hello"
        assert (await peer.answer()).get("x-path") == "/b"


async def test_continue_is_sent_before_the_body_is() -> None:
    async with serving() as served:
        peer = await served.dial(post("/a", b"hello", "Expect: 100-continue\r\n")[:-5])
        assert (await peer.answer()).status == 100
        peer.send(b"hello")
        assert (await peer.answer()).body == b"hello"


async def test_a_client_that_vanishes_is_noticed() -> None:
    async with serving() as served:
        peer = await served.dial(get("/held"))
        flow = await served.held()
        peer.vanish()
        await until(lambda: flow.told == ["lost"])
        await until(lambda: served.server.connections == 0)


async def test_a_client_that_shuts_its_side_while_it_waits_has_left() -> None:
    async with serving() as served:
        peer = await served.dial(get("/held"))
        flow = await served.held()
        peer.shut()
        await until(lambda: flow.told == ["lost"])
        assert await peer.rest() == b""


LEAVING = [Peer.vanish, Peer.shut, Peer.reset]


def ways(leave: Callable[[Peer], None]) -> str:
    return leave.__name__


@pytest.mark.parametrize("leave", LEAVING, ids=ways)
async def test_a_client_that_sent_much_ahead_is_seen_to_leave(leave: Callable[[Peer], None]) -> None:
    async with serving(limits=OFTEN) as served:
        peer = await served.dial(get("/held") + post("/a", bytes(100_000)))
        flow = await served.held()
        await until(lambda: flow.connection.deadline == EACH_SWEEP)
        leave(peer)
        await until(lambda: flow.told)
        await until(lambda: served.server.connections == 0)
        assert flow.told == ["lost"]
        assert len(served.handler.requests) == 1


async def test_a_client_that_sent_much_ahead_and_stays_is_answered() -> None:
    async with serving() as served:
        peer = await served.dial(get("/held") + post("/a", bytes(100_000)))
        flow = await served.held()
        await until(lambda: flow.connection.deadline == EACH_SWEEP)
        served.server._sweep.sweep(0.0)
        flow.connection.answer(200, b"")
        assert [(await peer.answer()).status, len((await peer.answer()).body)] == [200, 100_000]


@pytest.mark.parametrize(
    ("leave", "sent"),
    [
        (Peer.vanish, 0),
        (Peer.vanish, 1000),
        (Peer.shut, 1000),
        (Peer.reset, 1000),
        # an end of stream would stay behind such a body, for which the kernel has no room
        (Peer.reset, 2 << 20),
    ],
)
async def test_a_client_is_seen_to_leave_while_it_waits_for_memory(
    leave: Callable[[Peer], None], sent: int
) -> None:
    async with serving(limits=replace(OFTEN, body_memory=2 << 20)) as served:
        memory = served.server._shared.memory
        await served.dial(post("/held", bytes(2 << 20)))
        flow = await served.held()
        head = post("/a", bytes(2 << 20), "Expect: 100-continue\r\n")
        peer = await served.dial(head[: len(head) - (2 << 20) + sent])
        await until(lambda: len(memory._shares) == 2)
        leave(peer)
        await until(lambda: served.server.connections == 1)
        assert len(memory._shares) == 1
        assert flow.told == []


async def test_a_client_that_waits_for_memory_and_stays_is_served() -> None:
    async with serving(limits=Limits(body_memory=2 << 20)) as served:
        await served.dial(post("/held", bytes(2 << 20)))
        flow = await served.held()
        peer = await served.dial(post("/a", bytes(2 << 20)))
        await until(lambda: len(served.server._shared.memory._shares) == 2)
        served.server._sweep.sweep(0.0)
        flow.connection.answer(200, b"")
        assert len((await peer.answer()).body) == 2 << 20


async def test_a_client_that_shuts_its_side_behind_its_request_is_answered() -> None:
    async with serving() as served:
        peer = await served.dial(get("/a"))
        peer.shut()
        assert (await peer.answer()).status == 200
        assert await peer.rest() == b""


async def test_a_client_that_leaves_in_mid_body_leaves_nothing() -> None:
    async with serving() as served:
        peer = await served.dial(post("/a", bytes(1 << 20))[:-1])
        await peer.writer.drain()
        await until(lambda: served.handler.admitted)
        peer.vanish()
        await until(lambda: served.server.connections == 0)
        assert served.handler.requests == []


async def test_a_head_that_stalls_is_answered_408() -> None:
    async with serving(limits=Limits(client_timeout_s=0.05)) as served:
        peer = await served.dial(get("/")[:-1])
        assert (await peer.answer()).status == 408
        assert await peer.rest() == b""


async def test_a_large_body_that_stalls_is_answered_408() -> None:
    async with serving(limits=Limits(client_timeout_s=0.05)) as served:
        peer = await served.dial(post("/", bytes(1 << 20))[:1000])
        assert (await peer.answer()).status == 408
        assert await peer.rest() == b""


async def test_an_idle_connection_ends_without_a_word() -> None:
    async with serving(limits=Limits(keep_alive_s=0.05)) as served:
        peer = await served.dial()
        assert await peer.rest() == b""


async def test_a_reader_that_is_slow_pauses_its_flow_only() -> None:
    async with serving() as served:
        peer = await served.dial(get("/held"))
        flow = await served.held()
        piece = bytes(WRITE_HIGH_WATER)
        length = 0
        flow.connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
        while "paused" not in flow.told:
            flow.connection.write(piece)
            length += len(piece)
            await asyncio.sleep(0)
        other = await served.dial(get("/a"))
        assert (await other.answer()).status == 200
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.reader.readexactly(length)
        await until(lambda: flow.told == ["paused", "resumed"])


async def test_a_reader_that_never_reads_is_cut() -> None:
    async with serving(limits=Limits(client_timeout_s=0.05, linger_s=0.05)) as served:
        peer = await served.dial(get("/held", "Connection: close\r\n"))
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        flow = await served.held()
        flow.connection.answer(200, bytes(16 << 20))
        await until(lambda: served.server.connections == 0)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_cut_answer_arrives_as_far_as_it_was_written(reset: bool) -> None:
    async with serving(limits=Limits(linger_s=0.1)) as served:
        peer = await served.dial(get("/held"))
        flow = await served.held()
        flow.connection.write(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(3 << 20))
        flow.connection.cut(reset=reset)
        await peer.reader.readuntil(b"\r\n\r\n")
        if reset:
            got = await peer.reader.readexactly(3 << 20)
            with pytest.raises(ConnectionResetError):
                await peer.rest()
        else:
            got = await peer.rest()
        assert got == bytes(3 << 20)
        assert flow.told == []


async def test_both_families_are_served_on_one_port() -> None:
    gate = Gate()
    async with serving(allowed=gate, hosts=("127.0.0.1", "::1")) as served:
        for host in ("127.0.0.1", "::1"):
            try:
                peer = await served.dial(get("/a"), host=host)
            except OSError:
                assert host == "::1"
                assert not socket.has_ipv6
                continue
            assert (await peer.answer()).status == 200
        assert gate.asked[0] == "127.0.0.1"
        assert set(gate.asked) <= {"127.0.0.1", "::1"}


async def test_a_second_server_on_the_port_fails_to_start() -> None:
    async with serving() as served:
        second = Server(Answering())
        with pytest.raises(SettingsError, match=f"port {served.server.port}: "):
            await second.start(served.server.port, LOOPBACK)
        await second.close()


async def test_connections_over_the_limit_are_answered_while_others_run_on() -> None:
    async with serving(limits=Limits(max_connections=2)) as served:
        first, second = await served.dial(get("/held")), await served.dial(get("/a"))
        flow = await served.held()
        await second.answer()
        third = await served.dial(get("/a"))
        answer = await third.answer()
        assert (answer.status, answer.get("connection")) == (503, "close")
        assert await third.rest() == b""
        flow.connection.answer(200, b"still here")
        assert (await first.answer()).body == b"still here"


async def test_a_drain_closes_the_idle_and_lets_answers_end() -> None:
    async with serving() as served:
        idle, busy = await served.dial(get("/a")), await served.dial(get("/held") + get("/b"))
        await idle.answer()
        flow = await served.held()
        served.server.stop_accepting()
        async with asyncio.TaskGroup() as group:
            drained = group.create_task(served.server.drain(10.0))
            assert await idle.rest() == b""
            with pytest.raises(OSError, match=r"[Cc]onnect"):
                await served.dial()
            assert flow.connection.must_close
            flow.connection.answer(200, b"")
            answer = await busy.answer()
            assert (answer.status, answer.get("connection")) == (200, "close")
            assert await busy.rest() == b""
            busy.writer.close()
        assert drained.result() is True


async def test_a_drain_has_an_end_and_close_cuts() -> None:
    async with serving() as served:
        peer = await served.dial(get("/held"))
        flow = await served.held()
        assert await served.server.drain(0.01) is False
        assert flow.told == []
        async with within():
            await served.server.close()
        assert flow.told == ["lost"]
        assert await peer.rest() == b""


async def test_a_server_that_never_started_closes() -> None:
    await Server(Answering()).close()


async def test_a_process_without_a_limit_on_descriptors_spares_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    async with serving() as served:
        assert (await (await served.dial(get("/a"))).answer()).status == 200


async def test_clients_get_at_most_half_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lowest = os.dup(0)
    os.close(lowest)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (lowest + 33, lowest + 33))
    async with serving() as served:
        room = served.server._shared.room
        assert (room.clients, room.refused, room.plenty) == (14, 2, False)
        assert "event=connections_limited clients=14 wanted=4096" in capsys.readouterr().err
        # the clients of this test live in the same process
        served.server._shared.room = replace(room, spared=math.inf)
        peers = [await served.dial(get("/a")) for _ in range(14)]
        assert [(await peer.answer()).status for peer in peers] == [200] * 14
        for _ in range(6):  # more than may be waited for
            assert (await (await served.dial()).answer()).status == 503
        peers[0].send(get("/a"))
        assert (await peers[0].answer()).status == 200


async def test_a_process_that_has_no_descriptors_left_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (10, 10))
    async with serving() as served:
        assert (await (await served.dial(get("/a"))).answer()).status == 503
