"""Requests of Anthropic's Messages API as prompts to be counted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mentatd.wire.prompt import (
    IMAGE_TOKENS,
    Content,
    Members,
    Prompt,
    PromptBuilder,
    content_of,
    is_given,
    read_body,
    read_items,
    read_object,
    read_text,
    require_text,
)

_FUNCTION = {"name": "name", "description": "description", "input_schema": "parameters"}
"""The members of a tool that templates render, to their names in chat completions."""


def read_messages(body: bytes) -> Prompt:
    """Read the body of `POST /v1/messages/count_tokens`. Raises BadPrompt."""
    request = read_body(body)
    builder = PromptBuilder()
    if is_given(request.get("system")):
        builder.say("system", _content(builder, request["system"], "system"))
    for index, raw in enumerate(read_items(request.get("messages"), "messages")):
        _message(builder, raw, f"messages[{index}]")
    for index, raw in enumerate(read_items(request.get("tools"), "tools")):
        _tool(builder, read_object(raw, f"tools[{index}]"), f"tools[{index}]")
    return builder.build()


def _message(builder: PromptBuilder, raw: msgspec.Raw, where: str) -> None:
    message = read_object(raw, where)
    role = require_text(message.get("role"), f"{where}.role")
    text = read_text(message.get("content"))
    if text is not None:
        builder.say(role, text)
        return
    texts: list[str] = []
    calls: list[tuple[str, Members]] = []
    others = False
    for at, kind, block in _blocks(message.get("content"), f"{where}.content"):
        match kind:
            case "tool_use":
                calls.append((at, block))
            case "tool_result":
                content = _content(builder, block.get("content"), f"{at}.content")
                builder.answer(read_text(block.get("tool_use_id")) or "", content)
                others = True
            case _:
                texts.extend(_texts(builder, at, kind, block))
    if texts or not (calls or others):
        builder.say(role, content_of(texts))
    for at, block in calls:
        _call(builder, block, at)


def _call(builder: PromptBuilder, block: Members, where: str) -> None:
    arguments = bytes(block.get("input", b"{}")).decode(errors="replace")
    name = require_text(block.get("name"), f"{where}.name")
    builder.call(read_text(block.get("id")) or "", name, arguments)


def _content(builder: PromptBuilder, raw: msgspec.Raw | None, where: str) -> Content:
    """The text of a content; media in it are added at their flat rates."""
    text = read_text(raw)
    if text is not None:
        return text
    texts: list[str] = []
    for at, kind, block in _blocks(raw, where):
        texts.extend(_texts(builder, at, kind, block))
    return content_of(texts)


def _blocks(raw: msgspec.Raw | None, where: str) -> Iterator[tuple[str, str, Members]]:
    """Where each block stands, its kind and its members."""
    for index, raw_block in enumerate(read_items(raw, where)):
        block = read_object(raw_block, f"{where}[{index}]")
        yield f"{where}[{index}]", read_text(block.get("type")) or "", block


def _texts(builder: PromptBuilder, where: str, kind: str, block: Members) -> Iterator[str]:
    """The texts that a block brings to its message."""
    if kind == "text":
        yield require_text(block.get("text"), f"{where}.text")
    elif kind == "image":
        builder.media_tokens += IMAGE_TOKENS
    elif kind == "document" and (text := _document(block, where)) is not None:
        yield text
    else:
        builder.skip(kind or "block without a type")


def _document(block: Members, where: str) -> str | None:
    """The text of a document that is plain text."""
    source = read_object(block.get("source"), f"{where}.source")
    if read_text(source.get("type")) != "text":
        return None
    return require_text(source.get("data"), f"{where}.source.data")


def _tool(builder: PromptBuilder, tool: Members, where: str) -> None:
    """A tool of the client's has a schema; the others are the provider's own, and no template renders them."""
    if "input_schema" not in tool:
        builder.skip(read_text(tool.get("type")) or "tool without a type")
        return
    require_text(tool.get("name"), f"{where}.name")
    function = {_FUNCTION[name]: value for name, value in tool.items() if name in _FUNCTION}
    builder.function_tool(function)
