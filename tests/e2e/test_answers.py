"""Engines and clients as they are in the field: what leaves, dies, stalls, streams oddly, refuses or is silent."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest
from anthropic import Anthropic, APIStatusError
from openai import APIError, OpenAI
from tests.support.cluster import Cluster, Router
from tests.support.deadlines import DEADLINE_S, wait_until
from tests.support.engine import Engine, Exchange, running
from tests.support.recorded import LAST_CHUNK, chunk
from tests.support.streams import CHAT

PATH = "/v1/chat/completions"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
COMMENT = chunk(b": keepalive\n\n")
KEEPALIVE_S = 0.2
TIMEOUT_S = 1.5

Script = Callable[[Exchange], Awaitable[None]]


def request(path: str = PATH, *, stream: bool = True, padding: int = 0, model: str = "tiny") -> bytes:
    body = json.dumps({"model": model, "messages": [], "stream": stream, "x": "y" * padding}).encode()
    return b"POST %b HTTP/1.1\r\nHost: router\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(),
        len(body),
        body,
    )


def read(sock: socket.socket, end: bytes = b"\x00never") -> bytes:
    """What comes up to `end` or a whole 502; all that comes, where the other side closes first."""
    data = bytearray()
    while not data.endswith((end, b'"code":"engine_failed"}}')) and (more := sock.recv(65536)):
        data += more
    return bytes(data)


def ask(router: Router, sent: bytes, end: bytes = b"\x00never") -> bytes:
    """One request on a connection of its own, and its answer."""
    with closing(router.connect()) as sock:
        sock.sendall(sent)
        return read(sock, end)


def saying(*pieces: bytes, then: str = "stay") -> Script:
    """An engine that writes these pieces, and then closes or resets the connection, or waits on it."""

    async def script(exchange: Exchange) -> None:
        for piece in pieces:
            await exchange.send(piece)
        match then:
            case "close":
                raise EOFError
            case "reset":
                exchange.cut()

    return script


def in_flight(router: Router) -> int:
    found: int = router.ask("GET", "/stats.json").json["in_flight"]
    return found


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Router, Engine]]:
    """A router that comments soon and gives up early."""
    with running("tiny") as engine, Cluster(tmp_path_factory.mktemp("impatient")) as cluster:
        daemon = cluster.daemon()
        cluster.register(daemon, "glm", f"{engine.port}/v1")
        router = cluster.router(daemon, SSE_KEEPALIVE_S=str(KEEPALIVE_S), SERVING_TIMEOUT_S=str(TIMEOUT_S))
        router.wait_models("tiny")
        yield router, engine


# -- 8: clients that leave


@pytest.mark.parametrize(
    ("stream", "said"),
    [(True, b""), (True, STREAM), (True, STREAM + chunk(CHAT[0])), (False, b"")],
    ids=["no head", "head", "mid-stream", "not streamed"],
)
def test_a_client_that_leaves_stops_the_engine_within_a_second(
    router: Router, engine: Engine, stream: bool, said: bytes
) -> None:
    gone = threading.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(said)
        await exchange.gone()
        gone.set()

    engine.play(PATH, script)
    with closing(router.connect()) as sock:
        sock.sendall(request(stream=stream))
        wait_until(engine.posts)
        if said:
            sock.recv(1)
        assert in_flight(router) == 1
    assert gone.wait(1.0)
    wait_until(lambda: not in_flight(router))


# -- 9: engines that break


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (saying(then="close"), "closed before an answer"),
        (saying(then="reset"), "connection reset before an answer"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-", then="close"), "closed in the head"),
        (saying(b"\x16\x03\x01 garbage\r\n\r\n"), "not HTTP/1.x"),
        (saying(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), "status 101"),
        (saying(b"HTTP/1.1 100 Continue\r\n\r\n", then="close"), "closed before an answer"),
        (saying(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000), "more than 64 KiB"),
        (saying(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"), "LF without CR"),
        (
            saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            "broken head",
        ),
    ],
    ids=[
        "closes",
        "resets",
        "half a head",
        "garbage",
        "101",
        "100 alone",
        "endless head",
        "bare LF",
        "two framings",
    ],
)
def test_no_answer_is_a_502_and_asked_once(router: Router, engine: Engine, script: Script, why: str) -> None:
    engine.play(PATH, script)
    answer = router.ask("POST", PATH, b'{"model":"tiny"}')
    assert (answer.status, answer.json["error"]["code"]) == (502, "engine_failed")
    assert why in answer.json["error"]["message"]
    (first,) = engine.posts()
    engine.forget()
    assert router.post(PATH, model="tiny").status == 200
    assert engine.posts()[0].connection != first.connection


@pytest.mark.parametrize(
    "answer",
    [
        STREAM + chunk(b"data: 1\n\ndata: "),
        STREAM + b"40\r\ndata: 1\n\n",
        STREAM + chunk(b"data: 1\n\nda") + b"zz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    ],
    ids=["within an event", "within a chunk", "broken chunks", "short of its length"],
)
def test_half_an_answer_never_looks_whole(router: Router, engine: Engine, answer: bytes) -> None:
    engine.play(PATH, saying(answer, then="close"))
    got = ask(router, request())
    whole = answer.removesuffix(b"zz\r\n")
    assert got == whole or (answer != whole and b'"code":"engine_failed"' in got)
    assert not got.endswith(LAST_CHUNK)


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        (
            b"Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            b"Content-Length: 2\r\n\r\n{}",
        ),
        (b"Content-Length: 2\r\n\r\n{}more than it said", b"Content-Length: 2\r\n\r\n{}"),
        (
            b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nmore",
            b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ),
    ],
    ids=["two answers", "beyond its length", "beyond the last chunk"],
)  # fmt: skip
def test_what_follows_an_answer_belongs_to_none(
    router: Router, engine: Engine, said: bytes, passed: bytes
) -> None:
    engine.play(PATH, saying(b"HTTP/1.1 200 OK\r\n" + said))
    for _ in range(3):
        end = passed[-2:] if passed.endswith(b"{}") else LAST_CHUNK
        assert ask(router, request(), end) == b"HTTP/1.1 200 OK\r\n" + passed
    connections = [post.connection for post in engine.posts()]
    assert len(set(connections)) == 3


def test_interim_answers_are_kept_back(router: Router, engine: Engine) -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    interim = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    engine.play(PATH, saying(*interim, whole))
    assert ask(router, request(), b"{}") == whole


def test_an_answer_before_the_request_was_read(cluster: Cluster) -> None:
    early = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}"
    with hasty(early) as port:
        daemon = cluster.daemon()
        cluster.register(daemon, "glm", f"{port}/v1")
        router = cluster.router(daemon)
        router.wait_models("hasty")
        for _ in range(2):
            assert ask(router, request(model="hasty", padding=30_000_000), b"{}") == early


@contextmanager
def hasty(answer: bytes) -> Iterator[int]:
    """The port of an engine that lists `hasty`, and answers anything else as soon as its first bytes are there."""
    listing = b'{"data":[{"id":"hasty"}]}'
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(listing)
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as stack:

        def serve() -> None:
            with suppress(OSError):  # shut down
                while True:
                    sock = stack.enter_context(closing(listening.accept()[0]))
                    if sock.recv(1000).startswith(b"GET"):
                        sock.sendall(head + listing)
                        sock.close()
                    else:
                        sock.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(DEADLINE_S)


def test_a_head_that_never_ends_is_a_504(impatient: tuple[Router, Engine]) -> None:
    router, engine = impatient
    engine.forget()
    engine.play(PATH, saying(b"HTTP/1.1 200 OK\r\nContent-"))
    answer = router.ask("POST", PATH, b'{"model":"tiny"}')
    assert (answer.status, answer.json["error"]["code"]) == (504, "engine_timeout")


# -- 10: streams


EVENTS = [
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"[DONE]"}}]}\r\n\r\n',
    ": a comment ö\n\n".encode(),
    'data:{"choices":[{"delta":{"content":"日本語 🦊"}}]}\r\r'.encode(),
    b'event: x\r\nid: 7\r\nretry: 10\r\ndata: {"a":\r\ndata: 1}\r\n\r\n',
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\": 1"}}]}}]}\n\n',
    b"data: " + b"x" * 5_000_000 + b"\n\n",
    b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
    b"data: [DONE]\n\n",
]


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_a_stream_goes_on_byte_for_byte_however_it_is_cut(
    router: Router, engine: Engine, framing: str
) -> None:
    body = b"".join(EVENTS)
    dice = random.Random(framing)
    cuts = sorted(dice.randrange(len(body)) for _ in range(40))
    # many of the cuts where the small events are, inside their characters too
    cuts = sorted({0, len(body), *cuts, *(dice.randrange(700) for _ in range(60))})
    pieces = [body[a:b] for a, b in itertools.pairwise(cuts)]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    match framing:
        case "chunked":
            wire = [*map(chunk, pieces), LAST_CHUNK]
            head += b"Transfer-Encoding: chunked\r\n"
        case "length":
            wire = pieces
            head += b"Content-Length: %d\r\n" % len(body)
        case _:
            wire = pieces

    async def script(exchange: Exchange) -> None:
        await exchange.send(head + b"\r\n")
        for piece in wire:
            await exchange.send(piece)
        if framing == "close":
            raise EOFError

    engine.play(PATH, script)
    with closing(router.connect()) as sock:
        sock.sendall(request())
        got = read(sock, pieces[-1] if framing == "length" else LAST_CHUNK)
    got_head, _, got_body = got.partition(b"\r\n\r\n")
    assert got_head.startswith(head[:-2])
    if framing == "close":
        assert b"".join(unchunked(got_body)) == body
    else:
        assert got_body == b"".join(wire)


def unchunked(data: bytes) -> Iterator[bytes]:
    """The chunks of a whole chunked body."""
    while size := int(data.partition(b"\r\n")[0], 16):
        data = data.partition(b"\r\n")[2]
        yield data[:size]
        assert data[size : size + 2] == b"\r\n"
        data = data[size + 2 :]
    assert data == LAST_CHUNK


def test_the_first_byte_goes_on_at_once(router: Router, engine: Engine) -> None:
    engine.play(PATH, saying(STREAM, b"2"))
    assert ask(router, request(), b"\r\n\r\n2") == STREAM + b"2"


# -- 11: engines that close idle connections


@pytest.mark.parametrize("announced", [b"", b"Connection: close\r\n", b"Keep-Alive: timeout=0\r\n"])
def test_an_engine_that_closes_after_each_answer_never_costs_a_502(
    router: Router, engine: Engine, announced: bytes
) -> None:
    engine.play(
        PATH, saying(b"HTTP/1.1 200 OK\r\n" + announced + b"Content-Length: 2\r\n\r\n{}", then="close")
    )
    statuses = []
    with closing(router.connect()) as sock:
        for _ in range(500):
            sock.sendall(request())
            statuses.append(read(sock, b"{}")[9:12])
    assert statuses == [b"200"] * 500
    assert len(engine.posts()) == 500


# -- 12: statuses


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nab",
        b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 9\r\n\r\n',
        b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm="x"\r\nContent-Length: 2\r\n\r\n{}',
        b"HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p>x",
        b"HTTP/1.1 503\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 \xc3\xbc\r\nX: \xff\xfe \xc3\xbc\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nDate: then\r\nServer: mine\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_an_answer_goes_on_untouched(router: Router, engine: Engine, answer: bytes) -> None:
    engine.play(PATH, saying(answer))
    for _ in range(2):
        # no second Date or Server, nothing else, and nothing missing
        assert ask(router, request(), answer) == answer
    with closing(router.connect()) as sock:
        sock.sendall(request())
        read(sock, answer)
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: r\r\n\r\n")
        assert sock.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("start", [b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n"])
def test_an_answer_that_its_connection_ends(router: Router, engine: Engine, start: bytes) -> None:
    engine.play(PATH, saying(start + b"X: y\r\n\r\n", b"hello", then="close"))
    got = ask(router, request(), LAST_CHUNK)
    assert got.startswith(b"HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert b"".join(unchunked(got.partition(b"\r\n\r\n")[2])) == b"hello"


# -- 13: comments while an engine is silent


class Silent:
    """An engine that answers when it is told to."""

    def __init__(self, answer: bytes, then: str = "stay") -> None:
        self.speak = threading.Event()
        self._answer, self._then = answer, then

    async def __call__(self, exchange: Exchange) -> None:
        await asyncio.to_thread(self.speak.wait, DEADLINE_S)
        await saying(self._answer, then=self._then)(exchange)


def commented(impatient: tuple[Router, Engine], engine_says: Silent, path: str = PATH) -> bytes:
    """What a client gets behind the head that it was given, and two comments."""
    router, engine = impatient
    engine.forget()
    engine.play(path, engine_says)
    with closing(router.connect()) as sock:
        sock.sendall(request(path))
        began = read(sock, 2 * COMMENT)
        engine_says.speak.set()
        rest = read(sock, LAST_CHUNK)
    head, _, comments = began.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Type: text/event-stream\r\n" in head
    assert comments == 2 * COMMENT
    wait_until(lambda: not in_flight(router))
    return rest


def test_a_stream_goes_on_behind_comments(impatient: tuple[Router, Engine]) -> None:
    events = b"".join(map(chunk, CHAT)) + LAST_CHUNK
    assert commented(impatient, Silent(STREAM + events)) == events


def test_the_sdk_reads_a_stream_that_begins_with_comments(impatient: tuple[Router, Engine]) -> None:
    router, engine = impatient
    engine.forget()
    engine.play(PATH, silent := Silent(STREAM + b"".join(map(chunk, CHAT)) + LAST_CHUNK))
    with OpenAI(base_url=f"{router.base}/v1", api_key="x", max_retries=0) as client:
        stream = client.chat.completions.create(model="tiny", messages=[], stream=True)
        # the SDK has its head: the router's comments began
        silent.speak.set()
        assert len(list(stream)) == len(CHAT) - 1


@pytest.mark.parametrize("path", [PATH, "/v1/messages", "/v1/responses"])
def test_an_error_behind_comments_is_one_event(impatient: tuple[Router, Engine], path: str) -> None:
    body = b'{"error":{"message":"the prompt is too long","type":"BadRequestError","param":null,"code":400}}'
    error = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    rest = commented(impatient, Silent(error % (len(body), body)), path)
    (event,) = (rest.partition(b"\r\n")[2].removesuffix(b"\n\n\r\n"),)
    *names, data = event.split(b"\n")
    assert names == ([b"event: error"] if path == "/v1/messages" else [])
    assert data.startswith(b'data: {"error":{"message":"the prompt is too long"')
    assert json.loads(data[6:])["error"] == json.loads(body)["error"]
    assert b"[DONE]" not in rest
    assert not rest.endswith(LAST_CHUNK)


def test_an_engine_that_dies_behind_comments(impatient: tuple[Router, Engine]) -> None:
    rest = commented(impatient, Silent(b"", then="reset"))
    assert rest.count(b"data: ") == 1
    assert b'"code":"engine_failed"' in rest
    assert not rest.endswith(LAST_CHUNK)


def test_the_deadline_behind_comments(impatient: tuple[Router, Engine]) -> None:
    router, engine = impatient
    engine.forget()
    engine.play(PATH, saying())
    got = ask(router, request())
    assert got.count(COMMENT) >= 3
    assert b'"code":"engine_timeout"' in got
    assert not got.endswith(LAST_CHUNK)


def test_the_sdks_raise_what_the_engine_said(impatient: tuple[Router, Engine]) -> None:
    router, engine = impatient
    engine.forget()
    body = b'{"error":{"message":"no room for it","type":"overloaded_error"}}'
    error = b"HTTP/1.1 529 Busy\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    for path in (PATH, "/v1/messages"):
        engine.play(path, silent := Silent(error % (len(body), body)))
        if path == PATH:
            with OpenAI(base_url=f"{router.base}/v1", api_key="x", max_retries=0) as openai:
                stream = openai.chat.completions.create(model="tiny", messages=[], stream=True)
                silent.speak.set()
                with pytest.raises(APIError, match="no room for it"):
                    list(stream)
        else:
            with Anthropic(base_url=router.base, api_key="x", max_retries=0) as anthropic:
                told = anthropic.messages.create(model="tiny", messages=[], max_tokens=9, stream=True)
                silent.speak.set()
                with pytest.raises(APIStatusError, match="no room for it"):
                    list(told)


def test_a_request_for_no_stream_waits_for_its_answer(impatient: tuple[Router, Engine]) -> None:
    router, engine = impatient
    engine.forget()
    whole = b"HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\n{}"
    engine.play(PATH, silent := Silent(whole))
    with closing(router.connect()) as sock:
        sock.sendall(request(stream=False))
        wait_until(lambda: engine.posts(PATH))
        time.sleep(3 * KEEPALIVE_S)
        silent.speak.set()
        assert read(sock, whole) == whole


# -- 15: one sick engine


def test_a_sick_engine_makes_nobody_else_wait(cluster: Cluster) -> None:
    with running("sick") as sick, running("well") as well:
        daemon = cluster.daemon()
        cluster.register(daemon, "a", f"{sick.port}/v1", "--container a")
        cluster.register(daemon, "b", f"{well.port}/v1", "--container b")
        router = cluster.router(daemon)
        router.wait_models("sick", "well")
        sick.play(PATH, saying())
        with ExitStack() as stack:
            for number in range(300):
                sock = stack.enter_context(closing(router.connect()))
                sock.sendall(request(model="sick", stream=number % 2 == 0, padding=number * 100))
            wait_until(lambda: len(sick.posts()) == 300)
            assert in_flight(router) == 300

            def one(_: int) -> tuple[int, float]:
                began = time.monotonic()
                status = router.post(PATH, model="well", messages=[]).status
                return status, time.monotonic() - began

            with ThreadPoolExecutor(8) as pool:
                done = list(pool.map(one, range(200)))
            assert {status for status, _ in done} == {200}
            assert sorted(seconds for _, seconds in done)[150] < 0.5
            # its own documents, and its group's health, too
            assert router.models() == ["sick", "well"]
        wait_until(lambda: not in_flight(router))
