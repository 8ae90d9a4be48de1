"""One connection to an engine, byte for byte over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.recorder import Recorder
from tests.support.deadlines import until, within
from tests.support.scripted import Line, Script, Scripted, answering, scripted

from mentatd.errors import UpstreamBroken
from mentatd.http import outgoing as outgoing_module
from mentatd.http.pool import Pool
from mentatd.http.response import MAX_HEAD, ResponseHead
from mentatd.http.upstream import Origin, Upstream
from mentatd.serve.eventstream import stands_between_events

OK = b"HTTP/1.1 200 OK\r\n"
REQUEST = b"POST /v1/x HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\n\r\n", b"{}"


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(proof_s=0)
    yield pool
    await pool.close()


async def ask(pool: Pool, engine: Scripted, sink: Recorder, *, head_request: bool = False) -> Upstream:
    upstream = pool.take(engine.origin) or await pool.connect(engine.origin, timeout=5)
    upstream.send(sink, *REQUEST, head_request=head_request)
    async with within():
        await sink.done.wait()
    return upstream


async def outcome(pool: Pool, script: Script, *, through: bool = True) -> tuple[Recorder, Upstream]:
    async with scripted(script) as engine:
        sink = Recorder(through=through)
        return sink, await ask(pool, engine, sink)


# -- whole answers

ANSWERS = {
    "counted": (OK + b"Content-Length: 5\r\n\r\n", b"hello", b"hello"),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", b"", b""),
    "chunked": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n", b"hello"),
    "until close": (OK + b"Connection: close\r\n\r\n", b"hello", b"hello"),
    "http/1.0": (b"HTTP/1.0 200 OK\r\n\r\n", b"hello", b"hello"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"", b""),
    "after interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\n",
        b"hello",
        b"hello",
    ),
    "after a long interim answer": (
        b"HTTP/1.1 103 Early\r\nLink: " + b"x" * 40 + b"\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        b"",
        b"",
    ),
}  # fmt: skip


@pytest.mark.parametrize("through", [True, False])
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_is_the_same_however_it_is_cut(pool: Pool, name: str, through: bool) -> None:
    head, wire, payload = ANSWERS[name]
    data = head + wire
    closes = name in ("until close", "http/1.0")

    async def script(line: Line) -> None:
        for at in range(len(data) + 1):
            await line.request()
            line.send(data[:at])
            await looked()
            line.send(data[at:])
            if closes:
                return

    async with scripted(script) as engine:
        for _ in range(len(data) + 1):
            sink = Recorder(through=through)
            upstream = await ask(pool, engine, sink)
            assert sink.ends == ["ended"]
            assert sink.head is not None
            assert sink.head.raw == head[head.rindex(b"HTTP/") : -2]
            assert (sink.wire, sink.payload) == ((wire, b"") if through else (b"", payload))
            assert upstream.answer.payload_bytes == len(payload)
            assert not upstream.answer.pieces
            assert payload.endswith(upstream.answer.tail)
            assert stands_between_events(upstream.answer.tail) == stands_between_events(payload[-4:])
        assert (len(engine.lines) == 1) is not closes


async def looked() -> None:
    """Let the other side of the loop read what was written (it is this same loop)."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_the_first_read_is_one_call_with_the_body_that_came_with_it(pool: Pool) -> None:
    sink, _ = await outcome(pool, answering(OK + b"Content-Length: 5\r\n\r\nhello"))
    assert sink.wire == b"hello"
    assert sink.sent.is_set()


async def test_the_answer_to_head_ends_with_its_head(pool: Pool) -> None:
    async with scripted(answering(OK + b"Content-Length: 5\r\n\r\n")) as engine:
        for _ in range(2):
            sink = Recorder()
            await ask(pool, engine, sink, head_request=True)
            assert (sink.ends, sink.wire) == (["ended"], b"")
        assert len(engine.lines) == 1


