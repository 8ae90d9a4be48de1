"""The router's own questions: what is sent, what comes back, and every way in which it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.deadlines import within
from tests.support.ports import free_port
from tests.support.scripted import Line, answering, scripted

from mentatd import __version__
from mentatd.errors import AnswerTooLarge, ConnectFailed, UpstreamBroken, UpstreamTimeout
from mentatd.http.client import Client
from mentatd.http.pool import Pool

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    pool = Pool(proof_s=0)
    yield Client(pool)
    await pool.close()


# -- asking


async def test_an_answer(client: Client) -> None:
    async with scripted(answering(HELLO)) as engine:
        for reused in False, True:
            answer = await client.ask("GET", f"{engine.url}/v1/models", deadline=5, limit=5)
            assert (answer.status, answer.body, answer.reused) == (200, b"hello", reused)
            assert answer.fields == ((b"content-length", b"5"), (b"x-a", b"1"), (b"x-a", b"2"))
            assert answer.get(b"x-a") == b"1"
            assert answer.get(b"x-b") is None


async def test_what_is_sent(client: Client) -> None:
    requests: list[bytes] = []

    async def script(line: Line) -> None:
        while True:
            requests.append(await line.request())
            line.send(HELLO)

    agent = f"User-Agent: mentatd-serve/{__version__}\r\nAccept-Encoding: identity\r\n".encode()
    async with scripted(script) as engine:
        fields = {"Accept": "application/json", "X-E": "é"}
        await client.ask("GET", f"{engine.url}?q=1", deadline=5, limit=5, fields=fields)
        await client.ask("POST", f"{engine.url}/t", deadline=5, limit=5, body=b'{"a": 1}')
        await client.ask("POST", f"{engine.url}/t", deadline=5, limit=5, keep=False)
    host = b"127.0.0.1:%d" % engine.port
    assert requests == [
        b"GET /?q=1 HTTP/1.1\r\nHost: "
        + host
        + b"\r\n"
        + agent
        + b"Accept: application/json\r\nX-E: \xe9\r\n\r\n",
        b"POST /t HTTP/1.1\r\nHost: " + host + b"\r\n" + agent + b'Content-Length: 8\r\n\r\n{"a": 1}',
        b"POST /t HTTP/1.1\r\nHost: "
        + host
        + b"\r\n"
        + agent
        + b"Connection: close\r\nContent-Length: 0\r\n\r\n",
    ]
    assert len(engine.lines) == 2


async def test_a_connection_of_its_own_is_closed_after_the_answer(client: Client) -> None:
    """Though the engine would keep it."""
    async with scripted(answering(HELLO)) as engine:
        await client.ask("GET", engine.url, deadline=5, limit=5, keep=False)
        answer = await client.ask("GET", engine.url, deadline=5, limit=5)
        assert not answer.reused


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302, b""),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno", 401, b"no"),
        (b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n", 500, b"ab"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    ],
)
async def test_every_status_is_an_answer(client: Client, answer: bytes, status: int, body: bytes) -> None:
    async with scripted(answering(answer)) as engine:
        got = await client.ask("GET", engine.url, deadline=5, limit=5)
        assert (got.status, got.body) == (status, body)


async def test_head(client: Client) -> None:
    async with scripted(answering(OK + b"Content-Length: 500\r\n\r\n")) as engine:
        answer = await client.ask("HEAD", engine.url, deadline=5, limit=5)
        assert (answer.get(b"content-length"), answer.body) == (b"500", b"")


async def test_an_answer_that_ends_with_the_connection(client: Client) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"\r\nhello")

    async with scripted(script) as engine:
        assert (await client.ask("GET", engine.url, deadline=5, limit=5)).body == b"hello"


# -- no answer


@pytest.mark.parametrize("url", ["", "ftp://engine/", "http://user@engine/", "http://[::1/"])
async def test_a_url_that_cannot_be_asked(client: Client, url: str) -> None:
    with pytest.raises(ConnectFailed, match="not an http or https URL"):
        await client.ask("GET", url, deadline=5, limit=5)


@pytest.mark.parametrize(
    "fields", [{"X": "a\r\nY: b"}, {"X\r\n": "a"}, {"X Y": "a"}, {"": "a"}, {"X": "\u20ac"}]
)
async def test_fields_that_would_break_the_head_are_never_sent(
    client: Client, fields: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="cannot stand in a head"):
        await client.ask("GET", "http://127.0.0.1:1/", deadline=5, limit=5, fields=fields)


async def test_refused(client: Client) -> None:
    port = free_port()
    with pytest.raises(ConnectFailed, match=f"^http://127.0.0.1:{port}: connection refused$"):
        await client.ask("GET", f"http://127.0.0.1:{port}/v1", deadline=5, limit=5)


async def test_a_dead_address_does_not_take_the_whole_deadline(client: Client) -> None:
    async with scripted(Line.closed) as engine, within():
        url = f"https://127.0.0.1:{engine.port}/"
        with pytest.raises(ConnectFailed, match=r"timed out after 0\.1 s, connecting"):
            await client.ask("GET", url, deadline=60, limit=5, connect_within=0.1)
        with pytest.raises(ConnectFailed, match=r"timed out after 0\.1 s, connecting"):
            async with client.stream("GET", url, deadline=60, connect_within=0.1):
                pass


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"", "before an answer"),
        (OK, "before an answer"),
        (OK + b"Content-Length: 5\r\n\r\nhel", "in the middle of the answer"),
    ],
)
async def test_the_deadline_closes_the_connection(client: Client, data: bytes, where: str) -> None:
    closed = asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        line.send(data)
        await line.closed()
        closed.set()

    async with scripted(script) as engine:
        with pytest.raises(UpstreamTimeout, match=f"^{engine.url}: timed out after 0.1 s, {where}$"):
            await client.ask("GET", engine.url, deadline=0.1, limit=100)
        async with within(1):
            await closed.wait()


async def test_who_is_cancelled_closes_the_connection(client: Client) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        asked.set()
        await line.closed()
        closed.set()

    async with scripted(script) as engine:
        asking = asyncio.create_task(client.ask("GET", engine.url, deadline=5, limit=100))
        async with within():
            await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with within(1):
            await closed.wait()


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 12", b"Transfer-Encoding: chunked", b"Connection: close"],
    ids=["counted", "chunked", "until close"],
)
async def test_an_answer_has_a_bound(client: Client, head: bytes) -> None:
    closed = asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        line.send(
            OK + head + b"\r\n\r\n" + (b"b\r\nhello world\r\n" if b"chunked" in head else b"hello world")
        )
        await line.closed()
        closed.set()

    async with scripted(script) as engine:
        with pytest.raises(AnswerTooLarge, match=f"^{engine.url}: an answer of more than 10 bytes$"):
            await client.ask("GET", engine.url, deadline=5, limit=10)
        async with within(1):
            await closed.wait()


async def test_an_answer_that_is_announced_too_large_is_not_read(client: Client) -> None:
    async with scripted(answering(OK + b"Content-Length: 99999999999\r\n\r\n")) as engine:
        with pytest.raises(AnswerTooLarge):
            await client.ask("GET", engine.url, deadline=5, limit=10)


async def test_an_answer_that_is_cut_short_is_no_answer(client: Client) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"Content-Length: 5\r\n\r\nhel")

    async with scripted(script) as engine:
        with pytest.raises(UpstreamBroken, match="closed in the middle of the answer, after 3 bytes of it"):
            await client.ask("GET", engine.url, deadline=5, limit=10)


# -- asking again


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 20", b"garbage", HELLO[:-1]])
async def test_a_probe_that_fails_on_a_reused_connection_is_asked_once_more(
    client: Client, last_words: bytes
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(HELLO)
        await line.request()
        line.send(last_words)

    async with scripted(script) as engine:
        await client.ask("GET", engine.url, deadline=5, limit=10)
        answer = await client.ask("GET", engine.url, deadline=5, limit=10, retry_reused=True)
        assert (answer.body, answer.reused) == (b"hello", False)
        assert len(engine.lines) == 2


async def test_nothing_else_is_ever_asked_again(client: Client) -> None:
    async def script(line: Line) -> None:
        served.append(await line.request())
        if len(engine.lines) == 1:
            line.send(HELLO)
            served.append(await line.request())

    served: list[bytes] = []
    async with scripted(script) as engine:
        await client.ask("GET", engine.url, deadline=5, limit=10)
        with pytest.raises(UpstreamBroken) as caught:
            await client.ask("GET", engine.url, deadline=5, limit=10)
        assert caught.value.reused
        assert len(served) == 2
        with pytest.raises(UpstreamBroken, match="closed before an answer") as caught:
            await client.ask("GET", engine.url, deadline=5, limit=10, retry_reused=True)
        assert not caught.value.reused
        assert len(served) == 3


async def test_a_second_failure_is_the_answer(client: Client) -> None:
    async def script(line: Line) -> None:
        await line.request()
        if len(engine.lines) == 1:
            line.send(HELLO)
            await line.request()

    async with scripted(script) as engine:
        await client.ask("GET", engine.url, deadline=5, limit=10)
        with pytest.raises(UpstreamBroken):
            await client.ask("GET", engine.url, deadline=5, limit=10, retry_reused=True)
        assert len(engine.lines) == 2


# -- streaming


async def test_pieces_come_as_they_are_sent(client: Client) -> None:
    go_on = asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await go_on.wait()
        line.send(b"3\r\ntwo\r\n0\r\n\r\n")

    async with (
        scripted(script) as engine,
        client.stream("POST", f"{engine.url}/mcp", deadline=5, body=b"{}") as answer,
    ):
        assert answer.status == 200
        assert answer.get(b"transfer-encoding") == b"chunked"
        pieces = []
        async for piece in answer.pieces():
            pieces.append(piece)
            go_on.set()
        assert pieces == [b"one", b"two"]


async def test_leaving_early_closes_the_connection(client: Client) -> None:
    closed = asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await line.closed()
        closed.set()

    async with scripted(script) as engine:
        async with client.stream("GET", engine.url, deadline=5) as answer:
            assert await anext(answer.pieces()) == b"one"
        async with within(1):
            await closed.wait()


async def test_leaving_after_the_end_keeps_the_connection(client: Client) -> None:
    async with scripted(answering(HELLO)) as engine:
        async with client.stream("GET", engine.url, deadline=5) as answer:
            assert [piece async for piece in answer.pieces()] == [b"hello"]
        async with client.stream("GET", engine.url, deadline=5) as answer:
            assert answer.reused


async def test_what_came_is_read_before_the_failure(client: Client) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        line.reset()

    async with scripted(script) as engine, client.stream("GET", engine.url, deadline=5) as answer:
        pieces = answer.pieces()
        assert await anext(pieces) == b"one"
        with pytest.raises(UpstreamBroken, match="connection reset in the middle"):
            await anext(pieces)


async def test_the_deadline_of_a_stream(client: Client) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await line.closed()

    async with scripted(script) as engine, client.stream("GET", engine.url, deadline=0.1) as answer:
        pieces = answer.pieces()
        assert await anext(pieces) == b"one"
        with pytest.raises(UpstreamTimeout, match=r"timed out after 0.1 s, in the middle of the answer"):
            await anext(pieces)


async def test_a_slow_reader_pauses_the_engine(client: Client) -> None:
    total = 64 << 20
    sent = 0

    async def script(line: Line) -> None:
        nonlocal sent
        await line.request()
        line.send(OK + b"Content-Length: %d\r\n\r\n" % total)
        while sent < total:
            await line.flushed(bytes(1 << 16))
            sent += 1 << 16

    async with scripted(script) as engine, client.stream("GET", engine.url, deadline=30) as answer:
        before = -1
        while before < sent:  # until the engine can write no more
            before = sent
            await asyncio.sleep(0.05)
        assert sent < total // 2
        read = 0
        async for piece in answer.pieces():
            read += len(piece)
        assert read == total
