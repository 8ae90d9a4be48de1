"""Who answers at which path and method, through a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.clock import Clock
from tests.support.deadlines import within
from tests.support.views import group, probe

from mentatd.cluster.routes import EMPTY, RouteTable, build
from mentatd.errors import Refusal
from mentatd.http.request import Head
from mentatd.http.server import Connection, Request, Server
from mentatd.serve.answering import Answer as Answering
from mentatd.serve.cors import EVERYBODY, Cors
from mentatd.serve.handler import UNREAD_BODY_LIMIT, Endpoint, RouterHandler
from mentatd.serve.status import Documents


class Proxy:
    """Says which path it was given, and remembers for which heads it was asked."""

    def __init__(self, word: str = "proxied") -> None:
        self.asked: list[str] = []
        self._word = word

    def admit(self, request: Request) -> Refusal | int:
        return 1 << 20

    def forwarder(self, head: Head) -> Answering:
        self.asked.append(head.path)
        text = f"{self._word} {head.path}".encode()
        return lambda request, connection: connection.answer(200, text, b"text/plain")


@dataclass
class Answer:
    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


NOW = 1000.0


def table(model: str) -> RouteTable:
    """One group, which serves this model."""
    glm = group("glm")
    return build({"glm": glm}, {"glm": probe(glm, model, at=NOW)}, previous=EMPTY, now=NOW, fresh_s=18.0)


class Router:
    """A server with the handler under test."""

    def __init__(self, proxy: Proxy | None = None, cors: Cors | None = None) -> None:
        self.proxy = proxy or Proxy()
        self.published = SimpleNamespace(table=table("org/m"))
        documents = Documents(cast("Any", self.published), tuple, clock=Clock(NOW))

        def echo(request: Request, connection: Connection) -> None:
            connection.answer(200, bytes(request.body), b"text/plain")

        own = {"/own": Endpoint(echo, ("POST", "OPTIONS"), body_limit=300_000)}
        self.refused: list[tuple[str, str, bool]] = []
        """Code and path of each refusal, and whether it was of a request that is forwarded."""

        def refused(refusal: Refusal, request: Request | None, forwarded: bool) -> None:
            self.refused.append((refusal.code, request.path if request else "", forwarded))

        self.server = Server(RouterHandler(self.proxy, documents, own, refused, cors))

    async def ask(self, method: str, path: str, fields: str = "", body: bytes = b"") -> Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            length = f"Content-Length: {len(body)}\r\n" if body else ""
            head = f"{method} {path} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n{length}{fields}\r\n"
            writer.write(head.encode() + body)
            async with within():
                answer = await reader.read()
        finally:
            writer.close()
        start, _, rest = answer.partition(b"\r\n\r\n")
        lines = start.decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines[1:])
        return Answer(int(lines[0].split()[1]), {name.lower(): value for name, value in pairs}, rest)


@asynccontextmanager
async def serving(proxy: Proxy | None = None, cors: Cors | None = None) -> AsyncIterator[Router]:
    router = Router(proxy, cors)
    await router.server.start(0, ("127.0.0.1",))
    try:
        yield router
    finally:
        await router.server.close()


@pytest.fixture
async def router() -> AsyncIterator[Router]:
    async with serving() as router:
        yield router


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/", "/v1", "/v1/", "/v1/models?x=/y"])
async def test_the_listing(router: Router, path: str) -> None:
    answer = await router.ask("GET", path)
    assert answer.status == 200
    assert answer.fields["content-type"] == "application/json"
    assert answer.json["data"] == [{"id": "org/m"}]


@pytest.mark.parametrize("path", ["/v1/models/org/m", "/v1/models/org%2Fm", "/v1/models/org/m/"])
async def test_one_model(router: Router, path: str) -> None:
    assert (await router.ask("GET", path)).json == {"id": "org/m"}


async def test_a_model_that_nothing_serves(router: Router) -> None:
    answer = await router.ask("GET", "/v1/models/nothing")
    assert answer.status == 404
    assert answer.json["error"]["code"] == "model_not_found"
    assert answer.json["available"] == ["org/m"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/healthz/", "/status.json", "/status.json/"])
async def test_the_status_document(router: Router, path: str) -> None:
    answer = await router.ask("GET", path, "Accept: */*\r\n")
    assert answer.status == 200
    assert answer.json["groups"]["glm"]["healthy"] is True


async def test_a_browser_gets_the_page_where_others_get_the_document(router: Router) -> None:
    accept = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"
    page = await router.ask("GET", "/", accept)
    assert page.fields["content-type"] == "text/html; charset=utf-8"
    assert page.body.startswith(b"<!doctype html>")
    assert page.fields["vary"] == "Accept"
    assert "default-src 'none'" in page.fields["content-security-policy"]
    assert (await router.ask("GET", "/")).fields["vary"] == "Accept"
    assert (await router.ask("GET", "/status.json", accept)).fields["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/", "/v1/models", "/healthz", "/status.json", "/v1/models/org/m"])
async def test_head_has_the_fields_of_get_and_no_body(router: Router, path: str) -> None:
    got, head = await router.ask("GET", path), await router.ask("HEAD", path)
    assert head.status == 200
    assert head.body == b""
    assert head.fields["content-length"] == str(len(got.body))
    assert (await router.ask("HEAD", "/nothing")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/models/", "GET, HEAD, OPTIONS"),
        ("DELETE", "/v1/models/org/m", "GET, HEAD, OPTIONS"),
        ("PUT", "/status.json", "GET, HEAD, OPTIONS"),
        ("PATCH", "/healthz", "GET, HEAD, OPTIONS"),
        ("GET", "/own", "POST, OPTIONS"),
        ("HEAD", "/own/", "POST, OPTIONS"),
        ("PUT", "/v1/chat/completions", "POST, OPTIONS"),
        ("DELETE", "/anything", "POST, OPTIONS"),
    ],
)
async def test_a_method_that_a_path_does_not_take(router: Router, method: str, path: str, allow: str) -> None:
    answer = await router.ask(method, path)
    assert answer.status == 405
    assert answer.fields["allow"] == allow
    if method != "HEAD":
        assert answer.json["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/", "GET, HEAD, OPTIONS"),
        ("*", "GET, HEAD, OPTIONS"),
        ("/own", "POST, OPTIONS"),
        ("/x", "POST, OPTIONS"),
    ],
)
async def test_options_tells_what_a_path_takes(router: Router, path: str, allow: str) -> None:
    answer = await router.ask("OPTIONS", path)
    assert (answer.status, answer.fields["allow"], answer.body) == (204, allow, b"")


@pytest.mark.parametrize(
    "path", ["/v2/models", "/models", "/v1/chat/completions", "/favicon.ico", "/healthz/x"]
)
async def test_a_document_that_is_not_there(router: Router, path: str) -> None:
    answer = await router.ask("GET", path)
    assert answer.status == 404
    assert answer.json["error"]["code"] == "unknown_path"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize", "/v1/audio/", "//", "/v1/modelsx"])
async def test_any_other_post_is_forwarded_with_its_path_as_it_came(router: Router, path: str) -> None:
    answer = await router.ask("POST", path, body=b"{}")
    assert answer.body == f"proxied {path}".encode()


async def test_large_bodies_are_read_as_far_as_the_path_takes_them(router: Router) -> None:
    large = b"x" * 200_000
    assert (await router.ask("POST", "/own", body=large)).body == large
    assert (await router.ask("POST", "/own", body=2 * large)).status == 413
    assert (await router.ask("POST", "/v1/completions", body=large)).status == 200
    assert (await router.ask("GET", "/v1/models", body=large)).status == 413
    assert len(large) > UNREAD_BODY_LIMIT
    assert (await router.ask("PUT", "/v1/files", body=large)).status == 405


async def test_every_refusal_is_told_of(router: Router) -> None:
    await router.ask("GET", "/v1/models/none")
    await router.ask("PUT", "/v1/chat/completions")
    await router.ask("GET", "/x", fields="A : b\r\n")
    assert router.refused == [
        ("model_not_found", "/v1/models/none", False),
        ("method_not_allowed", "/v1/chat/completions", True),
        ("malformed_request", "", False),
    ]


async def test_a_post_of_another_sites_page_is_refused_before_its_body_comes(router: Router) -> None:
    fields = "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n"
    for path, body in (("/x", b"{}"), ("/own", b"{}"), ("/x", bytes(1 << 20))):
        answer = await router.ask("POST", path, fields, body)
        assert (answer.status, answer.json["error"]["code"]) == (403, "origin_not_allowed")
    assert (await router.ask("GET", "/v1/models", fields)).status == 200
    assert (
        await router.ask("POST", "/x", fields.replace("https://evil.example", "http://r"), b"{}")
    ).status == 200


async def test_no_preflight_is_granted_unless_it_is_set(router: Router) -> None:
    answer = await router.ask("OPTIONS", "/x", "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n")
    assert answer.status == 204
    assert not [name for name in answer.fields if name.startswith("access-control")]


async def test_who_answers_is_asked_once_a_head(router: Router) -> None:
    for body in (b"{}", b"[1]", b"x" * 20_000):
        assert (await router.ask("POST", "/x", body=body)).body == b"proxied /x"
    assert router.proxy.asked == ["/x"]
    await router.ask("POST", "/x", "A: 1\r\n", b"{}")
    await router.ask("POST", "/y", body=b"{}")
    assert router.proxy.asked == ["/x", "/x", "/y"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models", 200),
        ("GET", "/v1/models/nothing", 404),
        ("GET", "/nothing", 404),
        ("PUT", "/own", 405),
        ("OPTIONS", "/own", 204),
        ("POST", "/own", 200),
        ("POST", "/x", 200),
    ],
)
async def test_a_head_that_comes_again_is_answered_alike(
    router: Router, method: str, path: str, status: int
) -> None:
    first, again = [await router.ask(method, path, body=b"{}") for _ in range(2)]
    assert first.status == status
    assert (again.status, again.body) == (first.status, first.body)
    for answer in (first, again):
        del answer.fields["date"]
    assert again.fields == first.fields
    if status >= 400:
        assert len(router.refused) == 2


async def test_a_head_that_comes_again_is_answered_with_the_newest_document(router: Router) -> None:
    assert (await router.ask("GET", "/v1/models")).json["data"] == [{"id": "org/m"}]
    router.published.table = table("org/new")
    assert (await router.ask("GET", "/v1/models")).json["data"] == [{"id": "org/new"}]


async def test_two_servers_of_one_process_answer_each_for_itself() -> None:
    page = "Origin: https://chat.example\r\nSec-Fetch-Site: cross-site\r\n"
    async with serving(Proxy("one")) as one, serving(Proxy("other"), Cors(frozenset({EVERYBODY}))) as other:
        for _ in range(2):
            assert (await one.ask("POST", "/x", body=b"{}")).body == b"one /x"
            assert (await other.ask("POST", "/x", body=b"{}")).body == b"other /x"
            assert (await one.ask("POST", "/x", page, b"{}")).status == 403
            assert (await other.ask("POST", "/x", page, b"{}")).body == b"other /x"
