"""llama.cpp: newer servers answer OpenAI's route themselves; older ones render a template and count apart."""

from __future__ import annotations

import msgspec

from mentatd.serve.tokens.engine import Counted, Engine
from mentatd.wire.prompt import Prompt

_UNKNOWN_PATH = (404, 405, 501)


class _Own(msgspec.Struct):
    input_tokens: int


class _Rendered(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: list[msgspec.Raw]


class LlamaCppCounter:
    """Trusts the engine's own count where there is one: it knows the price of its media."""

    async def count(self, engine: Engine, prompt: Prompt, request: bytes | None) -> Counted:
        """See `TokenCounter`."""
        if request is not None:
            path = b"/v1/responses/input_tokens"
            answer = await engine.post(path, request)
            if answer.status not in _UNKNOWN_PATH:
                own: _Own = engine.read(path, answer, _Own)
                return Counted(own.input_tokens, ())
        chat: dict[str, object] = {"messages": prompt.messages}
        if prompt.tools is not None:
            chat["tools"] = msgspec.Raw(prompt.tools)
        rendered: _Rendered = await engine.post_json(b"/apply-template", chat, _Rendered)
        text = {"content": rendered.prompt, "add_special": True, "parse_special": True}
        tokenized: _Tokens = await engine.post_json(b"/tokenize", text, _Tokens)
        return Counted(len(tokenized.tokens) + prompt.media_tokens, prompt.uncounted)
