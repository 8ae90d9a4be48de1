"""Requests of Anthropic's Messages API as prompts."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import json_values

from mentatd.wire.anthropic import read_messages
from mentatd.wire.prompt import BadPrompt, Prompt

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
TEXT = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}


def read(*messages: object, **request: Any) -> Prompt:
    return read_messages(json.dumps({"model": "m", "messages": messages, **request}).encode())


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def sent(prompt: Prompt) -> list[dict[str, Any]]:
    """The messages as an engine gets them."""
    messages: list[dict[str, Any]] = json.loads(msgspec.json.encode(prompt.messages))
    return messages


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("hi", "hi"),
        ([TEXT], "hi"),
        ([TEXT, TEXT], [{"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}]),
        ([], ""),
        (None, ""),
        ([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}], "hi"),
    ],
)
def test_a_message(content: object, expected: object) -> None:
    prompt = read(user(content))
    assert sent(prompt) == [{"role": "user", "content": expected}]
    assert (prompt.tools, prompt.media_tokens, prompt.uncounted) == (None, 0, ())


@pytest.mark.parametrize("system", ["be brief", [{"type": "text", "text": "be brief"}]])
def test_the_system_prompt_leads(system: object) -> None:
    assert sent(read(user("hi"), system=system)) == [{"role": "system", "content": "be brief"}, user("hi")]
    assert sent(read(user("hi"), system=None)) == [user("hi")]


def test_images_have_a_flat_rate() -> None:
    prompt = read(user([IMAGE, TEXT, IMAGE]))
    assert (prompt.media_tokens, sent(prompt)) == (8000, [user("hi")])
    alone = read(user([IMAGE]))
    assert (alone.media_tokens, sent(alone)) == (4000, [user("")])


def test_a_turn_with_tools() -> None:
    uses = [
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "t2", "name": "g"},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "t2", "content": [TEXT, IMAGE], "is_error": True},
    ]
    prompt = read(
        user("go"),
        {"role": "assistant", "content": [TEXT, *uses]},
        user([*results, {"type": "text", "text": "and now?"}]),
        {"role": "assistant", "content": uses[1:]},
        user([{"type": "tool_result", "tool_use_id": "t2"}]),
    )
    f = {"type": "function", "id": "t1", "function": {"name": "f", "arguments": '{"a": 1}'}}
    g = {"type": "function", "id": "t2", "function": {"name": "g", "arguments": "{}"}}
    assert sent(prompt) == [
        user("go"),
        {"role": "assistant", "content": "hi", "tool_calls": [f, g]},
        {"role": "tool", "content": "one", "tool_call_id": "t1"},
        {"role": "tool", "content": "hi", "tool_call_id": "t2"},
        user("and now?"),
        {"role": "assistant", "content": None, "tool_calls": [g]},
        {"role": "tool", "content": "", "tool_call_id": "t2"},
    ]
    assert (prompt.media_tokens, prompt.uncounted) == (4000, ())


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    ],
)
def test_blocks_that_no_template_renders_are_named(block: dict[str, str]) -> None:
    prompt = read(user([TEXT, block, {"type": "tool_result", "content": [block]}]))
    assert prompt.uncounted == (block["type"],)
    assert sent(prompt) == [{"role": "tool", "content": ""}, user("hi")]


def test_tools_are_written_as_chat_has_them() -> None:
    prompt = read_messages(
        b'{"messages":[{"role":"user","content":"hi"}],"tools":['
        b'{"name":"f","input_schema":{"z": 1,"a":2},"description":"d","cache_control":{"type":"ephemeral"}},'
        b'{"type":"web_search_20250305","name":"web_search"},{"name":"odd"}]}'
    )
    assert prompt.tools is not None
    assert bytes(prompt.tools) == (
        b'[{"type":"function","function":{"name":"f","parameters":{"z": 1,"a":2},"description":"d"}}]'
    )
    assert prompt.uncounted == ("web_search_20250305", "tool without a type")


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"messages": 7}, "messages is not a readable list"),
        ({"messages": [7]}, r"messages\[0\] is not a readable object"),
        ({"messages": [{"content": "hi"}]}, r"messages\[0\].role is not a string"),
        ({"messages": [user(7)]}, r"messages\[0\].content is not a readable list"),
        ({"messages": [user([7])]}, r"messages\[0\].content\[0\] is not a readable object"),
        ({"messages": [user([{"type": "text"}])]}, r"content\[0\].text is not a string"),
        ({"messages": [user([{"type": "document"}])]}, r"content\[0\].source is not a readable object"),
        (
            {"messages": [user([{"type": "document", "source": {"type": "text"}}])]},
            r"content\[0\].source.data is not a string",
        ),
        ({"messages": [user([{"type": "tool_use"}])]}, r"content\[0\].name is not a string"),
        ({"messages": [], "system": 7}, "system is not a readable list"),
        ({"messages": [user("hi")], "tools": [7]}, r"tools\[0\] is not a readable object"),
        ({"messages": [user("hi")], "tools": [{"input_schema": {}}]}, r"tools\[0\].name is not a string"),
        ({"messages": []}, "there is nothing in the request to count"),
        ({}, "there is nothing in the request to count"),
    ],
)
def test_what_is_wrong_is_named(request_: dict[str, object], told: str) -> None:
    with pytest.raises(BadPrompt, match=told):
        read_messages(json.dumps(request_).encode())


kinds = st.sampled_from(("text", "image", "document", "tool_use", "tool_result", "thinking"))
blocks = st.fixed_dictionaries(
    {"type": kinds | json_values},
    optional={
        "text": json_values,
        "source": st.fixed_dictionaries({"type": st.just("text"), "data": json_values}) | json_values,
        "name": st.text() | json_values,
        "input": json_values,
        "content": json_values,
        "tool_use_id": json_values,
    },
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(("user", "assistant")) | json_values},
    optional={"content": st.text() | st.lists(blocks | json_values) | json_values},
)
requests = st.fixed_dictionaries(
    {"messages": st.lists(messages | json_values) | json_values},
    optional={"system": st.lists(blocks) | json_values, "tools": st.lists(json_values) | json_values},
)


@given(requests | json_values)
def test_any_json_is_a_prompt_or_a_named_fault(request: object) -> None:
    try:
        prompt = read_messages(json.dumps(request).encode())
    except BadPrompt:
        return
    json.loads(msgspec.json.encode({"messages": prompt.messages, "tools": prompt.tools}))
    assert prompt.messages or prompt.tools or prompt.media_tokens or prompt.uncounted


@given(st.binary())
def test_any_bytes_are_a_prompt_or_a_named_fault(body: bytes) -> None:
    with contextlib.suppress(BadPrompt):
        read_messages(body)
