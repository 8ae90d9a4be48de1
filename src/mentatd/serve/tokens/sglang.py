"""SGLang: `/tokenize` takes text. A server that takes messages there renders its template; any other counts the
prompt's bare text, and the answer says that the template is missing from it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mentatd.serve.tokens.engine import Counted, Engine
from mentatd.wire.prompt import Prompt

_PATH = b"/tokenize"
_TEMPLATE = "chat template"


class _Tokens(msgspec.Struct):
    count: int


class SglangCounter:
    """Asks with messages first, then with text."""

    async def count(self, engine: Engine, prompt: Prompt, request: bytes | None) -> Counted:
        """See `TokenCounter`."""
        body: dict[str, object] = {"model": engine.model, "messages": prompt.messages}
        if prompt.tools is not None:
            body["tools"] = msgspec.Raw(prompt.tools)
        answer = await engine.post(_PATH, msgspec.json.encode(body))
        if answer.status == 200:
            rendered: _Tokens = engine.read(_PATH, answer, _Tokens)
            return Counted(rendered.count + prompt.media_tokens, prompt.uncounted)
        text = {"model": engine.model, "prompt": "\n".join(_texts(prompt)), "add_special_tokens": True}
        bare: _Tokens = await engine.post_json(_PATH, text, _Tokens)
        return Counted(bare.count + prompt.media_tokens, (*prompt.uncounted, _TEMPLATE))


def _texts(prompt: Prompt) -> Iterator[str]:
    """Everything of the prompt that a template would render."""
    for message in prompt.messages:
        if message.content:
            yield message.content
        for call in message.tool_calls:
            yield f"{call.function.name} {call.function.arguments}"
    if prompt.tools is not None:
        yield prompt.tools.decode()
