"""OpenAI's side of the wire: the `model` of a request body, an engine's model list, the error envelope.

Pure: bytes to values and back. The rules are wire.md section 6's and the manual's "Request handling".
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from mentatd.errors import Refusal

FALLBACK_LIMIT = 8 * 1024 * 1024
"""Largest body in bytes for the parsers that build everything they read (the standard `json`, URL-encoded forms): they
hold the event loop for some 30 ms at this size."""

_UTF8_STEP = 256 * 1024
"""UTF-8 is judged in steps of this many bytes, which stay in the cache and are never all decoded at once."""

_SHOWN = 200
"""A name or a parser's text is quoted to this many characters in a message."""


@dataclass(frozen=True, slots=True)
class Routing:
    """What a request body says about where it goes."""

    model: str
    """Non-empty, compared exactly."""
    stream: bool
    """It asks for a stream (`true` and nothing else does)."""
    form: bool = False
    """The body is a form, not JSON."""


@dataclass(frozen=True, slots=True)
class BadBody:
    """A body that cannot be routed."""

    message: str
    """What is wrong with it, for the client."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One entry of an engine's `/v1/models`."""

    id: str
    """Any non-empty string; compared exactly."""
    json: bytes
    """The engine's own object, every field kept byte for byte, with `owned_by` set to the group."""


class _Wanted(msgspec.Struct, gc=False):
    """The members that routing needs, unjudged: of duplicate keys the last wins, whatever type an earlier one has."""

    model: msgspec.Raw = msgspec.Raw()
    stream: msgspec.Raw = msgspec.Raw()


class _Listing(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw()


_decode_wanted = msgspec.json.Decoder(_Wanted).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_listing = msgspec.json.Decoder(_Listing).decode
_decode_rows = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_row = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def find_model(body: bytes | memoryview) -> Routing | BadBody:
    """The routing of a JSON body, as Python's `json` would read it (engines do): the last of two keys wins."""
    try:
        wanted = _decode_wanted(body)
        if not _is_utf8(body):
            return _find_slowly(body)
        model = _decode_text(wanted.model) if wanted.model else None
    except RecursionError:
        return BadBody("the JSON body is nested too deeply")
    except msgspec.ValidationError:
        model = None if _is_object(body) else ...
        return BadBody("")
    except msgspec.DecodeError:
        return _find_slowly(body)
    return _judge(model, wanted.stream == b"true")
