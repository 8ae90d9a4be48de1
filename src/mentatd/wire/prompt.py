"""A prompt that is to be counted, in the shape of chat completions, which every engine's chat template takes.

The readers of OpenAI's Responses API (`wire.responses`) and of Anthropic's Messages API (`wire.anthropic`) make it.
Nothing of a prompt that cannot be priced is lost without its name in `uncounted`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import msgspec

IMAGE_TOKENS = 4000
"""Flat rate of an image, whatever its resolution (manual "Counting tokens")."""
VIDEO_TOKENS = 40000
"""Flat rate of a video, whatever its length."""

_NAMES = 64
"""Names kept in `uncounted`, each up to as many characters."""


class BadPrompt(ValueError):
    """The request cannot be read as a prompt; the text names the member at fault."""


class TextPart(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """One of several texts of a message: whether and how they are joined is for the engine's template to say."""

    text: str


Content: TypeAlias = str | tuple[TextPart, ...]


class Function(msgspec.Struct, frozen=True):
    """A function that the assistant called."""

    name: str
    arguments: str
    """JSON text of an object."""


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """One call in an assistant's message."""

    id: str
    function: Function


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message as chat completions take it."""

    role: str
    content: Content | None
    """None only beside calls."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is to be counted. Not all of its parts are empty."""

    messages: tuple[ChatMessage, ...]
    """What a chat template renders; empty when the request holds only what it cannot."""
    tools: msgspec.Raw | None
    """JSON text of a list in chat completions' shape, each tool's key order as sent; None without tools."""
    media_tokens: int
    """The flat rates of the media in it."""
    uncounted: tuple[str, ...]
    """Kinds of things in the request that no count includes, each once, in order."""


@dataclass(slots=True)
class _Turn:
    """A message while its calls are being gathered."""

    role: str
    content: Content | None
    calls: list[ToolCall] = field(default_factory=list)
    call_id: str = ""


class PromptBuilder:
    """Gathers a prompt while a reader walks a request."""

    def __init__(self) -> None:
        self.tools: list[msgspec.Raw] = []
        """JSON texts in chat completions' shape."""
        self.media_tokens = 0
        self._turns: list[_Turn] = []
        self._uncounted: dict[str, None] = {}

    def skip(self, kind: str) -> None:
        """Name something that is not counted."""
        if len(self._uncounted) < _NAMES:
            self._uncounted[kind[:_NAMES]] = None

    def say(self, role: str, content: Content) -> None:
        """Add a message. An assistant's words behind its calls join them: they are one turn, and templates refuse
        two in a row."""
        last = self._open_turn()
        if role == "assistant" and last is not None and last.content is None:
            last.content = content
        else:
            self._turns.append(_Turn(role, content))

    def call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a call; calls in a row, and those behind the assistant's words, are one turn.

        Templates walk the arguments as an object, so what is none is left out, and named.
        """
        if not _is_object(arguments):
            self.skip("function_call arguments")
            arguments = "{}"
        turn = self._open_turn()
        if turn is None:
            turn = _Turn("assistant", None)
            self._turns.append(turn)
        turn.calls.append(ToolCall(call_id, Function(name, arguments)))

    def answer(self, call_id: str, content: Content) -> None:
        """Add a tool's answer."""
        self._turns.append(_Turn("tool", content, call_id=call_id))

    def function_tool(self, function: Mapping[str, msgspec.Raw]) -> None:
        """Add a tool given as the members of its function, of which nulls are as good as absent."""
        given = {name: value for name, value in function.items() if is_given(value)}
        self.tools.append(msgspec.Raw(msgspec.json.encode({"type": "function", "function": given})))

    def build(self) -> Prompt:
        """The prompt as gathered so far. Raises BadPrompt when there is nothing in it."""
        if not (self._turns or self.tools or self.media_tokens or self._uncounted):
            raise BadPrompt("there is nothing in the request to count")
        messages = (ChatMessage(t.role, t.content, tuple(t.calls), t.call_id) for t in self._turns)
        tools = msgspec.Raw(msgspec.json.encode(self.tools)) if self.tools else None
        return Prompt(tuple(messages), tools, self.media_tokens, tuple(self._uncounted))

    def _open_turn(self) -> _Turn | None:
        """The assistant's turn, if it is the last one."""
        return self._turns[-1] if self._turns and self._turns[-1].role == "assistant" else None


Members: TypeAlias = dict[str, msgspec.Raw]
"""An object, its members unread."""

_MEMBERS = msgspec.json.Decoder(Members)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_STRING_OR_COMMA = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|(,)', re.DOTALL)
_MOST_COMMAS = 250_000
"""Far above any conversation's; 32 MiB of empty items, read one by one, would take a gigabyte and many seconds."""


def content_of(texts: Sequence[str]) -> Content:
    """The texts of one message."""
    if len(texts) > 1:
        return tuple(map(TextPart, texts))
    return texts[0] if texts else ""


def is_given(raw: msgspec.Raw | None) -> bool:
    """Whether a member is there and not null."""
    return raw is not None and (len(raw) != 4 or bytes(raw) != b"null")


def read_body(body: bytes) -> Members:
    """The members of a request's body. Raises BadPrompt, also for one of too many parts."""
    # a text may have as many commas as it likes, but few bodies need that second look
    if body.count(b",") > _MOST_COMMAS and _has_many_commas(body):
        raise BadPrompt(f"the body has over {_MOST_COMMAS} commas beside those in its texts")
    return read_object(body, "the body")


def read_object(raw: msgspec.Raw | bytes | memoryview | None, where: str) -> Members:
    """The members of an object, unread. Raises BadPrompt naming `where`."""
    try:
        return _MEMBERS.decode(raw or b"null")
    except _UNREADABLE as error:
        raise BadPrompt(f"{where} is not a readable object: {error}") from None


def read_items(raw: msgspec.Raw | None, where: str) -> list[msgspec.Raw]:
    """The items of a list, unread; none when it is absent or null. Raises BadPrompt naming `where`."""
    if raw is None or not is_given(raw):
        return []
    try:
        return _ITEMS.decode(raw)
    except _UNREADABLE as error:
        raise BadPrompt(f"{where} is not a readable list: {error}") from None


def read_text(raw: msgspec.Raw | None) -> str | None:
    """A string; None for anything else. Raises BadPrompt for one that is no text, such as half a surrogate pair."""
    try:
        return None if raw is None else _TEXT.decode(raw)
    except msgspec.ValidationError:
        return None
    except _UNREADABLE as error:
        raise BadPrompt(f"a string is not valid text: {error}") from None


def require_text(raw: msgspec.Raw | None, where: str) -> str:
    """A string that must be there. Raises BadPrompt naming `where`."""
    text = read_text(raw)
    if text is None:
        raise BadPrompt(f"{where} is not a string")
    return text


def _is_object(text: str) -> bool:
    try:
        _MEMBERS.decode(text)
    except _UNREADABLE:
        return False
    return True


def _has_many_commas(body: bytes) -> bool:
    commas = (found for found in _STRING_OR_COMMA.finditer(body) if found.lastindex)
    return next(islice(commas, _MOST_COMMAS, None), None) is not None
