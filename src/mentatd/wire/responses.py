"""Requests of OpenAI's Responses API as prompts to be counted.

Takes both spellings of content parts (`input_text` and `text`, `input_image` and `image_url`, …).
"""

from __future__ import annotations

import msgspec

from mentatd.wire.prompt import (
    IMAGE_TOKENS,
    VIDEO_TOKENS,
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

_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_MEDIA_PARTS = {
    "input_image": IMAGE_TOKENS,
    "image_url": IMAGE_TOKENS,
    "image": IMAGE_TOKENS,
    "input_video": VIDEO_TOKENS,
    "video_url": VIDEO_TOKENS,
    "video": VIDEO_TOKENS,
}
_ELSEWHERE = ("previous_response_id", "conversation", "prompt")
"""Members that stand for text which the engine or the provider keeps."""
_FUNCTION = ("name", "description", "parameters", "strict")


def read_responses(body: bytes | memoryview) -> Prompt:
    """Read the body of `POST /v1/responses/input_tokens`. Raises BadPrompt."""
    request = read_object(body, "the body")
    builder = PromptBuilder()
    for name in _ELSEWHERE:
        if name in request and bytes(request[name]) != b"null":
            builder.skip(name)
    _instructions(builder, request.get("instructions"))
    _input(builder, request.get("input"))
    for index, tool in enumerate(read_items(request.get("tools"), "tools")):
        _tool(builder, tool, f"tools[{index}]")
    return builder.build()


def _instructions(builder: PromptBuilder, raw: msgspec.Raw | None) -> None:
    if raw is None or bytes(raw) == b"null":
        return
    text = read_text(raw)
    if text is not None:
        builder.say("system", text)
        return
    for index, item in enumerate(read_items(raw, "instructions")):
        _item(builder, item, f"instructions[{index}]")


def _input(builder: PromptBuilder, raw: msgspec.Raw | None) -> None:
    text = read_text(raw)
    if text is not None:
        builder.say("user", text)
        return
    for index, item in enumerate(read_items(raw, "input")):
        _item(builder, item, f"input[{index}]")


def _item(builder: PromptBuilder, raw: msgspec.Raw, where: str) -> None:
    item = read_object(raw, where)
    kind = read_text(item.get("type")) or ("message" if "role" in item else "")
    match kind:
        case "message":
            role = read_text(item.get("role"))
            if not role:
                raise BadPrompt(f"{where}.role must be a string")
            # Few chat templates know OpenAI's `developer`; it takes the place of the system there.
            builder.say("system" if role == "developer" else role, _content(builder, item, where))
        case "function_call":
            function = Function(read_text(item.get("name")) or "", read_text(item.get("arguments")) or "{}")
            builder.call(ToolCall(read_text(item.get("call_id")) or "", function))
        case "function_call_output":
            text = _content(builder, item, where, "output")
            builder.answer(read_text(item.get("call_id")) or "", text)
        case _:
            builder.skip(kind or "unknown item")


def _content(builder: PromptBuilder, item: Members, where: str, member: str = "content") -> str:
    """The text of an item's content; media in it are added at their flat rates."""
    raw = item.get(member)
    text = read_text(raw)
    if text is not None:
        return text
    texts: list[str] = []
    for index, part_raw in enumerate(read_items(raw, f"{where}.{member}")):
        part = read_object(part_raw, f"{where}.{member}[{index}]")
        kind = read_text(part.get("type")) or ""
        if kind in _TEXT_PARTS:
            texts.append(read_text(part.get(_TEXT_PARTS[kind])) or "")
        elif kind in _MEDIA_PARTS:
            builder.media_tokens += _MEDIA_PARTS[kind]
        else:
            builder.skip(kind or "unknown part")
    return "\n".join(texts)


def _tool(builder: PromptBuilder, raw: msgspec.Raw, where: str) -> None:
    """Chat-shaped tools go as they came: the template renders them, key order and all."""
    tool = read_object(raw, where)
    kind = read_text(tool.get("type")) or ""
    if kind != "function":
        builder.skip(f"tool {kind or 'of unknown type'}")
    elif "function" in tool:
        builder.tools.append(raw)
    else:
        builder.function_tool({name: tool[name] for name in tool if name in _FUNCTION})
