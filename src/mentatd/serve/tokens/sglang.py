"""SGLang: `/tokenize` takes text, and in newer servers messages too, whose chat template it then renders.

An older server counts the prompt's bare text, and the answer says that the template is missing from it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mentatd.http.client import Answer
from mentatd.serve.tokens.engine import Counted, Engine, Number, reason
from mentatd.wire.prompt import Prompt

_PATH = b"/tokenize"
_TEMPLATE = "chat template"


class _Tokens(msgspec.Struct):
    count: Number


class SglangCounter:
    """Asks with messages first, then with text."""

    async def count(self, engine: Engine, prompt: Prompt, request: bytes | None) -> Counted:
        """See `TokenCounter`."""
        chat: dict[str, object] = {"model": engine.model, "messages": prompt.messages}
        if prompt.tools is not None:
            chat["tools"] = prompt.tools
        answer = await engine.post(_PATH, msgspec.json.encode(chat))
        uncounted = prompt.uncounted
        if _wants_text(answer):
            text = {"model": engine.model, "prompt": "\n".join(_texts(prompt)), "add_special_tokens": True}
            answer = await engine.post(_PATH, msgspec.json.encode(text))
            uncounted = (*uncounted, _TEMPLATE)
        count = engine.read(_PATH, answer, _Tokens).count
        return Counted(count + prompt.media_tokens, uncounted)


def _wants_text(answer: Answer) -> bool:
    """Whether the server misses the `prompt` that an older one knows alone."""
    return answer.status in (400, 422) and "prompt" in reason(answer.body)


def _texts(prompt: Prompt) -> Iterator[str]:
    """Everything of the prompt that a template would render."""
    for message in prompt.messages:
        if isinstance(message.content, str):
            yield message.content
        elif message.content is not None:
            yield from (part.text for part in message.content)
        for call in message.tool_calls:
            yield f"{call.function.name} {call.function.arguments}"
    if prompt.tools is not None:
        yield bytes(prompt.tools).decode()
