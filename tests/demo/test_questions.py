"""What an engine understands, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.demo.questions import MAX_MODEL_LEN, Bad, Kind, Question, read_question, read_tokenize

HI = [{"role": "user", "content": "hi"}]


def ask(kind: Kind, **body: Any) -> Question | Bad:
    return read_question(kind, json.dumps(body).encode(), "poet")


def test_a_chat() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None},
    ]
    assert ask("chat", model="poet", messages=messages, stream=True, max_tokens=7) == Question(
        kind="chat",
        model="poet",
        prompt="system: be brief\nuser: one two\nassistant: \nassistant:",
        said="one two",
        stream=True,
        usage=False,
        max_tokens=7,
    )


def test_a_completion() -> None:
    assert ask("completion", prompt="Once", stream_options={"include_usage": True}) == Question(
        kind="completion",
        model="poet",
        prompt="Once",
        said="Once",
        stream=False,
        usage=True,
        max_tokens=MAX_MODEL_LEN,
    )


def test_the_newer_limit_wins() -> None:
    question = ask("chat", messages=HI, max_tokens=7, max_completion_tokens=3)
    assert isinstance(question, Question)
    assert question.max_tokens == 3


def test_tools_are_part_of_the_prompt() -> None:
    question = ask("chat", messages=HI, tools=[{"type": "function"}])
    assert isinstance(question, Question)
    assert question.prompt == 'tools: [{"type": "function"}]\nuser: hi\nassistant:'


@pytest.mark.parametrize(
    ("kind", "raw", "status", "param"),
    [
        ("chat", b"", 400, None),
        ("chat", b"[" * 100_000, 400, None),
        ("chat", b"\xff", 400, None),
        ("chat", b"[]", 400, None),
        ("chat", b'{"model":"other"}', 404, "model"),
        ("chat", b'{"model":7}', 404, "model"),
        ("chat", b"{}", 400, "messages"),
        ("chat", b'{"messages":[]}', 400, "messages"),
        ("chat", b'{"messages":["x"]}', 400, "messages"),
        ("chat", b'{"messages":[{}],"max_tokens":0}', 400, "max_tokens"),
        ("chat", b'{"messages":[{}],"max_tokens":true}', 400, "max_tokens"),
        ("completion", b'{"prompt":7}', 400, "prompt"),
    ],
)
def test_what_is_refused(kind: Kind, raw: bytes, status: int, param: str | None) -> None:
    bad = read_question(kind, raw, "poet")
    assert isinstance(bad, Bad)
    assert (bad.status, bad.param) == (status, param)


@pytest.mark.parametrize(
    ("body", "text"),
    [({"prompt": "a b"}, "a b"), ({"messages": HI}, "user: hi\nassistant:")],
)
def test_what_is_counted(body: dict[str, Any], text: str) -> None:
    assert read_tokenize(json.dumps(body).encode(), "poet") == text


@pytest.mark.parametrize("raw", [b"{}", b"x"])
def test_what_is_not_counted(raw: bytes) -> None:
    assert isinstance(read_tokenize(raw, "poet"), Bad)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["messages", "content", "text", "role", "prompt", "tools", "stream_options"]),
            inner,
        )
    ),
)


@given(JSON)
def test_any_json_has_an_answer(body: object) -> None:
    raw = json.dumps(body).encode()
    for kind in ("chat", "completion"):
        assert isinstance(read_question(kind, raw, "poet"), Question | Bad)
