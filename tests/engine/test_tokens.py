"""Counts that llama.cpp gives itself, counts that are rendered for it, and what a prompt then really costs."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI
from tests.engine.conftest import MODEL, PATIENCE_S, Served

ROUTE = "/v1/responses/input_tokens"


def own(served: Served, **request: Any) -> tuple[int, Any]:
    """What the engine itself answers to the request."""
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)) as connection:
        body = json.dumps({"model": MODEL, **request})
        connection.request("POST", ROUTE, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def counted(served: Served, **request: Any) -> int:
    answer = served.router.post(ROUTE, model=MODEL, **request)
    assert answer.status == 200, answer.body
    tokens: int = answer.json["input_tokens"]
    return tokens


def talk(text: str, said: str) -> list[dict[str, object]]:
    """A conversation with a call in it, its parts spelled as `text` (the user's) and `said` (the assistant's)."""
    return [
        {"type": "message", "role": "user", "content": [{"type": text, "text": "What is six by seven?"}]},
        {"type": "message", "role": "assistant", "content": [{"type": said, "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "multiply", "arguments": '{"a":6,"b":7}'},
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": text, "text": "So?"}, {"type": text, "text": "Say it."}],
        },
    ]


def test_a_count_is_what_the_prompt_then_costs(served: Served, client: OpenAI) -> None:
    count = client.responses.input_tokens.count(model=MODEL, instructions="Be brief.", input="hello world")
    answer = client.responses.create(
        model=MODEL, instructions="Be brief.", input="hello world", max_output_tokens=1
    )
    assert answer.usage is not None
    assert count.input_tokens == answer.usage.input_tokens


@pytest.mark.parametrize("instructions", [{}, {"instructions": "Be brief."}])
def test_a_rendered_count_is_the_engines_own(served: Served, instructions: dict[str, str]) -> None:
    status, document = own(served, input=talk("input_text", "output_text"), **instructions)
    assert status == 200
    assert (
        counted(served, input=talk("input_text", "output_text"), **instructions) == document["input_tokens"]
    )
    # the other spelling is one that the engine's own route refuses
    assert own(served, input=talk("text", "text"), **instructions)[0] == 400
    assert counted(served, input=talk("text", "text"), **instructions) == document["input_tokens"]


def test_tools_in_chats_shape(served: Served) -> None:
    function = {"name": "multiply", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}
    flat, chat = {"type": "function", **function}, {"type": "function", "function": function}
    assert own(served, input="hi", tools=[chat])[0] == 500
    assert counted(served, input="hi", tools=[chat]) == counted(served, input="hi", tools=[flat])


def test_an_image_for_a_model_of_text_has_its_flat_rate(served: Served) -> None:
    parts = [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "https://x/y.png"}]
    assert own(served, input=[{"role": "user", "content": parts}])[0] >= 400
    assert counted(served, input=[{"role": "user", "content": parts}]) == 4000 + counted(served, input="hi")


def test_anthropics_count_is_the_engines_own(served: Served) -> None:
    with Anthropic(base_url=served.router.base, api_key="none", max_retries=0, timeout=PATIENCE_S) as client:
        count = client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "hi"}])
    assert count.input_tokens == counted(served, input="hi")
