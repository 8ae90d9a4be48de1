"""Which connection is used again, and how a new one is made or not."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.http.recorder import Recorder
from tests.support.deadlines import until, within
from tests.support.ports import free_port, full_backlog
from tests.support.scripted import Line, Scripted, answering, scripted

from mentatd.errors import ConnectFailed
from mentatd.http import pool as pool_module
from mentatd.http.pool import Pool
from mentatd.http.response import read_head
from mentatd.http.reuse import NO_LIMIT, UNANNOUNCED_S
from mentatd.http.upstream import Origin, Upstream

CERTS = Path(__file__).parent / "certs"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
REQUEST = b"GET / HTTP/1.1\r\nHost: e\r\n\r\n", b""


def trusting_the_test_ca() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTS / "ca.pem"))


def engine_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "engine.pem")
    return context


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(trusting_the_test_ca, proof_s=0)
    yield pool
    await pool.close()


async def exchange(pool: Pool, engine: Scripted) -> Upstream:
    """One whole exchange over a connection of the pool, or else a new one."""
    upstream = pool.take(engine.origin) or await pool.connect(engine.origin, timeout=5)
    sink = Recorder()
    upstream.send(sink, *REQUEST)
    async with within():
        await sink.done.wait()
    assert sink.ends == ["ended"]
    return upstream


# -- reuse


async def test_nothing_is_used_again_before_the_engine_has_kept_one() -> None:
    pool = Pool(proof_s=math.inf)
    async with scripted(answering(OK + b"\r\n")) as engine:
        first, second = [await exchange(pool, engine) for _ in range(2)]
        assert first is not second
        pool._proof_s = 0.0
        assert pool.take(engine.origin) is second
        pool._proof_s = math.inf
        assert pool.take(engine.origin) is first  # what one has shown holds for all
        await pool.close()


async def test_one_that_was_closed_proves_the_contrary(pool: Pool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        origin = Origin("127.0.0.1", server.getsockname()[1])
        one, two = [await pool.connect(origin, timeout=5) for _ in range(2)]
        line, _ = server.accept()
        for upstream in one, two:
            pool.finished(upstream, read_head(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
        line.close()
        assert pool.take(origin) is None
        assert not one.open
        assert pool._sites[origin].learned == 0.0


async def test_nothing_to_take(pool: Pool) -> None:
    assert pool.take(Origin("127.0.0.1", 1)) is None


async def test_a_connection_is_taken_again_newest_first(pool: Pool) -> None:
    async with scripted(answering(OK + b"\r\n")) as engine:
        one, two = [await pool.connect(engine.origin, timeout=5) for _ in range(2)]
        assert [one.reused, two.reused] == [False, False]
        for upstream in one, two:
            sink = Recorder()
            upstream.send(sink, *REQUEST)
            async with within():
                await sink.done.wait()
        assert len(pool) == 2
        assert pool.take(engine.origin) is two
        assert pool.take(engine.origin) is one
        assert one.reused
        assert pool.take(engine.origin) is None
        for upstream in one, two:
            upstream.abandon()


async def test_the_connection_can_be_taken_as_soon_as_its_answer_ends(pool: Pool) -> None:
    class Chained(Recorder):
        def message_ended(self) -> None:
            super().message_ended()
            self.next = pool.take(engine.origin)

    async with scripted(answering(OK + b"\r\n")) as engine:
        upstream = await pool.connect(engine.origin, timeout=5)
        sink = Chained()
        upstream.send(sink, *REQUEST)
        async with within():
            await sink.done.wait()
        assert sink.next is upstream


@pytest.mark.parametrize(
    "field",
    [
        b"Connection: close\r\n",
        b"Keep-Alive: timeout=0\r\n",
        b"Keep-Alive: timeout=5, max=1\r\n",
        b"Keep-Alive: max=0\r\n",
    ],
)
async def test_a_connection_that_the_engine_gives_up_is_closed(pool: Pool, field: bytes) -> None:
    async with scripted(answering(OK + field + b"\r\n")) as engine:
        await exchange(pool, engine)
        assert pool.take(engine.origin) is None
        await until(lambda: len(pool) == 0)


@pytest.mark.parametrize(
    ("field", "window"),
    [(b"", UNANNOUNCED_S), (b"Keep-Alive: timeout=3\r\n", 2.0), (b"Keep-Alive: timeout=1, max=9\r\n", 0.5)],
)
async def test_a_connection_idle_for_too_long_is_closed(pool: Pool, field: bytes, window: float) -> None:
    async with scripted(answering(OK + field + b"\r\n")) as engine:
        upstream = await exchange(pool, engine)
        upstream.idle_since -= window - 0.2
        assert pool.take(engine.origin) is upstream
        await exchange_on(upstream)
        upstream.idle_since -= window
        assert pool.take(engine.origin) is None
        await until(lambda: len(pool) == 0)


async def exchange_on(upstream: Upstream) -> None:
    sink = Recorder()
    upstream.send(sink, *REQUEST)
    async with within():
        await sink.done.wait()
    assert sink.ends == ["ended"]


async def test_idle_connections_are_closed_when_their_time_is_over(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_SWEEP_S", 0.01)
    async with scripted(answering(OK + b"\r\n")) as engine:
        old = await exchange(pool, engine)
        taken = pool.take(engine.origin)
        assert taken is old
        young = await exchange(pool, engine)
        await exchange_on(old)
        old.idle_since -= UNANNOUNCED_S
        await until(lambda: len(pool) == 1)
        assert pool.take(engine.origin) is young
        assert pool.take(engine.origin) is None
        young.abandon()


async def test_the_idle_ones_are_bounded(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAX_IDLE_PER_ORIGIN", 2)
    monkeypatch.setattr(pool_module, "MAX_IDLE", 3)
    async with scripted(answering(OK + b"\r\n")) as one, scripted(answering(OK + b"\r\n")) as two:
        for engine in one, two:
            for upstream in [await pool.connect(engine.origin, timeout=5) for _ in range(3)]:
                await exchange_on(upstream)
        await until(lambda: len(pool) == 3)
        assert [pool.take(one.origin) is None for _ in range(3)] == [False, False, True]
        assert [pool.take(two.origin) is None for _ in range(2)] == [False, True]


async def test_room_among_the_idle_ones_is_given_back(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAX_IDLE", 1)
    monkeypatch.setattr(pool_module, "_SWEEP_S", 0.01)
    async with scripted(answering(OK + b"\r\n")) as engine:
        for way in "sweep", "take", "expired", "closed":
            upstream = await exchange(pool, engine)
            assert upstream.idle
            if way == "closed":
                engine.lines[-1].close()
            elif way == "take":
                assert pool.take(engine.origin) is upstream
                upstream.abandon()
            else:
                upstream.idle_since -= UNANNOUNCED_S
                if way == "expired":
                    assert pool.take(engine.origin) is None
            await until(lambda: len(pool) == 0)
        assert (await exchange(pool, engine)).served == 1
        assert pool._idle_count == 0  # it taught that it closes at once


# -- engines that close sooner than expected


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"])
async def test_an_idle_connection_that_the_engine_closes_is_dropped_and_teaches(
    pool: Pool, last_words: bytes
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"\r\n")
        await hang_up.wait()
        line.send(last_words)

    hang_up = asyncio.Event()
    async with scripted(script) as engine:
        upstream = await exchange(pool, engine)
        upstream.idle_since -= 1.0
        hang_up.set()
        await until(lambda: len(pool) == 0)
        assert pool.take(engine.origin) is None
        hang_up.clear()
        await exchange(pool, engine)  # the witness, which is never taken
        upstream = await exchange(pool, engine)
        assert 0.5 <= upstream.window < 0.6


async def test_what_one_connection_taught_holds_for_those_already_idle(pool: Pool) -> None:
    async with scripted(answering(OK + b"\r\n")) as engine:
        old, young = [await pool.connect(engine.origin, timeout=5) for _ in range(2)]
        for upstream in old, young:
            await exchange_on(upstream)
            upstream.idle_since -= 1.0
        engine.lines[1].close()
        await until(lambda: len(pool) == 1)
        assert old.open
        assert pool.take(engine.origin) is None


async def test_an_engine_that_closes_after_its_time_teaches_nothing(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"\r\n")
        await hang_up.wait()

    hang_up = asyncio.Event()
    async with scripted(script) as engine:
        upstream = await exchange(pool, engine)
        upstream.idle_since -= UNANNOUNCED_S + 1
        hang_up.set()
        await until(lambda: len(pool) == 0)
        upstream = await exchange(pool, engine)
        assert upstream.window == UNANNOUNCED_S


async def test_a_close_that_the_loop_has_not_seen_yet_is_seen_when_taking(pool: Pool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        origin = Origin("127.0.0.1", server.getsockname()[1])
        upstream = await pool.connect(origin, timeout=5)
        engine, _ = server.accept()
        sink = Recorder()
        upstream.send(sink, *REQUEST)
        engine.send(OK + b"\r\n")
        async with within():
            await sink.done.wait()
        engine.recv(1000)
        engine.close()
        assert upstream.open
        assert pool.take(origin) is None
        assert pool._sites[origin].learned == 0.0


async def test_a_request_that_met_the_close_teaches(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"\r\n")
        await line.request()

    async with scripted(script) as engine:
        upstream = await exchange(pool, engine)
        upstream.idle_since -= 2.0
        assert pool.take(engine.origin) is upstream
        sink = Recorder()
        upstream.send(sink, *REQUEST)
        async with within():
            await sink.done.wait()
        assert sink.outcome.endswith("closed before an answer")
        await exchange(pool, engine)  # the witness, which is never taken
        upstream = await exchange(pool, engine)
        assert 1.0 <= upstream.window < 1.1


async def test_what_an_engine_taught_ends_with_its_restart_and_with_time(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_SWEEP_S", 0.01)

    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"\r\n")

    async with scripted(script) as engine:
        for forget in "restart", "time":
            await exchange(pool, engine)
            await until(lambda: len(pool) == 0)
            site = pool._sites[engine.origin]
            assert site.learned == 0.0
            if forget == "restart":
                pool._sites[Origin("127.0.0.1", 1)] = site
                with pytest.raises(ConnectFailed):
                    await pool.connect(Origin("127.0.0.1", 1), timeout=5)
                assert site.learned == NO_LIMIT
            else:
                site.learned_at -= 301
                await until(lambda: engine.origin not in pool._sites)


async def test_a_witness_that_the_engine_keeps_undoes_what_its_restart_taught(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_SWEEP_S", 0.01)
    async with scripted(answering(OK + b"\r\n")) as engine:
        await exchange(pool, engine)
        engine.lines[0].close()
        await until(lambda: len(pool) == 0)
        site = pool._sites[engine.origin]
        assert site.learned == 0.0
        witness = await exchange(pool, engine)
        await exchange(pool, engine)
        assert list(pool._open) == [witness]
        assert pool.take(engine.origin) is None
        witness.idle_since -= UNANNOUNCED_S
        await until(lambda: site.learned == NO_LIMIT)
        assert not witness.open
        assert (await exchange(pool, engine)).window == UNANNOUNCED_S
        assert pool.take(engine.origin) is not None


async def test_a_witness_that_the_engine_closes_teaches_in_its_turn(pool: Pool) -> None:
    async with scripted(answering(OK + b"\r\n")) as engine:
        await exchange(pool, engine)
        engine.lines[0].close()
        await until(lambda: len(pool) == 0)
        witness = await exchange(pool, engine)
        witness.idle_since -= 1.0
        engine.lines[1].close()
        await until(lambda: len(pool) == 0)
        assert 0.5 <= pool._sites[engine.origin].learned < 0.6


async def test_no_witness_is_kept_of_an_engine_that_says_it_closes(pool: Pool) -> None:
    async with scripted(answering(OK + b"Keep-Alive: timeout=0\r\n\r\n")) as engine:
        pool._site(engine.origin).learned = 0.0
        assert not (await exchange(pool, engine)).open
        await until(lambda: len(pool) == 0)


async def test_nothing_is_kept_of_an_origin_without_connections(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_SWEEP_S", 0.01)
    async with scripted(answering(OK + b"Keep-Alive: timeout=0\r\n\r\n")) as engine:
        await exchange(pool, engine)
        await until(lambda: not pool._sites)


@pytest.mark.parametrize("announced", [b"", b"Connection: close\r\n", b"Keep-Alive: timeout=0\r\n"])
async def test_a_trickle_to_an_engine_that_closes_after_each_answer_never_fails(
    pool: Pool, announced: bytes
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + announced + b"\r\n")

    async with scripted(script) as engine:
        for _ in range(100):
            upstream = await exchange(pool, engine)
            await until(lambda: not upstream.open)  # noqa: B023
        assert len(engine.lines) == 100


# -- connecting


async def test_refused(pool: Pool) -> None:
    port = free_port()
    with pytest.raises(ConnectFailed, match=rf"^http://127.0.0.1:{port}: connection refused$"):
        await pool.connect(Origin("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize("host", ["-", "a..b"])
async def test_not_resolved(pool: Pool, host: str) -> None:
    with pytest.raises(ConnectFailed, match=rf"^http://{host}:80: name not resolved: "):
        await pool.connect(Origin(host, 80), timeout=5)


async def test_a_name_is_resolved_and_each_of_its_addresses_tried(pool: Pool) -> None:
    async with scripted(answering(OK + b"\r\n")) as engine:
        upstream = await pool.connect(Origin("localhost", engine.port), timeout=5)
        await exchange_on(upstream)


async def test_a_connect_has_a_deadline(pool: Pool) -> None:
    with (
        full_backlog() as port,
        pytest.raises(ConnectFailed, match=rf"^http://127.0.0.1:{port}: timed out after 0.05 s, connecting$"),
    ):
        await pool.connect(Origin("127.0.0.1", port), timeout=0.05)
    assert len(pool) == 0


async def test_a_cancelled_connect_leaves_nothing_behind(pool: Pool) -> None:
    with full_backlog() as port, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pool.connect(Origin("127.0.0.1", port), timeout=5)
    assert len(pool) == 0


async def test_ipv6(pool: Pool) -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with server:
        origin = Origin("::1", server.getsockname()[1])
        upstream = await pool.connect(origin, timeout=5)
        upstream.abandon()
        assert str(upstream.origin) == f"http://[::1]:{origin.port}"


async def test_a_machine_that_vanished_is_noticed(pool: Pool) -> None:
    async with scripted(answering(OK + b"\r\n")) as engine:
        upstream = await pool.connect(engine.origin, timeout=5)
        assert upstream._transport is not None
        sock = upstream._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT
        idle, interval, probes = [sock.getsockopt(socket.IPPROTO_TCP, option) for option in options]
        assert idle + interval * probes == 60
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        upstream.abandon()


# -- TLS


async def test_tls_with_a_certificate_that_is_trusted(pool: Pool) -> None:
    async with scripted(answering(OK + b"\r\n"), tls=engine_tls()) as engine:
        first = await exchange(pool, engine)
        assert engine.url.startswith("https://")
        assert await exchange(pool, engine) is first
        assert first.reused


@pytest.mark.parametrize(
    ("host", "context", "why"),
    [
        ("127.0.0.1", ssl.create_default_context, "certificate not accepted: .*(issuer|self-signed)"),
        ("localhost", trusting_the_test_ca, "certificate not accepted: Hostname mismatch.*localhost"),
    ],
)
async def test_tls_with_a_certificate_that_is_not(
    host: str, context: Callable[[], ssl.SSLContext], why: str
) -> None:
    pool = Pool(context)
    async with scripted(answering(OK + b"\r\n"), tls=engine_tls()) as engine:
        with pytest.raises(ConnectFailed, match=rf"^https://{host}:{engine.port}: {why}"):
            await pool.connect(Origin(host, engine.port, tls=True), timeout=5)
    assert len(pool) == 0


async def test_a_certificate_store_that_cannot_be_read_is_a_failure_to_connect() -> None:
    def broken() -> ssl.SSLContext:
        return ssl.create_default_context(cafile="/nonexistent")

    with pytest.raises(ConnectFailed, match=r"^https://127.0.0.1:1: no such file or directory$"):
        await Pool(broken).connect(Origin("127.0.0.1", 1, tls=True), timeout=5)


async def test_pausing_and_leaving_over_tls(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await line.flushed(b"100000\r\n" + bytes(1 << 20) + b"\r\n0\r\n\r\n")
        await line.closed()
        closed.set()

    class Pausing(Recorder):
        def passed(self, data: bytes) -> None:
            super().passed(data)
            upstream.pause()
            asyncio.get_running_loop().call_soon(self.go_on)

        def go_on(self) -> None:
            if not self.ends:
                upstream.resume()

    closed = asyncio.Event()
    async with scripted(script, tls=engine_tls()) as engine:
        upstream = await pool.connect(engine.origin, timeout=5)
        sink = Pausing()
        upstream.send(sink, *REQUEST)
        async with within():
            await sink.done.wait()
        assert sink.ends == ["ended"]
        assert len(sink.wire) == (1 << 20) + 15
        assert pool.take(engine.origin) is upstream
        upstream.abandon()
        upstream.pause()
        upstream.resume()
        async with within(1):
            await closed.wait()


async def test_tls_to_a_server_that_speaks_none(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.reader.read(1)
        line.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await line.closed()

    async with scripted(script) as engine:
        with pytest.raises(ConnectFailed, match="TLS failed: wrong version number"):
            await pool.connect(Origin("127.0.0.1", engine.port, tls=True), timeout=5)


async def test_a_handshake_that_stalls_is_closed_with_the_deadline(pool: Pool) -> None:
    closed = asyncio.Event()

    async def script(line: Line) -> None:
        await line.closed()
        closed.set()

    await pool._tls_context()  # its file work is no part of the deadline here
    async with scripted(script) as engine:
        with pytest.raises(ConnectFailed, match=r"timed out after 0.1 s, connecting"):
            await pool.connect(Origin("127.0.0.1", engine.port, tls=True), timeout=0.1)
        async with within(1):
            await closed.wait()


async def test_a_large_request_and_a_large_answer_over_tls(pool: Pool) -> None:
    body = bytes(range(256)) * (1 << 15)
    arrived: list[bytes] = []

    async def script(line: Line) -> None:
        arrived.append(await line.request())
        line.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)

    async with scripted(script, tls=engine_tls()) as engine:
        upstream = await pool.connect(engine.origin, timeout=5)
        sink = Recorder()
        head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        upstream.send(sink, head, memoryview(body))
        async with within():
            await sink.done.wait()
        assert sink.ends == ["ended"]
        assert sink.sent.is_set()
        assert arrived == [head + body]
        assert sink.wire == body


# -- stopping


async def test_closing_cuts_what_runs_and_what_is_idle(pool: Pool) -> None:
    async def script(line: Line) -> None:
        if b"idle" in await line.request():
            line.send(OK + b"\r\n")
        else:
            line.send(b"HTTP/1.1 200 OK\r\n\r\nuntil close")
        await line.closed()

    async with scripted(script) as engine:
        idle, running = [await pool.connect(engine.origin, timeout=5) for _ in range(2)]
        sink = Recorder()
        idle.send(sink, b"GET /idle HTTP/1.1\r\n\r\n", b"")
        async with within():
            await sink.done.wait()
        cut = Recorder()
        running.send(cut, *REQUEST)
        async with within():
            await cut.headed.wait()
        await pool.close()
        assert len(pool) == 0
        assert cut.outcome == f"{engine.url}: cut off, the router is stopping"
        assert pool.take(engine.origin) is None
        with pytest.raises(ConnectFailed, match="the router is stopping"):
            await pool.connect(engine.origin, timeout=5)


async def test_a_connect_that_the_close_overtakes_is_closed(pool: Pool) -> None:
    closed = asyncio.Event()

    async def script(line: Line) -> None:
        await line.closed()
        closed.set()

    async with scripted(script) as engine:
        connecting = asyncio.create_task(pool.connect(engine.origin, timeout=5))
        await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(ConnectFailed):
            await connecting
        async with within():
            await closed.wait()
