"""What the router answers in its own name (docs/errors.md)."""

from __future__ import annotations

from contextlib import closing

import pytest
from openai import NotFoundError, OpenAI
from tests.support.cluster import JSON, Cluster, Router
from tests.support.engine import Engine, Exchange

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", CHAT, b'{"messages":[]}', 400, "missing_model"),
        ("POST", CHAT, b'{"model":7}', 400, "invalid_model"),
        ("POST", CHAT, b'{"model":""}', 400, "invalid_model"),
        ("POST", CHAT, b'{"model":"tiny"', 400, "invalid_body"),
        ("POST", CHAT, b"[" * 100_000, 400, "invalid_body"),
        ("POST", CHAT, b"", 400, "invalid_body"),
        ("POST", CHAT, b'{"model":"Tiny"}', 404, "model_not_found"),
        ("POST", "/tokenize", b'{"model":"nothing"}', 404, "model_not_found"),
        ("GET", "/nothing", None, 404, "unknown_path"),
        ("GET", "/v1/models/nothing", None, 404, "model_not_found"),
        ("POST", "/v1/models", b'{"model":"tiny"}', 405, "method_not_allowed"),
        ("DELETE", "/status.json", None, 405, "method_not_allowed"),
        ("PUT", "/v1/anything", b"{}", 405, "method_not_allowed"),
    ],
)
def test_each_refusal_has_its_code(
    router: Router, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    answer = router.ask(method, path, body, JSON)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert set(answer.json["error"]) == {"message", "type", "param", "code"}
    if status == 405:
        assert answer.fields["Allow"]


def test_a_404_says_what_there_is(cluster: Cluster, router: Router, client: OpenAI, engine: Engine) -> None:
    answer = router.post(CHAT, model="other", messages=[])
    assert (answer.json["available"], answer.json["not_ready"]) == (["tiny"], {})
    with pytest.raises(NotFoundError, match="'other'"):
        client.chat.completions.create(model="other", messages=[])
    assert not engine.posts()


def test_the_name_of_a_group_that_does_not_route_is_a_503(cluster: Cluster) -> None:
    daemon = cluster.daemon()
    cluster.register(daemon, "glm", "1/v1")
    router = cluster.router(daemon)
    router.wait(lambda status: "refused" in (status["groups"].get("glm", {}).get("why_not") or ""))
    answer = router.post(CHAT, model="glm", messages=[])
    assert (answer.status, answer.json["error"]["code"]) == (503, "model_not_ready")
    assert "endpoint probe failed: http://127.0.0.1:1/v1: " in answer.json["error"]["message"]
    assert "glm" in router.post(CHAT, model="other", messages=[]).json["not_ready"]


def test_a_body_over_the_limit_is_refused_before_it_is_sent(router: Router, engine: Engine) -> None:
    with closing(router.connect()) as sock:
        sock.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nExpect: 100-continue\r\n"
            b"Content-Length: 134217729\r\n\r\n"
        )
        answer = b""
        while more := sock.recv(65536):
            answer += more
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"body_too_large"' in answer
    assert not engine.posts()


def test_smuggled_requests_are_refused(router: Router, engine: Engine) -> None:
    with closing(router.connect()) as sock:
        sock.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nContent-Length: 4\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /tokenize HTTP/1.1\r\nHost: router\r\n\r\n"
        )
        answer = b""
        while more := sock.recv(65536):
            answer += more
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert not engine.posts()


def test_a_client_outside_allowed_sources_gets_403_everywhere(cluster: Cluster) -> None:
    router = cluster.router(ALLOWED_SOURCES="10.99.")
    for method, path in (("GET", "/"), ("GET", "/v1/models"), ("GET", "/nothing"), ("POST", CHAT)):
        answer = router.ask(method, path, b"{}" if method == "POST" else None)
        assert (answer.status, answer.json["error"]["code"]) == (403, "source_not_allowed")


def test_an_engine_that_takes_too_long_is_a_504(cluster: Cluster, engine: Engine) -> None:
    async def hang(exchange: Exchange) -> None:
        await exchange.gone()

    engine.play(CHAT, hang)
    daemon = cluster.daemon()
    cluster.register(daemon, "glm", f"{engine.port}/v1")
    router = cluster.router(daemon, SERVING_TIMEOUT_S="0.5")
    router.wait_models("tiny")
    answer = router.post(CHAT, model="tiny", messages=[])
    assert (answer.status, answer.json["error"]["code"]) == (504, "engine_timeout")
    assert len(engine.posts()) == 1
