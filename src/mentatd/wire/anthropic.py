"""Requests of Anthropic's Messages API as prompts to be counted, and its error envelope."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mentatd.wire.prompt import (
    IMAGE_TOKENS,
    BadPrompt,
    Function,
    Members,
    Prompt,
    PromptBuilder,
    ToolCall,
    read_items,
    read_object,
    read_text,
)


def read_messages(body: bytes | memoryview) -> Prompt:
    """Read the body of `POST /v1/messages/count_tokens`. Raises BadPrompt."""
    request = read_object(body, "the body")
    builder = PromptBuilder()
    if "system" in request and bytes(request["system"]) != b"null":
        builder.say("system", _text_of(builder, request["system"], "system"))
    for index, raw in enumerate(read_items(request.get("messages"), "messages")):
        _message(builder, raw, f"messages[{index}]")
    for index, raw in enumerate(read_items(request.get("tools"), "tools")):
        _tool(builder, read_object(raw, f"tools[{index}]"))
    return builder.build()


def _blocks(raw: msgspec.Raw | None, where: str) -> Iterator[tuple[str, Members]]:
    for index, block_raw in enumerate(read_items(raw, where)):
        block = read_object(block_raw, f"{where}[{index}]")
        yield read_text(block.get("type")) or "", block


def _text_of(builder: PromptBuilder, raw: msgspec.Raw | None, where: str) -> str:
    """The text of a content; media in it are added at their flat rates."""
    text = read_text(raw)
    if text is not None:
        return text
    texts: list[str] = []
    for kind, block in _blocks(raw, where):
        if kind == "text":
            texts.append(read_text(block.get("text")) or "")
        elif kind == "image":
            builder.media_tokens += IMAGE_TOKENS
        else:
            builder.skip(kind or "unknown block")
    return "\n".join(texts)


def _message(builder: PromptBuilder, raw: msgspec.Raw, where: str) -> None:
    message = read_object(raw, where)
    role = read_text(message.get("role"))
    if not role:
        raise BadPrompt(f"{where}.role must be a string")
    content = message.get("content")
    text = read_text(content)
    if text is not None:
        builder.say(role, text)
        return
    texts: list[str] = []
    calls: list[ToolCall] = []
    spoken = False
    for kind, block in _blocks(content, f"{where}.content"):
        match kind:
            case "text":
                texts.append(read_text(block.get("text")) or "")
            case "image":
                builder.media_tokens += IMAGE_TOKENS
            case "tool_use":
                arguments = bytes(block.get("input", b"{}")).decode(errors="replace")
                function = Function(read_text(block.get("name")) or "", arguments)
                calls.append(ToolCall(read_text(block.get("id")) or "", function))
                continue
            case "tool_result":
                call_id = read_text(block.get("tool_use_id")) or ""
                builder.answer(call_id, _text_of(builder, block.get("content"), f"{where}.content"))
                continue
            case _:
                builder.skip(kind or "unknown block")
                continue
        spoken = True
    if spoken:
        builder.say(role, "\n".join(texts))
    for call in calls:
        builder.call(call)


def _tool(builder: PromptBuilder, tool: Members) -> None:
    """A tool of the client's has a schema; the others are the provider's own and render to nothing here."""
    if "input_schema" not in tool:
        builder.skip(f"tool {read_text(tool.get('type')) or 'of unknown type'}")
        return
    function: Members = {name: tool[name] for name in ("name", "description") if name in tool}
    builder.function_tool({**function, "parameters": tool["input_schema"]})
