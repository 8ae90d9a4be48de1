"""What a demonstration engine is asked: JSON bodies to typed questions, judged as vLLM judges them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["chat", "completion"]

MAX_MODEL_LEN = 4096
"""Tokens of prompt and answer together, as the engine publishes it."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request for words."""

    kind: Kind
    model: str
    prompt: str
    """The whole prompt, as a chat template renders it."""
    said: str
    """What the user said last."""
    stream: bool
    usage: bool
    """A stream ends with an event that counts the tokens."""
    max_tokens: int
    """At most this many tokens are answered."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A question that is not answered."""

    status: int
    type: str
    message: str
    param: str | None = None


def read_question(kind: Kind, raw: bytes, served: str) -> Question | Bad:
    """Read the body of `/v1/chat/completions` or `/v1/completions` for the engine that serves `served`."""
    body = _read(raw, served)
    if isinstance(body, Bad):
        return body
    prompt = _prompt(kind, body)
    if isinstance(prompt, Bad):
        return prompt
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if limit is not None and (type(limit) is not int or limit < 1):
        return _wrong("max_tokens must be at least 1", "max_tokens")
    options = body.get("stream_options")
    return Question(
        kind=kind,
        model=served,
        prompt=prompt[0],
        said=prompt[1],
        stream=body.get("stream") is True,
        usage=isinstance(options, dict) and options.get("include_usage") is True,
        max_tokens=min(limit or MAX_MODEL_LEN, MAX_MODEL_LEN),
    )


def read_tokenize(raw: bytes, served: str) -> str | Bad:
    """Read the body of `/tokenize`, in its chat form or its prompt form: the text that is to be counted."""
    body = _read(raw, served)
    if isinstance(body, Bad):
        return body
    prompt = _prompt("chat" if "messages" in body else "completion", body)
    return prompt if isinstance(prompt, Bad) else prompt[0]


def _read(raw: bytes, served: str) -> Mapping[str, Any] | Bad:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return _wrong(f"JSON decode error: {error}")
    if not isinstance(body, dict):
        return _wrong("the body is not a JSON object")
    model = body.get("model", served)
    if model != served:
        return Bad(404, "NotFoundError", f"The model `{model}` does not exist.", "model")
    return body


def _prompt(kind: Kind, body: Mapping[str, Any]) -> tuple[str, str] | Bad:
    """The rendered prompt, and what the user said last."""
    if kind == "completion":
        prompt = body.get("prompt")
        return (prompt, prompt) if isinstance(prompt, str) else _wrong("prompt must be a string", "prompt")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return _wrong("messages must be a list with at least one message", "messages")
    rendered, said = "", ""
    if tools := body.get("tools"):
        rendered = f"tools: {json.dumps(tools)}\n"
    for message in messages:
        if not isinstance(message, dict):
            return _wrong("a message must be an object", "messages")
        text = _text(message.get("content"))
        if message.get("role") == "user":
            said = text
        rendered += f"{message.get('role', 'user')}: {text}\n"
    return rendered + "assistant:", said


def _text(content: object) -> str:
    """A message's content is a string, or a list of parts of which the text counts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return " ".join(text for text in texts if isinstance(text, str))


def _wrong(message: str, param: str | None = None) -> Bad:
    return Bad(400, "BadRequestError", message, param)
