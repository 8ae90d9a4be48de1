"""Counting with vLLM, by its recorded answers."""

from __future__ import annotations

import pytest
from tests.serve.tokens.counting import Counting, Engine, answer
from tests.support.recorded import recorded

from mentatd.serve.tokens.endpoint import RESPONSES_PATH


async def test_the_count_of_a_chat_request(router: Counting) -> None:
    engine = Engine(tokenize=recorded("vllm-0.32/tokenize_chat").whole)
    await router.engine(engine)
    given = await router.responses(input="hello world")
    assert given.status == 200
    assert given.body == b'{"object":"response.input_tokens","input_tokens":13}'
    assert b"Content-Type: application/json" in given.head
    assert engine.paths == ["/tokenize"]
    assert engine.asked[0].json == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello world"}],
        "add_generation_prompt": True,
    }
    assert engine.asked[0].get("content-type") == ["application/json"]


async def test_instructions_and_tools_are_the_templates(router: Counting) -> None:
    engine = Engine(tokenize=recorded("vllm-0.32/tokenize_tools").whole)
    await router.engine(engine)
    chat = b'{"function": {"parameters":{"z":1, "a":2},"name":"f"},"type":"function"}'
    flat = b'{"type":"function","parameters":{"z":1},"name":"g"}'
    body = b'{"model":"m","instructions":"be brief","input":"hi","tools":[%b, %b]}' % (chat, flat)
    given = await router.post(RESPONSES_PATH, body)
    assert given.json["input_tokens"] == 86
    assert [message["role"] for message in engine.asked[0].json["messages"]] == ["system", "user"]
    wrapped = b'{"type":"function","function":{"parameters":{"z":1},"name":"g"}}'
    assert engine.asked[0].body.endswith(b'"tools":[%b,%b]}' % (chat, wrapped))


async def test_media_are_added_and_never_sent(router: Counting) -> None:
    engine = Engine(tokenize=answer({"count": 10}))
    await router.engine(engine)
    parts = [{"type": "input_image", "image_url": "x"}, {"type": "video_url", "video_url": {"url": "x"}}]
    text = {"type": "text", "text": "what?"}
    given = await router.responses(input=[{"role": "user", "content": [*parts, text]}])
    assert given.json == {"object": "response.input_tokens", "input_tokens": 44010}
    assert engine.asked[0].json["messages"] == [{"role": "user", "content": "what?"}]
    alone = await router.responses(input=[{"role": "user", "content": parts}])
    assert alone.json["input_tokens"] == 44010
    assert engine.asked[1].json["messages"] == [{"role": "user", "content": ""}]


async def test_what_is_not_counted_is_named(router: Counting) -> None:
    await router.engine(Engine(tokenize=answer({"count": 10})))
    parts = [{"type": "input_file"}, {"type": "input_audio"}]
    given = await router.responses(
        input=[{"role": "user", "content": parts}, {"type": "reasoning"}], tools=[{"type": "web_search"}]
    )
    assert given.json == {
        "object": "response.input_tokens",
        "input_tokens": 10,
        "uncounted": ["input_file", "input_audio", "reasoning", "web_search"],
    }


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tokenize_empty", "Cannot apply chat template to an empty conversation"),
        ("unknown_model", "The model `nope` does not exist"),
        ("gzip", "There was an error parsing the body"),
    ],
)
async def test_the_engines_own_refusal_is_a_400_with_its_reason(
    router: Counting, name: str, told: str
) -> None:
    await router.engine(Engine(tokenize=recorded(f"vllm-0.32/{name}").whole))
    given = await router.responses(input="hi")
    assert (given.status, given.error["code"], given.error["type"]) == (
        400,
        "invalid_prompt",
        "invalid_request_error",
    )
    assert told in given.error["message"]
    assert "group glm" in given.error["message"]
