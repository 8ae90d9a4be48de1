"""A prompt that is to be counted, in the one shape that every engine's chat template takes.

The readers of OpenAI's Responses API (`wire.responses`) and of Anthropic's Messages API (`wire.anthropic`) make it;
nothing of a request that cannot be priced is lost without its name in `uncounted`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

IMAGE_TOKENS = 4000
"""Flat rate of an image, whatever its resolution (manual "Counting tokens")."""
VIDEO_TOKENS = 40000
"""Flat rate of a video, whatever its length."""


class BadPrompt(ValueError):
    """The request cannot be read as a prompt; the text names the member at fault."""


class Function(msgspec.Struct, frozen=True):
    """A function that the assistant called."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    """One call in an assistant's message."""

    id: str
    function: Function
    type: str = "function"


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message as chat completions take it."""

    role: str
    content: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is to be counted."""

    messages: tuple[ChatMessage, ...]
    tools: bytes | None
    """JSON text of a list in chat completions' shape, key order as sent; None without tools."""
    media_tokens: int
    """The flat rates of the media in it."""
    uncounted: tuple[str, ...]
    """Kinds of things in the request that no count includes, each once, in order."""


@dataclass(slots=True)
class PromptBuilder:
    """Gathers a prompt while a reader walks a request."""

    messages: list[ChatMessage] = field(default_factory=list)
    tools: list[msgspec.Raw] = field(default_factory=list)
    media_tokens: int = 0
    uncounted: dict[str, None] = field(default_factory=dict)

    def skip(self, kind: str) -> None:
        """Name something that is not counted."""
        self.uncounted[kind[:64]] = None

    def say(self, role: str, text: str) -> None:
        """Add a message of text."""
        self.messages.append(ChatMessage(role, text))

    def call(self, call: ToolCall) -> None:
        """Add a call; calls in a row, and those behind the assistant's words, are one message."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == "assistant":
            self.messages[-1] = ChatMessage("assistant", last.content, (*last.tool_calls, call))
        else:
            self.messages.append(ChatMessage("assistant", None, (call,)))

    def answer(self, call_id: str, text: str) -> None:
        """Add a tool's answer."""
        self.messages.append(ChatMessage("tool", text, tool_call_id=call_id))

    def function_tool(self, function: dict[str, Any]) -> None:
        """Add a tool given as the members of its function."""
        self.tools.append(msgspec.Raw(msgspec.json.encode({"type": "function", "function": function})))

    def build(self) -> Prompt:
        """The prompt as gathered so far."""
        tools = msgspec.json.encode(self.tools) if self.tools else None
        return Prompt(tuple(self.messages), tools, self.media_tokens, tuple(self.uncounted))


Members = dict[str, msgspec.Raw]

_MEMBERS = msgspec.json.Decoder(Members)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_object(raw: msgspec.Raw | bytes | memoryview, where: str) -> Members:
    """The members of an object, unread. Raises BadPrompt naming `where`."""
    try:
        return _MEMBERS.decode(raw)
    except _UNREADABLE as error:
        raise BadPrompt(f"{where} must be an object: {error}") from None


def read_text(raw: msgspec.Raw | None) -> str | None:
    """A string; None for anything else."""
    try:
        return None if raw is None else _TEXT.decode(raw)
    except _UNREADABLE:
        return None


def read_items(raw: msgspec.Raw | None, where: str) -> list[msgspec.Raw]:
    """The items of a list, unread; none when it is absent or null. Raises BadPrompt naming `where`."""
    if raw is None or bytes(raw) == b"null":
        return []
    try:
        return _ITEMS.decode(raw)
    except _UNREADABLE as error:
        raise BadPrompt(f"{where} must be a list: {error}") from None
