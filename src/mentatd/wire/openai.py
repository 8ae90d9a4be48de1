"""OpenAI's side of the wire: the `model` of a JSON body, an engine's model list, the error envelope.

Pure: bytes to values and back. Sources: the manual's "Request handling", wire.md section 6.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mentatd.errors import Refusal
from mentatd.wire.rawjson import is_utf8

FALLBACK_LIMIT = 8 * 1024 * 1024
"""Largest body in bytes for a parser that builds all that it reads: it holds the event loop meanwhile."""

_SHOWN: Final = 200
"""A text from outside is quoted up to this many characters."""


class Routing(msgspec.Struct, frozen=True, gc=False):
    """What a request body says about where it goes (one is made for every request, hence the kind of class)."""

    model: str
    """Non-empty, compared exactly."""
    stream: bool
    """It asks for a stream (`true`; a value of another type is the engine's to refuse)."""
    form: bool = False
    """It goes on as the form that its Content-Type says, and not as JSON."""


@dataclass(frozen=True, slots=True)
class BadBody:
    """A body that cannot be routed."""

    code: str
    """`invalid_body`, `missing_model` or `invalid_model`."""
    message: str
    """What is wrong with it."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One entry of an engine's `/v1/models`."""

    id: str
    """Any non-empty string; compared exactly."""
    json: bytes
    """The engine's own object, every field kept byte for byte, with `owned_by` set to the group."""


class _Wanted(msgspec.Struct, gc=False):
    """The members that routing needs, not judged while parsing: so the last of two keys wins, whatever type
    the first one has, as it does where engines read the body."""

    model: msgspec.Raw = msgspec.Raw()
    stream: msgspec.Raw = msgspec.Raw()


class _Listing(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw()


_decode_wanted: Final = msgspec.json.Decoder(_Wanted).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_listing: Final = msgspec.json.Decoder(_Listing).decode
_decode_rows: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_row: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode

_NO_OBJECT: Final = BadBody("invalid_body", "the body is JSON, but not an object with a `model`")
_TOO_DEEP: Final = BadBody("invalid_body", "the JSON body is nested too deeply")
_NO_MODEL: Final = BadBody("missing_model", "the body has no `model`, by which every POST is routed")
_NO_NAME: Final = BadBody("invalid_model", "`model` must be a non-empty string")


def find_model(body: bytes | memoryview) -> Routing | BadBody:
    """The `model` of a JSON body, read as Python's `json` reads it.

    What the fast parser refuses and `json` takes (a byte order mark, NaN, lone surrogates) is read by `json`,
    up to `FALLBACK_LIMIT` bytes.
    """
    try:
        wanted = _decode_wanted(body)
    except msgspec.ValidationError:
        return _NO_OBJECT
    except msgspec.DecodeError as error:
        return _find_slowly(body, str(error))
    except RecursionError:
        return _TOO_DEEP
    if not is_utf8(body):
        return _find_slowly(body, "it is not UTF-8")
    if not wanted.model:
        return _NO_MODEL
    try:
        model = _decode_text(wanted.model)
    except msgspec.ValidationError:
        return _NO_NAME
    return Routing(model, bytes(wanted.stream) == b"true") if model else _NO_NAME


def _find_slowly(body: bytes | memoryview, reason: str) -> Routing | BadBody:
    if not body:
        return BadBody("invalid_body", "the body is empty; JSON with a `model` is needed")
    if len(body) > FALLBACK_LIMIT:
        return BadBody("invalid_body", f"the body is not strict JSON, which over 8 MiB it must be: {reason}")
    try:
        # float takes what int refuses (over 4300 digits); nothing here is computed with
        document = json.loads(bytes(body), parse_int=float)
    except RecursionError:
        return _TOO_DEEP
    except ValueError as error:
        return BadBody("invalid_body", f"the body is not JSON: {error}")
    if not isinstance(document, dict):
        return _NO_OBJECT
    if "model" not in document:
        return _NO_MODEL
    model = document["model"]
    if not isinstance(model, str) or not model:
        return _NO_NAME
    return Routing(model, document.get("stream") is True)


def read_models(body: bytes, group: str) -> tuple[ModelEntry, ...]:
    """The models of an engine's list, in its order; the first of two with one id.

    Entries without a non-empty string `id` are skipped. A list that leaves nothing serves one model, named
    like its group. Raises ValueError, with the reason, for what is not a JSON object with a list `data`.
    """
    try:
        rows = _decode_rows(_decode_listing(body).data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not a JSON object with a list `data`: {error}") from None
    if not is_utf8(body):
        raise ValueError("not a JSON object with a list `data`: not UTF-8")
    owner = msgspec.Raw(_encode(group))
    entries: dict[str, ModelEntry] = {}
    for row in rows:
        entry = _read_entry(row, owner)
        if entry is not None:
            entries.setdefault(entry.id, entry)
    if not entries:
        own = _encode({"id": group, "object": "model", "owned_by": group})
        return (ModelEntry(group, own),)
    return tuple(entries.values())


def _read_entry(row: msgspec.Raw, owner: msgspec.Raw) -> ModelEntry | None:
    try:
        fields = _decode_row(row)
        name = _decode_text(fields["id"])
    except (msgspec.ValidationError, KeyError):
        return None
    fields["owned_by"] = owner
    return ModelEntry(name, _encode(fields)) if name else None


def render_listing(entries: Iterable[ModelEntry]) -> bytes:
    """The document of `GET /v1/models`."""
    return b'{"object":"list","data":[' + b",".join(entry.json for entry in entries) + b"]}"


def render_refusal(refusal: Refusal) -> bytes:
    """OpenAI's error envelope, with the refusal's extra members beside `error`."""
    error = {
        "message": refusal.message,
        "type": refusal.type,
        "param": refusal.param,
        "code": refusal.code,
    }
    document: dict[str, Any] = {"error": error, **dict(refusal.extra)}
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    # only a lone surrogate has no UTF-8, and its backslash form is JSON's own escape
    return text.encode("utf-8", "backslashreplace")


def shown(name: str) -> str:
    """A name from outside as a message quotes it: cut at 200 characters."""
    return name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
