"""Counting with SGLang, newer and older servers."""

from __future__ import annotations

import pytest
from tests.serve.tokens.counting import Counting, Engine, answer

COUNT = answer({"tokens": [1, 2, 3, 4, 5], "count": 5, "max_model_len": 4096})
OLDER = (
    answer(
        {
            "object": "error",
            "message": "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'prompt')}",
            "type": "Bad Request",
            "code": 400,
        },
        400,
    ),
    answer({"detail": [{"type": "missing", "loc": ["body", "prompt"], "msg": "Field required"}]}, 422),
)
"""What a server answers that takes text alone, with its own handler of such errors and with the framework's."""


async def test_a_newer_server_renders_its_template(router: Counting) -> None:
    engine = Engine(tokenize=COUNT)
    await router.engine(engine, "sglang")
    tool = {"type": "function", "function": {"name": "f"}}
    given = await router.responses(instructions="be brief", input="hi", tools=[tool])
    assert given.json == {"object": "response.input_tokens", "input_tokens": 5}
    assert [asked.json for asked in engine.asked] == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
            "tools": [tool],
        }
    ]


@pytest.mark.parametrize("refusal", OLDER)
async def test_an_older_server_counts_the_text_and_the_answer_says_so(
    router: Counting, refusal: bytes
) -> None:
    engine = Engine(tokenize=[refusal, COUNT])
    await router.engine(engine, "sglang")
    parts = [{"type": "text", "text": "a"}, {"type": "input_image"}, {"type": "text", "text": "b"}]
    given = await router.responses(
        input=[
            {"role": "user", "content": parts},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x":1}'},
            {"role": "user", "content": "go on"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "out"},
            {"type": "reasoning"},
        ],
        tools=[{"type": "function", "name": "f"}],
    )
    assert given.json == {
        "object": "response.input_tokens",
        "input_tokens": 4005,
        "uncounted": ["reasoning", "chat template"],
    }
    tools = '[{"type":"function","function":{"name":"f"}}]'
    assert engine.asked[1].json == {
        "model": "m",
        "prompt": f'a\nb\nf {{"x":1}}\ngo on\nf {{}}\nout\n{tools}',
        "add_special_tokens": True,
    }


@pytest.mark.parametrize(
    ("refusal", "status", "told"),
    [
        (answer({"object": "error", "message": "roles must alternate"}, 400), 400, "roles must alternate"),
        (answer({"object": "error", "message": "no prompt for you"}, 500), 502, "no prompt for you"),
    ],
)
async def test_a_refusal_is_not_taken_for_an_older_server(
    router: Counting, refusal: bytes, status: int, told: str
) -> None:
    engine = Engine(tokenize=refusal)
    await router.engine(engine, "sglang")
    given = await router.responses(input="hi")
    assert given.status == status
    assert told in given.error["message"]
    assert len(engine.asked) == 1


async def test_a_count_of_several_prompts_is_none(router: Counting) -> None:
    await router.engine(Engine(tokenize=answer({"tokens": [[1]], "count": [1]})), "sglang")
    assert (await router.responses(input="hi")).status == 502
