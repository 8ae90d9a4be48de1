"""Gathering a prompt, and reading JSON members one by one."""

from __future__ import annotations

import msgspec
import pytest

from mentatd.wire.prompt import (
    BadPrompt,
    Prompt,
    PromptBuilder,
    content_of,
    is_given,
    read_body,
    read_items,
    read_object,
    read_text,
    require_text,
)


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def sent(prompt: Prompt) -> str:
    """The messages as an engine gets them."""
    return msgspec.json.encode(prompt.messages).decode()


def test_one_text_is_a_string_and_several_are_parts() -> None:
    builder = PromptBuilder()
    builder.say("user", content_of([]))
    builder.say("user", content_of(["one"]))
    builder.say("user", content_of(["one", "two"]))
    assert sent(builder.build()) == (
        '[{"role":"user","content":""},{"role":"user","content":"one"},'
        '{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]'
    )


def test_an_assistants_words_and_calls_are_one_turn() -> None:
    builder = PromptBuilder()
    builder.say("user", "go")
    builder.say("assistant", "well")
    builder.call("c1", "f", '{"a":1}')
    builder.call("c2", "g", "{}")
    builder.answer("c1", "one")
    builder.answer("", "two")
    builder.call("c3", "h", "{}")
    builder.say("assistant", "done")
    builder.say("assistant", "again")
    assert sent(builder.build()) == (
        '[{"role":"user","content":"go"},'
        '{"role":"assistant","content":"well","tool_calls":['
        '{"type":"function","id":"c1","function":{"name":"f","arguments":"{\\"a\\":1}"}},'
        '{"type":"function","id":"c2","function":{"name":"g","arguments":"{}"}}]},'
        '{"role":"tool","content":"one","tool_call_id":"c1"},'
        '{"role":"tool","content":"two"},'
        '{"role":"assistant","content":"done","tool_calls":['
        '{"type":"function","id":"c3","function":{"name":"h","arguments":"{}"}}]},'
        '{"role":"assistant","content":"again"}]'
    )


def test_a_call_alone_has_no_content() -> None:
    builder = PromptBuilder()
    builder.call("c", "f", "{}")
    assert sent(builder.build()).startswith('[{"role":"assistant","content":null,"tool_calls":[')


@pytest.mark.parametrize("arguments", ["", "x", "[1]", "null", '"text"', "{", "[" * 100_000])
def test_arguments_that_no_template_can_walk_are_named(arguments: str) -> None:
    builder = PromptBuilder()
    builder.call("c", "f", arguments)
    prompt = builder.build()
    assert prompt.uncounted == ("function_call arguments",)
    assert prompt.messages[0].tool_calls[0].function.arguments == "{}"


def test_a_long_turn_costs_no_more_than_its_length() -> None:
    builder = PromptBuilder()
    for _ in range(100_000):
        builder.call("c", "f", "{}")
    assert len(builder.build().messages[0].tool_calls) == 100_000


def test_tools_keep_their_order_and_lose_their_nulls() -> None:
    builder = PromptBuilder()
    builder.tools.append(raw('{"z": 1,  "a": [ ]}'))
    builder.function_tool({"name": raw('"f"'), "strict": raw("null"), "description": raw('"null"')})
    prompt = builder.build()
    assert prompt.tools is not None
    assert bytes(prompt.tools) == (
        b'[{"z": 1,  "a": [ ]},{"type":"function","function":{"name":"f","description":"null"}}]'
    )
    assert prompt.messages == ()


def test_what_is_not_counted_is_named_once_in_order_and_bounded() -> None:
    builder = PromptBuilder()
    for kind in ("b", "a", "b", "x" * 1000, *map(str, range(1000))):
        builder.skip(kind)
    names = builder.build().uncounted
    assert names[:3] == ("b", "a", "x" * 64)
    assert len(names) == 64


def test_media_alone_is_a_prompt_and_nothing_is_none() -> None:
    builder = PromptBuilder()
    with pytest.raises(BadPrompt, match="nothing in the request to count"):
        builder.build()
    builder.media_tokens += 7
    assert builder.build() == Prompt((), None, 7, ())


@pytest.mark.parametrize(
    ("text", "given"), [("null", False), ("true", True), ("0", True), ('"null"', True), ("{}", True)]
)
def test_null_is_as_good_as_absent(text: str, given: bool) -> None:
    assert is_given(raw(text)) is given
    assert is_given(None) is False


def test_reading_objects() -> None:
    assert {
        name: bytes(value) for name, value in read_object(b'{"a": [1 ], "a": {"b":2}}', "it").items()
    } == {"a": b'{"b":2}'}
    for bad in (None, raw("null"), raw("7"), b"", b"{", b"[" * 100_000, memoryview(b"\xff")):
        with pytest.raises(BadPrompt, match=r"^it is not a readable object"):
            read_object(bad, "it")


def test_reading_lists() -> None:
    assert read_items(None, "it") == read_items(raw("null"), "it") == read_items(raw("[]"), "it") == []
    assert [bytes(item) for item in read_items(raw('[1, "x"]'), "it")] == [b"1", b'"x"']
    for bad in ("7", "{}", '"x"', "[1"):
        with pytest.raises(BadPrompt, match=r"^it is not a readable list"):
            read_items(raw(bad), "it")


def test_reading_texts() -> None:
    assert read_text(raw('"x\\u00e9"')) == require_text(raw('"x\\u00e9"'), "it") == "xé"
    for absent in (None, raw("null"), raw("7"), raw("{}")):
        assert read_text(absent) is None
        with pytest.raises(BadPrompt, match=r"^it is not a string$"):
            require_text(absent, "it")
    with pytest.raises(BadPrompt, match=r"^a string is not valid text"):
        read_text(raw('"\\ud83d"'))


def test_a_body_of_too_many_parts_is_refused_before_they_cost() -> None:
    def body(parts: int) -> bytes:
        return b'{"a":[%b]}' % b",".join([b"{}"] * parts)

    assert len(read_items(read_body(body(250_001))["a"], "a")) == 250_001
    with pytest.raises(BadPrompt, match="over 250000 commas beside those in its texts"):
        read_body(body(250_002))
    text = b'{"a":"%b"}' % (b'\\",\\\\' * 250_001)
    assert list(read_body(text)) == ["a"]
    with pytest.raises(BadPrompt, match=r"^the body is not a readable object"):
        read_body(b'"\\,' * 250_001)
