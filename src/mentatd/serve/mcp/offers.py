"""What groups offer over MCP, as entries of the merged lists.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from mentatd.serve.mcp.names import public_name, public_uri, split_uri

Members = dict[str, msgspec.Raw]
_MEMBERS = msgspec.json.Decoder(Members)
_MEMBERS_LIST = msgspec.json.Decoder(list[Members])
_TEXT = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the three lists that are merged."""

    capability: str
    """What a server that has it says at the handshake; also the member of the list's answer."""
    method: str
    key: str
    """The member of an entry that names it."""


TOOLS = Kind("tools", "tools/list", "name")
RESOURCES = Kind("resources", "resources/list", "uri")
PROMPTS = Kind("prompts", "prompts/list", "name")


@dataclass(frozen=True, slots=True)
class Offer:
    """One entry of a group's list."""

    group: str
    key: str
    """Its name or URI in the group."""
    json: bytes
    """Its JSON text for the merged list: as the group sent it, but for its public name or URI."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a list call."""

    offers: tuple[Offer, ...]
    cursor: bytes | None
    """JSON text of the next page's cursor; None on the last page."""


def read_page(kind: Kind, group: str, result: bytes) -> Page:
    """Read a list call's result. Entries without a name are left out. Raises ValueError for what is no list."""
    try:
        members = _MEMBERS.decode(result)
        entries = _MEMBERS_LIST.decode(members.get(kind.capability, msgspec.Raw(b"[]")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"an unreadable answer to {kind.method}: {error}") from None
    offers = tuple(offer for entry in entries if (offer := _offer(kind, group, entry)) is not None)
    cursor = bytes(members.get("nextCursor", b"null"))
    return Page(offers, None if cursor in (b"null", b'""') else cursor)


def _offer(kind: Kind, group: str, entry: Members) -> Offer | None:
    key = text_member(entry, kind.key)
    if not key:
        return None
    public = public_uri(group, key) if kind is RESOURCES else public_name(group, key)
    return Offer(group, key, msgspec.json.encode({**entry, kind.key: public}))


def write_list(kind: Kind, entries: list[bytes]) -> bytes:
    """The merged list's result."""
    return b'{"%b":[%b]}' % (kind.capability.encode(), b",".join(entries))


def read_members(params: bytes) -> Members:
    """The members of a call's `params`, unread. Raises ValueError."""
    try:
        return _MEMBERS.decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def text_member(members: Mapping[str, msgspec.Raw], name: str) -> str | None:
    """A member that is a string; None when it is absent or something else."""
    if name not in members:
        return None
    try:
        return _TEXT.decode(members[name])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def publish_contents(group: str, result: bytes) -> bytes:
    """The result of a resource read with each content's URI as the merged endpoint has it."""
    try:
        members = _MEMBERS.decode(result)
        contents: list[dict[str, Any]] = [*_MEMBERS_LIST.decode(members.get("contents", msgspec.Raw(b"[]")))]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return result
    for content in contents:
        uri = text_member(content, "uri")
        if uri and split_uri(uri) is None:
            content["uri"] = public_uri(group, uri)
    return msgspec.json.encode({**members, "contents": contents})


def failed_result(message: str) -> bytes:
    """A tool result that says what went wrong: the model that called the tool reads it."""
    return msgspec.json.encode({"content": [{"type": "text", "text": message}], "isError": True})
