"""What a demonstration engine answers: OpenAI's documents and events, with the fields that clients read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mentatd.demo.questions import MAX_MODEL_LEN, Bad, Question
from mentatd.demo.words import token_id

DONE = b"data: [DONE]\n\n"
"""The last event of a stream."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question, as documents; the words come from outside."""

    question: Question
    id: str
    created: int
    """Unix time in seconds."""
    prompt_tokens: int

    def opening(self) -> bytes:
        """The event before the first word: in a chat it tells the role, otherwise there is none."""
        if self.question.kind == "completion":
            return b""
        return self._event(
            [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
        )

    def piece(self, text: str, reason: str | None) -> bytes:
        """The event of one word; `reason` is set on the last."""
        said = {"text": text} if self.question.kind == "completion" else {"delta": {"content": text}}
        return self._event([{"index": 0, **said, "logprobs": None, "finish_reason": reason}])

    def closing(self, tokens: int) -> bytes:
        """What follows the last word: the count, when it was asked for, and the end."""
        return (self._event([], self._usage(tokens)) if self.question.usage else b"") + DONE

    def whole(self, text: str, reason: str, tokens: int) -> bytes:
        """The document of an answer that is not streamed."""
        if self.question.kind == "completion":
            said: dict[str, Any] = {"text": text}
        else:
            said = {"message": {"role": "assistant", "content": text}}
        choices = [{"index": 0, **said, "logprobs": None, "finish_reason": reason}]
        return _json(self._document(choices, self._usage(tokens), streamed=False))

    def _event(self, choices: list[Any], usage: Mapping[str, int] | None = None) -> bytes:
        return b"data: " + _json(self._document(choices, usage, streamed=True)) + b"\n\n"

    def _document(
        self, choices: list[Any], usage: Mapping[str, int] | None, *, streamed: bool
    ) -> dict[str, Any]:
        chat = "chat.completion.chunk" if streamed else "chat.completion"
        document: dict[str, Any] = {
            "id": self.id,
            "object": "text_completion" if self.question.kind == "completion" else chat,
            "created": self.created,
            "model": self.question.model,
            "choices": choices,
        }
        return document if usage is None else {**document, "usage": usage}

    def _usage(self, tokens: int) -> Mapping[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }


def models(served: str, created: int) -> bytes:
    """The document of `/v1/models`."""
    entry = {
        "id": served,
        "object": "model",
        "created": created,
        "owned_by": "mentatd-demo",
        "max_model_len": MAX_MODEL_LEN,
    }
    return _json({"object": "list", "data": [entry]})


def tokens(found: Sequence[str]) -> bytes:
    """The document of `/tokenize`."""
    ids = [token_id(token) for token in found]
    return _json({"count": len(ids), "max_model_len": MAX_MODEL_LEN, "tokens": ids, "token_strs": None})


def error(bad: Bad) -> bytes:
    """The envelope of a refusal."""
    fields = {"message": bad.message, "type": bad.type, "param": bad.param, "code": bad.status}
    return _json({"error": fields})


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
