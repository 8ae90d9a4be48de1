"""The questions of one count, and an engine's own words for an error."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, cast

import pytest
from tests.support.recorded import recorded

from mentatd.cluster.routes import Route
from mentatd.cluster.targets import parse_target
from mentatd.errors import ConnectFailed
from mentatd.http.client import Answer
from mentatd.serve.connecting import CONNECT_TIMEOUT_S
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.tokens.engine import Engine, reason

OK = Answer(200, (), b"{}", reused=False)


class Client:
    """Keeps what it was asked; the first address takes no connection."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def ask(self, method: str, url: str, **more: Any) -> Answer:
        self.asked.append((f"{method} {url}", more))
        if "10.0.0.1" in url:
            raise ConnectFailed(url, "no route to host")
        return OK


def engine(
    client: Client, suspects: list[tuple[str, str]], fields: dict[str, str] | None = None, *trusted: str
) -> Engine:
    targets = parse_target("http://10.0.0.1:8000/v1"), parse_target("https://[fd00::2]/base/v1")
    route = Route("glm", targets, math.inf, provider="vllm", trusted=frozenset(trusted))
    return Engine(
        cast("Any", client),
        route,
        "m",
        seconds=100.0,
        fields={"x-a": "1", "content-type": "text/plain"} if fields is None else fields,
        key=EngineKey(b"sk-1"),
        suspect=lambda group, url: suspects.append((group, url)),
    )


async def test_all_questions_of_a_count_share_one_deadline() -> None:
    client = Client()
    asking = engine(client, [])
    await asking.post(b"/tokenize", b"")
    await asyncio.sleep(0.001)
    await asking.post(b"/tokenize", b"")
    deadlines = [more["deadline"] for _, more in client.asked]
    assert 100.0 >= deadlines[0] >= deadlines[1] > deadlines[2] > 90.0
    assert {more["connect_within"] for _, more in client.asked} == {CONNECT_TIMEOUT_S}


SECOND = "https://[fd00::2]/base/v1"


@pytest.mark.parametrize(
    ("fields", "trusted", "sent"),
    [
        ({}, (SECOND,), "Bearer sk-1"),
        ({}, (), None),
        ({}, ("http://10.0.0.1:8000/v1",), None),
        ({"authorization": "Bearer own"}, (SECOND,), "Bearer own"),
        ({"authorization": "Bearer own"}, (), "Bearer own"),
        ({"x-api-key": "own"}, (SECOND,), "Bearer sk-1"),
    ],
)
async def test_the_engines_key_goes_where_it_may_and_the_client_has_none(
    fields: dict[str, str], trusted: tuple[str, ...], sent: str | None
) -> None:
    client = Client()
    await engine(client, [], fields, *trusted).post(b"/tokenize", b"")
    assert client.asked[-1][1]["fields"].get("authorization") == sent


async def test_an_address_that_took_no_connection_is_not_asked_again() -> None:
    client, suspects = Client(), list[tuple[str, str]]()
    asking = engine(client, suspects)
    assert await asking.post(b"/tokenize", b"") is OK
    assert await asking.post(b"/v1/x?y", b"") is OK
    assert [asked for asked, _ in client.asked] == [
        "POST http://10.0.0.1:8000/tokenize",
        "POST https://[fd00::2]/base/tokenize",
        "POST https://[fd00::2]/base/v1/x?y",
    ]
    assert suspects == [("glm", "http://10.0.0.1:8000/v1")]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (recorded("vllm-0.32/tokenize_image").body, "tiny is not a multimodal model"),
        (recorded("vllm-0.32/input_tokens").body, "Method Not Allowed"),
        (recorded("llamacpp-2026.10/unknown_path").body, "File Not Found"),
        (b'{"error":"plain words"}', "plain words"),
        (b'{"object":"error","message":"plain words","code":400}', "plain words"),
        (b'{"error":null,"detail":"","message":"plain words"}', "plain words"),
        (b'{"error":{"code":7},"detail":"plain words"}', "plain words"),
        (b'{"detail":[{"loc":["body"]}]}', '{"detail":[{"loc":["body"]}]}'),
        (b"<html>oops", "<html>oops"),
        (b"[1]", "[1]"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[" * 100_000, "[" * 500),
        (json.dumps({"message": "x" * 1000}).encode(), "x" * 500),
        (b"", ""),
    ],
)
def test_an_engines_own_words(body: bytes, words: str) -> None:
    assert reason(body) == words
