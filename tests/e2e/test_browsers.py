"""Pages of other sites: what a browser needs to see, and what it may not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.support.cluster import JSON, Answer, Cluster, Router
from tests.support.engine import Engine, Exchange, running

CHAT = "/v1/chat/completions"
PAGE = "https://chat.example"
FROM_PAGE = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}


@pytest.fixture(scope="module")
def open_router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Router, Engine]]:
    """A router that the page may use."""
    with running("tiny") as engine, Cluster(tmp_path_factory.mktemp("browsers")) as cluster:
        daemon = cluster.daemon()
        cluster.register(daemon, "glm", f"{engine.port}/v1")
        router = cluster.router(daemon, CORS_ALLOW_ORIGINS=PAGE, SSE_KEEPALIVE_S="0.1")
        router.wait_models("tiny")
        yield router, engine


def origins(answer: Answer) -> list[str]:
    return answer.fields.get_all("Access-Control-Allow-Origin") or []


def test_every_answer_can_be_read_by_a_page_that_may(open_router: tuple[Router, Engine]) -> None:
    router, engine = open_router
    engine.forget()

    async def strict(exchange: Exchange) -> None:
        own = b"Access-Control-Allow-Origin: https://engine.example\r\nAccess-Control-Allow-Credentials: true\r\n"
        await exchange.send(b"HTTP/1.1 200 OK\r\n" + own + b"Vary: Origin\r\nContent-Length: 2\r\n\r\n{}")

    engine.play("/strict", strict)
    for method, path, body, status in (
        ("GET", "/v1/models", None, 200),
        ("GET", "/status.json", None, 200),
        ("GET", "/", None, 200),
        ("GET", "/nothing", None, 404),
        ("DELETE", "/v1/models", None, 405),
        ("POST", CHAT, b'{"model":"tiny","messages":[]}', 200),
        ("POST", CHAT, b'{"model":"tiny","messages":[],"stream":true}', 200),
        ("POST", CHAT, b'{"model":"other"}', 404),
        ("POST", CHAT, b"{", 400),
        ("POST", "/strict", b'{"model":"tiny"}', 200),
        ("POST", "/unknown", b'{"model":"tiny"}', 404),
        ("POST", "/mcp", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 200),
    ):
        answer = router.ask(method, path, body, JSON | FROM_PAGE)
        assert (answer.status, origins(answer)) == (status, [PAGE]), path
        assert "Origin" in answer.fields.get_all("Vary", [])
        assert answer.fields["Access-Control-Allow-Credentials"] is None


def stream_head(router: Router, request: bytes) -> bytes:
    """The head of an answer that has no end yet, to a page that may read it."""
    with closing(router.connect()) as sock:
        sock.sendall(request.replace(b"Host: r\r\n", b"Host: r\r\nOrigin: %b\r\n" % PAGE.encode()))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = sock.recv(1)
            assert byte, head
            head += byte
    return head


def test_a_stream_that_begins_before_its_engine_answers_can_be_read(
    open_router: tuple[Router, Engine],
) -> None:
    router, engine = open_router
    engine.forget()

    async def silent(exchange: Exchange) -> None:
        await exchange.gone()

    engine.play(CHAT, silent)
    body = b'{"model":"tiny","messages":[],"stream":true}'
    head = stream_head(
        router,
        b"POST %b HTTP/1.1\r\nHost: r\r\nContent-Length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body),
    )
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nAccess-Control-Allow-Origin: %b\r\n" % PAGE.encode() in head


def test_the_stream_of_the_status_page_can_be_read(open_router: tuple[Router, Engine]) -> None:
    head = stream_head(open_router[0], b"GET /events.json HTTP/1.1\r\nHost: r\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nAccess-Control-Allow-Origin: %b\r\n" % PAGE.encode() in head


def test_a_preflight_is_granted(open_router: tuple[Router, Engine]) -> None:
    router, engine = open_router
    engine.forget()
    asked = FROM_PAGE | {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
    }
    answer = router.ask("OPTIONS", CHAT, None, asked)
    assert (answer.status, origins(answer), answer.body) == (204, [PAGE], b"")
    assert answer.fields["Access-Control-Allow-Headers"] == "authorization,content-type,x-stainless-os"
    assert "POST" in answer.fields["Access-Control-Allow-Methods"]
    other = router.ask("OPTIONS", CHAT, None, asked | {"Origin": "https://evil.example"})
    assert (other.status, origins(other)) == (204, [])
    assert other.fields["Access-Control-Allow-Methods"] is None
    assert not engine.posts()


@pytest.mark.parametrize("path", [CHAT, "/tokenize", "/v1/responses/input_tokens", "/mcp"])
def test_a_page_that_may_not_is_refused(open_router: tuple[Router, Engine], path: str) -> None:
    router, engine = open_router
    engine.forget()
    simple = {"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    answer = router.ask("POST", path, b'{"model":"tiny","messages":[]}', simple)
    assert (answer.status, answer.json["error"]["code"]) == (403, "origin_not_allowed")
    assert origins(answer) == []
    assert not engine.posts()


def test_it_is_off_unless_it_is_set(router: Router, engine: Engine) -> None:
    body = b'{"model":"tiny","messages":[]}'
    for answer in (
        router.ask("OPTIONS", CHAT, None, FROM_PAGE | {"Access-Control-Request-Method": "POST"}),
        router.ask("GET", "/v1/models", None, FROM_PAGE),
        router.ask("POST", CHAT, body, JSON | FROM_PAGE),
    ):
        assert origins(answer) == []
    assert answer.status == 403
    assert not engine.posts()
    own = {"Origin": router.base, "Sec-Fetch-Site": "cross-site"}
    assert router.ask("POST", CHAT, body, JSON | own).status == 200
    # not a browser's, or an older browser's
    assert router.ask("POST", CHAT, body, JSON | {"Origin": PAGE}).status == 200
