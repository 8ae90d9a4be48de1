"""An answer counts only when it is the engine's, byte for byte; of a program that rewrites, when it says the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from bench.answers import DONE, Told, chunk, document, last, stream_end, told, unstamped
from bench.questions import Question, Target, question
from bench.workloads import WORKLOADS
from tests.bench.test_answers import payload

POST, STREAM = WORKLOADS["W1"], WORKLOADS["W4"]
LOOSE = Target(8000, loose=True)


def body_of(asked: Question) -> bytes:
    return asked.request.partition(b"\r\n\r\n")[2]


def streamed(asked: Question, chunks: int | None = None) -> bytes:
    count = asked.chunks if chunks is None else chunks
    return payload(b"".join(chunk(number) for number in range(count)) + stream_end(told(body_of(asked))))


def test_the_model_comes_last_in_a_body_of_the_asked_size() -> None:
    asked = question(WORKLOADS["W2"], Target(8000), "m")
    body = body_of(asked)
    assert len(body) == 65_536
    assert list(json.loads(body))[-1] == "model"
    assert f"Content-Length: {len(body)}\r\n".encode() in asked.request


def test_a_stream_is_asked_as_the_engine_understands_it() -> None:
    body = json.loads(body_of(question(STREAM, Target(8000), "m")))
    assert (body["stream"], body["max_tokens"], body["seed"]) == (True, 100, 20)


def test_a_prefix_stands_before_the_path() -> None:
    asked = question(POST, Target(8000, prefix="/olla/openai"), "m")
    assert asked.request.startswith(b"POST /olla/openai/v1/chat/completions HTTP/1.1\r\n")


def test_the_right_document_has_no_fault() -> None:
    asked = question(POST, Target(8000), "m")
    right = document(told(body_of(asked)))
    assert asked.fault(200, right) == ""
    assert asked.fault(500, right)
    assert asked.fault(200, right[:-1])
    assert asked.fault(200, document(Told(0, 1))), "the engine saw another body"


@pytest.mark.parametrize("cut", [b"", b"x", DONE])
def test_a_stream_is_compared_whole(cut: bytes) -> None:
    asked = question(replace(STREAM, chunks=5), Target(8000), "m")
    right = streamed(asked)
    assert asked.fault(200, right) == ""
    assert asked.fault(200, right + b"\n")
    assert asked.fault(200, streamed(asked, 4))
    if cut:
        assert asked.fault(200, right.replace(cut, b"", 1))


def test_a_loose_program_may_write_its_own_words() -> None:
    asked = question(replace(STREAM, chunks=2), LOOSE, "m")
    assert asked.fault(200, b"data: tk=1\n\ndata: tk=2\n\ndata: [DONE]\n\n") == ""
    assert asked.fault(200, b"data: tk=1\n\ndata: [DONE]\n\n"), "a chunk is missing"
    assert asked.fault(200, b"data: tk=1\n\ndata: tk=2\n\n"), "the end is missing"
    document = question(POST, LOOSE, "m")
    assert document.fault(200, b'{"content":"' + b"x" * 240 + b'"}') == ""
    assert document.fault(200, b"{}")


def test_the_first_bytes_of_a_long_stream() -> None:
    asked = question(WORKLOADS["W7"], Target(8000), "m")
    part = streamed(asked, 3)[:600]
    assert asked.fault_of_start(200, part) == ""
    assert asked.fault_of_start(502, part)
    assert asked.fault_of_start(200, part.replace(b"bench", b"other", 1))
    assert asked.fault_of_start(200, b""), "nothing came at all"


def test_no_answer_is_kept_whole_for_comparison() -> None:
    asked = question(WORKLOADS["W7"], Target(8000), "m")
    assert asked.end == last(told(body_of(asked)))
    assert len(unstamped(2)) == 2 * len(unstamped(1))
