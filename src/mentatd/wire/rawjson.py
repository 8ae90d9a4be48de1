"""JSON as the network brings it: decoded leniently, and named in messages without repeating it at length."""

from __future__ import annotations

import codecs
import json
from typing import Any

import msgspec

from mentatd.errors import WireError

FALLBACK_LIMIT = 8 * 1024 * 1024
"""Bytes up to which what `msgspec` refuses is tried with the standard `json`, several times slower."""

PIECE = 64 * 1024
"""Bytes above which a value is decoded member by member: each call into `msgspec` keeps every other thread from
running, 2 s for 42 MiB in one."""

_LEVELS = 5
"""How deep a document is taken apart so: down to one row of a snapshot (groups, a group, agents, an agent)."""

BIGGEST = 2**63 - 1
"""The largest whole number that the wire's counters can hold."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_WHITE_LIMIT = 256
"""Bytes in which a value that is taken apart has to begin."""

_LONGEST_INT = 20
"""Digits; a longer whole number is over `BIGGEST` whatever it is, and Python's own conversion has a limit."""

_UTF8_STEP = 256 * 1024
"""UTF-8 is judged in steps of this many bytes, so that a large body is never decoded as a whole."""


def is_utf8(raw: bytes | memoryview) -> bool:
    """Whether all of it is UTF-8: `msgspec` does not look into the values that it skips."""
    if isinstance(raw, bytes) and raw.isascii():
        return True
    view = memoryview(raw)
    done, size = 0, len(view)
    try:
        while size - done > _UTF8_STEP:
            done += codecs.utf_8_decode(view[done : done + _UTF8_STEP], "strict", False)[1]
        codecs.utf_8_decode(view[done:], "strict", True)
    except UnicodeDecodeError:
        return False
    return True


def decode_object(raw: bytes | bytearray) -> dict[str, Any]:
    """The JSON object that `raw` holds, read as leniently as Python's `json` does (a BOM, NaN).

    Raises WireError when there is none.
    """
    try:
        value = _decode(raw, _LEVELS)
    except RecursionError:
        raise WireError("the JSON is nested too deeply") from None
    except msgspec.MsgspecError as error:
        value = _decode_slowly(raw, error)
    if not isinstance(value, dict):
        raise WireError(f"expected a JSON object, found {kind(value)}")
    return value


def kind(value: object) -> str:
    """What a JSON value is, in words for a problem's message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return "a larger number" if abs(value) > BIGGEST else f"{value}"
        case float():
            return f"{value}"
        case str():
            return "text" if is_text(value) else "text with a lone surrogate"
        case list():
            return "an array"
        case _:
            return "an object"


def show(value: object) -> str:
    """A JSON value for a message: a short text as it is, anything else as `kind` calls it."""
    return repr(value[:40]) if isinstance(value, str) else kind(value)


def is_text(value: str) -> bool:
    """Whether `value` can be written as UTF-8 again: JSON's escapes can hold half of a surrogate pair."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode(raw: bytes | bytearray | msgspec.Raw, levels: int) -> Any:
    if len(raw) <= PIECE or not levels:
        return msgspec.json.decode(raw)
    match bytes(memoryview(raw)[:_WHITE_LIMIT]).lstrip(b" \t\r\n")[:1]:
        case b"{":
            return {name: _decode(value, levels - 1) for name, value in _MEMBERS.decode(raw).items()}
        case b"[":
            return [_decode(value, levels - 1) for value in _ITEMS.decode(raw)]
    return msgspec.json.decode(raw)


def _decode_slowly(raw: bytes | bytearray, refusal: Exception) -> Any:
    if len(raw) > FALLBACK_LIMIT:
        raise WireError(f"not JSON: {refusal}") from refusal
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_int=_parse_int)
    except RecursionError:
        raise WireError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise WireError(f"not JSON: {error}") from None


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INT else float(digits)
