"""The parameters of a client's call, of which only what the merge decides by is read.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mentatd.serve.mcp.offers import Members, text_member

REST_LIMIT = 64 * 1024
"""Bytes of the parameters besides the members that may be large: many small members cost a multiple of their size."""

_MEMBERS = msgspec.json.Decoder(Members)
_encode = msgspec.json.Encoder().encode


class _Large(msgspec.Struct):
    arguments: msgspec.Raw = msgspec.Raw()
    meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="_meta")


_LARGE_ONLY = msgspec.json.Decoder(_Large)


class BadParams(ValueError):
    """The parameters are not what the method takes; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters whose every member stays as it came."""

    members: Members
    """By name, unread."""

    def text(self, name: str) -> str:
        """A member that must be a string with something in it. Raises BadParams."""
        text = text_member(self.members, name)
        if not text:
            raise BadParams(f"`{name}` must be a non-empty string")
        return text

    def check_object(self, name: str) -> None:
        """Raises BadParams for a member that is there and is no object."""
        if name in self.members and bytes(memoryview(self.members[name])[:1]) != b"{":
            raise BadParams(f"`{name}` must be an object")

    def replaced(self, name: str, value: str) -> bytes:
        """The JSON text of all members, one of them replaced."""
        return _encode({**self.members, name: value})


def read_params(text: bytes) -> Params:
    """Read the JSON text of an object. Raises BadParams."""
    try:
        large = _LARGE_ONLY.decode(text)
        rest = len(text) - len(memoryview(large.arguments)) - len(memoryview(large.meta))
        if rest > REST_LIMIT:
            raise BadParams(f"over {REST_LIMIT} bytes besides `arguments` and `_meta`")
        return Params(_MEMBERS.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadParams(f"the parameters cannot be read: {error}") from None
