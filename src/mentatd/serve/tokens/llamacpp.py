"""llama.cpp: newer servers answer OpenAI's route themselves; older ones render a template and count apart."""

from __future__ import annotations

import msgspec

from mentatd.serve.tokens.engine import NOT_THERE, Counted, CountRefused, Engine, Number
from mentatd.wire.prompt import Prompt

_OWN = b"/v1/responses/input_tokens"
_BETWEEN = b"0123456789, \t\r\n"
"""What stands between the brackets of a list of token ids."""


class _Count(msgspec.Struct):
    input_tokens: Number


class _Rendered(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: msgspec.Raw


class LlamaCppCounter:
    """Trusts the engine's own count where it gives one: it knows the price of its media.

    Its own route refuses much that its template renders all the same (chat-shaped tools, `text` parts, files), and
    images with a 500 where the model takes none; so whatever it refuses is counted here. Only if that fails too, the
    first refusal is the answer.
    """

    async def count(self, engine: Engine, prompt: Prompt, request: bytes | None) -> Counted:
        """See `TokenCounter`."""
        if request is None:
            return await _count_rendered(engine, prompt)
        own = await engine.post(_OWN, request)
        if own.status == 200:
            return Counted(engine.read(_OWN, own, _Count).input_tokens, ())
        try:
            return await _count_rendered(engine, prompt)
        except CountRefused:
            if own.status not in NOT_THERE:
                engine.read(_OWN, own, _Count)
            raise


async def _count_rendered(engine: Engine, prompt: Prompt) -> Counted:
    chat: dict[str, object] = {"messages": prompt.messages}
    if prompt.tools is not None:
        chat["tools"] = prompt.tools
    rendered = await engine.post_json(b"/apply-template", chat, _Rendered)
    text = {"content": rendered.prompt, "add_special": True, "parse_special": True}
    ids = bytes((await engine.post_json(b"/tokenize", text, _Tokens)).tokens)
    if ids.translate(None, _BETWEEN) != b"[]":
        raise engine.failed("/tokenize answered without a list of token ids")
    # counted as bytes: a list of millions of numbers would take hundreds of MiB
    count = ids.count(b",") + 1 if ids.strip(b"[] \t\r\n") else 0
    return Counted(count + prompt.media_tokens, prompt.uncounted)
