"""Counting tokens as clients do it: through the SDKs of both APIs, and by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI
from tests.support.cluster import Cluster, Router
from tests.support.engine import Engine, Exchange

RESPONSES = "/v1/responses/input_tokens"
ANTHROPIC = "/v1/messages/count_tokens"
TOOL: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}


def routing(cluster: Cluster, engine: Engine, provider: str, **env: str) -> Router:
    daemon = cluster.daemon()
    cluster.register(daemon, "glm", f"{engine.port}/v1", provider and f"--provider {provider}")
    router = cluster.router(daemon, **env)
    router.wait_models("tiny")
    return router


@pytest.fixture
def router(cluster: Cluster, engine: Engine) -> Router:
    """Routes `tiny` to an engine that says it is vLLM."""
    return routing(cluster, engine, "vllm")


@pytest.fixture
def anthropic(router: Router) -> Iterator[Anthropic]:
    with Anthropic(base_url=router.base, api_key="sk-ant", max_retries=0) as client:
        yield client


def test_the_openai_sdk_counts(client: OpenAI, engine: Engine) -> None:
    count = client.responses.input_tokens.count(
        model="tiny",
        instructions="be brief",
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "what is this?"},
                    {"type": "input_image", "image_url": "https://example.com/x.png", "detail": "auto"},
                ],
            }
        ],
        tools=[{"type": "function", "name": "weather", "parameters": TOOL, "strict": None}],
    )
    assert (count.object, count.input_tokens) == ("response.input_tokens", 4013)
    (question,) = engine.posts("/tokenize")
    assert question.fields("authorization") == ["Bearer sk-test"]
    assert json.loads(question.body) == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "what is this?"},
        ],
        "add_generation_prompt": True,
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}],
    }


def test_the_anthropic_sdk_counts(anthropic: Anthropic, engine: Engine) -> None:
    count = anthropic.messages.count_tokens(
        model="tiny",
        system="be brief",
        messages=[{"role": "user", "content": "hello world"}],
        tools=[{"name": "weather", "input_schema": TOOL}],
    )
    assert count.input_tokens == 13
    assert [request.target for request in engine.posts()] == [ANTHROPIC, "/tokenize"]
    assert engine.posts()[0].fields("authorization") == ["Bearer sk-ant"]
    assert engine.posts()[0].fields("anthropic-version")
    assert json.loads(engine.posts()[1].body)["tools"][0]["function"]["name"] == "weather"


def test_the_anthropic_sdk_gets_the_engines_own_count(anthropic: Anthropic, engine: Engine) -> None:
    async def own(exchange: Exchange) -> None:
        await exchange.answer(b'{"input_tokens":99}')

    engine.play(ANTHROPIC, own)
    count = anthropic.messages.count_tokens(model="tiny", messages=[{"role": "user", "content": "hi"}])
    assert count.input_tokens == 99
    assert [request.target for request in engine.posts()] == [ANTHROPIC]


def test_the_sdk_knows_our_refusals(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="nothing here serves the model 'nope'"):
        client.responses.input_tokens.count(model="nope", input="hi")
    with pytest.raises(openai.BadRequestError, match=r"input\[0\]\.role is not a string") as refused:
        client.post(
            RESPONSES.removeprefix("/v1"), cast_to=object, body={"model": "tiny", "input": [{"role": 7}]}
        )
    assert refused.value.code == "invalid_prompt"


def test_a_group_without_a_provider(cluster: Cluster, engine: Engine) -> None:
    router = routing(cluster, engine, "")
    answer = router.post(RESPONSES, model="tiny", input="hi")
    assert (answer.status, answer.json["error"]["code"]) == (400, "unknown_provider")
    assert "group glm announced no provider" in answer.json["error"]["message"]


def test_the_deadline_is_mcp_timeout_s(cluster: Cluster, engine: Engine) -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.gone()

    engine.play("/tokenize", silent)
    router = routing(cluster, engine, "vllm", MCP_TIMEOUT_S="0.1")
    answer = router.post(RESPONSES, model="tiny", input="hi")
    assert (answer.status, answer.json["error"]["code"]) == (504, "engine_timeout")


@pytest.mark.parametrize("path", [RESPONSES, ANTHROPIC])
def test_the_paths_are_the_routers_own(router: Router, engine: Engine, path: str) -> None:
    body = b'{"model":"tiny","input":"hi","messages":[{"role":"user","content":"hi"}]}'
    assert router.ask("POST", path, body).json["input_tokens"] == 13
    assert router.ask("POST", f"{path}/", body, {"Content-Type": "text/plain"}).json["input_tokens"] == 13
    zipped = router.ask("POST", path, gzip.compress(body), {"Content-Encoding": "gzip"})
    assert zipped.json["input_tokens"] == 13
    asked = len(engine.posts())
    for method in "GET", "PUT", "DELETE":
        answer = router.ask(method, path)
        assert (answer.status, answer.fields["Allow"]) == (405, "POST, OPTIONS")
        assert answer.json["error"]["code"] == "method_not_allowed"
    with router.connect() as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: r\r\nContent-Length: {32 * 1024 * 1024 + 1}\r\n\r\n".encode()
        )
        assert connection.recv(64).startswith(b"HTTP/1.1 413 ")
    assert len(engine.posts()) == asked
