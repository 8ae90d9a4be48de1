"""What groups offer over MCP, as entries of the merged lists.  Pure.

An entry goes into the merged list as its group sent it, but for its public name or URI. Clients judge a list as a
whole, so one entry that they cannot read would cost them every group's tools: an entry of a wrong shape is left out
(`Page.skipped` says why), and what sloppy servers leave out is filled in. Shapes: MCP 2025-11-25, schema.ts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from mentatd.serve.mcp.names import public_name, public_uri, split_uri

MAX_ENTRIES = 5000
"""Of one page; a list of empty entries costs forty times its size to take apart."""

Members = dict[str, msgspec.Raw]
_MEMBERS = msgspec.json.Decoder(Members)
_MEMBERS_LIST = msgspec.json.Decoder(list[Members])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_UNREADABLE = (msgspec.DecodeError, RecursionError)
_EMPTY_LIST = msgspec.Raw(b"[]")
_NULL = b"null"
_OBJECT_SCHEMA = msgspec.Raw(b'{"type":"object"}')
_encode = msgspec.json.Encoder().encode


class _Schema(msgspec.Struct):
    type: Literal["object"] = "object"
    properties: Members | None = None
    required: list[str] | None = None


class _Icon(msgspec.Struct):
    src: str
    mimeType: str | None = None  # noqa: N815 (MCP's spelling, here and below)
    sizes: list[str] | str | None = None


class _Shown(msgspec.Struct, kw_only=True):
    title: str | None = None
    description: str | None = None
    icons: list[_Icon] | None = None
    meta: Members | None = msgspec.field(default=None, name="_meta")


class _Hints(msgspec.Struct):
    title: str | None = None
    readOnlyHint: bool | None = None  # noqa: N815
    destructiveHint: bool | None = None  # noqa: N815
    idempotentHint: bool | None = None  # noqa: N815
    openWorldHint: bool | None = None  # noqa: N815


class _Tool(_Shown, kw_only=True):
    name: str
    inputSchema: _Schema  # noqa: N815
    outputSchema: _Schema | None = None  # noqa: N815
    annotations: _Hints | None = None
    execution: Members | None = None


class _Resource(_Shown, kw_only=True):
    uri: str
    name: str
    mimeType: str | None = None  # noqa: N815
    size: float | None = None
    annotations: Members | None = None


class _Argument(msgspec.Struct):
    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class _Prompt(_Shown, kw_only=True):
    name: str
    arguments: list[_Argument] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the three lists that are merged."""

    capability: str
    """What a server that has it says at the handshake; also the member of the list's answer."""
    method: str
    """Asks for the list."""
    key: str
    """The member of an entry that names it."""
    shape: type[_Shown]
    """What an entry has to be."""


TOOLS = Kind("tools", "tools/list", "name", _Tool)
RESOURCES = Kind("resources", "resources/list", "uri", _Resource)
PROMPTS = Kind("prompts", "prompts/list", "name", _Prompt)


@dataclass(frozen=True, slots=True)
class Offer:
    """One entry of a group's list."""

    group: str
    """Its name."""
    key: str
    """The entry's name or URI in the group."""
    public: str
    """The same in the merged list."""
    json: bytes
    """Its JSON text for the merged list."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a list call."""

    offers: tuple[Offer, ...]
    """In the server's order."""
    cursor: bytes | None
    """JSON text of the next page's cursor; None on the last page."""
    skipped: str | None
    """Why the first of the entries that are left out is; None when none is."""


def read_page(kind: Kind, group: str, result: bytes) -> Page:
    """Read a list call's result. Raises ValueError for what is no list."""
    try:
        members = _MEMBERS.decode(result)
        entries = _RAWS.decode(members.get(kind.capability, _EMPTY_LIST))
    except _UNREADABLE as error:
        raise ValueError(f"an unreadable answer to {kind.method}: {error}") from None
    if len(entries) > MAX_ENTRIES:
        raise ValueError(
            f"an answer to {kind.method} with {len(entries)} entries; up to {MAX_ENTRIES} are taken"
        )
    offers: list[Offer] = []
    skipped = None
    for number, entry in enumerate(entries):
        try:
            offers.append(_read_entry(kind, group, entry))
        except (*_UNREADABLE, ValueError) as error:
            skipped = skipped or f"{kind.capability}[{number}]: {error}"
    cursor = bytes(members.get("nextCursor", msgspec.Raw(_NULL)))
    return Page(tuple(offers), None if cursor in (_NULL, b'""') else cursor, skipped)


def _read_entry(kind: Kind, group: str, entry: msgspec.Raw) -> Offer:
    # A null is how lazy writers say that an optional member is absent; strict readers refuse it.
    members = {name: value for name, value in _MEMBERS.decode(entry).items() if bytes(value) != _NULL}
    if kind is TOOLS:
        members["inputSchema"] = _object_schema(members.get("inputSchema", _OBJECT_SCHEMA))
        if "outputSchema" in members:
            members["outputSchema"] = _object_schema(members["outputSchema"])
    elif kind is RESOURCES and "uri" in members:
        members.setdefault("name", members["uri"])
    msgspec.json.decode(_encode(members), type=kind.shape)
    key = text_member(members, kind.key)
    if not key:
        raise ValueError(f"an empty `{kind.key}`")
    public = public_uri(group, key) if kind is RESOURCES else public_name(group, key)
    return Offer(group, key, public, _encode({**members, kind.key: public}))


def _object_schema(schema: msgspec.Raw) -> msgspec.Raw:
    """The schema with its `type`, which must be said and is the same for all."""
    members = _MEMBERS.decode(schema)
    return schema if "type" in members else msgspec.Raw(_encode({"type": "object", **members}))


def write_list(kind: Kind, entries: Iterable[bytes]) -> bytes:
    """The merged list's result."""
    return b'{"%b":[%b]}' % (kind.capability.encode(), b",".join(entries))


def text_member(members: Mapping[str, msgspec.Raw], name: str) -> str | None:
    """A member that is a string; None when it is absent or something else."""
    try:
        return _TEXT.decode(members.get(name, b""))
    except _UNREADABLE:
        return None


def publish_contents(group: str, result: bytes) -> bytes:
    """The result of a resource read with each content's URI as the merged endpoint has it; what is no such result
    stays as it is."""
    try:
        members = _MEMBERS.decode(result)
        contents = _MEMBERS_LIST.decode(members.get("contents", _EMPTY_LIST))
    except _UNREADABLE:
        return result
    for content in contents:
        uri = text_member(content, "uri")
        if uri and split_uri(uri) is None:
            content["uri"] = msgspec.Raw(_encode(public_uri(group, uri)))
    return _encode({**members, "contents": contents})


class _ToolResult(msgspec.Struct):
    content: msgspec.Raw


def is_tool_result(result: bytes) -> bool:
    """Whether a tool's result has its `content`, which clients insist on."""
    try:
        content = msgspec.json.decode(result, type=_ToolResult).content
    except _UNREADABLE:
        return False
    return bytes(memoryview(content)[:1]) == b"["


def failed_result(message: str) -> bytes:
    """A tool result that says what went wrong: the model that called the tool reads it."""
    return _encode({"content": [{"type": "text", "text": message}], "isError": True})
