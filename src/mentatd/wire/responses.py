"""Requests of OpenAI's Responses API as prompts to be counted.

Takes both spellings of content parts (`input_text` and `text`, `input_image` and `image_url`, …), and messages as
chat completions have them, calls and tool answers included.
"""

from __future__ import annotations

import msgspec

from mentatd.wire.prompt import (
    IMAGE_TOKENS,
    VIDEO_TOKENS,
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

_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Parts that are text, to the member that holds it."""
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


def read_responses(body: bytes) -> Prompt:
    """Read the body of `POST /v1/responses/input_tokens`. Raises BadPrompt."""
    request = read_body(body)
    builder = PromptBuilder()
    for name in _ELSEWHERE:
        if is_given(request.get(name)):
            builder.skip(name)
    instructions = request.get("instructions")
    if is_given(instructions):
        builder.say("system", require_text(instructions, "instructions"))
    given = request.get("input")
    text = read_text(given)
    if text is not None:
        builder.say("user", text)
    else:
        for index, item in enumerate(read_items(given, "input")):
            _item(builder, read_object(item, f"input[{index}]"), f"input[{index}]")
    for index, tool in enumerate(read_items(request.get("tools"), "tools")):
        _tool(builder, tool, f"tools[{index}]")
    return builder.build()


def _item(builder: PromptBuilder, item: Members, where: str) -> None:
    kind = read_text(item.get("type")) or ("message" if "role" in item else "")
    match kind:
        case "message":
            _message(builder, item, where)
        case "function_call":
            name = require_text(item.get("name"), f"{where}.name")
            builder.call(read_text(item.get("call_id")) or "", name, _arguments(item.get("arguments")))
        case "function_call_output":
            output = _content(builder, item.get("output"), f"{where}.output")
            builder.answer(read_text(item.get("call_id")) or "", output)
        case _ if kind in _TEXT_PARTS or kind in _MEDIA_PARTS:
            # a part that stands where a message should
            if text := _part(builder, item, where):
                builder.say("user", text)
        case _:
            builder.skip(kind or "item without a type")


def _message(builder: PromptBuilder, item: Members, where: str) -> None:
    role = require_text(item.get("role"), f"{where}.role")
    content = _content(builder, item.get("content"), f"{where}.content")
    if role == "tool":
        builder.answer(read_text(item.get("tool_call_id")) or "", content)
        return
    calls = read_items(item.get("tool_calls"), f"{where}.tool_calls")
    if content or not calls:
        # Few chat templates know OpenAI's `developer`; it takes the place of the system there.
        builder.say("system" if role == "developer" else role, content)
    for index, raw in enumerate(calls):
        call = read_object(raw, f"{where}.tool_calls[{index}]")
        function = read_object(call.get("function"), f"{where}.tool_calls[{index}].function")
        name = require_text(function.get("name"), f"{where}.tool_calls[{index}].function.name")
        builder.call(read_text(call.get("id")) or "", name, _arguments(function.get("arguments")))


def _arguments(raw: msgspec.Raw | None) -> str:
    """The arguments of a call, which some clients leave empty and some send as an object."""
    text = read_text(raw)
    if text is None and raw is not None:
        text = bytes(raw).decode(errors="replace")
    return text or "{}"


def _content(builder: PromptBuilder, raw: msgspec.Raw | None, where: str) -> Content:
    """The text of an item's content; media in it are added at their flat rates."""
    text = read_text(raw)
    if text is not None:
        return text
    texts = []
    for index, part in enumerate(read_items(raw, where)):
        text = _part(builder, read_object(part, f"{where}[{index}]"), f"{where}[{index}]")
        if text is not None:
            texts.append(text)
    return content_of(texts)


def _part(builder: PromptBuilder, part: Members, where: str) -> str | None:
    """The text of a part, None for what is no text."""
    kind = read_text(part.get("type")) or ""
    member = _TEXT_PARTS.get(kind)
    if member is not None:
        return require_text(part.get(member), f"{where}.{member}")
    if kind in _MEDIA_PARTS:
        builder.media_tokens += _MEDIA_PARTS[kind]
    else:
        builder.skip(kind or "part without a type")
    return None


def _tool(builder: PromptBuilder, raw: msgspec.Raw, where: str) -> None:
    """Chat-shaped tools go as they came: the template renders them, key order and all."""
    tool = read_object(raw, where)
    kind = read_text(tool.get("type"))
    if kind != "function":
        builder.skip(kind or "tool without a type")
    elif "function" in tool:
        builder.tools.append(raw)
    else:
        builder.function_tool({name: value for name, value in tool.items() if name != "type"})