@pytest.mark.parametrize("length", [b"5", b"12", b"007", b"0"])
@pytest.mark.parametrize("field", [b"A: b\r\n", b"A: " + b"b" * 5000 + b"\r\n"])
async def test_one_answer_behind_another_has_its_own_length(pool: Pool, length: bytes, field: bytes) -> None:
    second = OK + field + b"Content-Length: " + length + b"\r\n\r\n"
    first = OK + field + b"Content-Length: 7\r\n\r\nhello, "
    async with scripted(answering(first, second + b"x" * int(length), first)) as engine:
        for wire in b"hello, ", b"x" * int(length), b"hello, ":
            sink = Recorder()
            await ask(pool, engine, sink)
            assert (sink.ends, sink.wire) == (["ended"], wire)
        assert len(engine.lines) == 1


async def test_a_head_that_is_known_may_not_become_longer_than_any(pool: Pool) -> None:
    before, behind = OK + b"A: ", b"\r\nContent-Length: 1\r\n\r\n"
    most = before + b"b" * (MAX_HEAD - len(before + behind)) + behind
    async with scripted(answering(most + b"x", most.replace(b"1\r\n\r\n", b"0001\r\n\r\n") + b"x")) as engine:
        for well in True, False:
            sink = Recorder()
            await ask(pool, engine, sink)
            assert (sink.ends == ["ended"]) is well


# -- answers that fail

BROKEN = {
    "garbage": (b"SSH-2.0-OpenSSH_9.2\r\n", r"not HTTP/1\.x: 'SSH-2.0-OpenSSH_9.2\\r\\n'"),
    "http/0.9": (b"<html>hello</html>", r"not HTTP/1\.x: '<html>"),
    "tls alert": (b"\x15\x03\x01\x00\x02\x02\x16", r"not HTTP/1\.x: '\\x15\\x03"),
    "two lengths": (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "Duplicate Content-Length"),
    "both framings": (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "broken head"),
    "chunked under 1.0": (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer coding"),
    "101": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "status 101"),
    "long head": (OK + b"A: " + b"x" * 70000, "a head of more than 64 KiB"),
    "many fields": (OK + b"A: b\r\n" * 300 + b"\r\n", "more than 256 fields"),
    "broken chunk with the head": (OK + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", "broken chunks"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_not_an_answer_fails_and_says_what_came(pool: Pool, name: str) -> None:
    data, why = BROKEN[name]

    async def script(line: Line) -> None:
        await line.request()
        line.send(data)
        await line.closed()

    sink, upstream = await outcome(pool, script)
    (error,) = sink.ends
    assert isinstance(error, UpstreamBroken)
    with pytest.raises(UpstreamBroken, match=rf"^{upstream.origin}: .*{why}"):
        raise error
    assert (sink.head, len(pool)) == (None, 0)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"", "before an answer"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "before an answer"),
        (b"HTTP/1.1 200", "in the head of its answer"),
        (OK + b"Content-Length: 5\r\n\r\nhel", "in the middle of the answer, after 3 bytes of it"),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
            "in the middle of the answer, after 3 bytes of it",
        ),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n", "in the middle of the answer, after 3"),
    ],
)
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_an_engine_that_ends_early_is_a_failure(pool: Pool, data: bytes, where: str, how: str) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(data)
        await looked()
        getattr(line, how)()

    sink, _ = await outcome(pool, script)
    words = "connection reset" if how == "reset" else "closed"
    assert f": {words} {where}" in sink.outcome


async def test_a_reset_is_no_end_of_an_answer_without_length(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"\r\nhel")
        await looked()
        line.reset()

    sink, _ = await outcome(pool, script)
    assert "connection reset in the middle" in sink.outcome


