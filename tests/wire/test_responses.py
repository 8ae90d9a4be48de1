"""Requests of the Responses API, in every spelling, as prompts."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import json_values

from mentatd.wire.prompt import BadPrompt, Prompt
from mentatd.wire.responses import read_responses

IMAGE, VIDEO = 4000, 40000


def read(**request: Any) -> Prompt:
    return read_responses(json.dumps({"model": "m", **request}).encode())


def messages(**request: Any) -> list[dict[str, Any]]:
    """What an engine gets of a request that is counted whole."""
    prompt = read(**request)
    assert prompt.uncounted == ()
    sent: list[dict[str, Any]] = json.loads(msgspec.json.encode(prompt.messages))
    return sent


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def test_a_string() -> None:
    assert messages(input="hello world") == [user("hello world")]
    assert messages(input="") == [user("")]


def test_instructions_lead() -> None:
    system = {"role": "system", "content": "be brief"}
    assert messages(instructions="be brief", input="hi") == [system, user("hi")]
    assert messages(instructions="be brief") == [system]
    assert messages(instructions=None, input="hi") == [user("hi")]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (user("hi"), user("hi")),
        ({"type": "message", **user("hi")}, user("hi")),
        ({"type": 7, **user("hi")}, user("hi")),
        (user([{"type": "input_text", "text": "hi"}]), user("hi")),
        (user([{"type": "text", "text": "hi"}]), user("hi")),
        (user(None), user("")),
        ({"role": "user"}, user("")),
        ({"role": "developer", "content": "hi"}, {"role": "system", "content": "hi"}),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
            {"role": "assistant", "content": "hi"},
        ),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"role": "assistant", "content": "no"},
        ),
        (
            user([{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]),
            user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ),
        ({"type": "input_text", "text": "hi"}, user("hi")),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"type": "function", "id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}
                ],
            },
        ),
        (
            {"type": "function_call", "name": "f"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"type": "function", "id": "", "function": {"name": "f", "arguments": "{}"}}],
            },
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": "42"},
            {"role": "tool", "content": "42", "tool_call_id": "c"},
        ),
        (
            {"type": "function_call_output", "output": [{"type": "input_text", "text": "42"}]},
            {"role": "tool", "content": "42"},
        ),
        (
            {"role": "tool", "tool_call_id": "c", "content": "42"},
            {"role": "tool", "content": "42", "tool_call_id": "c"},
        ),
        ({"role": "tool", "content": "42"}, {"role": "tool", "content": "42"}),
    ],
)
def test_an_item(item: object, message: object) -> None:
    assert messages(input=[item]) == [message]


def test_a_chat_assistants_calls() -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"function": {"name": "g", "arguments": {"b": 2}}},
    ]
    said = {"role": "assistant", "content": "well", "tool_calls": calls}
    expected = [
        {"type": "function", "id": "c1", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"type": "function", "id": "", "function": {"name": "g", "arguments": '{"b": 2}'}},
    ]
    assert messages(input=[said]) == [{**said, "tool_calls": expected}]
    silent = {"role": "assistant", "content": None, "tool_calls": calls}
    assert messages(input=[silent]) == [{**silent, "tool_calls": expected}]


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ({"type": "input_image", "image_url": "https://x/y.png"}, IMAGE),
        ({"type": "input_image", "file_id": "file-1"}, IMAGE),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}, IMAGE),
        ({"type": "image", "image": "x"}, IMAGE),
        ({"type": "input_video", "video_url": "https://x/y.mp4"}, VIDEO),
        ({"type": "video_url", "video_url": {"url": "https://x/y.mp4"}}, VIDEO),
        ({"type": "video", "video": "x"}, VIDEO),
    ],
)
def test_media_have_flat_rates(part: dict[str, object], tokens: int) -> None:
    text = {"type": "input_text", "text": "what is this?"}
    prompt = read(input=[user([text, part, part])])
    assert (prompt.media_tokens, prompt.uncounted) == (2 * tokens, ())
    assert [message.content for message in prompt.messages] == ["what is this?"]

    alone = read(input=[user([part])])
    assert (alone.media_tokens, alone.messages[0].content) == (tokens, "")

    bare = read(input=[part])
    assert (bare.media_tokens, bare.messages) == (tokens, ())

    shown = read(input=[{"type": "function_call_output", "call_id": "c", "output": [part, text]}])
    assert (shown.media_tokens, shown.messages[0].content) == (tokens, "what is this?")


def test_media_are_added_up() -> None:
    parts = [{"type": "input_image"}, {"type": "video_url"}, {"type": "image_url"}]
    assert read(input=[user(parts), user(parts)]).media_tokens == 2 * (2 * IMAGE + VIDEO)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "reasoning_text", "text": "hm"},
    ],
)
def test_other_attachments_count_only_the_text_beside_them(part: dict[str, str]) -> None:
    prompt = read(input=[user([part, {"type": "input_text", "text": "summarise"}])])
    assert prompt.messages == read(input="summarise").messages
    assert (prompt.media_tokens, prompt.uncounted) == (0, (part["type"],))


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "item_reference", "id": "x"},
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
    ],
)
def test_items_that_no_template_renders_are_named(item: dict[str, str]) -> None:
    prompt = read(input=[user("hi"), item])
    assert prompt.messages == read(input="hi").messages
    assert prompt.uncounted == (item["type"],)
    assert read(input=[item]).messages == ()


def test_what_has_no_type_is_named_too() -> None:
    prompt = read(input=[{"id": "x"}, user([{"text": "x"}])], tools=[{"name": "x"}])
    assert prompt.uncounted == ("item without a type", "part without a type", "tool without a type")


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_text_that_is_kept_elsewhere_is_named(name: str) -> None:
    assert read(input="hi", **{name: "x"}).uncounted == (name,)
    assert read(input="hi", **{name: None}).uncounted == ()
    assert read(**{name: {"id": "x"}}).messages == ()


def test_chat_tools_pass_byte_for_byte() -> None:
    tool = b'{"function": {"parameters":{"z":1,\n"a":2.0},"name" :"f", "x": null} , "type":"function"}'
    prompt = read_responses(b'{"input":"hi","tools":[ %b , %b ]}' % (tool, tool))
    assert prompt.tools is not None
    assert bytes(prompt.tools) == b"[%b,%b]" % (tool, tool)


def test_flat_tools_are_wrapped_in_their_order() -> None:
    prompt = read_responses(
        b'{"input":"hi","tools":[{"type":"function","strict":null,"parameters":{"z": 1,"a":2},"name":"f"}]}'
    )
    assert prompt.tools is not None
    assert bytes(prompt.tools) == (
        b'[{"type":"function","function":{"parameters":{"z": 1,"a":2},"name":"f"}}]'
    )


def test_other_tools_are_named() -> None:
    prompt = read(input="hi", tools=[{"type": "web_search"}, {"type": "mcp", "server_label": "x"}])
    assert prompt.tools is None
    assert prompt.uncounted == ("web_search", "mcp")
    assert read(input="hi", tools=None).tools is None
    assert read(input="hi", tools=[]).tools is None


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"input": 7}, "input is not a readable list"),
        ({"input": {}}, "input is not a readable list"),
        ({"input": ["hi"]}, r"input\[0\] is not a readable object"),
        ({"input": [{"role": None}]}, r"input\[0\].role is not a string"),
        ({"input": [{"type": "message"}]}, r"input\[0\].role is not a string"),
        ({"input": [user(7)]}, r"input\[0\].content is not a readable list"),
        ({"input": [user(["hi"])]}, r"input\[0\].content\[0\] is not a readable object"),
        ({"input": [user([{"type": "text"}])]}, r"input\[0\].content\[0\].text is not a string"),
        ({"input": [user([{"type": "refusal", "text": "x"}])]}, r"content\[0\].refusal is not a string"),
        ({"input": [{"type": "function_call"}]}, r"input\[0\].name is not a string"),
        ({"input": [{"type": "function_call_output", "output": 7}]}, r"input\[0\].output is not a readable"),
        (
            {"input": [{"role": "assistant", "tool_calls": 7}]},
            r"input\[0\].tool_calls is not a readable list",
        ),
        ({"input": [{"role": "assistant", "tool_calls": [7]}]}, r"tool_calls\[0\] is not a readable object"),
        ({"input": [{"role": "assistant", "tool_calls": [{}]}]}, r"tool_calls\[0\].function is not a reada"),
        (
            {"input": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
            r"tool_calls\[0\].function.name is not a string",
        ),
        ({"instructions": ["x"]}, "instructions is not a string"),
        ({"input": "hi", "tools": {}}, "tools is not a readable list"),
        ({"input": "hi", "tools": [7]}, r"tools\[0\] is not a readable object"),
        ({}, "there is nothing in the request to count"),
        ({"input": []}, "there is nothing in the request to count"),
    ],
)
def test_what_is_wrong_is_named(request_: dict[str, object], told: str) -> None:
    with pytest.raises(BadPrompt, match=told):
        read(**request_)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a":NaN}', b"[" * 100_000, b'{"input":"\\ud83d"}'])
def test_a_body_that_is_no_object_of_texts(body: bytes) -> None:
    with pytest.raises(BadPrompt):
        read_responses(body)


ITEMS = ("message", "function_call", "function_call_output", "reasoning", "function", "web_search")
PARTS = ("input_text", "text", "refusal", "input_image", "video", "input_audio", "input_file")
kinds = st.sampled_from((*ITEMS, *PARTS))
parts = st.fixed_dictionaries({"type": kinds}, optional={"text": json_values, "refusal": json_values})
calls = st.fixed_dictionaries({}, optional={"id": json_values, "function": json_values})
items = st.fixed_dictionaries(
    {"type": kinds | json_values},
    optional={
        "role": st.sampled_from(("user", "assistant", "tool", "developer")) | json_values,
        "content": st.text() | st.lists(parts) | json_values,
        "output": st.lists(parts) | json_values,
        "name": st.text() | json_values,
        "arguments": st.text() | json_values,
        "call_id": json_values,
        "tool_calls": st.lists(calls) | json_values,
        "function": json_values,
        "text": json_values,
    },
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "input": st.lists(items | json_values) | json_values,
        "tools": st.lists(items | json_values) | json_values,
        "instructions": json_values,
        "previous_response_id": json_values,
    },
)


@given(requests | json_values)
def test_any_json_is_a_prompt_or_a_named_fault(request: object) -> None:
    try:
        prompt = read_responses(json.dumps(request).encode())
    except BadPrompt:
        return
    json.loads(msgspec.json.encode({"messages": prompt.messages, "tools": prompt.tools}))
    assert prompt.messages or prompt.tools or prompt.media_tokens or prompt.uncounted


@given(st.binary())
def test_any_bytes_are_a_prompt_or_a_named_fault(body: bytes) -> None:
    with contextlib.suppress(BadPrompt):
        read_responses(body)
