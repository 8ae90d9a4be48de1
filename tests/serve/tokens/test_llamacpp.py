"""Counting with llama.cpp, by its recorded answers."""

from __future__ import annotations

import json

import pytest
from tests.serve.tokens.counting import NOT_FOUND, Counting, Engine, answer
from tests.support.recorded import recorded

from mentatd.serve.tokens.endpoint import RESPONSES_PATH

UNKNOWN_PATH = recorded("llamacpp-2026.10/unknown_path").whole
RENDERED = recorded("llamacpp-2026.10/apply_template").whole
TOKENS = recorded("llamacpp-2026.10/tokenize").whole
TEXT = "<|im_start|>user\nhello world<|im_end|>\n<|im_start|>assistant\n"
REFUSED = answer({"error": {"code": 400, "message": "Cannot determine type of 'item'"}}, 400)
NO_IMAGES = answer({"error": {"code": 500, "message": "image input is not supported"}}, 500)


async def test_the_engines_own_count_is_trusted(router: Counting) -> None:
    engine = Engine(responses=recorded("llamacpp-2026.10/input_tokens").whole)
    await router.engine(engine, "llamacpp")
    body = b'{"model":"m", "input":[{"type":"message","role":"user","content":[{"type":"input_image"}]}]}'
    given = await router.post(RESPONSES_PATH, body)
    assert given.body == b'{"object":"response.input_tokens","input_tokens":25}'
    assert [(asked.path, asked.body) for asked in engine.asked] == [(RESPONSES_PATH, body)]


@pytest.mark.parametrize("own", [UNKNOWN_PATH, NOT_FOUND, answer({}, 405), REFUSED, NO_IMAGES])
async def test_what_its_route_does_not_count_is_rendered_and_counted(router: Counting, own: bytes) -> None:
    engine = Engine(responses=own, apply_template=RENDERED, tokenize=TOKENS)
    await router.engine(engine, "llamacpp")
    tool = {"type": "function", "function": {"name": "f"}}
    parts = [{"type": "image_url"}, {"type": "text", "text": "hello world"}]
    given = await router.responses(input=[{"role": "user", "content": parts}], tools=[tool])
    assert given.json == {"object": "response.input_tokens", "input_tokens": 4003}
    assert engine.paths == [RESPONSES_PATH, "/apply-template", "/tokenize"]
    assert engine.asked[1].json == {
        "messages": [{"role": "user", "content": "hello world"}],
        "tools": [tool],
    }
    assert engine.asked[2].json == {"content": TEXT, "add_special": True, "parse_special": True}


@pytest.mark.parametrize(
    ("own", "status", "told"),
    [
        (REFUSED, 400, "Cannot determine type of 'item'"),
        (NO_IMAGES, 502, "image input is not supported"),
        (UNKNOWN_PATH, 400, "/apply-template answered HTTP 404: File Not Found"),
    ],
)
async def test_where_both_ways_fail_the_first_refusal_is_told(
    router: Counting, own: bytes, status: int, told: str
) -> None:
    await router.engine(Engine(responses=own, apply_template=UNKNOWN_PATH), "llamacpp")
    given = await router.responses(input="hi")
    assert given.status == status
    assert told in given.error["message"]


@pytest.mark.parametrize(
    ("tokens", "count"), [("[]", 0), ("[ ]", 0), ("[7]", 1), ("[1,2,\n 3]", 3), (json.dumps([1] * 9), 9)]
)
async def test_the_tokens_are_counted(router: Counting, tokens: str, count: int) -> None:
    tokenized = answer(b'{"tokens":%b}' % tokens.encode())
    await router.engine(Engine(apply_template=RENDERED, tokenize=tokenized), "llamacpp")
    assert (await router.responses(input="hi")).json["input_tokens"] == count


@pytest.mark.parametrize("body", [b'{"tokens":7}', b'{"tokens":[{"id":1,"piece":"a,b"}]}', b"{}", b"x"])
async def test_an_answer_without_tokens_is_a_502(router: Counting, body: bytes) -> None:
    await router.engine(Engine(apply_template=RENDERED, tokenize=answer(body)), "llamacpp")
    given = await router.responses(input="hi")
    assert (given.status, given.error["code"]) == (502, "engine_failed")
    assert "/tokenize answered without" in given.error["message"]


async def test_its_own_answer_without_a_count_is_a_502(router: Counting) -> None:
    await router.engine(Engine(responses=answer({"input_tokens": None})), "llamacpp")
    given = await router.responses(input="hi")
    assert (given.status, given.error["code"]) == (502, "engine_failed")


async def test_anthropics_request_is_rendered_where_the_engine_has_no_such_route(router: Counting) -> None:
    engine = Engine(apply_template=RENDERED, tokenize=TOKENS)
    await router.engine(engine, "llamacpp")
    given = await router.messages(messages=[{"role": "user", "content": "hello world"}])
    assert given.json == {"input_tokens": 3}
    assert engine.paths == ["/v1/messages/count_tokens", "/apply-template", "/tokenize"]