async def test_chunks_that_break_later_pass_nothing_of_that_read(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        await looked()
        line.send(b"8\r\ndata: x\n\r\n")
        await looked()
        line.send(b"2\r\nyz\r\nnonsense\r\n")
        await line.closed()

    sink, upstream = await outcome(pool, script)
    assert "broken chunks" in sink.outcome
    assert sink.wire == b"8\r\ndata: x\n\r\n"
    assert (upstream.answer.payload_bytes, upstream.answer.tail, upstream.answer.at_boundary) == (
        8,
        b": x\n",
        True,
    )


# -- what comes behind an answer


@pytest.mark.parametrize(
    ("head", "wire"),
    [
        (OK + b"Content-Length: 5\r\n\r\n", b"hello"),
        (OK + b"Content-Length: 0\r\n\r\n", b""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b""),
    ],
)
@pytest.mark.parametrize("stray", [b"x", b"\r\n", OK + b"Content-Length: 5\r\n\r\nother"])
@pytest.mark.parametrize("cut", ["together", "apart", "head first"])
async def test_stray_bytes_never_pass_and_end_the_connection(
    pool: Pool, head: bytes, wire: bytes, stray: bytes, cut: str
) -> None:
    parts = {
        "together": [head + wire + stray],
        "apart": [head + wire, stray],
        "head first": [head, wire + stray],
    }[cut]
    closed = asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        for part in parts:
            line.send(part)
            await looked()
        await line.closed()
        closed.set()

    async with scripted(script) as engine:
        sink = Recorder()
        upstream = await ask(pool, engine, sink)
        if cut == "together" or (cut == "head first" and wire):
            assert not upstream.open
        async with within():
            await closed.wait()
        assert (sink.ends, sink.wire) == (["ended"], wire)
        assert pool.take(engine.origin) is None


# -- sending

LARGE = 8 << 20


@pytest.mark.parametrize("size", [1000, 40_000, LARGE])
async def test_requests_of_any_size_arrive_whole(pool: Pool, size: int) -> None:
    body = bytes(range(256)) * (size // 256)
    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    arrived: list[bytes] = []

    async def script(line: Line) -> None:
        arrived.append(await line.request())
        line.send(OK + b"Content-Length: 0\r\n\r\n")
        await line.closed()

    async with scripted(script) as engine:
        sink = Recorder()
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(sink, head, memoryview(body))
        async with within():
            await sink.done.wait()
    assert arrived == [head + body]
    assert sink.sent.is_set()


async def test_a_body_is_released_only_when_all_of_it_is_sent(pool: Pool) -> None:
    read_on = asyncio.Event()

    async def script(line: Line) -> None:
        await line.reader.readexactly(1)
        await read_on.wait()
        await line.reader.readexactly(LARGE - 1)
        await line.closed()

    body = bytearray(LARGE)
    async with scripted(slow(script)) as engine:
        sink = Recorder()
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(sink, b"", memoryview(body))
        await asyncio.sleep(0.05)
        assert not sink.sent.is_set()
        read_on.set()
        async with within():
            await sink.sent.wait()
        body.clear()  # raises BufferError while anybody holds a view of it
        upstream.abandon()


async def test_leaving_releases_the_body(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.reader.readexactly(1)
        await left.wait()

    left = asyncio.Event()
    body = bytearray(LARGE)
    async with scripted(slow(script)) as engine:
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(Recorder(), b"", memoryview(body))
        upstream.abandon()
        left.set()
        await until(lambda: len(pool) == 0)
        body.clear()  # raises BufferError while anybody holds a view of it


def slow(script: Script) -> Script:
    """Keep the reader's own buffer from taking what the script has not asked for."""

    async def played(line: Line) -> None:
        line.reader._limit = 65536  # type: ignore[attr-defined]
        await script(line)

    return played


async def test_an_answer_before_the_request_was_read_passes_and_ends_the_connection(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.reader.readexactly(1)
        line.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge")
        await line.closed()

    async with scripted(slow(script)) as engine:
        sink = Recorder()
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(sink, b"x", bytes(64 << 20))
        async with within():
            await sink.done.wait()
        assert (sink.ends, sink.wire) == (["ended"], b"large")
        assert not sink.sent.is_set()
        assert not upstream.open


async def test_an_answer_of_an_engine_that_slams_the_door_is_not_lost(pool: Pool) -> None:
    async def script(line: Line) -> None:
        await line.reader.readexactly(1)
        line.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge")

    async with scripted(slow(script)) as engine:
        sink = Recorder()
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(sink, b"x", bytes(64 << 20))
        async with within():
            await sink.done.wait()
        assert (sink.ends, sink.wire) == (["ended"], b"large")


@pytest.mark.parametrize("answers", [True, False])
async def test_an_answer_that_stands_before_a_reset_is_read(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(outgoing_module, "_JOIN", 0)
    monkeypatch.setattr(outgoing_module, "_SLICE", 1000)
    with socket.create_server(("127.0.0.1", 0)) as server:
        upstream = await pool.connect(Origin("127.0.0.1", server.getsockname()[1]), timeout=5)
        engine, _ = server.accept()
        sink = Recorder()
        upstream.send(sink, b"x", bytes(100_000))
        upstream.pause()  # so that it is the next write that meets the reset
        if answers:
            engine.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge")
        engine.close()
        async with within():
            await sink.done.wait()
        await asyncio.sleep(0)  # what writes on by itself must not: that would crash in the loop
    assert sink.wire == (b"large" if answers else b"")
    assert sink.outcome.endswith("ended" if answers else "before an answer")
    assert not sink.sent.is_set()
    assert not upstream.open


async def test_a_connection_that_closed_before_the_request_fails_it_at_once(pool: Pool) -> None:
    async def script(line: Line) -> None:
        line.close()

    async with scripted(script) as engine:
        upstream = await pool.connect(engine.origin, timeout=5)
        await until(lambda: not upstream.open)
        sink = Recorder()
        upstream.send(sink, *REQUEST)
        assert sink.outcome == f"{engine.url}: closed before the request was sent"


# -- pausing, leaving, stopping


async def test_a_paused_answer_waits_in_the_engine(pool: Pool) -> None:
    total = 64 << 20
    sent = 0

    async def script(line: Line) -> None:
        nonlocal sent
        await line.request()
        line.send(OK + b"Content-Length: %d\r\n\r\n" % total)
        while sent < total:
            await line.flushed(bytes(1 << 16))
            sent += 1 << 16
        await line.closed()

    class Pausing(Recorder):
        def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
            super().head_received(head, rest)
            upstream.pause()
            return self.counted

        def counted(self, data: bytes) -> None:
            """Take it and keep none of it."""

    async with scripted(script) as engine:
        sink = Pausing()
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(sink, *REQUEST)
        async with within():
            await sink.headed.wait()
        before = -1
        while before < sent:  # until the engine can write no more
            before = sent
            await asyncio.sleep(0.05)
        assert sent < total // 2
        upstream.resume()
        async with within():
            await sink.done.wait()
        assert (sink.ends, upstream.answer.payload_bytes) == (["ended"], total)


async def test_a_connection_that_was_paused_at_the_end_reads_on_in_the_pool(pool: Pool) -> None:
    class Pausing(Recorder):
        def passed(self, data: bytes) -> None:
            super().passed(data)
            upstream.pause()

    hang_up = asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"Content-Length: 5\r\nKeep-Alive: timeout=60\r\n\r\n")
        await looked()
        line.send(b"hello")
        await hang_up.wait()

    async with scripted(script) as engine:
        sink = Pausing()
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(sink, *REQUEST)
        async with within():
            await sink.done.wait()
        hang_up.set()
        await until(lambda: len(pool) == 0)


@pytest.mark.parametrize("when", ["before the head", "in the head", "in the body", "while sending"])
async def test_the_engine_sees_at_once_that_the_sink_left(pool: Pool, when: str) -> None:
    closed = asyncio.Event()

    async def script(line: Line) -> None:
        if when != "while sending":
            await line.request()
        if when == "in the head":
            line.send(OK)
        elif when == "in the body":
            line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n")
        await looked()
        started.set()
        await line.closed()
        closed.set()

    started = asyncio.Event()
    async with scripted(script) as engine:
        sink = Recorder()
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(sink, *((b"x", bytes(64 << 20)) if when == "while sending" else REQUEST))
        async with within():
            await started.wait()
        if when == "in the body":
            await sink.headed.wait()
        upstream.abandon()
        async with within(1):
            await closed.wait()
        assert sink.ends == []
        assert len(pool) == 0


@pytest.mark.parametrize("through", [True, False])
@pytest.mark.parametrize("call", ["head_received", "passed", "body_received"])
async def test_a_sink_may_leave_inside_any_call(pool: Pool, call: str, through: bool) -> None:
    """And hears nothing after it, though the same read held more."""
    heard: list[str] = []

    class Leaving(Recorder):
        def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
            heard.append("head_received")
            if call == "head_received":
                upstream.abandon()
            return self.passed if self.through else None

        def passed(self, data: bytes) -> None:
            heard.append("passed")
            upstream.abandon()

        def body_received(self, payload: bytes) -> None:
            heard.append("body_received")
            upstream.abandon()

    chunks = b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"

    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n" + (b"" if through else chunks))
        await looked()
        if through:
            line.send(chunks)
        await line.closed()

    async with scripted(script) as engine:
        sink = Leaving(through=through)
        upstream = await pool.connect(engine.origin, timeout=5)
        upstream.send(sink, *REQUEST)
        await until(lambda: len(pool) == 0)
    last = "head_received" if call == "head_received" else "passed" if through else "body_received"
    assert heard == list(dict.fromkeys(["head_received", last]))
    assert sink.ends == []


async def test_abandoning_what_is_back_in_the_pool_does_no_harm(pool: Pool) -> None:
    async with scripted(answering(OK + b"Content-Length: 0\r\n\r\n")) as engine:
        upstream = await ask(pool, engine, Recorder())
        upstream.abandon()
        assert pool.take(engine.origin) is upstream


# -- anything at all


class Loopback(asyncio.Transport):
    """A transport that keeps what is written and knows whether it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self

    def fileno(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class Keeper:
    """An owner that counts."""

    def __init__(self) -> None:
        self.kept = 0

    def finished(self, upstream: Upstream, head: ResponseHead) -> None:
        self.kept += 1

    def lost(self, upstream: Upstream) -> None: ...


PIECES = st.sampled_from(
    [OK, b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.0 200 OK\r\n", b"Content-Length: 3\r\n",
     b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"\r\n", b"abc", b"3\r\nabc\r\n", b"0\r\n\r\n"]
)  # fmt: skip
STREAM = st.lists(PIECES | st.binary(max_size=8), max_size=10).map(b"".join)


@given(
    data=STREAM, cuts=st.lists(st.integers(0, 300), max_size=6), through=st.booleans(), ending=st.booleans()
)
def test_any_bytes_any_cuts_end_exactly_once(
    data: bytes, cuts: list[int], through: bool, ending: bool
) -> None:
    keeper, transport, sink = Keeper(), Loopback(), Recorder(through=through)
    upstream = Upstream(Origin("engine", 80), keeper)
    upstream.connection_made(transport)
    upstream.send(sink, *REQUEST)
    places = sorted({0, len(data)} | {at % (len(data) + 1) for at in cuts})
    for a, b in pairwise(places):
        if not transport.aborted:
            upstream.data_received(data[a:b])
    if ending and not transport.aborted:
        upstream.eof_received()
    upstream.connection_lost(None)
    assert len(sink.ends) == 1
    assert keeper.kept <= 1
