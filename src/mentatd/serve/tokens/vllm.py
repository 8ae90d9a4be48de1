"""vLLM: `/tokenize` renders the chat template and counts (vLLM's "Tokenizer API")."""

from __future__ import annotations

import msgspec

from mentatd.serve.tokens.engine import Counted, Engine, Number
from mentatd.wire.prompt import Prompt


class _Tokens(msgspec.Struct):
    count: Number


class VllmCounter:
    """Sends the prompt as a chat request, so that the template, instructions and tools are priced."""

    async def count(self, engine: Engine, prompt: Prompt, request: bytes | None) -> Counted:
        """See `TokenCounter`."""
        chat: dict[str, object] = {
            "model": engine.model,
            "messages": prompt.messages,
            "add_generation_prompt": True,
        }
        if prompt.tools is not None:
            chat["tools"] = prompt.tools
        answer = await engine.post_json(b"/tokenize", chat, _Tokens)
        return Counted(answer.count + prompt.media_tokens, prompt.uncounted)
