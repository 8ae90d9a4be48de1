"""The documents and events that clients of an engine read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mentatd.demo import answers
from mentatd.demo.answers import Answer
from mentatd.demo.questions import Bad, Kind, Question


def answer(kind: Kind, *, usage: bool = False) -> Answer:
    question = Question(kind, "poet", "p", "p", stream=True, usage=usage, max_tokens=9)
    return Answer(question, id="x-1", created=7, prompt_tokens=5)


def event(raw: bytes) -> Any:
    assert raw.startswith(b"data: ")
    assert raw.endswith(b"\n\n")
    return json.loads(raw[6:])


def test_a_chat_stream() -> None:
    chat = answer("chat")
    opening = event(chat.opening())
    assert opening["object"] == "chat.completion.chunk"
    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    piece = event(chat.piece(" word", None))
    assert piece["choices"][0]["delta"] == {"content": " word"}
    assert piece["choices"][0]["finish_reason"] is None
    assert event(chat.piece(" end", "stop"))["choices"][0]["finish_reason"] == "stop"
    assert chat.closing(2) == b"data: [DONE]\n\n"


def test_a_completion_stream() -> None:
    completion = answer("completion")
    assert completion.opening() == b""
    piece = event(completion.piece(" word", "length"))
    assert piece["object"] == "text_completion"
    assert (piece["choices"][0]["text"], piece["choices"][0]["finish_reason"]) == (" word", "length")


def test_a_stream_counts_when_asked_to() -> None:
    counted, done = answer("chat", usage=True).closing(2).split(b"\n\n", 1)
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    assert json.loads(counted[6:])["usage"] == usage
    assert json.loads(counted[6:])["choices"] == []
    assert done == b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("kind", "name", "choice"),
    [
        ("chat", "chat.completion", {"message": {"role": "assistant", "content": "all of it"}}),
        ("completion", "text_completion", {"text": "all of it"}),
    ],
)
def test_a_whole_answer(kind: Kind, name: str, choice: dict[str, Any]) -> None:
    document = json.loads(answer(kind).whole("all of it", "stop", 3))
    assert document["object"] == name
    assert document["choices"] == [{"index": 0, **choice, "logprobs": None, "finish_reason": "stop"}]
    assert document["usage"]["total_tokens"] == 8


def test_the_other_documents() -> None:
    listed = json.loads(answers.models("poet", 7))["data"]
    assert [(entry["id"], entry["created"]) for entry in listed] == [("poet", 7)]
    counted = json.loads(answers.tokens(("a", " b")))
    assert counted["count"] == len(counted["tokens"]) == 2
    assert json.loads(answers.error(Bad(404, "NotFoundError", "no", "model"))) == {
        "error": {"message": "no", "type": "NotFoundError", "param": "model", "code": 404}
    }
