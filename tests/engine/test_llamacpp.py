"""What clients do most, through the router, answered by llama.cpp."""

from __future__ import annotations

import signal

import httpx2
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from tests.engine.conftest import MODEL, PATIENCE_S, Served, sdk

ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Count from one to ten."}]


def test_it_is_listed_as_the_engine_lists_it(client: OpenAI) -> None:
    (model,) = client.models.list()
    assert (model.id, model.owned_by) == (MODEL, "gemma")
    assert model.to_dict()["meta"]


def test_a_chat_completion(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=8)
    assert answer.choices[0].message.content
    assert answer.usage
    assert answer.usage.completion_tokens <= 8


def test_a_streamed_chat_completion(client: OpenAI) -> None:
    with client.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=8, stream=True) as stream:
        choices = [event.choices[0] for event in stream if event.choices]
    assert sum(bool(choice.delta.content) for choice in choices) > 1
    assert choices[-1].finish_reason in ("stop", "length")


def test_tokenize_at_the_engines_root(served: Served) -> None:
    answer = served.router.post("/tokenize", model=MODEL, content="hello world")
    assert answer.status == 200
    assert len(answer.json["tokens"]) >= 2


def test_anthropics_messages(served: Served) -> None:
    with Anthropic(base_url=served.router.base, api_key="none", max_retries=0, timeout=PATIENCE_S) as client:
        answer = client.messages.create(
            model=MODEL, max_tokens=8, messages=[{"role": "user", "content": "Say hello."}]
        )
    assert answer.role == "assistant"
    assert 0 < answer.usage.output_tokens <= 8


def test_an_engine_killed_in_mid_stream_and_started_again(idle: Served) -> None:
    with sdk(idle) as client:
        with idle.engine() as engine:
            stream = client.chat.completions.create(
                model=MODEL, messages=ASKED, max_tokens=1500, stream=True, extra_body={"ignore_eos": True}
            )
            events = iter(stream)
            next(events)
            engine.signal(signal.SIGKILL)
            with pytest.raises((openai.APIError, httpx2.TransportError)):
                list(events)
            stream.close()
            engine.ended()
            idle.router.wait(lambda status: not status["models"])
        answer = idle.router.post("/v1/chat/completions", model=MODEL, messages=ASKED)
        assert (answer.status, answer.json["error"]["code"]) == (503, "model_not_ready")
        with idle.engine():
            assert client.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=2).choices
